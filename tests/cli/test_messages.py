"""What a person reads when a command was used wrongly: whole, with the exit status."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from transload.models.errors import BadRequest
from transload.pipeline.cli import main
from transload.pipeline.cli.app import COMMANDS
from transload.pipeline.options.option_words import parse_batches, parse_inputs, parse_runtimes, parse_targets, split

ROOT = Path(__file__).parents[2]

WRONG_USE = [
    (["dcotor"], "error: unknown command 'dcotor'\n  fix: did you mean transload doctor?\n"),
    (["--hepl"], "error: unknown option '--hepl'\n  fix: did you mean transload --help?\n"),
    (
        ["--to", "onnx"],
        "error: unknown option '--to'\n  fix: write the command before its options; 'transload --help' lists them\n",
    ),
    (
        ["zoo", "--jsno"],
        "error: transload zoo has no option --jsno\n  fix: did you mean --json? 'transload zoo --help' lists them\n",
    ),
    (["run", ""], "error: WHAT is empty\n  fix: name a pipeline file or a recipe, or leave it out: zoo:digits-cnn\n"),
    (["zoo", "--colour"], "error: transload zoo has no option --colour\n  fix: 'transload zoo --help' lists them\n"),
    (
        ["zoo", "digits"],
        "error: transload zoo: got unexpected extra argument(s) (digits)\n"
        "  fix: 'transload zoo --help' says what it takes, docs/recipes.md how it is used\n",
    ),
    (
        ["new"],
        "error: transload new: missing argument 'NAME'\n"
        "  fix: 'transload new --help' says what it takes, docs/recipes.md how it is used\n",
    ),
    (
        ["convert", "--to", "onnx"],
        "error: transload convert: missing argument 'MODEL'\n"
        "  fix: 'transload convert --help' says what it takes, docs/convert.md how it is used\n",
    ),
    (
        ["new", "x", "--task", "vision"],
        "error: transload new: invalid value for '--task': 'vision' is not one of 'classification', 'regression', "
        "'segmentation', 'text', 'tabular'\n"
        "  fix: 'transload new --help' says what it takes, docs/recipes.md how it is used\n",
    ),
    (
        ["store", "list"],
        "error: transload store: no such command 'list'. Did you mean 'ls'?\n"
        "  fix: use one of init, ls, gc, verify (docs/store.md)\n",
    ),
    (
        ["validate", "none", "--against", "zoo:digits-cnn"],
        "error: no such file or folder: none\n  fix: name an artifact's folder, or a model in a file\n",
    ),
    (
        ["doctor", "--store"],
        "error: transload doctor: option '--store' requires an argument\n"
        "  fix: 'transload doctor --help' says what it takes, docs/doctor.md how it is used\n",
    ),
]


@pytest.mark.parametrize(
    ("words", "text"), WRONG_USE, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_wrong_use_is_two_lines_and_status_2(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(words)
    assert (status, *capsys.readouterr()) == (2, "", text)


@pytest.mark.parametrize("word", ["xyzzy", "frobnicate"])
def test_an_unknown_command_without_a_near_one_lists_all(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 2
    what, fix = capsys.readouterr().err.splitlines()
    assert what == f"error: unknown command {word!r}"
    assert fix.startswith("  fix: use one of ")
    assert "doctor" in fix


NO_BATCH = "is no batch size\n  fix: use whole numbers from 1, as in --batch 1,8"
BAD_VALUES: list[tuple[Callable[[], object], str]] = [
    (
        lambda: parse_targets(["onnx,onxn"]),
        "unknown target 'onxn': no format is called 'onxn'\n"
        "  fix: did you mean onnx? use one of pt2, torchscript, onnx, saved-model, tflite, "
        "with a precision behind a colon if need be ('transload formats')",
    ),
    (
        lambda: parse_targets(["tflite:int4"]),
        "unknown target 'tflite:int4': no precision is called 'int4'\n"
        "  fix: use one of fp32, fp16, int8-dynamic, int8, as in tflite:int8",
    ),
    (
        lambda: parse_runtimes(["onnxruntim"]),
        "unknown runtime 'onnxruntim'\n"
        "  fix: use one of torch, torchscript, onnxruntime, tensorflow, tflite, tflite-flex, keras, torch-compile, "
        "aotinductor, tensorflow-xla, openvino, onnxruntime-openvino, onnxruntime-tensorrt, tfserving-grpc, "
        "tfserving-rest, oip-grpc, oip-http",
    ),
    (lambda: parse_batches(["1,0"]), f"'0' {NO_BATCH}"),
    (lambda: parse_batches(["eight"]), f"'eight' {NO_BATCH}"),
    (
        lambda: parse_inputs(["x:float32[1]"]),
        "--input 'x:float32[1]' is not of the form NAME=DTYPE[dims]\n"
        "  fix: write it as in --input image=float32[batch,3,224,224] (docs/convert.md)",
    ),
    (
        lambda: parse_inputs(["x=float32[1]", "x=int64[2]"]),
        "--input names 'x' twice\n  fix: give every input once",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("act", "text"), BAD_VALUES, ids=lambda value: value[:30] if isinstance(value, str) else "")
def test_a_bad_value_is_refused_with_the_mend(act: Callable[[], object], text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        act()
    assert str(caught.value) == text


def test_every_command_names_the_page_that_describes_it() -> None:
    for command in COMMANDS:
        page = (ROOT / command.page).read_text()
        assert f"transload {command.name}" in page, command.name


def test_lists_take_commas_and_repeats_and_keep_their_order() -> None:
    assert split(["a, b", "c,,", "a"]) == ("a", "b", "c", "a")
    assert split(None) == ()
    assert [str(target) for target in parse_targets(["tflite:int8,onnx", "onnx"])] == [
        "tflite:int8",
        "onnx",
    ]
    assert parse_batches(["8,1", "8"]) == (8, 1)
    assert parse_runtimes(["tflite", "torch,tflite"]) == ("tflite", "torch")
    inputs = ["b=int64[]", "a=float32[n,3]"]
    assert [str(spec) for spec in parse_inputs(inputs)] == inputs


@pytest.mark.parametrize("option", ["--to", "--runtime", "--batch"])
def test_an_option_that_names_nothing_is_not_the_same_as_none(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", option, ""]) == 2
    assert capsys.readouterr().err == (
        "error: an option that takes a list was given an empty one\n  fix: name something, or leave it out\n"
    )


@pytest.mark.parametrize("rest", [("--explain",), ("--out", "made")])
def test_layers_in_float_need_a_target_in_int8(rest: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "zoo:digits-cnn", "--to", "tflite", "--keep-float", "auto", *rest]) == 2
    assert capsys.readouterr().err == (
        "error: the request: convert.keep_float: 'auto' needs the target tflite:int8\n"
        "  fix: name it, or leave keep_float out\n"
    )

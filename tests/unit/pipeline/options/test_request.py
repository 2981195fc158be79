"""A pipeline file that is wrong is refused with its line and the mend; the words are tested whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from transload.models.errors import BadRequest
from transload.models.formats import Format, Precision, Target
from transload.pipeline.options.request import ALL_TARGETS, RunRequest, read_request

FORMATS = "pt2, torchscript, onnx, saved-model, tflite"
RUNTIMES = (
    "torch, torchscript, onnxruntime, tensorflow, tflite, tflite-flex, keras, torch-compile, aotinductor, "
    "tensorflow-xla, openvino, onnxruntime-openvino, onnxruntime-tensorrt, tfserving-grpc, tfserving-rest, "
    "oip-grpc, oip-http"
)
LISTED = "docs/pipeline-file.md lists what is taken"

WRONG = {
    "[bench]\nroundz = 3\n": "line 2: unknown key 'bench.roundz'\n  fix: did you mean 'rounds'?",
    "\n\n[tarin]\nseed = 1\n": "line 3: unknown key 'tarin'\n  fix: did you mean 'train'?",
    "[gate]\nxyz = 1\n": "line 2: unknown key 'gate.xyz'\n  fix: use one of require_verified, sqnr_db, metric_loss, "
    "metric_min, metric_max, latency_ratio, latency_p99, size, size_ratio, peak_memory, no_worse",
    "[convert]\ntargets = ['onx']\n": "line 2: convert.targets: unknown target 'onx': no format is called 'onx'"
    f"\n  fix: did you mean onnx? use one of {FORMATS}, with a precision behind a colon if need be "
    "('transload formats')",
    "[validate]\nruntimes = ['ort']\n": "line 2: validate.runtimes: unknown runtime 'ort'"
    f"\n  fix: use one of {RUNTIMES}",
    "[release]\nlatency_bound = 1\n": "line 2: unknown key 'release.latency_bound'"
    "\n  fix: did you mean 'latency_bound_s'?",
    "[release]\nlatency_bound_s = 0\n": "line 2: release.latency_bound_s: Input should be greater than 0"
    f"\n  fix: {LISTED}",
    "tfserving_url = 'foo'\n": "line 1: tfserving_url: --tfserving-url 'foo' is not of the form "
    "HOST:GRPC_PORT[,REST_PORT]\n  fix: write it as in 127.0.0.1:8500,8501",
    "device = 'gpu'\n": "line 1: device: unknown device 'gpu'\n  fix: use auto, cpu, cuda or cuda:N",
    "[bench]\nbatches = [0]\n": "line 2: bench.batches: Input should be greater than or equal to 1, got 0"
    f"\n  fix: {LISTED}",
    "[train]\nprecision = 'half'\n": "line 2: train.precision: Input should be '32-true', 'bf16-mixed' or '16-mixed', "
    f"got 'half'\n  fix: {LISTED}",
    "[convert]\ntargets = ['onnx']\nkeep_float = 'auto'\n": "line 3: convert.keep_float: 'auto' needs the target "
    "tflite:int8\n  fix: name it, or leave keep_float out",
    "[model]\nrecipe = 3\n": f"line 2: model.recipe: Input should be a valid string, got 3\n  fix: {LISTED}",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_pipeline_file_names_line_and_mend(text: str, tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text(text)
    with pytest.raises(BadRequest) as caught:
        read_request(file)
    assert str(caught.value) == f"{file}, {WRONG[text]}"


def test_a_file_that_is_no_toml_says_where(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text("[bench\n")
    with pytest.raises(BadRequest, match=r"is not TOML: .*line 1"):
        read_request(file)


def test_a_missing_file_and_a_binary_one_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="cannot be read: No such file or directory"):
        read_request(tmp_path / "none.toml")
    file = tmp_path / "p.toml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadRequest, match="cannot be read: it is not text"):
        read_request(file)


def test_without_a_file_it_is_the_digits_recipe_and_every_target() -> None:
    request = read_request(None)
    assert request.model.recipe == "zoo:digits-cnn"
    assert tuple(map(str, request.targets)) == ALL_TARGETS


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text("[convert]\ntargets = ['onnx']\n[bench]\nrounds = 7\nbatches = [4]\n")
    request = read_request(file, {"convert": {"targets": ("tflite:int8",)}, "bench": {"batches": (1,)}})
    assert request.targets == (Target(Format.TFLITE, Precision.INT8),)
    assert (request.bench.rounds, request.bench.batches) == (7, (1,))


def test_a_recipe_file_is_found_beside_the_pipeline_file(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text("[model]\nrecipe = 'mine.py'\n")
    assert read_request(file).ref.root == str(tmp_path)


def test_settings_are_values_of_json_and_part_of_the_reference(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text("[model]\nrecipe = 'mine.py:make'\nset = { depth = 50, widths = [8, 16] }\n")
    assert read_request(file).ref.settings == {"depth": 50, "widths": [8, 16]}
    file.write_text("[model]\nset = { day = 2026-11-21 }\n")
    with pytest.raises(BadRequest, match=r"p\.toml, line 2: model\.set\.day: input was not a valid JSON value"):
        read_request(file)
    file.write_text("[model]\nsets = {}\n")
    with pytest.raises(BadRequest, match="did you mean 'set'"):
        read_request(file)


def test_the_documented_file_is_taken_and_names_every_key() -> None:
    import tomllib

    page = (Path(__file__).parents[4] / "docs" / "pipeline-file.md").read_text()
    document = tomllib.loads(page.partition("```toml\n")[2].partition("```")[0])
    request = RunRequest.model_validate(document)
    told = {name: set(value) if isinstance(value, dict) else None for name, value in document.items()}
    for name, field in RunRequest.model_fields.items():
        section = type(getattr(request, name))
        if name != "root":
            fields = section.model_fields if issubclass(section, BaseModel) else {}
            keys = {each.alias or key for key, each in fields.items()} or None
            assert told[field.alias or name] == keys


def _numbers(model: type[BaseModel], place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the place of every key of a request that is a number, or a list of numbers."""
    for name, field in model.model_fields.items():
        key = (*place, field.alias or name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _numbers(field.annotation, key)
        elif re.search(r"\b(float|int)\b", str(field.annotation)):
            yield key


@pytest.mark.parametrize("place", [place for place in _numbers(RunRequest) if place[-1] != "set"], ids=".".join)
@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "-1", "true", "false", "'abc'"])
def test_no_number_of_a_request_is_absurd(place: tuple[str, ...], text: str, tmp_path: Path) -> None:
    section, key = place
    if (key, text) == ("metric_min", "-1"):  # r2 may be below 0, and the metric is not known here
        return
    file = tmp_path / "p.toml"
    file.write_text(f"[{section}]\n{key} = {f'[{text}]' if key == 'batches' else text}\n")
    with pytest.raises(BadRequest, match=rf"line 2: {section}\.{key}: [^\n]+\n  fix: "):
        read_request(file)


def test_the_walk_over_the_numbers_sees_them() -> None:
    assert {("gate", "metric_min"), ("validate", "sqnr_db"), ("bench", "batches"), ("bench", "budget_s")} <= {
        *_numbers(RunRequest)
    }

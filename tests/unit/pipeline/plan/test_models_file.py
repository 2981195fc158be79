"""A models file becomes rows; one that is wrong is refused with its line and the mend, tested whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from transload.models.errors import BadRequest
from transload.pipeline.options.request import read_request
from transload.pipeline.plan.models_file import is_models_file, read_models_file, section_of

PAGE = "docs/many-models.md"
WRONG = {
    "[[model]]\nsource = 'a.py'\n\n[[model]]\nsauce = 'b.py'\n": ", line 5: unknown key 'model.sauce'"
    "\n  fix: did you mean 'source'?",
    "[defaults]\nto = ['onix']\n[[model]]\nsource = 'a.py'\n": ", line 2: defaults.to: unknown target 'onix': no "
    "format is called 'onix'\n  fix: did you mean onnx? use one of pt2, torchscript, onnx, saved-model, tflite, with a "
    "precision behind a colon if need be ('transload formats')",
    "[[model]]\nsource = 'a.py'\n[[model]]\nname = 'x'\n": ", line 3: model: a model has either a source or a pipeline"
    "\n  fix: name one, as in source = 'net.py:Net'",
    "[[model]]\nsource = 'a.py'\ntrust = 'perhaps'\n": ", line 3: model.trust: Input should be a valid boolean, unable "
    f"to interpret input, got 'perhaps'\n  fix: {PAGE} lists what is taken",
    "[[model]]\nsource = 'a.py'\nname = 'x'\n[[model]]\nsource = 'b.py'\nname = 'x'\n": ", line 6: two models are "
    "called 'x'\n  fix: give each a name of its own",
    "[[model]]\nsource = 'a.py'\nname = '../x'\n": ", line 3: '../x' is no name for a model"
    "\n  fix: use letters, digits, dots, dashes and underscores; it names a folder",
    "[[model]]\nsource = 'a.py'\nname = 'models.json'\n": ", line 3: 'models.json' is no name for a model"
    "\n  fix: use letters, digits, dots, dashes and underscores; it names a folder",
    "": f" lists no model\n  fix: write [[model]] and its source, as {PAGE} does",
    "[model]\nrecipe = 'zoo:digits-cnn'\n": " is a pipeline file: its [model] is one table, and no list"
    f"\n  fix: give it to transload run, or write [[model]] for each model ({PAGE})",
    "[sweep]\nmodels = ['a.py']\ntargets = ['onnx']\nexclude = [{}]\n": ", line 4: sweep.exclude: it excludes "
    "everything\n  fix: name a model, target, precision or device",
    "[sweep]\nmodels = ['a.py']\ntargets = ['onnx']\nexclude = [{ modle = 'a' }]\n": ", line 4: unknown key "
    "'sweep.exclude.modle'\n  fix: did you mean 'model'?",
    "[sweep]\nmodels = ['a.py']\ntargets = ['onnx']\nexclude = [{ target = 'o*' }]\n": ": [sweep] excludes every "
    "combination\n  fix: take a pattern out of sweep.exclude",
}  # fmt: skip


def write(folder: Path, text: str) -> Path:
    file = folder / "models.toml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_file_names_line_and_mend(text: str, tmp_path: Path) -> None:
    file = write(tmp_path, text)
    with pytest.raises(BadRequest) as caught:
        read_models_file(file)
    assert str(caught.value) == f"{file}{WRONG[text]}"


def test_the_command_line_wins_over_the_model_and_that_over_the_defaults(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "[defaults]\nto = ['onnx']\ndevice = 'cpu'\nsqnr_db = 50.0\n"
        "[[model]]\nsource = 'zoo:digits-cnn'\n"
        "[[model]]\nname = 'b'\nsource = 'zoo:digits-cnn'\nto = ['tflite']\nsqnr_db = 70.0\nset = { depth = 3 }\n",
    )
    first, second = read_models_file(file)
    assert (first.name, first.targets, first.options["sqnr_db"]) == ("digits-cnn", ("onnx",), 50.0)
    assert (second.name, second.targets, second.options["sqnr_db"]) == ("b", ("tflite",), 70.0)
    request = read_request(None, section_of(second, cross_check=False))
    assert (request.model.settings, request.validate_.sqnr_db, request.device) == ({"depth": 3}, 70.0, "cpu")
    assert (request.convert.targets, request.convert.cross_check) == (("tflite",), False)
    assert [row.targets for row in read_models_file(file, {"to": ("pt2",)})] == [("pt2",), ("pt2",)]


def test_a_sweep_multiplies_and_leaves_out_what_is_excluded_and_what_does_not_exist(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "[[model]]\nname = 'own'\nsource = 'zoo:digits-cnn'\n"
        "[sweep]\nmodels = ['zoo:breast-cancer-mlp']\ntargets = ['pt2', 'onnx', 'tflite']\n"
        "precisions = ['fp32', 'int8']\ndevices = ['cpu', 'cuda:1']\n"
        "exclude = [{ target = 'tflite', device = 'cuda*' }, { model = 'breast*', precision = 'int8' }]\n",
    )
    rows = {row.name: row.targets for row in read_models_file(file)}
    assert rows == {
        "own@cpu": ("pt2", "onnx", "onnx:int8", "tflite", "tflite:int8"),
        "own@cuda-1": ("pt2", "onnx", "onnx:int8"),
        "breast-cancer-mlp@cpu": ("pt2", "onnx", "tflite"),
        "breast-cancer-mlp@cuda-1": ("pt2", "onnx"),
    }


def test_equal_sources_get_numbers_and_paths_start_at_the_file(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("")
    sources = ("net.py:Net", "net.py:Net", "hf:folder", "sub/model.onnx", "package.module:make", "timm:resnet10t")
    rows = read_models_file(write(tmp_path, "".join(f"[[model]]\nsource = '{text}'\n" for text in sources)))
    assert [row.name for row in rows] == ["net-Net", "net-Net-2", "folder", "model", "package.module-make", "resnet10t"]
    assert [row.source for row in rows] == [
        f"{tmp_path}/net.py:Net", f"{tmp_path}/net.py:Net", f"hf:{tmp_path}/folder", f"{tmp_path}/sub/model.onnx",
        "package.module:make", "timm:resnet10t",
    ]  # fmt: skip
    assert {row.root for row in rows} == {str(tmp_path)}


def test_a_pipeline_file_is_told_from_a_models_file(tmp_path: Path) -> None:
    assert not is_models_file(write(tmp_path, "[model]\nrecipe = 'zoo:digits-cnn'\n"))
    assert not is_models_file(write(tmp_path, ""))
    assert is_models_file(write(tmp_path, "[[model]]\npipeline = 'p.toml'\n"))
    assert is_models_file(write(tmp_path, "[defaults]\n"))
    with pytest.raises(BadRequest, match="is not TOML"):
        is_models_file(write(tmp_path, "[[model\n"))

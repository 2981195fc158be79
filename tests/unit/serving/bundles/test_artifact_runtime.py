"""Parts of the bundles' own runtime that the contract's model does not reach."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.serving.bundles.standalone import artifact_runtime
from transload.serving.bundles.standalone.artifact_runtime import ArtifactModel, WrongInput, _by_name


def test_tensors_of_a_file_without_a_signature_are_found_by_their_names() -> None:
    saved = [{"name": "serving_default_x:0", "index": 0}, {"name": "serving_default_y:0", "index": 1}]
    assert {name: row["index"] for name, row in _by_name(saved, ["y", "x"]).items()} == {"x": 0, "y": 1}
    plain = [{"name": "a:0", "index": 0}, {"name": "b", "index": 1}]
    assert _by_name(plain, ["b", "a:0"])["b"]["index"] == 1


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArtifactModel:
    """An artifact whose outputs are its inputs."""
    names = ("half", "small", "flag", "number")
    shapes: list[list[Any]] = [["batch", 2], ["batch"], ["batch"], []]
    dtypes = ("float16", "uint8", "bool", "int32")
    rows = [{"name": n, "dtype": d, "shape": s} for n, d, s in zip(names, dtypes, shapes, strict=True)]
    record = {"target": "onnx:fp16", "signature": {"inputs": rows, "outputs": rows}}
    (tmp_path / "artifact.json").write_text(json.dumps(record))
    opened = {"onnx": (lambda path, inputs, outputs, settings: list, "model.onnx")}
    monkeypatch.setattr(artifact_runtime, "_OPENERS", opened)
    return ArtifactModel(tmp_path)


GOOD = [
    {"name": "half", "datatype": "FP16", "shape": [2, 2], "data": [0.5, 1, -2, 65504]},
    {"name": "small", "datatype": "UINT8", "shape": [2], "data": [0, 255]},
    {"name": "flag", "datatype": "BOOL", "shape": [2], "data": [True, False]},
    {"name": "number", "datatype": "INT32", "shape": [1], "data": [7]},
]


def test_every_kind_of_number_goes_in_and_comes_out(model: ArtifactModel) -> None:
    outputs = {
        row["name"]: (row["datatype"], row["shape"], row["data"]) for row in model.answer({"inputs": GOOD})["outputs"]
    }
    assert outputs == {
        "half": ("FP16", [2, 2], [0.5, 1.0, -2.0, 65504.0]),
        "small": ("UINT8", [2], [0, 255]),
        "flag": ("BOOL", [2], [True, False]),
        "number": ("INT32", [], [7]),
    }


WRONG: list[tuple[int, dict[str, Any], str]] = [
    (1, {"data": [0, 256]}, "small holds values that are no UINT8"),
    (1, {"data": [0, -1]}, "small holds values that are no UINT8"),
    (1, {"data": [0, 0.5]}, "small holds values that are no UINT8"),
    (1, {"data": [0, 2**70]}, "small"),
    (1, {"data": [0, None]}, "small"),
    (1, {"data": [True, False]}, "small holds values that are no UINT8"),
    (2, {"data": [1, 0]}, "flag holds values that are no BOOL"),
    (0, {"data": ["a", "b", "c", "d"]}, "half"),
    (0, {"shape": [4]}, r"half is float16\[4\], expected float16\['batch', 2\]"),
    (1, {"shape": [1], "data": [1]}, r"small is uint8\[1\], expected uint8\['batch'\]"),
    (3, {"datatype": "BYTES"}, "number: the datatype BYTES is not carried"),
    (3, {"data": [[1, 2], [3]]}, "number"),
]


@pytest.mark.parametrize(("at", "change", "said"), WRONG, ids=range(len(WRONG)))
def test_what_does_not_fit_is_refused(model: ArtifactModel, at: int, change: dict[str, Any], said: str) -> None:
    rows = [{**row, **change} if place == at else row for place, row in enumerate(GOOD)]
    with pytest.raises(WrongInput, match=said):
        model.answer({"inputs": rows})


@pytest.mark.parametrize("document", [None, [], {"inputs": [1]}, {"inputs": {"x": 1}}, {"inputs": [{"name": "half"}]}])
def test_what_is_no_request_is_refused(model: ArtifactModel, document: Any) -> None:
    with pytest.raises(WrongInput, match="no infer request of the Open Inference Protocol"):
        model.answer(document)


def test_arrays_are_checked_too(model: ArtifactModel) -> None:
    feeds = {"half": np.zeros((1, 2)), "small": np.zeros(1, np.uint8), "flag": np.zeros(1, bool), "number": np.int32(1)}
    with pytest.raises(WrongInput, match=r"half is float64\[1, 2\]"):
        model.run(feeds)


def test_sizes_outside_of_what_the_model_declares_are_refused(model: ArtifactModel) -> None:
    feeds = {"half": np.zeros((5, 2), np.float16), "small": np.zeros(5, np.uint8), "flag": np.zeros(5, bool),
             "number": np.int32(1)}  # fmt: skip
    model.run(feeds)
    for bounds, words in (([1, 4], "1..4"), ([6, None], "6.."), ([2, None, 2], "2..")):
        model.inputs[0]["bounds"] = {"batch": bounds}
        with pytest.raises(WrongInput, match=f"the axis batch has the size 5, and the model takes {words}"):
            model.run(feeds)
    model.inputs[0]["bounds"] = {"batch": [1, 9, 2]}
    model.run(feeds)


def test_a_model_that_no_longer_answers_is_not_ready(
    tmp_path: Path, model: ArtifactModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One bad request does not make it so: the golden sample is asked before that is said."""
    feeds = {row["name"]: row for row in GOOD}
    rows = [
        {"name": name, "dtype": dtype, "shape": array.shape, "base64": base64.b64encode(array.tobytes()).decode()}
        for name, dtype, array in (
            ("half", "<f2", np.zeros((1, 2), "<f2")), ("small", "|u1", np.zeros(1, "u1")),
            ("flag", "|b1", np.zeros(1, "?")), ("number", "<i4", np.zeros((), "<i4")),
        )
    ]  # fmt: skip
    (tmp_path / "golden.json").write_text(json.dumps({"calls": [{"inputs": rows}]}))
    calls: list[int] = []

    def call(values: Any) -> Any:
        calls.append(len(values[0]))
        if broken & {len(values[0])}:
            raise RuntimeError("the library is gone")
        return list(values)

    broken: set[int] = set()
    opened = {"onnx": (lambda path, inputs, outputs, settings: call, "model.onnx")}
    monkeypatch.setattr(artifact_runtime, "_OPENERS", opened)
    model = ArtifactModel(tmp_path)
    assert (model.is_ready(), calls) == (True, []), "nothing is asked of a model that answered"
    broken = {2}
    with pytest.raises(RuntimeError):
        model.answer({"inputs": list(feeds.values())})
    assert (model.is_ready(), calls) == (True, [2, 1])
    broken = {1, 2}
    with pytest.raises(RuntimeError):
        model.answer({"inputs": list(feeds.values())})
    assert not model.is_ready()
    broken = set()
    assert model.is_ready(), "it is asked again"

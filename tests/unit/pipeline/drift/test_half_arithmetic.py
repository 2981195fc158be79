"""A float16 copy is held to its answers in float16 arithmetic, which ONNX Runtime does not compute on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from transload.models.artifact import write_artifact
from transload.models.dataset import Dataset, write_dataset
from transload.models.formats import Target, parse_target
from transload.models.job import Job
from transload.models.signature import Signature, TensorSpec
from transload.pipeline.drift import jobs
from transload.pipeline.drift.reference import answer

SIGNATURE = Signature(*((TensorSpec(name, "float32", ("batch", 4)),) for name in ("x", "y")))


def written(folder: Path, target: Target, scale: float) -> Path:
    """Write a file that computes y = |x * scale / scale|; for an fp16 target in float16, between casts."""
    half = str(target.precision) == "fp16"
    kind, dtype = (onnx.TensorProto.FLOAT16, np.float16) if half else (onnx.TensorProto.FLOAT, np.float32)
    nodes = [
        onnx.helper.make_node("Cast", ["x"], ["narrow"], to=kind),
        onnx.helper.make_node("Mul", ["narrow", "scale"], ["large"], name="scaled"),
        onnx.helper.make_node("Div", ["large", "scale"], ["small"]),
        onnx.helper.make_node("Abs", ["small"], ["bent"]),
        onnx.helper.make_node("Cast", ["bent"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    inputs, outputs = (
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", 4])] for name in ("x", "y")
    )
    graph = onnx.helper.make_graph(
        nodes, "net", inputs, outputs, [onnx.numpy_helper.from_array(np.array(scale, dtype), "scale")]
    )
    folder.mkdir()
    opsets = [onnx.helper.make_opsetid("", 18)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "model.onnx")
    write_artifact(folder, target, SIGNATURE)
    return folder


def verified(tmp_path: Path, scale: float) -> Any:
    x = np.random.default_rng(1).normal(size=(40, 4)).astype(np.float32)
    x[33] = 3.9  # no probe of a batch asks it; the samples with the largest numbers are
    inputs = {
        "data": tmp_path,
        "reference": tmp_path,
        "artifact": written(tmp_path / "half", parse_target("onnx:fp16"), scale),
    }
    write_dataset(tmp_path / "test.npz", Dataset({"x": x}))
    answer(
        Job(
            {**inputs, "model": written(tmp_path / "full", parse_target("onnx"), scale)},
            tmp_path,
            {"probes_only": True},
        )
    )
    return jobs.verify(Job(inputs, tmp_path, {}))


@pytest.mark.parametrize("scale", [20_000.0, 60_000.0])
def test_values_beyond_float16_are_a_wrong_answer(tmp_path: Path, scale: float) -> None:
    found = verified(tmp_path, scale)
    assert found["status"] == "wrong"
    assert (
        "the operator Mul (scaled) goes beyond 65,504 in large; keep that part in float32, or use onnx"
        in found["reason"]
    )
    (row,) = found["evidence"]["inner_ranges"]
    assert row["tensors"][0]["operator"] == "the operator Mul (scaled)"
    assert row["tensors"][0]["beyond"]
    assert row["non_finite"] > 0


@pytest.mark.parametrize(("scale", "note"), [(1.0, ""), (10_000.0, "; largest inner value 39,")])
def test_a_right_copy_stays_verified_and_tells_a_value_near_the_end(tmp_path: Path, scale: float, note: str) -> None:
    found = verified(tmp_path, scale)
    assert found["status"] == "verified"
    assert ("largest inner value" in found["reason"]) == bool(note)
    assert note in found["reason"]
    (row,) = found["evidence"]["inner_ranges"]
    assert (row["beyond"], row["limit"]) == (0, 65504.0)

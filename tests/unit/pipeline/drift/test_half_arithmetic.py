"""A float16 copy is held to its answers in float16 arithmetic, which ONNX Runtime does not compute on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from transload.converters.conversion_records import StoredPrecision, StoredWeights
from transload.converters.minimal_repro.onnx_pieces import OnnxCutter
from transload.models.artifact import write_artifact
from transload.models.dataset import Dataset, write_dataset
from transload.models.formats import Target, parse_target
from transload.models.job import Job
from transload.models.signature import Signature, TensorSpec
from transload.pipeline.drift import half_arithmetic, jobs
from transload.pipeline.drift.reference import answer

SIGNATURE = Signature(*((TensorSpec(name, "float32", ("batch", 4)),) for name in ("x", "y")))


def branched(kind: int) -> onnx.NodeProto:
    """Return an If whose branches compute the absolute value."""
    out = onnx.helper.make_tensor_value_info("size", kind, None)
    bodies = {
        name: onnx.helper.make_graph([onnx.helper.make_node("Abs", ["small"], ["size"])], name, [], [out])
        for name in ("then_branch", "else_branch")
    }
    return onnx.helper.make_node("If", ["is_true"], ["bent"], **bodies)


def written(folder: Path, target: Target, scale: float, *, in_branch: bool = False) -> Path:
    """Write a file that computes y = |x * scale / scale|; for an fp16 target in float16, between casts."""
    half = str(target.precision) == "fp16"
    kind, dtype = (onnx.TensorProto.FLOAT16, np.float16) if half else (onnx.TensorProto.FLOAT, np.float32)
    nodes = [
        onnx.helper.make_node("Cast", ["x"], ["narrow"], to=kind),
        onnx.helper.make_node("Mul", ["narrow", "scale"], ["large"], name="scaled"),
        onnx.helper.make_node("Div", ["large", "scale"], ["small"]),
        branched(kind) if in_branch else onnx.helper.make_node("Abs", ["small"], ["bent"]),
        onnx.helper.make_node("Cast", ["bent"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    inputs, outputs = (
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", 4])] for name in ("x", "y")
    )
    constants = {"scale": np.array(scale, dtype), "is_true": np.array(True)}
    graph = onnx.helper.make_graph(
        nodes, "net", inputs, outputs, [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    )
    folder.mkdir()
    opsets = [onnx.helper.make_opsetid("", 18)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "model.onnx")
    write_artifact(folder, target, SIGNATURE)
    return folder


def verified(tmp_path: Path, scale: float, *, in_branch: bool = False) -> Any:
    x = np.random.default_rng(1).normal(size=(40, 4)).astype(np.float32)
    x[33] = 3.9  # no probe of a batch asks it; the samples with the largest numbers are
    inputs = {
        "data": tmp_path,
        "reference": tmp_path,
        "artifact": written(tmp_path / "half", parse_target("onnx:fp16"), scale, in_branch=in_branch),
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


@pytest.mark.parametrize(("scale", "status"), [(1.0, "verified"), (60_000.0, "wrong")])
def test_what_a_branch_computes_is_said_not_to_be_asked(tmp_path: Path, scale: float, status: str) -> None:
    facts = verified(tmp_path, scale, in_branch=True)
    (row,) = facts["evidence"]["inner_ranges"]
    assert row["note"] == "what is inside If was not asked in float16 arithmetic"
    assert facts["status"] == status


@pytest.mark.parametrize(
    ("dtype", "note"),
    [
        ("bfloat16", "not asked in bfloat16 arithmetic: it is computed as the runtime does"),
        ("float16", "not asked in float16 arithmetic: its operators cannot be run one by one"),
    ],
)
def test_a_copy_that_is_not_asked_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, note: str
) -> None:
    stored = StoredPrecision(weights=(StoredWeights(dtype=dtype, tensors=1, bytes=2),), computed=())
    monkeypatch.setattr(half_arithmetic, "stored_precision", lambda _: stored)
    monkeypatch.setattr(OnnxCutter, "record_in_half", lambda *_: False)
    facts = verified(tmp_path, 1.0)
    (row,) = facts["evidence"]["inner_ranges"]
    assert (row["arithmetic"], row["note"], row["samples"], row["tensors"]) == (dtype, note, 0, [])
    assert facts["status"] == "verified"
    assert note in facts["reason"]

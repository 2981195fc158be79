"""The layers that stay in float32 in a full-int8 file are those that win most for their bytes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from transload.converters.to_tflite import tflite_from_onnx as tflite
from transload.converters.to_tflite.flatbuffer import main_operators, model_of
from transload.models.artifact import write_artifact
from transload.models.dataset import Dataset, write_dataset
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.signature import Signature, TensorSpec

COLUMNS = 8
LOUD = 1000.0  # times the range of the other columns, which one int8 scale leaves no step for


@pytest.fixture(autouse=True)
def _in_a_workers_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a step lowers into it


def job_of(folder: Path, sizes: tuple[int, ...], **options: Any) -> Job:
    """Write a chain of Gemm and Relu whose first layer has a loud input column with weights as small."""
    rng = np.random.default_rng(3)
    weights = [rng.standard_normal(pair).astype(np.float32) for pair in pairwise(sizes)]
    weights[0][0] /= LOUD
    nodes, last = [], "x"
    for number, _ in enumerate(weights):
        nodes.append(helper.make_node("Gemm", [last, f"w{number}"], [f"g{number}"], name=f"layer{number}"))
        nodes.append(helper.make_node("Relu", [f"g{number}"], [f"r{number}"]))
        last = f"r{number}"
    nodes[-1].output[0] = "y"
    ends = [
        helper.make_tensor_value_info(*end) for end in (("x", 1, ("batch", sizes[0])), ("y", 1, ("batch", sizes[-1])))
    ]
    constants = [numpy_helper.from_array(array, f"w{number}") for number, array in enumerate(weights)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    for name in ("onnx", "data", "out"):
        (folder / name).mkdir()
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10),
              folder / "onnx" / "model.onnx")  # fmt: skip
    signature = Signature(
        (TensorSpec("x", "float32", ("batch", sizes[0])),), (TensorSpec("y", "float32", ("batch", sizes[-1])),)
    )
    write_artifact(folder / "onnx", Target(Format.ONNX), signature)
    samples = rng.standard_normal((40, sizes[0])).astype(np.float32)
    samples[:, 0] *= LOUD
    write_dataset(folder / "data" / "calibration.npz", Dataset({"x": samples}))
    return Job({"source": folder / "onnx", "data": folder / "data"}, folder / "out", options=options)


def float_layers(folder: Path) -> list[bool]:
    """Return for each dense layer of the file whether its weights are float32."""
    flat = (folder / "out" / "model.tflite").read_bytes()
    tables = model_of(flat).Subgraphs(0)
    operators = [operator for operator in main_operators(flat) if operator.name == "FULLY_CONNECTED"]
    return [tables.Tensors(operator.inputs[1]).Type() == 0 for operator in operators]


def test_the_badly_scaled_layer_is_kept_in_float(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    facts = tflite.tflite_int8(job_of(tmp_path, (COLUMNS, 16, 32, 16), keep_float=True))
    assert float_layers(tmp_path) == [True, False, False]
    note = facts["note"]
    assert note.startswith("kept in float32: Gemm node layer0: +")
    assert "most sensitive, alone in int8: Gemm node layer0 " in note
    assert int(note.split(": +")[1].split(" dB")[0]) >= 10
    rows = [line.split() for line in capfd.readouterr().out.splitlines() if "node layer" in line]
    assert next((row[1], row[2], row[5]) for row in rows) == ("128", "float32", "layer0")
    assert {row[5] for row in rows} == {"layer0", "layer1", "layer2"}


def test_without_the_option_every_layer_is_int8(tmp_path: Path) -> None:
    facts = tflite.tflite_int8(job_of(tmp_path, (COLUMNS, 16, 32, 16)))
    assert float_layers(tmp_path) == [False, False, False]
    assert facts["note"] is None


def test_no_more_than_half_of_the_weights_stay_in_float(tmp_path: Path) -> None:
    facts = tflite.tflite_int8(job_of(tmp_path, (COLUMNS, 16), keep_float=True))
    assert float_layers(tmp_path) == [False]
    assert "kept in float32: no layer, none wins 1 dB within half of the weights" in facts["note"]

"""Pieces of a TFLite file compute what they compute in the whole, and the script of the one that fails shows it."""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.converters.minimal_repro.tflite_pieces import TfliteCutter
from transload.models.artifact import write_artifact
from transload.models.dataset import TEST, Dataset, write_dataset
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.signature import Array, Signature, parse_input
from transload.pipeline.drift.reference import answer
from transload.pipeline.minimal_repro.piece_search import find_graph_piece
from transload.serving.runtimes.tflite_session import open_session

SIGNATURE = Signature((parse_input("x=float32[batch,6]"),), (parse_input("y=float32[batch,4]"),))


def normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """x -> a product -> its bits as whole numbers -> floats -> a branch -> reshaped by a computed shape -> softmax."""
    import tensorflow as tf

    weight = normal(6, 4)

    def serve(x: Any) -> dict[str, Any]:
        made = tf.tanh(tf.matmul(x, weight))
        made = tf.cast(tf.bitcast(made, tf.int32), tf.float32) * 1e-9
        made = tf.cond(tf.reduce_sum(made) > 0, lambda: made * 2.0, lambda: made - 1.0)
        return {"y": tf.nn.softmax(tf.reshape(tf.transpose(made), [tf.shape(x)[0], 4]))}

    folder = tmp_path_factory.mktemp("given")
    module = tf.Module()
    module.serve = tf.function(serve, input_signature=[tf.TensorSpec([None, 6], tf.float32, "x")], autograph=False)
    tf.saved_model.save(module, str(folder / "saved_model"), signatures={"serving_default": module.serve})
    flat = tf.lite.TFLiteConverter.from_saved_model(str(folder / "saved_model")).convert()
    artifact = folder / "tflite"
    artifact.mkdir()
    (artifact / "model.tflite").write_bytes(flat)
    write_artifact(artifact, Target(Format.TFLITE), SIGNATURE)
    return artifact


@pytest.fixture(scope="module")
def cutter(given: Path) -> TfliteCutter:
    found = TfliteCutter(given / "model.tflite")
    found.record({"x": normal(3, 6)})
    return found


def at(cutter: TfliteCutter, operator: str) -> int:
    return next(number for number, node in enumerate(cutter.nodes) if node.name == operator)


@pytest.mark.parametrize(
    "names", [["FULLY_CONNECTED"], ["BITCAST"], ["BITCAST", "CAST"], ["RESHAPE"], ["IF"], ["SOFTMAX"], []]
)
def test_a_piece_computes_what_it_computes_in_the_whole(names: list[str], cutter: TfliteCutter, tmp_path: Path) -> None:
    piece = cutter.piece([at(cutter, name) for name in names] if names else range(len(cutter.nodes)))
    assert piece is not None
    assert piece.operators == (len(names) or len(cutter.nodes))
    piece.write(tmp_path)
    session = open_session(tmp_path, "cpu", 1)
    got = session.run(piece.feeds)
    session.close()
    assert list(got) == list(piece.expected)
    for name, want in piece.expected.items():
        np.testing.assert_allclose(got[name], want, rtol=1e-6)


def test_axes_stay_dynamic_sizes_are_constants_and_other_weights_go(cutter: TfliteCutter, given: Path) -> None:
    reshape, soft = (cutter.piece([at(cutter, name)]) for name in ("RESHAPE", "SOFTMAX"))
    assert reshape is not None
    assert [spec.shape[0] for spec in reshape.signature.inputs] == [4]
    assert isinstance(reshape.signature.inputs[0].shape[1], str)
    assert soft is not None
    assert normal(6, 4).T.tobytes() in (given / "model.tflite").read_bytes()
    assert normal(6, 4).T.tobytes() not in soft.flat


def test_the_operator_that_tf2onnx_has_nothing_for(
    given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, reference, out, scratch = (tmp_path / name for name in ("data", "reference", "out", "scratch"))
    for folder in (data, reference, out, scratch):
        folder.mkdir()
    write_dataset(data / TEST, Dataset({"x": normal(7, 6)}))
    answer(
        Job({"model": given, "data": data}, reference, {"runtime": "tflite", "batches": [1, 2], "probes_only": True})
    )
    monkeypatch.chdir(scratch)
    options = {
        "step": "tf2onnx-tflite", "reason": "", "target": "onnx", "least_db": 60.0, "seconds": 500.0, "model": "net",
        "chain": [["transload.converters.to_onnx.onnx_from_tensorflow:onnx_from_tflite", {}]],
        "requires": ["tensorflow", "tf2onnx"],
    }  # fmt: skip
    facts = find_graph_piece(Job({"source": given, "data": data, "reference": reference}, out, options))
    assert (facts["operators"], facts["operator"]) == (1, "BITCAST")
    assert "transload" not in (out / "piece.py").read_text(), "a report to tf2onnx needs that alone"
    done = subprocess.run(
        [sys.executable, "-P", out / "piece.py"], cwd=out, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout
    assert "TFL_BITCAST" in done.stderr.splitlines()[-1]


@pytest.mark.filterwarnings("ignore::UserWarning")  # tf.lite.Interpreter is deprecated
def test_an_empty_result_of_an_operator_is_recorded(tmp_path: Path) -> None:
    """TensorFlow's interpreter reads no empty tensor, as the shape of a scalar is one."""
    import tensorflow as tf

    def serve(x: Any) -> dict[str, Any]:
        return {"y": tf.concat([tf.zeros([tf.shape(x)[0], 0]), tf.tanh(x[:, :0]), tf.tanh(x)], 1)}

    module = tf.Module()
    module.serve = tf.function(serve, input_signature=[tf.TensorSpec([None, 6], tf.float32, "x")], autograph=False)
    path, x = tmp_path / "model.tflite", normal(2, 6)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([module.serve.get_concrete_function()], module)
    path.write_bytes(converter.convert())
    cutter = TfliteCutter(path)
    cutter.record({"x": x})
    assert (2, 0) in {array.shape for array in cutter.values.values()}
    assert cutter.record_in_half({"x": x})

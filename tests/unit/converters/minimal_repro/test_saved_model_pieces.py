"""Pieces of a SavedModel compute what they compute in the whole, and the script of the one that fails shows it."""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from transload.converters.minimal_repro.saved_model_pieces import SavedModelCutter, SavedModelPiece
from transload.models.artifact import write_artifact
from transload.models.dataset import TEST, Dataset, write_dataset
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.signature import Array, Signature, parse_input
from transload.pipeline.drift.reference import answer
from transload.pipeline.minimal_repro.piece_search import find_graph_piece
from transload.pipeline.minimal_repro.script import full_script
from transload.pipeline.minimal_repro.script_tensorflow import convert_tensorflow
from transload.pipeline.minimal_repro.search_records import PieceFacts, SearchOptions
from transload.pipeline.minimal_repro.trial import Trial, search_smallest

TF2ONNX = "transload.converters.to_onnx.onnx_from_tensorflow:onnx_from_saved_model"
TFLITE = "transload.converters.to_tflite.tflite_from_onnx:tflite_fp32"
SIGNATURE = Signature((parse_input("x=float32[batch,3,5]"),), (parse_input("y=float32[batch,4]"),))

Forward = Callable[[Any], Any]


def normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def write(folder: Path, forward: Callable[[Any, Any], Any]) -> None:
    """A SavedModel artifact: what `forward` gives of TensorFlow and x."""
    import tensorflow as tf

    module = tf.Module()
    module.weight, module.bias = tf.Variable(normal(15, 4)), tf.Variable(normal(4))

    @tf.function(input_signature=[tf.TensorSpec([None, 3, 5], tf.float32, name="x")], autograph=False)
    def serve(x: Any) -> dict[str, Any]:
        with tf.name_scope("head"):
            flat = tf.reshape(tf.nn.relu(x), [tf.shape(x)[0], 15])
            made = tf.matmul(flat, module.weight) + module.bias
        return {"y": forward(tf, made)}

    tf.saved_model.save(module, str(folder / "saved_model"), signatures={"serving_default": serve})
    write_artifact(folder, Target(Format.SAVED_MODEL), SIGNATURE)


def sums(tf: Any, x: Any, **grows: Any) -> Any:
    """Over the rows so far, gathered in a list of tensors that a loop writes."""
    with tf.name_scope("sums"):
        start = (0, tf.zeros([4]), tf.TensorArray(tf.float32, tf.shape(x)[0], **grows))
        _, _, made = tf.while_loop(
            lambda at, _sum, _rows: at < tf.shape(x)[0],
            lambda at, sum_, rows: (at + 1, sum_ + x[at], rows.write(at, sum_ + x[at])),
            start,
        )
        return made.stack()


@pytest.fixture(scope="module")
def cutter(tmp_path_factory: pytest.TempPathFactory) -> SavedModelCutter:
    folder = tmp_path_factory.mktemp("given")
    write(folder, lambda tf, x: tf.nn.softmax(sums(tf, x, element_shape=[4])))
    found = SavedModelCutter(folder / "saved_model", SIGNATURE)
    found.record({"x": normal(2, 3, 5)})
    return found


def at(cutter: SavedModelCutter, operator: str) -> int:
    return next(number for number, node in enumerate(cutter.nodes) if node.op == operator)


def served(folder: Path, feeds: Mapping[str, Array]) -> dict[str, Array]:
    import tensorflow as tf

    loaded = tf.saved_model.load(str(folder / "saved_model"))
    answers = loaded.signatures["serving_default"](**{name: tf.constant(value) for name, value in feeds.items()})
    return {name: value.numpy() for name, value in answers.items()}


@pytest.mark.parametrize(
    "names",
    [["Relu"], ["Reshape"], ["MatMul"], ["AddV2"], ["MatMul", "AddV2"], ["TensorListStack"], ["Softmax"], []],
)
def test_a_piece_computes_what_it_computes_in_the_whole(
    names: list[str], cutter: SavedModelCutter, tmp_path: Path
) -> None:
    piece = cutter.piece([at(cutter, name) for name in names] if names else range(len(cutter.nodes)))
    assert piece is not None
    piece.write(tmp_path)
    got = served(tmp_path, piece.feeds)
    assert list(got) == list(piece.expected)
    for name, want in piece.expected.items():
        np.testing.assert_array_equal(got[name], want)


def test_axes_stay_dynamic_sizes_and_weights_are_constants(cutter: SavedModelCutter) -> None:
    reshape, product = (cutter.piece([at(cutter, name)]) for name in ("Reshape", "MatMul"))
    assert reshape is not None
    assert [spec.shape for spec in reshape.signature.inputs] == [("head_relu_0", 3, 5)]
    assert product is not None
    assert [spec.name for spec in product.signature.inputs] == ["head_reshape"]
    assert product.operators == 1


def test_a_list_of_tensors_is_no_input_what_makes_it_comes_along(cutter: SavedModelCutter) -> None:
    piece = cutter.piece([at(cutter, "TensorListStack")])
    assert piece is not None
    assert {"TensorListReserve", "TensorListSetItem", "TensorListStack"} <= piece.runs
    assert piece.operators == 3


def test_an_operator_is_named_with_its_scope(cutter: SavedModelCutter) -> None:
    said_of_it = "the operator AddV2 (add), in the scope head"
    assert cutter.describe(at(cutter, "AddV2")) == ("AddV2", said_of_it, None)


def test_what_is_behind_an_operator_comes_nearest_first(cutter: SavedModelCutter) -> None:
    add = at(cutter, "AddV2")
    assert cutter.with_predecessors(add, 1) == [add]
    assert at(cutter, "MatMul") in cutter.with_predecessors(add, 3)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("source", "data", "reference", "out", "scratch"):
        (tmp_path / name).mkdir()
    write_dataset(tmp_path / "data" / TEST, Dataset({"x": normal(6, 3, 5)}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shrunk(here: Path, step: str, entry: str, to: str, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Any]:
    data, source = here / "data", here / "source"
    options = {"runtime": "tensorflow", "batches": [1, 2], "probes_only": True}
    answer(Job({"model": source, "data": data}, here / "reference", options))
    monkeypatch.chdir(here / "scratch")
    options = {
        "step": step, "reason": "", "chain": [[entry, {}]], "target": to, "least_db": 60.0, "seconds": 500.0,
        "model": "net", "requires": ["tensorflow", "tf2onnx"],
    }  # fmt: skip
    return find_graph_piece(
        Job({"source": source, "data": data, "reference": here / "reference"}, here / "out", options)
    )


@pytest.mark.slow
def test_an_operator_that_tflite_has_no_kernel_for(
    here: Path, monkeypatch: pytest.MonkeyPatch, said: Callable[[Path], str]
) -> None:
    write(here / "source", lambda tf, x: tf.nn.softmax(tf.math.erfinv(tf.tanh(x))) + tf.math.digamma(x))
    facts = shrunk(here, "tflite", TFLITE, "tflite", monkeypatch)
    assert (facts["operators"], facts["operator"]) in ((1, "Erfinv"), (1, "Digamma"))
    assert facts["message"] == f"TFLite has no kernel for {facts['operator']}"
    assert "transload" not in (here / "out" / "piece.py").read_text(), "a report to TensorFlow needs that alone"
    assert f"Custom ops: {facts['operator']}" in said(here)


def test_what_is_refused_with_what_it_reads_where_that_is_no_array(
    here: Path, monkeypatch: pytest.MonkeyPatch, said: Callable[[Path], str]
) -> None:
    write(here / "source", lambda tf, x: tf.pad(tf.math.real(tf.sqrt(tf.signal.rfft(x))), [[0, 0], [0, 1]]))
    facts = shrunk(here, "tf2onnx", TF2ONNX, "onnx", monkeypatch)
    assert (facts["operators"], facts["operator"]) == (3, "Real")
    assert "no ONNX is known for Sqrt" in facts["message"]
    assert facts["message"] in said(here)


@pytest.mark.slow
def test_a_loop_over_a_list_of_tensors(
    here: Path, monkeypatch: pytest.MonkeyPatch, said: Callable[[Path], str]
) -> None:
    write(here / "source", lambda tf, x: tf.nn.softmax(sums(tf, x, dynamic_size=True)))
    facts = shrunk(here, "tflite", TFLITE, "tflite", monkeypatch)
    assert facts["operators"] <= 3
    assert facts["message"].partition(": ")[2] in said(here)
    assert "failed to legalize operation" in facts["message"]


@pytest.mark.slow
def test_what_tensorflow_gets_wrong_without_a_word_is_cut_to_the_fewest_operators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all sizes are equal, TensorFlow 2.21's converter drops two transposes with a reshape between them."""
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec([1, 4, 4, 4], tf.float32, name="x")], autograph=False)
    def serve(x: Any) -> dict[str, Any]:
        made = tf.reshape(tf.transpose(tf.nn.relu(x), [0, 3, 1, 2]), [4, 4, 4])
        return {"y": tf.tanh(tf.transpose(made, [0, 2, 1]))}

    module = tf.Module()
    module.serve = serve
    tf.saved_model.save(module, str(tmp_path / "saved_model"), signatures={"serving_default": serve})
    shapes = parse_input("x=float32[1,4,4,4]"), parse_input("y=float32[4,4,4]")
    cutter = SavedModelCutter(tmp_path / "saved_model", Signature((shapes[0],), (shapes[1],)))
    cutter.record({"x": normal(1, 4, 4, 4)})
    monkeypatch.chdir(tmp_path)
    options = SearchOptions(
        step="", reason="", chain=((TFLITE, {}),), target="", least_db=60.0, seconds=500.0, model=""
    )
    trial = Trial(options, tmp_path)
    everything = cutter.piece(range(len(cutter.nodes)))
    assert everything is not None
    whole = trial(everything)
    assert whole is not None
    _, piece, seen = search_smallest(cutter, trial, whole)
    assert isinstance(piece, SavedModelPiece)
    assert sorted(node.op for node in piece.graph.node if node.op not in ("Const", "Placeholder")) == [
        "Reshape", "Transpose", "Transpose",
    ]  # fmt: skip
    assert seen.has_lost_layout


BROKEN = """
import onnx
from transload.converters.to_onnx.onnx_from_tensorflow import onnx_from_saved_model


def relus(job):
    '''SavedModel to ONNX: a rectifier in place of a soft one.'''
    facts = onnx_from_saved_model(job)
    model = onnx.load(job.out / "model.onnx")
    for node in model.graph.node:
        node.op_type = "Relu" if node.op_type == "Softplus" else node.op_type
    onnx.save(model, job.out / "model.onnx")
    return facts
"""


@pytest.mark.slow
def test_wrong_answers_of_a_step_of_any_other_package(
    here: Path, monkeypatch: pytest.MonkeyPatch, said: Callable[[Path], str]
) -> None:
    (here / "wrong_step.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(here)
    write(here / "source", lambda tf, x: tf.math.softplus(tf.tanh(x, name="Tanh")) * 2.0)
    facts = shrunk(here, "wrong", "wrong_step:relus", "onnx", monkeypatch)
    assert (facts["operators"], facts["operator"]) == (1, "Softplus")
    assert "AssertionError: softplus: off by up to " in said(here)


def script(step: str, target: str, runs: set[str], **options: Any) -> str:
    facts = PieceFacts(
        complete=True, where="the operator A (a)", kind="Refused", message="it fails", operator="A", operators=1,
        line=None, fix="",
    )  # fmt: skip
    entry = TF2ONNX if step == "tf2onnx" else TFLITE
    given = SearchOptions(
        step=step, target=target, chain=((entry, options),), model="net", least_db=60.0, reason="", seconds=1.0
    )
    names = {"x": "x:0", "y": "a:0"}
    piece: Any = SimpleNamespace(
        form=Format.SAVED_MODEL, suffix=".pb", signature=SIGNATURE, tensors=names, runs=frozenset(runs)
    )
    return full_script(given, facts, convert_tensorflow(given, piece))


def test_where_our_step_mends_tf2onnx_it_is_our_step_that_is_shown() -> None:
    assert "transload" not in script("tf2onnx", "onnx", {"Betainc"}), "a report to tf2onnx needs that alone"
    assert "from transload.converters.to_onnx.onnx_from_tensorflow import onnx_from_saved_model" in script(
        "tf2onnx", "onnx", {"Betainc", "FloorDiv"}
    )


@pytest.mark.parametrize(
    ("step", "target", "options", "line"),
    [
        ("tflite", "tflite", {}, "supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]"),
        ("tflite-fp16", "tflite:fp16", {}, "supported_types = [tf.float16]"),
        ("tflite-int8-dynamic", "tflite:int8-dynamic", {}, "optimizations = [tf.lite.Optimize.DEFAULT]"),
        ("tflite@flex", "tflite", {"flex": True}, "[tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]"),
    ],
)
def test_the_converter_is_set_as_the_step_sets_it(step: str, target: str, options: dict[str, Any], line: str) -> None:
    text = script(step, target, set(), **options)
    compile(text, "piece.py", "exec")
    assert line in text
    assert ("supported_types" in text) == (target == "tflite:fp16")

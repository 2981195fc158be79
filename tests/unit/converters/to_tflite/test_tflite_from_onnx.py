"""SavedModel to TFLite in four precisions; what cannot be carried is named."""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from transload.converters.to_saved_model.saved_model_from_onnx import saved_model_from_onnx
from transload.converters.to_tflite import flatbuffer as tflite_file
from transload.converters.to_tflite import tflite_from_onnx as tflite
from transload.models.artifact import read_artifact, write_artifact
from transload.models.dataset import Dataset, write_dataset
from transload.models.errors import BadRequest, Refused
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.signature import Signature, TensorSpec, parse_input

Step = Callable[[Job], Mapping[str, Any]]
STEPS: dict[str, tuple[Step, float]] = {  # and the least SQNR in dB
    "tflite": (tflite.tflite_fp32, 100),
    "tflite:fp16": (tflite.tflite_fp16, 55),
    "tflite:int8-dynamic": (tflite.tflite_int8_dynamic, 30),
    "tflite:int8": (tflite.tflite_int8, 25),
}


def weight(*shape: int) -> np.ndarray[Any, Any]:
    return (np.random.default_rng(len(shape)).standard_normal(shape) * 0.3).astype(np.float32)


def saved_model(folder: Path, nodes: list[onnx.NodeProto], signature: Signature, constants: Mapping[str, Any]) -> Path:
    (folder / "onnx").mkdir(parents=True)
    (folder / "saved").mkdir()

    def values(specs: tuple[TensorSpec, ...]) -> list[onnx.ValueInfoProto]:
        return [
            helper.make_tensor_value_info(spec.name, helper.np_dtype_to_tensor_dtype(np.dtype(spec.dtype)), spec.shape)
            for spec in specs
        ]

    kept = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", values(signature.inputs), values(signature.outputs), kept)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, folder / "onnx" / "model.onnx")
    write_artifact(folder / "onnx", Target(Format.ONNX), signature)
    saved_model_from_onnx(Job({"source": folder / "onnx"}, folder / "saved"))
    return folder


@pytest.fixture(autouse=True)
def _in_a_workers_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a step lowers into it


@pytest.fixture(scope="module")
def tower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tower over an image, joined with a table; it pools with pads after values that may be negative."""
    node = helper.make_node
    nodes = [
        node("Conv", ["image.1", "k"], ["c"], pads=[1, 1, 1, 1]),
        node("MaxPool", ["c"], ["m"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Conv", ["m", "d", "bias"], ["e"], group=8, pads=[1, 1, 1, 1]),
        node("Relu", ["e"], ["r"]),
        node("GlobalAveragePool", ["r"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Concat", ["f", "table"], ["j"], axis=1),
        node("Gemm", ["j", "w"], ["scores"]),
        node("Softmax", ["scores"], ["a/probabilities"]),
    ]
    signature = Signature(
        (TensorSpec("table", "float32", ("batch", 5)), TensorSpec("image.1", "float32", ("batch", 3, 9, 8))),
        (TensorSpec("scores", "float32", ("batch", 4)), TensorSpec("a/probabilities", "float32", ("batch", 4))),
    )
    constants = {"k": weight(8, 3, 3, 3), "d": weight(8, 1, 3, 3), "bias": weight(8), "w": weight(13, 4)}
    folder = saved_model(tmp_path_factory.mktemp("tower") / "x", nodes, signature, constants)
    (folder / "data").mkdir()
    write_dataset(folder / "data" / "calibration.npz", Dataset(feeds(signature, 40, 5)))
    return folder


def feeds(signature: Signature, batch: int, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return {
        spec.name: rng.standard_normal((batch, *map(int, spec.shape[1:]))).astype(spec.dtype)
        for spec in signature.inputs
    }


def run(path: Path, given: Mapping[str, Any], *, xnnpack: bool = True) -> dict[str, Any]:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kernels = OpResolverType.AUTO if xnnpack else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_path=str(path), num_threads=1, experimental_op_resolver_type=kernels)
    return dict(interpreter.get_signature_runner("serving_default")(**given))


def decibels(exact: np.ndarray[Any, Any], got: np.ndarray[Any, Any]) -> float:
    return float(10 * np.log10(np.square(exact).sum() / np.square(got - exact).sum()))


@pytest.mark.parametrize("target", STEPS)
def test_every_precision_answers_at_every_batch_under_the_models_names(
    tower: Path, tmp_path: Path, target: str
) -> None:
    import onnxruntime

    step, least_db = STEPS[target]
    step(Job({"source": tower / "saved", "data": tower / "data"}, tmp_path))
    artifact = read_artifact(tmp_path)
    assert str(artifact.target) == target
    assert artifact.signature == read_artifact(tower / "onnx").signature
    session = onnxruntime.InferenceSession(tower / "onnx" / "model.onnx", providers=["CPUExecutionProvider"])
    for batch in (1, 2, 5):
        given = feeds(artifact.signature, batch, batch)
        want = dict(zip(["scores", "a/probabilities"], session.run(None, given), strict=True))
        got = run(artifact.path, given)
        assert set(got) == set(want)
        for name, expected in want.items():
            assert got[name].dtype == np.float32
            assert got[name].shape == expected.shape
            noise = np.square(got[name] - expected).sum()
            assert 10 * np.log10(np.square(expected).sum() / noise) > least_db, (name, batch)


def test_int8_computes_in_int8_and_says_on_how_much_it_was_calibrated(tower: Path, tmp_path: Path) -> None:
    facts = tflite.tflite_int8(Job({"source": tower / "saved", "data": tower / "data"}, tmp_path))
    assert facts["float_operators"] == []
    assert facts["calibrated_on"] == 40


def test_float_operators_are_named(tower: Path, tmp_path: Path) -> None:
    tflite.tflite_fp32(Job({"source": tower / "saved"}, tmp_path))
    assert "CONV_2D" in tflite_file.float_operators(tmp_path / "model.tflite")


def test_inputs_and_outputs_keep_the_models_order_in_the_file(tower: Path, tmp_path: Path) -> None:
    """TensorFlow's converter sorts them by name."""
    from ai_edge_litert.interpreter import Interpreter

    tflite.tflite_fp32(Job({"source": tower / "saved"}, tmp_path))
    interpreter = Interpreter(model_path=str(tmp_path / "model.tflite"))
    assert [each["shape"][1] for each in interpreter.get_input_details()] == [5, 3]
    runner = interpreter.get_signature_runner("serving_default")
    by_name = {name: each["index"] for name, each in runner.get_output_details().items()}
    order = [each["index"] for each in interpreter.get_output_details()]
    assert order == [by_name["scores"], by_name["a/probabilities"]]


def test_int8_leaves_masks_and_variances_in_float(tmp_path: Path) -> None:
    """The lowest float as a mask aborts TensorFlow's quantiser; a variance in 8 bits is 0 where a token is quiet."""
    node = helper.make_node
    nodes = [
        node("LayerNormalization", ["x", "scale"], ["n"]),
        node("MatMul", ["n", "w"], ["q"]),
        node("Transpose", ["q"], ["k"], perm=[0, 2, 1]),
        node("MatMul", ["q", "k"], ["s"]),
        node("Add", ["s", "hidden"], ["m"]),
        node("Softmax", ["m"], ["p"]),
        node("MatMul", ["p", "q"], ["y"]),
    ]
    signature = Signature(
        (TensorSpec("x", "float32", ("batch", 6, 8)),), (TensorSpec("y", "float32", ("batch", 6, 8)),)
    )
    lowest = np.triu(np.full((6, 6), np.finfo(np.float32).min), 1)
    folder = saved_model(tmp_path / "m", nodes, signature, {"scale": weight(8), "w": weight(8, 8), "hidden": lowest})
    loud_and_quiet = np.random.default_rng(1).standard_normal((30, 6, 8)) * np.array([[[6], [3], [1], [5], [1], [4]]])
    given = {"x": loud_and_quiet.astype(np.float32)}
    (tmp_path / "data").mkdir()
    write_dataset(tmp_path / "data" / "calibration.npz", Dataset(given))
    answers = {}
    for step in (tflite.tflite_fp32, tflite.tflite_int8):
        out = tmp_path / step.__name__
        out.mkdir()
        facts = step(Job({"source": folder / "saved", "data": tmp_path / "data"}, out))
        answers[step.__name__] = run(out / "model.tflite", given)["y"]
    assert {"RSQRT", "SOFTMAX"} <= set(facts["float_operators"])
    assert "BATCH_MATMUL" not in facts["float_operators"]
    assert _scales(tmp_path / "tflite_int8" / "model.tflite", "BATCH_MATMUL", 1)[1] == {0}
    exact, got = answers["tflite_fp32"], answers["tflite_int8"]
    assert decibels(exact, got) > 20


def _scales(path: Path, name: str, side: int) -> tuple[set[float], set[int]]:
    """The scales and the zeros of what operators of a name take on one side."""
    (graph,) = tflite_file.subgraphs(path.read_bytes())
    taken = [each.inputs[side] for each in graph.operators() if each.name == name]
    found = [graph.tables.Tensors(at).Quantization() for at in taken]
    return {float(each.Scale(0)) for each in found}, {int(each.ZeroPoint(0)) for each in found}


def test_probabilities_go_to_1_and_what_is_multiplied_by_them_lies_around_0(tmp_path: Path) -> None:
    """Over one token a probability is 1, if never in the samples; XNNPACK takes the zero of a right side for 0."""
    node = helper.make_node
    nodes = [node("Softmax", ["x"], ["p"]), node("Transpose", ["v"], ["t"], perm=[0, 2, 1]),
             node("MatMul", ["p", "t"], ["y"])]  # fmt: skip
    inputs = (TensorSpec("x", "float32", ("batch", 4, 6)), TensorSpec("v", "float32", ("batch", 5, 6)))
    signature = Signature(inputs, (TensorSpec("y", "float32", ("batch", 4, 5)),))
    folder = saved_model(tmp_path / "m", nodes, signature, {})
    rng = np.random.default_rng(1)
    given = {
        spec.name: rng.standard_normal((20, *map(int, spec.shape[1:]))).astype(np.float32) * 0.1 for spec in inputs
    }
    given["v"] += 1
    (tmp_path / "data").mkdir()
    write_dataset(tmp_path / "data" / "calibration.npz", Dataset(given))
    tflite.tflite_int8(Job({"source": folder / "saved", "data": tmp_path / "data"}, tmp_path))
    (scale,), _ = _scales(tmp_path / "model.tflite", "BATCH_MATMUL", 0)
    assert 255 * scale == pytest.approx(1, rel=0.01)
    _, zeros = _scales(tmp_path / "model.tflite", "BATCH_MATMUL", 1)
    assert zeros == {0}


def test_places_that_are_worked_out_of_sizes_stay_in_float(tmp_path: Path) -> None:
    """Between which pixels a new one lies, and how far from each: 8 bits hold one or the other."""
    nodes = [helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="cubic")]
    signature = Signature(
        (TensorSpec("x", "float32", ("batch", 2, "height", "width")),),
        (TensorSpec("y", "float32", ("batch", 2, "high", "wide")),),
    )
    folder = saved_model(tmp_path / "m", nodes, signature, {"scales": np.array([1, 1, 1.7, 1.3], np.float32)})
    given = {"x": np.random.default_rng(1).standard_normal((12, 2, 40, 30)).astype(np.float32).cumsum(2) / 3}
    (tmp_path / "data").mkdir()
    write_dataset(tmp_path / "data" / "calibration.npz", Dataset(given))
    answers = []
    for step in (tflite.tflite_fp32, tflite.tflite_int8):
        out = tmp_path / step.__name__
        out.mkdir()
        step(Job({"source": folder / "saved", "data": tmp_path / "data"}, out))
        answers.append(run(out / "model.tflite", given)["y"])
    exact, got = answers
    assert decibels(exact, got) > 25


def int8_answers(
    folder: Path,
    nodes: list[onnx.NodeProto],
    signature: Signature,
    given: Mapping[str, np.ndarray[Any, Any]],
    constants: Mapping[str, Any],
) -> dict[str, np.ndarray[Any, Any]]:
    """What a graph in full int8 answers, under XNNPACK, to what it was calibrated on."""
    saved_model(folder / "m", nodes, signature, constants)
    (folder / "data").mkdir()
    write_dataset(folder / "data" / "calibration.npz", Dataset(dict(given)))
    tflite.tflite_int8(Job({"source": folder / "m" / "onnx", "data": folder / "data"}, folder))
    return run(folder / "model.tflite", given)


def test_what_is_added_up_by_index_is_added_in_float(tmp_path: Path) -> None:
    """TFLite's scatter adds the 8 bits as they lie: behind a ReLU their zero is not 0, and their sum goes round."""
    node = helper.make_node
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("ScatterElements", ["base", "where", "r"], ["y"], axis=1, reduction="add"),
    ]
    inputs = (
        TensorSpec("x", "float32", ("batch", 9)), TensorSpec("base", "float32", ("batch", 4)),
        TensorSpec("where", "int64", ("batch", 9)),
    )  # fmt: skip
    signature = Signature(inputs, (TensorSpec("y", "float32", ("batch", 4)),))
    rng = np.random.default_rng(1)
    given: dict[str, np.ndarray[Any, Any]] = {
        "x": rng.standard_normal((20, 9)).astype(np.float32),
        "base": rng.standard_normal((20, 4)).astype(np.float32),
        "where": rng.integers(0, 4, (20, 9)),
    }
    exact = given["base"].copy()
    np.add.at(exact, (np.arange(20)[:, None], given["where"]), np.maximum(given["x"], 0))
    assert decibels(exact, int8_answers(tmp_path, nodes, signature, given, {})["y"]) > 30


def test_scores_are_not_given_the_steps_of_the_mask_that_is_chosen_over_them(tmp_path: Path) -> None:
    """The quantiser gives one scale to all that a choice takes and makes, also where it leaves the choice in float."""
    node = helper.make_node
    nodes = [node("Add", ["x", "bias"], ["scores"]), node("Greater", ["m", "zero"], ["alive"]),
             node("Where", ["alive", "scores", "lowest"], ["masked"]), node("Softmax", ["masked"], ["y"])]  # fmt: skip
    inputs = (TensorSpec("x", "float32", ("batch", 3, 8)), TensorSpec("m", "float32", ("batch", 1, 8)))
    signature = Signature(inputs, (TensorSpec("y", "float32", ("batch", 3, 8)),))
    rng = np.random.default_rng(1)
    given = {"x": rng.standard_normal((20, 3, 8)).astype(np.float32) * 3,
             "m": rng.choice([-1, 1], (20, 1, 8)).astype(np.float32)}  # fmt: skip
    given["m"][..., 0] = 1  # one is always left
    bias = weight(3, 8)
    constants = {"zero": np.float32(0), "lowest": np.finfo(np.float32).min, "bias": bias}
    got = int8_answers(tmp_path, nodes, signature, given, constants)
    scores = np.exp(given["x"] + bias) * (given["m"] > 0)
    exact = scores / scores.sum(-1, keepdims=True)
    assert decibels(exact, got["y"]) > 25


@pytest.mark.parametrize("small", [0.0, 1e-6])
@pytest.mark.parametrize("known", [True, False])
def test_a_sum_with_next_to_nothing_runs_under_xnnpack(tmp_path: Path, small: float, known: bool) -> None:
    """It ends with the interpreter where the steps of what it adds are too unlike."""
    node = helper.make_node
    nodes = [node("MatMul", ["x", "w"], ["h"]),
             *([] if known else [node("Mul", ["x", "small"], ["little"])]),
             node("Add", ["h", "small" if known else "little"], ["s"]), node("MatMul", ["s", "w"], ["y"])]  # fmt: skip
    signature = Signature((TensorSpec("x", "float32", ("batch", 8)),), (TensorSpec("y", "float32", ("batch", 8)),))
    given = {"x": np.random.default_rng(1).standard_normal((20, 8)).astype(np.float32)}
    w = weight(8, 8)
    got = int8_answers(tmp_path, nodes, signature, given, {"w": w, "small": np.full((8,), small, np.float32)})
    exact = given["x"] @ w @ w
    assert decibels(exact, got["y"]) > 25


def test_nothing_is_divided_by_what_8_bits_make_0(tmp_path: Path) -> None:
    """TFLite's division ends there; a vector over its own length is such, where one vector is far longer."""
    node = helper.make_node
    nodes = [node("ReduceL2", ["x", "axes"], ["length"]), node("Max", ["length", "least"], ["safe"]),
             node("Div", ["x", "safe"], ["y"])]  # fmt: skip
    signature = Signature((TensorSpec("x", "float32", ("batch", 6)),), (TensorSpec("y", "float32", ("batch", 6)),))
    given = {"x": np.random.default_rng(1).standard_normal((20, 6)).astype(np.float32)}
    given["x"][1] *= 1e-3
    given["x"][0] *= 50
    constants = {"axes": np.array([1]), "least": np.float32(1e-12)}
    got = int8_answers(tmp_path, nodes, signature, given, constants)["y"]
    exact = given["x"] / np.linalg.norm(given["x"], axis=1, keepdims=True)
    np.testing.assert_allclose(got, exact, rtol=1e-5)


@pytest.mark.parametrize("starts", [(0, 0), (1, 1)])
def test_a_slice_to_an_end_that_is_not_there_is_taken_by_the_kernel_that_calibrates(
    tmp_path: Path, starts: tuple[int, int]
) -> None:
    """With numbers for every axis TFLite's converter asks for so many elements; XNNPACK alone gives what is there."""
    nodes = [helper.make_node("Slice", ["x", "starts", "ends", "axes"], ["y"])]
    signature = Signature((TensorSpec("x", "float32", ("n", 6)),), (TensorSpec("y", "float32", ("m", 5)),))
    given = {"x": np.random.default_rng(1).standard_normal((20, 6)).astype(np.float32)}
    kept = {"starts": np.array(starts), "ends": np.array([10**9, 5 + starts[1]]), "axes": np.array([0, 1])}
    saved_model(tmp_path, nodes, signature, kept)
    tflite.tflite_fp32(Job({"source": tmp_path / "onnx"}, tmp_path))
    got = run(tmp_path / "model.tflite", given, xnnpack=False)["y"]
    np.testing.assert_array_equal(got, given["x"][starts[0] :, starts[1] : 5 + starts[1]])


def test_an_infinity_seen_in_calibration_is_a_wide_range(tmp_path: Path) -> None:
    """Positions are told by logarithms, of 0 too: an infinite range ends the quantiser's process."""
    node = helper.make_node
    nodes = [
        node("Relu", ["x"], ["r"]), node("Log", ["r"], ["far"]), node("Max", ["far", "floor"], ["near"]),
        node("MatMul", ["near", "w"], ["y"]),
    ]  # fmt: skip
    signature = Signature((TensorSpec("x", "float32", ("batch", 8)),), (TensorSpec("y", "float32", ("batch", 5)),))
    floor = np.full((1, 8), -3, np.float32)
    folder = saved_model(tmp_path / "m", nodes, signature, {"w": weight(8, 5), "floor": floor})
    given = {"x": np.random.default_rng(1).standard_normal((20, 8)).astype(np.float32)}
    (tmp_path / "data").mkdir()
    write_dataset(tmp_path / "data" / "calibration.npz", Dataset(given))
    facts = tflite.tflite_int8(Job({"source": folder / "saved", "data": tmp_path / "data"}, tmp_path))
    assert "LOG" in facts["float_operators"]
    exact = np.maximum(np.log(np.maximum(given["x"], 1e-30)), floor) @ weight(8, 5)
    got = run(tmp_path / "model.tflite", given)["y"]
    assert decibels(exact, got) > 20


def test_weights_are_constants_and_not_resources(tower: Path, tmp_path: Path) -> None:
    tflite.tflite_fp32(Job({"source": tower / "saved"}, tmp_path))
    found = tflite_file.count_operators(tmp_path / "model.tflite")
    assert not {"VAR_HANDLE", "READ_VARIABLE", "CALL_ONCE", "CUSTOM"} & set(found)


def test_at_most_128_samples_are_used_each_as_a_batch_of_one() -> None:
    data = Dataset({"x": np.zeros((200, 3), np.float32)}, labels=np.zeros(200))
    x = parse_input("x=float32[batch,3]")
    given = list(tflite.samples(data, Signature((x,), (x,))))
    assert len(given) == 128
    assert all(list(each) == ["x"] and each["x"].shape == (1, 3) for each in given)


def test_calibration_keeps_to_the_sizes_that_a_model_takes() -> None:
    data = Dataset({"x": np.arange(3, dtype=np.float32), "scale": np.arange(3, dtype=np.float32)})
    inputs = (parse_input("x=float32[batch=2..8]"), parse_input("scale=float32[]"))
    given = list(tflite.samples(data, Signature(inputs, inputs)))
    assert [(each["x"].tolist(), each["scale"].shape) for each in given] == [([0, 1], ()), ([1, 2], ()), ([2, 0], ())]


def test_calibration_data_of_other_names_is_a_bad_request(tower: Path, tmp_path: Path) -> None:
    write_dataset(tmp_path / "calibration.npz", Dataset({"picture": np.zeros((2, 3), np.float32)}))
    with pytest.raises(BadRequest, match=r"holds picture, the model takes image\.1, table"):
        tflite.tflite_int8(Job({"source": tower / "saved", "data": tmp_path}, tmp_path))


def test_an_operator_without_a_kernel_is_refused_by_name(tmp_path: Path) -> None:
    signature = Signature((TensorSpec("x", "float32", ("batch", 3)),), (TensorSpec("y", "float32", ("batch", 3)),))
    folder = saved_model(tmp_path / "m", [helper.make_node("Erf", ["x"], ["y"])], signature, {})
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(Refused) as caught:
        tflite.tflite_fp32(Job({"source": folder / "saved"}, out))
    assert caught.value.what == "TFLite has no kernel for Erf"


def test_a_kernel_of_other_dtypes_is_refused_with_the_dtype(tmp_path: Path) -> None:
    import tensorflow as tf

    module = tf.Module()
    spec = tf.TensorSpec([None, 3], tf.bool, name="x")
    module.serve = tf.function(lambda x: {"y": tf.reverse_sequence(x, [2, 1], 1)}, input_signature=[spec])
    tf.saved_model.save(module, str(tmp_path / "saved_model"), signatures=module.serve)
    signature = Signature((TensorSpec("x", "bool", ("batch", 3)),), (TensorSpec("y", "bool", ("batch", 3)),))
    write_artifact(tmp_path, Target(Format.SAVED_MODEL), signature)
    (out := tmp_path / "out").mkdir()
    with pytest.raises(Refused) as caught:
        tflite.tflite_fp32(Job({"source": tmp_path}, out))
    assert caught.value.what == "TFLite has no kernel for ReverseSequence of bool"


@pytest.mark.parametrize("steps", [6, 20])
@pytest.mark.parametrize("op_type", ["GRU", "LSTM"])
def test_recurrent_layers_need_no_flex(tmp_path: Path, op_type: str, steps: int) -> None:
    import tensorflow as tf

    gates = {"GRU": 3, "LSTM": 4}[op_type]
    node = helper.make_node(op_type, ["x", "w", "r"], ["y", "last"], hidden_size=8, direction="bidirectional")
    signature = Signature(
        (TensorSpec("x", "float32", (steps, "batch", 5)),),
        (TensorSpec("y", "float32", (steps, 2, "batch", 8)), TensorSpec("last", "float32", (2, "batch", 8))),
    )
    constants = {"w": weight(2, gates * 8, 5), "r": weight(2, gates * 8, 8)}
    folder = saved_model(tmp_path / "m", [node], signature, constants)
    out = tmp_path / "out"
    out.mkdir()
    tflite.tflite_fp32(Job({"source": folder / "onnx"}, out))
    served = tf.saved_model.load(str(folder / "saved" / "saved_model")).signatures["serving_default"]
    for batch in (1, 2, 5):
        x = np.random.default_rng(batch).standard_normal((steps, batch, 5)).astype(np.float32)
        want = served(x=tf.constant(x))
        for name, got in run(out / "model.tflite", {"x": x}).items():
            np.testing.assert_allclose(got, want[name].numpy(), atol=1e-5)


def packed(*buffers: bytes) -> bytes:
    """A file of nothing but these buffers."""
    import flatbuffers
    from tensorflow.lite.python import schema_py_generated as schema

    model = schema.ModelT()
    model.buffers = [schema.BufferT() for _ in buffers]
    for buffer, data in zip(model.buffers, buffers, strict=True):
        buffer.data = np.frombuffer(data, np.uint8) if data else None
    builder = flatbuffers.Builder(64)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def test_what_equal_weights_take_twice_is_counted_and_small_ones_are_not_worth_it() -> None:
    one, other = bytes(2000), bytes(1999) + b"x"
    assert tflite_file.repeated_bytes(packed(b"", one, other, one, one, bytes(3), bytes(3))) == 2 * 2000
    assert tflite_file.repeated_bytes(packed(b"", one, other)) == 0


@pytest.mark.parametrize("ties", [1, 2], ids=["a weight", "a weight under two names"])
def test_equal_weights_are_kept_once(ties: int, tmp_path: Path) -> None:
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "w0"], ["h"]),
        node("Relu", ["h"], ["r"]),
        node("MatMul", ["r", f"w{ties - 1}"], ["y"]),
    ]
    shape = ("batch", 64)
    signature = Signature((TensorSpec("x", "float32", shape),), (TensorSpec("y", "float32", shape),))
    folder = saved_model(tmp_path / "m", nodes, signature, {f"w{at}": weight(64, 64) for at in range(ties)})
    (tmp_path / "made").mkdir()
    tflite.tflite_fp32(Job({"source": folder / "saved"}, tmp_path / "made"))
    assert (tmp_path / "made" / "model.tflite").stat().st_size < 1.3 * 64 * 64 * 4

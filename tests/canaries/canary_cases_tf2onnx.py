"""Canaries of the patches of converters/patches/tf2onnx, by the id of the patch.

They run in one process of their own, without torch: `python canary_cases_tf2onnx.py` prints what tf2onnx does wrong
with each, as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial, reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Nodes = Sequence[Any]


@dataclass(frozen=True)
class TensorFlowCanary:
    """A function of tensors with example inputs, of which every axis is open that `open_axes` counts.

    `tflite`: it goes by way of a TFLite file, whose only operator may be replaced (`operator`). `is_wrong` says of the
    ONNX nodes that they are a defect by themselves.
    """

    function: Callable[..., Any]
    inputs: Sequence[Array]
    open_axes: int = 1
    tflite: bool = False
    operator: str = ""
    is_wrong: Callable[[Nodes], bool] = lambda _nodes: False


def tf() -> Any:
    import tensorflow as tf

    return tf


def defect(canary: TensorFlowCanary, folder: Path) -> str | None:
    """Return what tf2onnx does wrong, or None."""
    import onnxruntime
    from tf2onnx import convert

    specs = [
        tf().TensorSpec([None] * canary.open_axes + [*x.shape[canary.open_axes :]], x.dtype, name=f"x{at}")
        for at, x in enumerate(canary.inputs)
    ]
    function = tf().function(canary.function, input_signature=specs, autograph=False)
    path = folder / "model.tflite"
    if canary.tflite:
        flat = tf().lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()]).convert()
        path.write_bytes(with_operator(flat, canary.operator) if canary.operator else flat)
        expected = run_tflite(path, canary.inputs)
    else:
        expected = [np.asarray(value) for value in tf().nest.flatten(function(*map(tf().constant, canary.inputs)))]
    try:
        if canary.tflite:
            model, _ = convert.from_tflite(str(path), opset=18)
        else:
            model, _ = convert.from_function(function, input_signature=specs, opset=18)
        nodes = [*all_nodes(model.graph)]
        if canary.is_wrong(nodes):
            return f"it writes {sorted({node.op_type for node in nodes})}"
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_inputs()]
        answers = session.run(None, dict(zip(names, canary.inputs, strict=True)))
    except Exception as error:  # noqa: BLE001  (whatever it raises is the answer)
        return f"{type(error).__name__}: {error}"[:200]
    return next(filter(None, map(difference, answers, expected)), None)


def difference(answer: Array, reference: Array) -> str | None:
    if answer.shape != reference.shape or answer.dtype != reference.dtype:
        return f"{answer.dtype} {answer.shape}, not {reference.dtype} {reference.shape}"
    if np.allclose(answer, reference, 1e-5 if reference.dtype.kind == "f" else 0, 0, equal_nan=True):
        return None
    return f"{answer.ravel()[:4]}, not {reference.ravel()[:4]}"


def all_nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from all_nodes(attribute.g)


def has(*operators: str) -> Callable[[Nodes], bool]:
    return lambda nodes: any(node.op_type in operators for node in nodes)


def asks_a_condition(nodes: Nodes) -> bool:
    return any(node.op_type == "Loop" and bool(node.input[1]) for node in nodes)


def with_operator(flat: bytes, operator: str) -> bytes:
    """Return a TFLite file whose only operator is another one."""
    from ai_edge_litert import schema_py_generated as schema
    from flatbuffers import Builder

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(flat, 0))
    (code,) = model.operatorCodes
    code.builtinCode, code.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, operator), 127
    builder = Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def run_tflite(path: Path, inputs: Sequence[Array]) -> list[Array]:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path))
    details = interpreter.get_input_details()
    for detail, value in zip(details, inputs, strict=True):
        interpreter.resize_tensor_input(detail["index"], value.shape)
    interpreter.allocate_tensors()
    for detail, value in zip(details, inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def filled_from_the_end(x: Any) -> Any:
    """Fill a list from its last place on, in a loop."""
    count = tf().shape(x)[0]
    rows = tf().TensorArray(tf().float32, count, element_shape=x.shape[1:])
    step = lambda i, rows: (i + 1, rows.write(count - 1 - i, x[i]))  # noqa: E731
    return tf().while_loop(lambda i, _: i < count, step, (0, rows))[1].stack()


def read_in_a_loop(x: Any) -> Any:
    """Read a list at places that the loop computes."""
    rows = tf().TensorArray(tf().float32, 0, dynamic_size=True, clear_after_read=False).unstack(x)
    count = rows.size()
    return tf().while_loop(lambda i, _: i < count, lambda i, y: (i + 1, y * 2 + rows.read(count - 1 - i)), (0, x[0]))[1]


def list_without_a_loop(x: Any) -> Any:
    rows = tf().TensorArray(tf().float32, 2, element_shape=x.shape[1:]).write(0, x[0]).write(1, x[1])
    return rows.gather([1, 0]), rows.size(), rows.read(0)


def stack_or_nothing(x: Any) -> Any:
    """A stack of a loop's steps where it ran, else an empty tensor of that shape, as our lowering writes it."""
    count = tf().shape(x)[0]
    rows = tf().TensorArray(tf().float32, count)
    rows = tf().while_loop(lambda i, _: i < count, lambda i, rows: (i + 1, rows.write(i, x[i])), (0, rows))[1]
    return tf().cond(count > 0, rows.stack, lambda: tf().zeros([0, x.shape[1]]))


def counted(x: Any) -> Any:
    return tf().while_loop(lambda i, _: i < tf().shape(x)[0], lambda i, y: (i + 1, y * 2 + x[i]), (0, x[0]))[1]


def dilated(x: Any) -> Any:
    weight = tf().constant(np.arange(9.0).reshape(3, 3, 1, 1), tf().float32)
    return tf().nn.depthwise_conv2d(x, weight, [1, 1, 1, 1], "SAME", dilations=[2, 2])


def transposed(axes: int) -> TensorFlowCanary:
    """A transposed convolution to a size beyond what the input spreads over."""
    weight = np.ones((2,) * axes + (1, 1), np.float32)

    def function(x: Any) -> Any:
        convolve = getattr(tf().nn, f"conv{axes}d_transpose")
        return convolve(x, weight, [tf().shape(x)[0], *[7] * axes, 1], 3, "VALID")

    return TensorFlowCanary(function, [np.ones((1, *[2] * axes, 1), np.float32)])


def raw(name: str, *tensors: str, **constants: Any) -> Callable[..., Any]:
    """Return a raw operator of TensorFlow, whose tensors have these names."""
    return lambda *values: getattr(tf().raw_ops, name)(**dict(zip(tensors, values, strict=True)), **constants)


def broadcast_shape(x: Any) -> Any:
    return tf().raw_ops.BroadcastArgs(s0=tf().shape(x), s1=tf().stack([2, 1, tf().shape(x)[1]]))


def spectrum(x: Any) -> Any:
    return tf().signal.rfft(x, [8])


def function(path: str) -> Callable[..., Any]:
    """Return a function of TensorFlow by its name."""

    def call(*values: Any) -> Any:
        return reduce(getattr, path.split("."), tf())(*values)

    return call


def f32(*values: float) -> Array:
    return np.array([values], np.float32)


def i32(*values: int) -> Array:
    return np.array(values, np.int32)


X = np.array([[-1.5, 0.3, 1.2, 2.0, -0.2], [0.1, -2.0, 3.0, 0.5, 0.7]], np.float32)
LARGE, NEGATIVE, IDS = i32(2**24 + 1, 2**24), i32(-7, 7), i32(0, 2)
MATRICES, FAR_LOGITS = np.arange(18, dtype=np.float32).reshape(2, 3, 3), f32(1000, 0, -1000)
SQUARE = np.arange(9, dtype=np.int32).reshape(1, 3, 3, 1) * 2 + 2**24 + 1
PICTURE = np.arange(32, dtype=np.float32).reshape(2, 4, 4, 1)
BOXES = np.array([[0.1, 0.2, 1.2, 1.0], [0, 0, 0.5, 0.5]], np.float32)
SAMPLES = np.arange(8, dtype=np.float32).reshape(1, 8)
SMALL, WIDE = np.array([[5, 6]], np.uint8), np.array([[5, 2**32 - 2]], np.uint32)
DIAGONAL = {"num_rows": -1, "num_cols": -1, "padding_value": 0.0}
Tf = TensorFlowCanary

HANDLERS: Mapping[str, TensorFlowCanary] = {
    "Erfc": Tf(function("math.erfc"), [X]),
    "FloorDiv": Tf(lambda x: x // 2, [NEGATIVE]),
    "FloorMod": Tf(lambda x: x % 0.1, [f32(0.3, 1.5, -0.7)]),
    "TFL_FLOOR_DIV": Tf(lambda x, y: x // y, [f32(1.5, 1.2), f32(0.3, -0.3)], tflite=True),
    "Select": Tf(lambda x: tf().raw_ops.Select(condition=x[:, 0] > 0, x=tf().math.log(x), y=x), [X]),
    "SelectV2": Tf(lambda x: tf().where(x > 0, tf().math.log(x), x), [X]),
    "Bitcast": Tf(lambda x: tf().bitwise.bitwise_and(tf().bitcast(x, tf().int32), tf().int32.min), [X]),
    "OneHot": Tf(lambda i: tf().one_hot(i, 3), [i32(-1, 1)]),
    "SoftmaxCrossEntropyWithLogits": Tf(
        lambda x, y: tf().raw_ops.SoftmaxCrossEntropyWithLogits(features=x, labels=y)[1], [X, X]
    ),
    "SparseSoftmaxCrossEntropyWithLogits": Tf(
        lambda x: tf().nn.sparse_softmax_cross_entropy_with_logits(tf().constant([2]), x), [FAR_LOGITS]
    ),
    "CropAndResize": Tf(
        lambda x, boxes: tf().image.crop_and_resize(x, boxes, [0, 1], [3, 3]), [PICTURE, BOXES], is_wrong=has("Loop")
    ),
    "Expm1": Tf(function("math.expm1"), [X]),
    "Log1p": Tf(function("math.log1p"), [np.abs(X)]),
    "BroadcastArgs": Tf(broadcast_shape, [X]),
    "Bucketize": Tf(lambda x: tf().raw_ops.Bucketize(input=x, boundaries=[-0.5, 0.5]), [X]),
    "TFL_BROADCAST_ARGS": Tf(broadcast_shape, [X], tflite=True),
    "TFL_GELU": Tf(function("nn.gelu"), [X], tflite=True),
    "TFL_RELU_N1_TO_1": Tf(lambda x: tf().minimum(tf().maximum(x, -1), 1), [X], tflite=True),
    "TFL_RELU_0_TO_1": Tf(
        lambda x: tf().minimum(tf().maximum(x, -1), 1), [X], tflite=True, operator="RELU_0_TO_1"
    ),
    "Less": Tf(lambda x: x[:1] < x[1:], [LARGE[::-1].copy()]),
    "Greater": Tf(lambda x: x[:1] > x[1:], [LARGE]),
    "Pad": Tf(lambda x: tf().raw_ops.Pad(input=x, paddings=[[0, 0], [1, 0]]), [WIDE]),
    "PadV2": Tf(lambda x: tf().pad(x, [[0, 0], [1, 0]], constant_values=7), [SMALL]),
    "MirrorPad": Tf(lambda x: tf().pad(x, [[0, 0], [1, 0]], "REFLECT"), [WIDE]),
    "MaxPool": Tf(lambda x: tf().nn.max_pool2d(x, 2, 1, "SAME"), [SQUARE]),
    "MaxPoolV2": Tf(raw("MaxPoolV2", "input", ksize=[1, 2, 2, 1], strides=[1] * 4, padding="SAME"), [SQUARE]),
    "AddN": Tf(lambda x: tf().add_n([x, x]), [LARGE]),
    "TruncateMod": Tf(lambda x: tf().truncatemod(x, 3), [NEGATIVE]),
    "InvertPermutation": Tf(function("math.invert_permutation"), [i32(1, 2, 0)]),
    "InTopKV2": Tf(lambda x: tf().math.in_top_k([0, 2], x, 2), [X]),
    "TopKV2": Tf(lambda x: tf().math.top_k(x, 1)[0], [i32(2**24, 2**24 + 1)[None]]),
    "MatrixDiagPart": Tf(raw("MatrixDiagPart", "input"), [MATRICES[0]]),
    "MatrixDiagPartV2": Tf(
        raw("MatrixDiagPartV2", "input", k=1, padding_value=0.0), [MATRICES], 3, is_wrong=has("Loop", "If")
    ),
    "MatrixDiagPartV3": Tf(
        raw("MatrixDiagPartV3", "input", k=1, padding_value=0.0), [MATRICES], 3, is_wrong=has("Loop", "If")
    ),
    "MatrixDiag": Tf(raw("MatrixDiag", "diagonal"), [X[:1]]),
    "MatrixDiagV2": Tf(raw("MatrixDiagV2", "diagonal", k=0, **DIAGONAL), [X[:1]]),
    "MatrixDiagV3": Tf(raw("MatrixDiagV3", "diagonal", k=0, **DIAGONAL), [X[:1]]),
    "MatrixSetDiag": Tf(raw("MatrixSetDiag", "input", "diagonal"), [MATRICES, X[:, :3].copy()]),
    "MatrixSetDiagV2": Tf(raw("MatrixSetDiagV2", "input", "diagonal", k=1), [MATRICES, X[:, :2].copy()]),
    "MatrixSetDiagV3": Tf(
        raw("MatrixSetDiagV3", "input", "diagonal", k=1), [MATRICES, X[:, :2].copy()], 2, is_wrong=has("Loop", "If")
    ),
    "ScatterNd": Tf(lambda x: tf().scatter_nd([[0], [0]], x, [2, 5]), [X]),
    **{
        f"Segment{name}": Tf(
            lambda x, name=name: getattr(tf().math, f"segment_{name.lower()}")(x, IDS), [X], is_wrong=has("Unique")
        )
        for name in ("Sum", "Mean", "Max", "Min", "Prod")
    },
    **{
        f"UnsortedSegment{name}": Tf(
            lambda x, name=name: getattr(tf().math, f"unsorted_segment_{name.lower()}")(x, [[0, 1], [1, -1]], 3),
            [X[:, :2].copy()],
        )
        for name in ("Sum", "Max", "Min", "Prod")
    },
    "Conv2DBackpropInput": transposed(2),
    "Conv3DBackpropInputV2": transposed(3),
    **dict.fromkeys(
        ("While", "StatelessWhile", "TensorListStack", "TensorListReserve", "TensorListSetItem"),
        Tf(filled_from_the_end, [X]),
    ),
    "TensorListFromTensor": Tf(read_in_a_loop, [X]),
    **dict.fromkeys(("TensorListGetItem", "TensorListGather", "TensorListLength"), Tf(list_without_a_loop, [X])),
    **dict.fromkeys(("If", "StatelessIf"), Tf(stack_or_nothing, [X], is_wrong=has("If"))),
    "TFL_WHILE": Tf(counted, [X], tflite=True, is_wrong=asks_a_condition),
    "TFL_REAL": Tf(lambda x: tf().math.real(spectrum(x)), [SAMPLES], tflite=True),
    "TFL_IMAG": Tf(lambda x: tf().math.imag(spectrum(x)), [SAMPLES], tflite=True),
}  # fmt: skip
REWRITERS: Mapping[str, TensorFlowCanary] = {
    "permanent:tf2onnx.tfonnx.rewrite_tfl_rfft": Tf(lambda x: tf().abs(spectrum(x)), [SAMPLES], tflite=True),
    "permanent:tf2onnx.tfonnx.rewrite_flatten": Tf(
        lambda x: tf().tanh(tf().reshape(tf().tanh(tf().reshape(x, [-1, 1])), [tf().shape(tf().cos(x))[0], -1])), [X]
    ),
    "permanent:tf2onnx.tfonnx.rewrite_conv_dilations": Tf(
        dilated, [np.arange(64, dtype=np.float32).reshape(1, 8, 8, 1)], 3, is_wrong=has("SpaceToDepth", "DepthToSpace")
    ),
    "rewrite:tf2onnx.tfonnx.process_tf_graph.complex numbers": Tf(
        lambda x: tf().math.real(tf().exp(tf().complex(x, x))), [X]
    ),
}
CONTROL = "control"  # a function that tf2onnx converts rightly
CANARIES = {**{f"handler:tf2onnx.{name}": canary for name, canary in HANDLERS.items()}, **REWRITERS}


@cache
def defects() -> Mapping[str, str | None]:
    """Run every canary in one other process, and return what is wrong by the patch's id."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-P", "-W", "ignore", __file__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    answers: dict[str, str | None] = json.loads(done.stdout.splitlines()[-1])
    assert answers.pop(CONTROL) is None, "what is right is seen as right"
    return answers


def answer(patch: str) -> str | None:
    return defects()[patch]


def run_all() -> dict[str, str | None]:
    answers = {}
    for name, canary in {**CANARIES, CONTROL: Tf(lambda x: x * 2 + 1, [X])}.items():
        with TemporaryDirectory() as folder:
            answers[name] = defect(canary, Path(folder))
    return answers


CASES: dict[str, Callable[[], str | None]] = {name: partial(answer, name) for name in CANARIES}

if __name__ == "__main__":
    print(json.dumps(run_all()))

"""Constants that meet a bias: TensorFlow's graph optimiser joins the two where it takes them for alike, and it runs
only where a graph is called as a whole, as a SavedModel is."""

from __future__ import annotations

import re

import numpy as np
import pytest

from transload.converters.onnx_to_tf.kernels.dialects import TENSORFLOW, TFLITE
from transload.converters.onnx_to_tf.lower_model import lower

HEAD = '<ir_version: 10, opset_import: ["" : 20]>'
# By name: the shape of x after the batch, the shape of the weight with 0 for the channels, and the nodes.
LAYERS = {
    "Conv1d": ((3, 5), (0, 3, 1), "a = Conv(x, w, b)"),
    "Conv2d": ((3, 5, 4), (0, 3, 1, 1), "a = Conv(x, w, b)"),
    "Conv3d": ((3, 5, 4, 2), (0, 3, 1, 1, 1), "a = Conv(x, w, b)"),
    "ConvTranspose": ((3, 5, 4), (3, 0, 1, 1), "a = ConvTranspose(x, w, b)"),
    "Gemm": ((3,), (3, 0), "a = Gemm(x, w, b)"),
    "MatMul": ((5, 3), (3, 0), "m = MatMul(x, w) a = Add(m, b)"),
}


def beside(shape):
    """Constants that may stand beside a tensor of `shape`, the batch left out: of every rank."""
    rank = len(shape) + 1
    yield from [(), (1,), (1, 1), (1,) * rank, (shape[-1],), (1, *shape)]
    if rank == 2:
        yield from [(2, 1), *([(8,), (1, 8)] if shape[0] == 1 else [])]  # of the batch; more than one channel
    else:
        yield from [(shape[-2], 1), (shape[0], *(1,) * (rank - 2)), (1, shape[0], *(1,) * (rank - 2))]
        yield from [(*(1,) * (rank - 2), shape[-2], 1), *([(8, *(1,) * (rank - 2))] if shape[0] == 1 else [])]


def chained(folder, name, channels, op_type):
    """A model of one layer for each constant, which joins its answer: an optimiser looks at what has one reader."""
    import onnx
    import onnx.parser
    from onnx import numpy_helper

    own, weight, nodes = LAYERS[name]
    shape = (*own[:-1], channels) if name == "MatMul" else (channels, *own[1:])
    rng = np.random.default_rng(3)
    constants, text, outputs = {}, [], []
    for at, each in enumerate(dict.fromkeys(beside(shape))):
        constants[f"w{at}"] = rng.standard_normal([size or channels for size in weight])
        constants[f"b{at}"] = rng.standard_normal(channels)
        constants[f"c{at}"] = rng.standard_normal(each) + 3
        text.append(re.sub(r"\b([wbam])\b", rf"\g<1>{at}", nodes) + f" y{at} = {op_type}(a{at}, c{at})")
        outputs.append(f"float[{', '.join(f'd{at}_{axis}' for axis in range(len(shape) + 1))}] y{at}")
    given = ", ".join(map(str, ("N", *own)))
    model = onnx.parser.parse_model(f"{HEAD} g (float[{given}] x) => ({', '.join(outputs)}) {{ {' '.join(text)} }}")
    model.graph.initializer.extend(
        numpy_helper.from_array(array.astype(np.float32), each) for each, array in constants.items()
    )
    onnx.save(model, folder / "model.onnx")
    return {"x": rng.standard_normal((2, *own)).astype(np.float32)}


def holds(bench, made, answer, feeds):
    import onnxruntime

    session = onnxruntime.InferenceSession(bench.folder / "model.onnx", providers=["CPUExecutionProvider"])
    got = answer(feeds)
    for expected, name in zip(session.run(None, feeds), made.outputs, strict=True):
        np.testing.assert_allclose(got[name], expected, 1e-4, 1e-4, err_msg=name)


@pytest.mark.parametrize(
    ("op_type", "channels"), [("Add", 1), ("Add", 8), ("Add", 128), ("Sub", 8), ("Mul", 8), ("Div", 128)]
)  # 128 are held as a variable
@pytest.mark.parametrize("name", LAYERS)
def test_a_constant_of_any_rank_follows_a_bias(bench, name, op_type, channels):
    feeds = chained(bench.folder, name, channels, op_type)
    made = lower(bench.folder / "model.onnx", TENSORFLOW)
    holds(bench, made, bench.in_tensorflow(made), feeds)


@pytest.mark.parametrize("name", LAYERS)
def test_a_constant_of_any_rank_follows_a_bias_in_tflite(bench, name):
    feeds = chained(bench.folder, name, 8, "Add")
    made = lower(bench.folder / "model.onnx", TFLITE)
    holds(bench, made, bench.in_tflite(made), feeds)

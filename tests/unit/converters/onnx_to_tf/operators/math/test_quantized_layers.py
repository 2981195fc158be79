"""Layers as ONNX Runtime's quantize_dynamic leaves them: LSTMs and attention, compared with ONNX Runtime itself."""

import logging
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from transload.converters.onnx_to_tf.kernels.dialects import TENSORFLOW, TFLITE
from transload.converters.onnx_to_tf.lower_model import lower
from transload.models.errors import Refused

INPUT, HIDDEN, HEADS = 5, 6, 2


def floats(seed, *shape):
    return (np.random.default_rng(seed).standard_normal(shape) / 2).astype(np.float32)


def saved(path, node, inputs, constants):
    """`inputs`: shapes by name, letters of which are dynamic."""
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info(name, TensorProto.INT32 if name in ("mask", "lengths") else TensorProto.FLOAT,
                                       shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in node.output],
        [numpy_helper.from_array(each, name) for name, each in constants.items()],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)


def quantised(folder, expected, **options):
    """The model beside it as quantize_dynamic leaves it, which is to have the operator `expected`. In 7 bits: without
    VNNI, ONNX Runtime saturates products of bytes in 16 bits."""
    from onnxruntime.quantization import quantize_dynamic

    logging.getLogger().setLevel(logging.ERROR)  # it advises to preprocess
    quantize_dynamic(folder / "model.onnx", folder / "quantised.onnx", reduce_range=True, **options)
    assert expected in [node.op_type for node in onnx.load(folder / "quantised.onnx").graph.node]
    return folder / "quantised.onnx"


def agrees(bench, path, many_feeds, *, tflite):
    one_thread = onnxruntime.SessionOptions()
    one_thread.intra_op_num_threads = 1  # on more of them its states are quantised in parts
    session = onnxruntime.InferenceSession(path, one_thread, providers=["CPUExecutionProvider"])
    lowered = lower(path, TFLITE if tflite else TENSORFLOW)
    answer = (bench.in_tflite if tflite else bench.in_tensorflow)(lowered)
    for feeds in many_feeds:
        got = answer(feeds)
        for name, expected in zip(lowered.outputs, session.run(None, feeds), strict=True):
            np.testing.assert_allclose(got[name], expected, 1e-5, 2e-6, err_msg=name)


def drawn(inputs, many_sizes):
    """Feeds for inputs of these shapes, at each of some sizes of their letters. A mask keeps the first of a row."""
    for sizes in many_sizes:
        made = {}
        for seed, (name, shape) in enumerate(inputs.items()):
            made[name] = floats(seed, *(sizes.get(size, size) for size in shape))
            if name == "mask":
                rows, length = made[name].shape
                kept = np.random.default_rng(seed).integers(1, length + 1, rows)
                made[name] = (np.arange(length) < kept[:, None]).astype(np.int32)
        yield made


def lstm(folder, *, directions=1, states=False, peepholes=False, lengths=False, hidden=HIDDEN, **attributes):
    """Written to the folder; its feeds."""
    inputs = {"x": ["T", "N", INPUT]}
    constants = {
        "w": floats(1, directions, 4 * hidden, INPUT),
        "r": floats(2, directions, 4 * hidden, hidden),
        "b": floats(3, directions, 8 * hidden),
    }
    if lengths:
        inputs["lengths"] = ["N"]
    if states:
        inputs |= {"h": [directions, "N", hidden], "c": [directions, "N", hidden]}
    if peepholes:
        constants["p"] = floats(4, directions, 3 * hidden)
    order = [
        "x",
        "w",
        "r",
        "b",
        *(name if name in {*inputs, *constants} else "" for name in ("lengths", "h", "c", "p")),
    ]
    node = helper.make_node("LSTM", order, ["y", "y_h", "y_c"], hidden_size=hidden, **attributes)
    saved(folder / "model.onnx", node, inputs, constants)
    return drawn(inputs, ({"T": steps, "N": batch} for steps, batch in ((4, 3), (1, 1), (20, 2), (hidden, hidden))))


LSTMS: dict[str, dict[str, Any]] = {
    "forward": {},
    "as long as it is wide": {"hidden": INPUT},
    "backward with states": {"direction": "reverse", "states": True},
    "both ways": {"direction": "bidirectional", "directions": 2, "states": True},
    "peepholes": {"peepholes": True},
    "coupled gates": {"input_forget": 1},
    "other activations": {"activations": ["Sigmoid", "Relu", "Tanh"]},
}


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("name", LSTMS)
def test_a_quantised_lstm_agrees_with_onnx_runtime(bench, tmp_path, name, per_channel):
    feeds = lstm(tmp_path, **LSTMS[name])
    path = quantised(tmp_path, "DynamicQuantizeLSTM", per_channel=per_channel)
    agrees(bench, path, feeds, tflite=False)


def test_a_quantised_lstm_agrees_in_tflite(bench, tmp_path):
    feeds = lstm(tmp_path, **LSTMS["both ways"])
    path = quantised(tmp_path, "DynamicQuantizeLSTM", per_channel=True)
    agrees(bench, path, feeds, tflite=True)


def test_a_quantised_lstm_of_unsigned_weights_agrees_with_onnx_runtime(bench, tmp_path):
    feeds = lstm(tmp_path, directions=2, direction="bidirectional")
    path = quantised(tmp_path, "DynamicQuantizeLSTM")
    model = onnx.load(path)
    for each in model.graph.initializer:
        if each.name.endswith(("_quantized", "_zero_point")):
            made = (numpy_helper.to_array(each).astype(np.int16) + 128).astype(np.uint8)
            each.CopyFrom(numpy_helper.from_array(made, each.name))
    onnx.save(model, path)
    agrees(bench, path, feeds, tflite=False)


@pytest.mark.parametrize(("options", "what"), [({"lengths": True}, "sequence's end"), ({"clip": 1.0}, "clip")])
def test_unsupported_forms_of_a_quantised_lstm_are_refused_by_name(tmp_path, options, what):
    lstm(tmp_path, **options)
    with pytest.raises(Refused, match=what):
        lower(quantised(tmp_path, "DynamicQuantizeLSTM"))


def attention(folder, *, mask=None, past=False, width=8, **attributes):
    """Written to the folder; its feeds."""
    inputs = {"x": ["N", "S", width]}
    constants = {"w": floats(1, width, 3 * width), "b": floats(2, 3 * width)}
    if mask:
        inputs["mask"] = mask
    if past:
        inputs["past"] = [2, "N", HEADS, "P", width // HEADS]
    order = ["x", "w", "b", *(name if name in inputs else "" for name in ("mask", "past"))]
    outputs = ["y", "present"] if past else ["y"]
    node = helper.make_node("Attention", order, outputs, num_heads=HEADS, domain="com.microsoft", **attributes)
    saved(folder / "model.onnx", node, inputs, constants)
    return drawn(inputs, (dict(zip("NSP", sizes, strict=True)) for sizes in ((3, 5, 4), (1, 1, 0), (4, 4, 4))))


ATTENTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "as many heads as features": {"width": HEADS * 2},
    "masked": {"mask": ["N", "S"], "mask_filter_value": -50.0},
    "after a past": {"past": True, "unidirectional": 1},
    "of its own scale": {"scale": 0.3, "unidirectional": 1},
}


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_quantised_attention_agrees_with_onnx_runtime(bench, tmp_path, name, per_channel):
    feeds = attention(tmp_path, **ATTENTIONS[name])
    path = quantised(tmp_path, "QAttention", per_channel=per_channel)
    agrees(bench, path, feeds, tflite=False)


def test_quantised_attention_agrees_in_tflite(bench, tmp_path):
    feeds = attention(tmp_path, **ATTENTIONS["masked"])
    agrees(bench, quantised(tmp_path, "QAttention"), feeds, tflite=True)

"""Wordings of opsets 7 to 12: ONNX Runtime guarantees its answers from opset 7 on, so both back-ends read them."""

from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import defs, helper, numpy_helper

from transload.converters.onnx_graph.graph import read_model
from transload.converters.onnx_to_tf import lowerings
from transload.converters.onnx_to_tf.lower_model import lower
from transload.converters.onnx_to_torch import writers
from transload.converters.onnx_to_torch.generate_module import generate
from transload.converters.to_pytorch.pt2_from_onnx import load_module, write_module

BY_A_BODY = {("Scan", 8)}  # onnx_graph/batched_scan.py
RNG = np.random.default_rng(0)
IMAGE: list[Any] = ["batch", 4, 5, 5]


def wordings(opset):
    """The wordings that are in force in an opset."""
    names = {schema.name for schema in defs.get_all_schemas() if not schema.domain}
    in_force = [defs.get_schema(name, opset) for name in sorted(names) if defs.has(name, opset)]
    return {(schema.name, schema.since_version) for schema in in_force if not schema.deprecated}


@pytest.mark.parametrize("registry", [lowerings, writers])
def test_an_operator_that_is_known_is_known_in_each_wording_since_opset_7(registry):
    former = set().union(*map(wordings, range(7, 13))) - BY_A_BODY
    unread = {
        (name, version)
        for name, version in former
        if any(domain == "" and known == name for domain, known in registry.entries())
        and registry.find("", name, version) is None
    }
    assert former > {("BatchNormalization", 7), ("PRelu", 7), ("Max", 6)}
    assert not unread


def place_wise():
    return [np.abs(RNG.standard_normal((4, 5, 5))).astype(np.float32) + 0.5 for _ in range(4)]


def channel_wise():
    return [np.abs(RNG.standard_normal(4)).astype(np.float32) + 0.5 for _ in range(4)]


CASES: dict[str, tuple[str, dict[str, Any], list[Any], int]] = {
    "batch normalisation": ("BatchNormalization", {"epsilon": 1e-3, "momentum": 0.8}, channel_wise(), 1),
    "batch normalisation of each place": ("BatchNormalization", {"spatial": 0}, place_wise(), 1),
    "prelu": ("PRelu", {}, [np.array([0.2, 0.5, -1.0, 2.0], np.float32).reshape(4, 1, 1)], 1),
    "max of three": ("Max", {}, [], 3),
    "min of one": ("Min", {}, [], 1),
    "sum of two": ("Sum", {}, [], 2),
    "mean of three": ("Mean", {}, [], 3),
}


@pytest.mark.parametrize("name", CASES)
def test_former_wordings_answer_as_onnx_runtime(name, tmp_path):
    """The weights are listed as inputs, too, as files of IR 3 have to."""
    import onnxruntime
    import tensorflow as tf

    op_type, attributes, weights, count = CASES[name]
    names = [f"x{at}" for at in range(count)]
    held = [numpy_helper.from_array(array, f"w{at}") for at, array in enumerate(weights)]
    node = helper.make_node(op_type, [*names, *(tensor.name for tensor in held)], ["y"], **attributes)
    inputs = [helper.make_tensor_value_info(each, 1, IMAGE) for each in names]
    inputs += [helper.make_tensor_value_info(tensor.name, 1, tensor.dims) for tensor in held]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, IMAGE)], held)
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 7)], ir_version=3), path)

    feeds = {each: RNG.standard_normal((3, 4, 5, 5)).astype(np.float32) for each in names}
    (expected,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)
    lowered = lower(path).module.serve(*[tf.constant(feeds[each]) for each in names])["y"]
    np.testing.assert_allclose(lowered.numpy(), expected, rtol=1e-5, atol=1e-6)
    tensors = [torch.from_numpy(feeds[each]) for each in names]
    write_module(generate(read_model(path), tensors), tmp_path)
    np.testing.assert_allclose(load_module(tmp_path)(*tensors).detach().numpy(), expected, rtol=1e-5, atol=1e-6)

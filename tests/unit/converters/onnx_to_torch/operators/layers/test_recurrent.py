"""Recurrent layers: by PyTorch's own where it can, and with a number of steps that only the call knows."""

import numpy as np
import onnx
import pytest
import torch
from onnx import helper

from ...conftest import close, numbers

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, WIDTH, HIDDEN = 6, 3, 4, 5


def layer(op_type, directions, **attributes):
    """A node, what it is fed, and its weights."""
    count = GATES[op_type]
    names = {1: "forward", 2: "bidirectional"}
    held = {
        "w": numbers(directions, count * HIDDEN, WIDTH), "r": numbers(directions, count * HIDDEN, HIDDEN),
        "b": numbers(directions, 2 * count * HIDDEN),
    }  # fmt: skip
    outputs = ["y", "h", "c"][: 3 if op_type == "LSTM" else 2]
    attributes = {"direction": names[directions], "hidden_size": HIDDEN, **attributes}
    return helper.make_node(op_type, ["x", "w", "r", "b"], outputs, **attributes), held


def own(op_type, held, x, late=True):
    """PyTorch's layer of the same weights, written from the specification's order of gates."""
    directions = held["w"].shape[0]
    order = {"RNN": [0], "GRU": [1, 0, 2], "LSTM": [0, 2, 3, 1]}[op_type]
    made = getattr(torch.nn, op_type)(WIDTH, HIDDEN, bidirectional=directions == 2)
    flat = []
    for at in range(directions):
        for part in (held["w"][at], held["r"][at], *torch.from_numpy(held["b"][at]).chunk(2)):
            rows = torch.as_tensor(part).chunk(len(order))
            flat.append(torch.cat([rows[gate] for gate in order]))
    with torch.no_grad():
        for parameter, value in zip(made.parameters(), flat, strict=True):
            parameter.copy_(value)
        y, state = made(torch.from_numpy(x))
    states = list(state) if isinstance(state, tuple) else [state]
    y = y.reshape(*y.shape[:2], directions, HIDDEN).transpose(1, 2)
    return [each.numpy() for each in (y, *states)]


@pytest.mark.parametrize("directions", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("op_type", GATES)
def test_a_layer_is_pytorchs(bench, op_type, directions):
    more = {"linear_before_reset": 1} if op_type == "GRU" else {}
    node, held = layer(op_type, directions, **more)
    x = numbers(STEPS, BATCH, WIDTH)
    path = bench.model([node], {"x": x}, list(node.output), constants=held, dynamic=(1,))
    bench.same(path, {"x": x}, dynamic=(1,), want=own(op_type, held, x))


@pytest.mark.parametrize("op_type", ["GRU", "LSTM"])
def test_the_number_of_steps_may_be_dynamic(bench, op_type):
    more = {"linear_before_reset": 1} if op_type == "GRU" else {}
    node, held = layer(op_type, 2, **more)
    x = numbers(STEPS, BATCH, WIDTH)
    path = bench.model([node], {"x": x}, list(node.output), constants=held, dynamic=(0, 1))
    module = bench.module(path, {"x": x})
    shapes = ({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},)
    with torch.no_grad():
        program = torch.export.export(module, (torch.from_numpy(x),), dynamic_shapes=shapes, strict=False).module()
    for steps, batch in ((1, 1), (9, 2)):
        other = numbers(steps, batch, WIDTH, seed=1)
        close(program(torch.from_numpy(other)), own(op_type, held, other))


@pytest.mark.slow
def test_lengths_and_peepholes_are_taken_where_the_number_of_steps_is_dynamic(bench):
    node, held = layer("LSTM", 2)
    node.input.extend(["lengths", "", "", "p"])
    held["p"] = numbers(2, 3 * HIDDEN)
    fed = {"x": numbers(STEPS, BATCH, WIDTH), "lengths": np.array([6, 2, 4], np.int32)}
    path = bench.model([node], fed, list(node.output), constants=held)
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "time"
    for each in model.graph.output:
        each.type.tensor_type.ClearField("shape")
    onnx.save(model, path)
    module, given = bench.module(path, fed), tuple(map(torch.from_numpy, fed.values()))
    shapes = ({0: torch.export.Dim.DYNAMIC}, None)
    with torch.no_grad():
        program = torch.export.export(module, given, dynamic_shapes=shapes, strict=False).module()
    made = program(*given)[0]
    x, lengths = given
    for sample, length in enumerate(lengths.tolist()):
        alone = module(x[:length, sample : sample + 1], lengths[sample : sample + 1])[0]
        close(made[:length, :, sample], [alone[:, :, 0].detach().numpy()])
        assert not made[length:, :, sample].any()


def test_a_gru_that_resets_before_the_product_is_not_pytorchs(bench):
    node, held = layer("GRU", 1)
    fed = {0: numbers(STEPS, BATCH, WIDTH)}
    del node
    bench.agrees("GRU", fed[0], constants={1: held["w"], 2: held["r"], 3: held["b"]}, outputs=2, free=(1,),
                 hidden_size=HIDDEN)  # fmt: skip

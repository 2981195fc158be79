"""Recurrent layers, unrolled (few steps) and looped (many)."""

import numpy as np
import pytest

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS = {"unrolled": 5, "looped": 20}


def weights(op_type, directions, width, hidden, seed=3):
    rng = np.random.default_rng(seed)
    gates = GATES[op_type]

    def made(*shape):
        return (rng.standard_normal(shape) * 0.4).astype(np.float32)

    return {
        "w": made(directions, gates * hidden, width),
        "r": made(directions, gates * hidden, hidden),
        "b": made(directions, 2 * gates * hidden),
    }


def layer(case, op_type, steps, directions=1, *, hidden=4, width=3, states=0, extra=(), outputs=2, **attributes):
    """A layer over x (steps, N, width); `states` initial states, and `extra` inputs by their places."""
    order = ["x", "w", "r", "b"]
    inputs = {"x": (steps, "N", width)}
    if states or extra:
        order.append("lengths" if "lengths" in extra else "")
    if "lengths" in extra:
        inputs["lengths"] = (("N",), lambda rng, shape: rng.integers(1, steps + 1, shape).astype(np.int32))
    for at in range(states):
        inputs[f"s{at}"] = (directions, "N", hidden)
        order.append(f"s{at}")
    direction = "bidirectional" if directions == 2 else attributes.pop("direction", "forward")
    attributes = {"hidden_size": hidden, "direction": direction, **attributes}
    return case(op_type, inputs, weights(op_type, directions, width, hidden), attributes, order=order, outputs=outputs)


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "both"])
def test_layers_in_every_direction(bench, case, op_type, direction, kind):
    turned = {} if direction == "both" else {"direction": direction}
    made = layer(
        case, op_type, STEPS[kind], 2 if direction == "both" else 1, outputs=3 if op_type == "LSTM" else 2, **turned
    )
    bench.agrees(made)


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("op_type", GATES)
def test_initial_states_and_lengths(bench, case, op_type, kind):
    states = 2 if op_type == "LSTM" else 1
    for directions in (1, 2):
        bench.agrees(
            layer(case, op_type, STEPS[kind], directions, states=states, extra=("lengths",), outputs=1 + states)
        )


@pytest.mark.parametrize("op_type", GATES)
def test_sizes_that_are_all_equal(bench, case, op_type):
    bench.agrees(layer(case, op_type, 5, hidden=5, width=5))


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("op_type", ["GRU"])
def test_the_reset_gate_may_come_after_the_product(bench, case, op_type, kind):
    bench.agrees(layer(case, op_type, STEPS[kind], states=1, linear_before_reset=1))


@pytest.mark.parametrize("op_type", ["RNN", "GRU"])
def test_values_are_clipped_before_an_activation(bench, case, op_type):
    bench.agrees(layer(case, op_type, 5, clip=0.1))


def test_an_lstm_clips_the_cell_too_before_its_activation(bench, case):
    """The specification: clip "is applied to the input of activations". ONNX Runtime leaves the last one out."""
    import tensorflow as tf

    made = layer(case, "LSTM", 5, clip=0.1, outputs=3)
    w, r, b = (made.constants[name][0] for name in "wrb")
    x = np.random.default_rng(0).standard_normal((5, 2, 3)).astype(np.float32)
    h = c = np.zeros((2, 4), np.float32)
    for step in x:
        i, o, f, g = np.split(np.clip(step @ w.T + h @ r.T + b[:16] + b[16:], -0.1, 0.1), 4, -1)
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(np.clip(c, -0.1, 0.1)) / (1 + np.exp(-o))
    got = bench.lowered(made).module.serve(tf.constant(x))
    np.testing.assert_allclose(got["y1"].numpy()[0], h, atol=1e-6)
    np.testing.assert_allclose(got["y2"].numpy()[0], c, atol=1e-6)


@pytest.mark.parametrize(
    "activations",
    [
        {"activations": ["Relu"]},
        {"activations": ["LeakyRelu"], "activation_alpha": [0.3]},
        {"activations": ["HardSigmoid"], "activation_alpha": [0.3], "activation_beta": [0.4]},
        {"activations": ["ScaledTanh"], "activation_alpha": [0.7], "activation_beta": [1.3]},
        {"activations": ["Affine"], "activation_alpha": [0.7], "activation_beta": [0.1]},
        {"activations": ["Elu"], "activation_alpha": [0.7]},
        {"activations": ["Softsign"]},
        {"activations": ["Softplus"]},
    ],
    ids=lambda given: given["activations"][0],
)
def test_every_activation(bench, case, activations):
    bench.agrees(layer(case, "RNN", 5, **activations))


def test_peepholes(bench, case):
    made = layer(case, "LSTM", 5, states=2, outputs=3)
    peepholes = np.random.default_rng(5).standard_normal((1, 12)).astype(np.float32)
    bench.agrees(
        case(
            "LSTM",
            made.inputs,
            {**made.constants, "p": peepholes},
            made.attributes,
            order=[*made.order, "p"],
            outputs=3,
        )
    )


def test_the_batch_may_come_first(bench, case):
    import tensorflow as tf

    made = layer(case, "GRU", 5)
    first = case(
        "GRU", {"x": ("N", 5, 3)}, made.constants, {**made.attributes, "layout": 1}, order=made.order, outputs=2
    )
    x = np.random.default_rng(0).standard_normal((5, 2, 3)).astype(np.float32)
    want = bench.lowered(made).module.serve(tf.constant(x))
    got = bench.lowered(first).module.serve(tf.constant(x.transpose(1, 0, 2)))
    np.testing.assert_allclose(got["y0"].numpy(), want["y0"].numpy().transpose(2, 0, 1, 3), atol=1e-6)
    np.testing.assert_allclose(got["y1"].numpy(), want["y1"].numpy().transpose(1, 0, 2), atol=1e-6)


def test_only_states_without_outputs(bench, case):
    bench.agrees(layer(case, "GRU", 20, outputs=["", "last"]))

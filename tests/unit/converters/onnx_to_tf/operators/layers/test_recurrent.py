"""Recurrent layers, unrolled (few steps) and looped (many)."""

from typing import Any

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
    inputs: dict[str, Any] = {"x": (steps, "N", width)}
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


def whole(op_type, steps, directions, *, lengths=False, layout=0):
    """A model in onnx's text form, whose steps may have a name instead of a number; weights are inputs too."""
    gates, states = GATES[op_type], 2 if op_type == "LSTM" else 1
    order, first = (("N", steps), f"N,{directions}") if layout else ((steps, "N"), f"{directions},N")
    inputs = [
        f"float[{order[0]},{order[1]},3] x",
        f"float[{directions},{gates * 4},3] w", f"float[{directions},{gates * 4},4] r",
        f"float[{directions},{gates * 8}] b", *(["int32[N] lengths"] if lengths else []),
        *(f"float[{first},4] s{at}" for at in range(states)),
    ]  # fmt: skip
    names = ["y", "h", "c"][: 1 + states]
    direction = "bidirectional" if directions == 2 else "reverse"
    attributes = f'hidden_size = 4, direction = "{direction}", layout = {layout}'
    given = ["x", "w", "r", "b", "lengths" if lengths else "", *(f"s{at}" for at in range(states))]
    return f"""<ir_version: 10, opset_import: ["" : 20]>
    g ({", ".join(inputs)}) => ({", ".join(f"float[] {name}" for name in names)}) {{
      {", ".join(names)} = {op_type} <{attributes}> ({", ".join(given)}) }}"""


def whole_feeds(op_type, steps, directions, batch, *, lengths=False):
    rng = np.random.default_rng(batch)
    shapes = {name: array.shape for name, array in weights(op_type, directions, 3, 4).items()}
    shapes |= {
        "x": (steps, batch, 3),
        **{f"s{at}": (directions, batch, 4) for at in range(2 if op_type == "LSTM" else 1)},
    }
    made = {name: (rng.standard_normal(shape) * 0.4).astype(np.float32) for name, shape in shapes.items()}
    return {**made, **({"lengths": rng.integers(1, steps + 1, batch).astype(np.int32)} if lengths else {})}


@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("op_type", GATES)
def test_steps_batch_and_weights_may_all_be_known_only_when_the_model_runs(bench, op_type, directions, lengths):
    sizes = [(2, 3), (4, 4), (23, 2)]
    given = [whole_feeds(op_type, steps, directions, batch, lengths=lengths) for steps, batch in sizes]
    bench.model_agrees(whole(op_type, "T", directions, lengths=lengths), *given, tflite=directions == 2)


@pytest.mark.parametrize("steps", [5, "T"])
@pytest.mark.parametrize("op_type", GATES)
def test_batch_first_with_initial_states_and_lengths_equals_time_first_transposed(bench, op_type, steps):
    """ONNX Runtime does not know the layout."""
    import onnx
    from onnx import parser

    from transload.converters.onnx_to_tf.lower_model import lower

    feeds = whole_feeds(op_type, 5, 2, 3, lengths=True)
    turned = {name: a.swapaxes(0, 1) if name[0] in "xs" else a for name, a in feeds.items()}
    answers = []
    for layout, given in ((0, feeds), (1, turned)):
        path = bench.folder / "model.onnx"
        onnx.save(parser.parse_model(whole(op_type, steps, 2, lengths=True, layout=layout)), path)
        answers.append(bench.in_tensorflow(lower(path))(given))
    first, second = answers
    np.testing.assert_allclose(second["y"], first["y"].transpose(2, 0, 1, 3), atol=1e-6)
    for name in sorted(set(first) - {"y"}):
        np.testing.assert_allclose(second[name], first[name].swapaxes(0, 1), atol=1e-6)


@pytest.mark.parametrize("kind", STEPS)
def test_an_lstm_with_coupled_input_and_forget_gates(bench, case, kind):
    bench.agrees(layer(case, "LSTM", STEPS[kind], states=2, outputs=3, input_forget=1))


def test_an_activation_for_each_gate_and_direction(bench, case):
    given = {
        "activations": ["HardSigmoid", "LeakyRelu", "Sigmoid", "Elu"],
        "activation_alpha": [0.25, 0.3, 0.7], "activation_beta": [0.4],
    }  # fmt: skip
    bench.agrees(layer(case, "GRU", 5, 2, **given))


def test_numbers_that_no_activation_takes_are_refused(bench, case):
    """They may be meant by position, and then the others would have been given wrong ones."""
    from transload.models.errors import Refused

    given = {"activations": ["Sigmoid", "LeakyRelu"], "activation_alpha": [0.0, 0.3]}
    with pytest.raises(Refused, match="its activations Sigmoid, LeakyRelu do not take all of activation_alpha"):
        bench.lowered(layer(case, "GRU", 5, **given))


TFLITE: dict[str, tuple[str, dict[str, Any]]] = {
    "gru": ("GRU", {"linear_before_reset": 1}),
    "affine": ("RNN", {"activations": ["Affine"], "activation_alpha": [0.7], "activation_beta": [0.1]}),
    "softplus and softsign": ("GRU", {"activations": ["Softplus", "Softsign"]}),
    "elu and relus": ("LSTM", {"activations": ["Elu", "LeakyRelu", "Relu"], "outputs": 3}),
    "hard sigmoid, scaled tanh, thresholded relu": (
        "LSTM",
        {
            "activations": ["HardSigmoid", "ScaledTanh", "ThresholdedRelu"],
            "outputs": 3,
            "activation_alpha": [0.3, 0.7, 0.1],
            "activation_beta": [0.4, 1.3],
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", TFLITE)
def test_tflite_has_every_activation(bench, case, kind):
    op_type, given = TFLITE[kind]
    bench.agrees_in_tflite(layer(case, op_type, 5, **given))


@pytest.mark.parametrize("op_type", GATES)
def test_tflite_takes_long_layers_in_both_directions(bench, case, op_type):
    states = 2 if op_type == "LSTM" else 1
    bench.agrees_in_tflite(layer(case, op_type, 20, 2, states=states, extra=("lengths",), outputs=1 + states))

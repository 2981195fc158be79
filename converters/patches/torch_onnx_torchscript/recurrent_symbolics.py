"""Recurrent layers for torch's TorchScript exporter.

It refuses LSTMs with projections, and loses packed sequences: here these are padded rows, and layers take the lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ....models.errors import Refused
from .. import private_torch
from ..ledger import SYMBOLICS, symbolics
from ..torch_shared.formulas import INT32, INT64
from ..torch_shared.traced_graph import TracedGraph, TracedValue, constant, helper

_KINDS = ("gru", "rnn_tanh", "rnn_relu")
_SIZES = ("onnx::ReduceSum", "onnx::Cast", "onnx::Less")  # the nodes from a packed sequence's sizes to its lengths
_WORST_CONDITION = 1e4  # of a projection that a state is led back through: float32 then keeps three digits of it


def _layers(name: str) -> Callable[..., Any]:
    """Return the exporter's own symbolic of GRU or RNN, given the lengths of a packed sequence."""
    return lambda g, *arguments: getattr(private_torch.symbolic_opset9, name)(g, *_with_lengths(arguments))


def _with_lengths(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a layer's arguments with a packed sequence's lengths (ONNX's sequence_lens) in the place of its sizes."""
    if not helper._is_tensor_list(arguments[3]):
        return arguments
    return (arguments[0], _lengths_of(arguments[1]), *arguments[2:])


def _lstm(g: TracedGraph, *arguments: Any) -> Any:
    """Write an LSTM with proj_size as one without; any other is the exporter's own.

    Its output P(o tanh(c)) goes back into it: R P(o tanh(c)). So it is an LSTM with the recurrent weights R P, followed
    by P. Formula: torch.nn.LSTM.
    """
    packed = int(helper._is_tensor_list(arguments[3]))
    weights, *numbers = arguments[2 + packed : 8 + packed]
    has_biases, layers, _, _, bidirectional = (helper._get_const(number, "f", "lstm") for number in numbers)
    all_weights = helper._unpack_list(weights)
    directions, count = 1 + int(bidirectional), 5 if has_biases else 3
    if len(all_weights) != layers * directions * count:
        return private_torch.symbolic_opset9.lstm(g, *_with_lengths(arguments))
    parts = [_Direction(g, all_weights[at : at + count]) for at in range(0, len(all_weights), count)]
    layer_parts = [parts[at : at + directions] for at in range(0, len(parts), directions)]
    batch_first = not packed and helper._get_const(arguments[8], "i", "lstm")
    lengths, states = _lengths_of(arguments[1]) if packed else None, helper._unpack_list(arguments[1 + packed])
    x = _turned(g, arguments[0]) if batch_first else arguments[0]
    rows, lasts, cells = _projected(g, x, states, layer_parts, lengths)
    return _turned(g, rows) if batch_first else rows, lasts, cells


class _Direction:
    """One direction of a layer of an LSTM with projection, rewritten as one without."""

    def __init__(self, g: TracedGraph, weights: Sequence[TracedValue]) -> None:
        inward, back, *biases, self._projection = weights
        self._g = g
        rows, self.hidden = inward.type().sizes()[0], self._projection.type().sizes()[1]
        recurrent = g.op("MatMul", back, self._projection)
        recurrent.setType(back.type().with_sizes([rows, self.hidden]))
        self.weights = [inward, recurrent, *biases]

    def onward(self, hidden: TracedValue) -> TracedValue:
        """Write the projection of (..., hidden) to (..., proj)."""
        return self._g.op("MatMul", hidden, self._g.op("Transpose", self._projection, perm_i=[1, 0]))

    def backward(self, state: TracedValue) -> TracedValue:
        """Write a state (..., hidden) whose projection is the state (..., proj)."""
        import torch

        node = self._projection.node()
        if node.kind() != "onnx::Constant":
            _refuse("that begins with a state of the model's")
        projection = node.t("value").double()
        if torch.linalg.cond(projection) > _WORST_CONDITION:
            _refuse("that begins with a state, and whose projection hardly differs between some of them")
        inverse = torch.linalg.pinv(projection).T.contiguous().to(node.t("value").dtype)
        return self._g.op("MatMul", state, self._g.op("Constant", value_t=inverse))


def _projected(
    g: TracedGraph, rows: TracedValue, states: Sequence[TracedValue], layers: Sequence[Sequence[_Direction]],
    lengths: TracedValue | None,
) -> tuple[TracedValue, TracedValue, TracedValue]:  # fmt: skip
    """Write the layers one by one, with a projection after each.

    `rows` are those of all steps, (T, B, width), of which each sample has its `lengths`. Each layer and direction
    begins with a state of the first of `states`, (states, B, proj), and of the second, (states, B, hidden).
    """
    first, cells = states

    def cut(value: TracedValue, axis: int, start: int, length: int = 1) -> Any:
        return helper._slice_helper(g, value, axes=[axis], starts=[start], ends=[start + length])

    from_nothing = _is_zero(first) and _is_zero(cells)
    lasts, last_cells = [], []
    for at, here in enumerate(layers):
        ways = len(here)
        start = cell = cut(cells, 0, at * ways, ways)
        if not from_nothing:
            start = _joined(g, [part.backward(cut(first, 0, at * ways + way)) for way, part in enumerate(here)], 0)
        weights = [weight for part in here for weight in part.weights]
        has_biases, width = len(here[0].weights) == 4, here[0].hidden
        outputs, last, cell = private_torch.symbolic_opset9._generic_rnn(
            g, "LSTM", rows, [start, cell], weights, has_biases, 1, 0.0, False, ways == 2, None, lengths
        )
        rows = _joined(g, [part.onward(cut(outputs, 2, way * width, width)) for way, part in enumerate(here)], 2)
        lasts += [part.onward(cut(last, 0, way)) for way, part in enumerate(here)]
        last_cells.append(cell)
    return rows, _joined(g, lasts, 0), _joined(g, last_cells, 0)


def _turned(g: TracedGraph, rows: TracedValue) -> TracedValue:
    return g.op("Transpose", rows, perm_i=[1, 0, 2])


def _joined(g: TracedGraph, values: Sequence[TracedValue], axis: int) -> TracedValue:
    return values[0] if len(values) == 1 else g.op("Concat", *values, axis_i=axis)


def _is_zero(state: TracedValue) -> bool:
    node = state.node()
    return bool(node.kind() == "onnx::ConstantOfShape" and not node.t("value").any())


def _refuse(kind: str) -> NoReturn:
    raise Refused(f"torch's older exporter has no ONNX of an LSTM {kind} with proj_size", fix=_ELSE)


_ELSE = "leave proj_size out, or project what the LSTM gives by a Linear behind it"


def _packed(g: TracedGraph, data: TracedValue, lengths: TracedValue, batch_first: TracedValue) -> Any:
    """Write a packed sequence: its padded rows (T, B, width), and how many samples have each step, (longest,)."""
    rows = _turned(g, data) if helper._get_const(batch_first, "i", "batch_first") else g.op("Identity", data)
    lengths = g.op("Cast", lengths, to_i=INT32)
    longest = g.op("ReduceMax", lengths, keepdims_i=0)
    steps = g.op("Range", *(g.op("Cast", end, to_i=INT32) for end in (constant(g, 0), longest, constant(g, 1))))
    going = g.op("Less", g.op("Unsqueeze", steps, constant(g, [1])), lengths)
    return rows, helper._reducesum_helper(g, g.op("Cast", going, to_i=INT64), axes_i=[1], keepdims_i=0)


def _lengths_of(sizes: TracedValue) -> TracedValue:
    """Return the lengths that `_packed` computed the sizes of a packed sequence from."""
    problem = "torch's older exporter has no ONNX of a packed sequence whose batch_sizes are computed"
    for kind in _SIZES:
        if (node := sizes.node()).kind() != kind:
            raise Refused(problem, fix="pack it with pack_padded_sequence or pack_sequence")
        sizes = node.inputsAt(int(kind == "onnx::Less"))
    return sizes


def _unpacked(  # noqa: PLR0917  (the operator's own arguments)
    g: TracedGraph,
    data: TracedValue,
    sizes: TracedValue,
    batch_first: TracedValue,
    padding: TracedValue,
    total: TracedValue,
) -> Any:
    """Write the rows of a packed sequence, (T, B, width) or (B, T, width), and their lengths.

    The rows are as long as `total`, by default the longest. A computed total above the axis that was packed is taken
    for that: the later check of answers sees the other shape.
    """
    rows, lengths = data, g.op("Cast", _lengths_of(sizes), to_i=INT64)
    value = helper._get_const(padding, "t", "padding_value")
    if value:
        rows = _filled(g, rows, lengths, value)
    most = helper._maybe_get_const(total, "i")
    if isinstance(most, int):
        rows = _pad_to_length(g, rows, most, value)
    else:
        rows = _cut(g, rows, g.op("Reshape", total, constant(g, [1])))
    if helper._get_const(batch_first, "i", "batch_first"):
        rows = _turned(g, rows)
    return rows, lengths


def _filled(g: TracedGraph, rows: TracedValue, lengths: TracedValue, value: object) -> TracedValue:
    """Write a value where a row has ended."""
    unit, zero = constant(g, 1), constant(g, 0)
    steps = g.op("Range", zero, g.op("Squeeze", _length(g, rows)), unit)
    ended = g.op("Not", g.op("Less", g.op("Unsqueeze", steps, constant(g, [1])), lengths))
    filling = g.op("CastLike", g.op("Constant", value_t=value), rows)
    return g.op("Where", g.op("Unsqueeze", ended, constant(g, [2])), filling, rows)


def _pad_to_length(g: TracedGraph, rows: TracedValue, length: int, value: object) -> TracedValue:
    missing = g.op("Max", g.op("Sub", constant(g, [length]), _length(g, rows)), constant(g, [0]))
    pads = g.op("Concat", constant(g, [0, 0, 0]), missing, constant(g, [0, 0]), axis_i=0)
    filling = g.op("CastLike", g.op("Constant", value_t=value), rows)
    return _cut(g, g.op("Pad", rows, pads, filling), constant(g, [length]))


def _cut(g: TracedGraph, rows: TracedValue, end: TracedValue) -> TracedValue:
    return g.op("Slice", rows, constant(g, [0]), end, constant(g, [0]))


def _length(g: TracedGraph, rows: TracedValue) -> TracedValue:
    return g.op("Gather", g.op("Shape", rows), constant(g, [0]), axis_i=0)


PATCHES = (
    *symbolics(
        {"aten::lstm": _lstm},
        why="Refuses an LSTM with proj_size.",
        upstream=f"{SYMBOLICS} (lstm); torch/csrc/jit/passes/onnx",
    ),
    *symbolics(
        {"aten::_pack_padded_sequence": _packed, **{f"aten::{kind}": _layers(kind) for kind in _KINDS}},
        why="Moves packed sequences by a pass that fails where only the last state of one layer is used.",
        upstream="torch/csrc/jit/passes/onnx/peephole.cpp (pushPackingPastRnn)",
    ),
    *symbolics(
        {"aten::_pad_packed_sequence": _unpacked},
        why="Ignores padding_value and total_length.",
        upstream=f"{SYMBOLICS} (_pad_packed_sequence)",
    ),
)

"""What torch's dynamo exporter has no ONNX of, running along an axis: each element is made of those before it.

ONNX's Scan takes one step after the other, as PyTorch does, over any number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import private_torch
from ..torch_shared.formulas import log_of_two
from ..torch_shared.onnxscript_opset import Translations, ir, op, size_of

Step = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]  # states, elements -> states
FAR = 2**63 - 1  # behind the end of any axis


def running() -> Translations:
    """A part of the exporter's `custom_translation_table`."""
    import torch

    aten = torch.ops.aten
    return {
        aten.cumprod.default: _product,
        aten.cummax.default: _largest,
        aten.cummin.default: _smallest,
        aten.logcumsumexp.default: _log_of_sum,
    }


@dataclass(frozen=True, slots=True)
class _Track:
    """A tensor that is walked along, and what starts its state: a number that as an element changes nothing."""

    value: Any
    kind: Any  # an onnxscript.ir.DataType
    start: float


def _product(self: Any, dim: int, dtype: int = -1) -> Any:
    small = self.dtype.is_integer() or self.dtype == ir.DataType.BOOL  # PyTorch widens these
    kind = ir.DataType(dtype) if dtype != -1 else ir.DataType.INT64 if small else self.dtype

    def step(states: Sequence[Any], elements: Sequence[Any]) -> Sequence[Any]:
        return [op.Mul(states[0], elements[0])]

    return _scan(self, dim, [_Track(op.Cast(self, to=kind), kind, 1)], step)[0]


def _largest(self: Any, dim: int) -> Any:
    return _extreme(self, dim, largest=True)


def _smallest(self: Any, dim: int) -> Any:
    return _extreme(self, dim, largest=False)


def _extreme(self: Any, dim: int, *, largest: bool) -> Any:
    """Values and their places: of equal ones the last, and from a NaN on NaN."""
    kind = ir.DataType.INT32 if self.dtype == ir.DataType.BOOL else self.dtype
    better = op.GreaterOrEqual if largest else op.LessOrEqual

    def step(states: Sequence[Any], elements: Sequence[Any]) -> Sequence[Any]:
        (best, at), (value, place) = states, elements
        takes = better(value, best)
        if kind.is_floating_point():
            takes = op.Or(op.IsNaN(value), op.And(takes, op.Not(op.IsNaN(best))))
        return op.Where(takes, value, best), op.Where(takes, place, at)

    start = end_of(kind, lowest=largest)
    tracks = [_Track(op.Cast(self, to=kind), kind, start), _Track(_places(self, dim), ir.DataType.INT64, 0)]
    values, at = _scan(self, dim, tracks, step)
    return op.Cast(values, to=self.dtype), at


def _log_of_sum(self: Any, dim: int) -> Any:
    """Against the largest so far: the exporter's own is -inf for what lies far below the largest of all."""

    def step(states: Sequence[Any], elements: Sequence[Any]) -> Sequence[Any]:
        return [log_of_two(op, states[0], elements[0])]

    return _scan(self, dim, [_Track(self, self.dtype, end_of(self.dtype, lowest=True))], step)[0]


def _places(self: Any, dim: int) -> Any:
    """Of each element along an axis, in the tensor's shape."""
    if self.rank == 0:
        return op.Constant(value_int=0)
    at = dim % self.rank
    counted = op.Range(op.Constant(value_int=0), size_of(self, at), op.Constant(value_int=1))
    shape = op.Constant(value_ints=[-1 if axis == at else 1 for axis in range(self.rank)])
    return op.Expand(op.Reshape(counted, shape), op.Shape(self))


def end_of(kind: Any, *, lowest: bool) -> float:
    """The number that no other of this type lies beyond."""
    import numpy as np

    if kind.is_floating_point():
        return -np.inf if lowest else np.inf
    limits = np.iinfo(kind.numpy())
    return int(limits.min if lowest else limits.max)


def _scan(self: Any, dim: int, tracks: Sequence[_Track], step: Step) -> Sequence[Any]:
    """The states after each place along `dim`, one tensor of self's shape for each track.

    Before the first element goes one like the start, and what it makes is cut off: ONNX Runtime ends the process at a
    Scan of no steps, and at one along another axis than 0 of a tensor without elements.
    """
    starts = [op.Constant(value=ir.tensor(track.start, dtype=track.kind)) for track in tracks]
    if self.rank == 0:
        return step(starts, [track.value for track in tracks])
    order = [dim % self.rank, *(at for at in range(self.rank) if at != dim % self.rank)]
    rest = op.Shape(op.Transpose(self, perm=order), start=1)
    states = [op.Expand(start, rest) for start in starts]
    lying = [op.Transpose(track.value, perm=order) for track in tracks]
    rows = [op.Concat(op.Unsqueeze(state, [0]), value, axis=0) for state, value in zip(states, lying, strict=True)]
    body = _body(f"{self.name}.{dim}", [track.kind for track in tracks], step, self.rank - 1)
    made = private_torch.call_op(
        "Scan", *states, *rows, _num_outputs=2 * len(tracks), body=body, num_scan_inputs=len(tracks)
    )
    for value, track in zip(made, [*tracks, *tracks], strict=True):
        value.dtype = track.kind
    back = [order.index(at) for at in range(self.rank)]
    return [op.Transpose(op.Slice(value, [1], [FAR], [0]), perm=back) for value in made[len(tracks) :]]


def _body(name: str, kinds: Sequence[Any], step: Step, rank: int) -> Any:
    """The graph of one step, which gives the states on and out. Its values have names that the model has not."""
    from onnxscript import evaluator

    outer: Any = private_torch._core.current_tracer
    types = [ir.TensorType(kind) for kind in (*kinds, *kinds)]
    shape = ir.Shape([None] * rank)
    inputs = [ir.Value(name=f"{name}.given.{at}", type=kind, shape=shape) for at, kind in enumerate(types)]
    inner = private_torch._building.OpRecorder(outer.opset, {})
    with evaluator.default_as(inner):
        states = step(inputs[: len(kinds)], inputs[len(kinds) :])
        outputs = [*states, *(op.Identity(state) for state in states)]
    for at, value in enumerate(value for node in inner.nodes for value in node.outputs):
        value.name = f"{name}.made.{at}"
    return ir.Graph(inputs, outputs, nodes=inner.nodes, name=f"{name}.step")

"""Operators that run along an axis, each element made of those before it, for torch's dynamo exporter.

ONNX's Scan takes one step after the other, as PyTorch does, over any number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from .. import private_torch
from ..ledger import missing_translations, translations
from ..torch_shared.dynamo_graph import OnnxValue, constant_of, ir, op, size_of
from ..torch_shared.formulas import log_of_two

if TYPE_CHECKING:
    from onnxscript.ir import DataType, Graph

# States and elements -> states.
_Step: TypeAlias = Callable[[Sequence[OnnxValue], Sequence[OnnxValue]], Sequence[OnnxValue]]
FAR = 2**63 - 1  # behind the end of any axis


@dataclass(frozen=True, slots=True)
class _ScanTrack:
    """A tensor that is walked along, and the start of its state: a number that as an element changes nothing."""

    value: OnnxValue
    dtype: DataType
    start: float


def _cumprod(self: OnnxValue, dim: int, dtype: int = -1) -> OnnxValue:
    is_small = self.dtype.is_integer() or self.dtype == ir.DataType.BOOL  # PyTorch widens these
    result_dtype = ir.DataType(dtype) if dtype != -1 else ir.DataType.INT64 if is_small else self.dtype

    def step(states: Sequence[OnnxValue], elements: Sequence[OnnxValue]) -> Sequence[OnnxValue]:
        return [op.Mul(states[0], elements[0])]

    return _scan(self, dim, [_ScanTrack(op.Cast(self, to=result_dtype), result_dtype, 1)], step)[0]


def _cumulative_extreme(self: OnnxValue, dim: int, *, largest: bool) -> tuple[OnnxValue, OnnxValue]:
    """Write the extremes so far and their places: of equal ones the last, and from a NaN on NaN."""
    dtype = ir.DataType.INT32 if self.dtype == ir.DataType.BOOL else self.dtype
    is_better = op.GreaterOrEqual if largest else op.LessOrEqual

    def step(states: Sequence[OnnxValue], elements: Sequence[OnnxValue]) -> Sequence[OnnxValue]:
        (best, at), (value, place) = states, elements
        takes = is_better(value, best)
        if dtype.is_floating_point():
            takes = op.Or(op.IsNaN(value), op.And(takes, op.Not(op.IsNaN(best))))
        return op.Where(takes, value, best), op.Where(takes, place, at)

    start = limit_of(dtype, lowest=largest)
    places = _ScanTrack(_places(self, dim), ir.DataType.INT64, 0)
    values, at = _scan(self, dim, [_ScanTrack(op.Cast(self, to=dtype), dtype, start), places], step)
    return op.Cast(values, to=self.dtype), at


def _logcumsumexp(self: OnnxValue, dim: int) -> OnnxValue:
    """Write the logarithms of sums against the largest so far."""

    def step(states: Sequence[OnnxValue], elements: Sequence[OnnxValue]) -> Sequence[OnnxValue]:
        return [log_of_two(op, states[0], elements[0])]

    return _scan(self, dim, [_ScanTrack(self, self.dtype, limit_of(self.dtype, lowest=True))], step)[0]


def _places(self: OnnxValue, dim: int) -> OnnxValue:
    """Write each element's place along an axis, in the tensor's shape."""
    if self.rank == 0:
        return op.Constant(value_int=0)
    at = dim % self.rank
    places = op.Range(op.Constant(value_int=0), size_of(self, at), op.Constant(value_int=1))
    shape = op.Constant(value_ints=[-1 if axis == at else 1 for axis in range(self.rank)])
    return op.Expand(op.Reshape(places, shape), op.Shape(self))


def limit_of(dtype: DataType, *, lowest: bool) -> float:
    """Return the number that no other of this dtype lies beyond."""
    import numpy as np

    if dtype.is_floating_point():
        return -np.inf if lowest else np.inf
    limits = np.iinfo(dtype.numpy())
    return int(limits.min if lowest else limits.max)


def _scan(self: OnnxValue, dim: int, tracks: Sequence[_ScanTrack], step: _Step) -> Sequence[OnnxValue]:
    """Write the states after each place along `dim`, one tensor of self's shape for each track.

    The tracks get a first element like their start, and its result is cut off: ONNX Runtime ends the process at a Scan
    of no steps, and at one along another axis than 0 of a tensor without elements.
    """
    starts = [constant_of(track.start, track.dtype) for track in tracks]
    if self.rank == 0:
        return step(starts, [track.value for track in tracks])
    order = [dim % self.rank, *(at for at in range(self.rank) if at != dim % self.rank)]
    rest = op.Shape(op.Transpose(self, perm=order), start=1)
    states = [op.Expand(start, rest) for start in starts]
    columns = [op.Transpose(track.value, perm=order) for track in tracks]
    rows = [op.Concat(op.Unsqueeze(state, [0]), value, axis=0) for state, value in zip(states, columns, strict=True)]
    body = _step_graph(f"{self.name}.{dim}", [track.dtype for track in tracks], step, self.rank - 1)
    outputs: Sequence[OnnxValue] = private_torch.call_op(
        "Scan", *states, *rows, _num_outputs=2 * len(tracks), body=body, num_scan_inputs=len(tracks)
    )
    for value, track in zip(outputs, [*tracks, *tracks], strict=True):
        value.dtype = track.dtype
    back = [order.index(at) for at in range(self.rank)]
    return [op.Transpose(op.Slice(value, [1], [FAR], [0]), perm=back) for value in outputs[len(tracks) :]]


def _step_graph(name: str, dtypes: Sequence[DataType], step: _Step, rank: int) -> Graph:
    """Return the graph of one step, which gives the states on and out. Its values have names that the model has not."""
    from onnxscript import evaluator

    types = [ir.TensorType(dtype) for dtype in (*dtypes, *dtypes)]
    shape = ir.Shape([None] * rank)
    inputs = [ir.Value(name=f"{name}.given.{at}", type=kind, shape=shape) for at, kind in enumerate(types)]
    recorder = private_torch._building.OpRecorder(private_torch._core.current_tracer.opset, {})
    with evaluator.default_as(recorder):
        states = step(inputs[: len(dtypes)], inputs[len(dtypes) :])
        outputs = [*states, *(op.Identity(state) for state in states)]
    for at, value in enumerate(value for node in recorder.nodes for value in node.outputs):
        value.name = f"{name}.made.{at}"
    graph: Graph = ir.Graph(inputs, outputs, nodes=recorder.nodes, name=f"{name}.step")
    return graph


PATCHES = (
    *missing_translations(
        {
            "aten.cumprod.default": _cumprod,
            "aten.cummax.default": lambda self, dim: _cumulative_extreme(self, dim, largest=True),
            "aten.cummin.default": lambda self, dim: _cumulative_extreme(self, dim, largest=False),
        }
    ),
    *translations(
        {"aten.logcumsumexp.default": _logcumsumexp},
        why="torchlib's is -inf for what lies far below the largest of all",
        upstream="onnxscript/function_libs/torch_lib/ops/core.py: aten_logcumsumexp",
        until="torchlib subtracts the largest so far",
    ),
)

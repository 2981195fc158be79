"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ....onnx_graph.semantics.axis_lists import reduced_axes
from ...operator_context import Op
from ...size_arithmetic import reduced
from ...values import Value
from ...writers import FLOATS, ORDINARY, Written, writes

_SUMMABLE = FLOATS | {"int32", "int64"}
Over = Callable[[Value, str, bool], str]  # of the value, the axes as code, whether they stay


@dataclass(frozen=True)
class Reduction:
    """What an operator takes, what it does over axes, and to each element where nothing is reduced ("": nothing)."""

    dtypes: frozenset[str]
    over: Over
    alone: str = ""


def _sum(x: Value, code: str, axes: str, keep: bool) -> str:
    whole = "" if x.dtype in FLOATS else f", dtype=torch.{x.dtype}"
    return f"{code}.sum({axes}, {keep}{whole})" if keep or whole else f"{code}.sum({axes})"


def _norm(x: Value, axes: str, keep: bool) -> str:
    total = _sum(x, f"{x}.square()", axes, keep)
    return f"{total}.sqrt()" if x.dtype in FLOATS else f"{total}.float().sqrt().to(torch.{x.dtype})"


def _mean(x: Value, axes: str, keep: bool) -> str:
    if x.dtype in FLOATS:
        return f"{x}.mean({axes}, {keep})" if keep else f"{x}.mean({axes})"
    count = f"torch.ones_like({x})"
    return f'torch.div({_sum(x, f"{x}", axes, keep)}, {_sum(x, count, axes, keep)}, rounding_mode="trunc")'


def _log_sum_exp(x: Value, axes: str, keep: bool) -> str:
    if x.dtype in FLOATS:
        return f"torch.logsumexp({x}, {axes}, {keep})"
    return f"log_sum_exp_of_whole({x}, {axes}, {keep})"


def _extreme(x: Value, function: str, axes: str, keep: bool) -> str:
    if 0 in x.shape:  # of nothing it is what every number is larger, or smaller, than
        return f'extreme_or_bound({x}, {axes}, {keep}, "{function}")'
    return f"{x}.{function}({axes}, {keep})" if keep else f"{x}.{function}({axes})"


_REDUCTIONS = {
    "ReduceL1": Reduction(_SUMMABLE, lambda x, axes, keep: _sum(x, f"{x}.abs()", axes, keep), "{x}.abs()"),
    "ReduceL2": Reduction(_SUMMABLE, _norm, "{x}.abs()"),
    "ReduceLogSum": Reduction(FLOATS, lambda x, axes, keep: f"{_sum(x, f'{x}', axes, keep)}.log()", "{x}.log()"),
    "ReduceLogSumExp": Reduction(_SUMMABLE, _log_sum_exp),
    "ReduceMax": Reduction(ORDINARY, lambda x, axes, keep: _extreme(x, "amax", axes, keep)),
    "ReduceMean": Reduction(_SUMMABLE, _mean),
    "ReduceMin": Reduction(ORDINARY, lambda x, axes, keep: _extreme(x, "amin", axes, keep)),
    "ReduceProd": Reduction(_SUMMABLE, lambda x, axes, keep: f"product_over({x}, {axes}, {keep})"),
    "ReduceSum": Reduction(_SUMMABLE, lambda x, axes, keep: _sum(x, f"{x}", axes, keep)),
    "ReduceSumSquare": Reduction(
        _SUMMABLE, lambda x, axes, keep: _sum(x, f"{x}.square()", axes, keep), "{x}.square()"
    ),
}  # fmt: skip


def _written(name: str, reduction: Reduction) -> None:
    @writes(name, since=1, until=28, T=reduction.dtypes)
    def over_axes(op: Op) -> Written:
        named = reduced_axes(op)
        if named.noop:
            return reduction.alone.format(x=op.value(0)) if reduction.alone else op.value(0)
        return _reduced(op, named.axes, reduction, keep=named.keepdims)


for _name, _reduction in _REDUCTIONS.items():
    _written(_name, _reduction)


def _reduced(op: Op, places: Sequence[int], reduction: Reduction, *, keep: bool) -> Written:
    """Over the axes, which stay with size 1 unless keepdims is 0."""
    x = op.value(0)
    held = reduced(op, x, places, keep)
    if held is not None:
        return op.sized(held, x.dtype)
    if not places:  # a scalar
        return reduction.alone.format(x=x) if reduction.alone else x
    if np.prod([size or 1 for size in x.shape]) == 0 and op.node.op_type == "ReduceLogSumExp":
        op.refuse("it reduces an empty tensor", fix="leave the reduction out")
    return reduction.over(x, str(places[0]) if len(places) == 1 else str(tuple(places)), keep)

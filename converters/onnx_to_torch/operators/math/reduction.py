"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ....onnx_graph.semantics.axis_lists import reduced_axes
from ...size_arithmetic import reduced
from ...values import Expression
from ...writers import FLOATS, ORDINARY, CodegenContext, OutputCode, writes

_SUMMABLE = FLOATS | {"int32", "int64"}
ReductionWriter = Callable[[Expression, str, bool], str]  # (value, axes as code, keepdims) -> code


@dataclass(frozen=True)
class ReductionCode:
    """The code of an operator over axes."""

    dtypes: frozenset[str]  # that it takes
    over: ReductionWriter
    alone: str = ""  # for each element, where nothing is reduced; "" is the element itself


def _sum(x: Expression, code: str, axes: str, keep: bool) -> str:
    dtype = "" if x.dtype in FLOATS else f", dtype=torch.{x.dtype}"
    return f"{code}.sum({axes}, {keep}{dtype})" if keep or dtype else f"{code}.sum({axes})"


def _norm(x: Expression, axes: str, keep: bool) -> str:
    total = _sum(x, f"{x}.square()", axes, keep)
    return f"{total}.sqrt()" if x.dtype in FLOATS else f"{total}.float().sqrt().to(torch.{x.dtype})"


def _mean(x: Expression, axes: str, keep: bool) -> str:
    if x.dtype in FLOATS:
        return f"{x}.mean({axes}, {keep})" if keep else f"{x}.mean({axes})"
    count = f"torch.ones_like({x})"
    return f'torch.div({_sum(x, f"{x}", axes, keep)}, {_sum(x, count, axes, keep)}, rounding_mode="trunc")'


def _log_sum_exp(x: Expression, axes: str, keep: bool) -> str:
    if x.dtype in FLOATS:
        return f"torch.logsumexp({x}, {axes}, {keep})"
    return f"log_sum_exp_of_whole({x}, {axes}, {keep})"


def _extreme(x: Expression, function: str, axes: str, keep: bool) -> str:
    if 0 in x.shape:  # the extreme of no elements is the lowest or the highest number
        return f'extreme_or_bound({x}, {axes}, {keep}, "{function}")'
    return f"{x}.{function}({axes}, {keep})" if keep else f"{x}.{function}({axes})"


_REDUCTIONS = {
    "ReduceL1": ReductionCode(_SUMMABLE, lambda x, axes, keep: _sum(x, f"{x}.abs()", axes, keep), "{x}.abs()"),
    "ReduceL2": ReductionCode(_SUMMABLE, _norm, "{x}.abs()"),
    "ReduceLogSum": ReductionCode(FLOATS, lambda x, axes, keep: f"{_sum(x, f'{x}', axes, keep)}.log()", "{x}.log()"),
    "ReduceLogSumExp": ReductionCode(_SUMMABLE, _log_sum_exp),
    "ReduceMax": ReductionCode(ORDINARY, lambda x, axes, keep: _extreme(x, "amax", axes, keep)),
    "ReduceMean": ReductionCode(_SUMMABLE, _mean),
    "ReduceMin": ReductionCode(ORDINARY, lambda x, axes, keep: _extreme(x, "amin", axes, keep)),
    "ReduceProd": ReductionCode(_SUMMABLE, lambda x, axes, keep: f"product_over({x}, {axes}, {keep})"),
    "ReduceSum": ReductionCode(_SUMMABLE, lambda x, axes, keep: _sum(x, f"{x}", axes, keep)),
    "ReduceSumSquare": ReductionCode(
        _SUMMABLE, lambda x, axes, keep: _sum(x, f"{x}.square()", axes, keep), "{x}.square()"
    ),
}  # fmt: skip


def _write_reduction(name: str, reduction: ReductionCode) -> None:
    @writes(name, since=1, until=28, T=reduction.dtypes)
    def over_axes(op: CodegenContext) -> OutputCode:
        x, named = op.value(0), reduced_axes(op)
        held = None if named.noop else reduced(op, x, named.axes, named.keepdims)
        if held is not None:
            return op.sized(held, x.dtype)
        if not named.axes:
            return reduction.alone.format(x=x) if reduction.alone else x
        if np.prod([size or 1 for size in x.shape]) == 0 and name == "ReduceLogSumExp":
            op.refuse("it reduces an empty tensor", fix="leave the reduction out")
        axes = named.axes
        return reduction.over(x, str(axes[0]) if len(axes) == 1 else str(axes), named.keepdims)


for _name, _reduction in _REDUCTIONS.items():
    _write_reduction(_name, _reduction)

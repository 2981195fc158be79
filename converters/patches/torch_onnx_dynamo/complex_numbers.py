"""Complex numbers through torch's dynamo exporter: what it lacks is written here, or told with the model's line.

It holds them as pairs, (..., 2): the real parts and the imaginary ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ....models.errors import Refused
from ...lazy_import import LazyLibrary
from ...minimal_repro.onnx_pieces import line_in
from ..torch_shared.onnxscript_opset import op
from .rolls import rolled
from .untranslated import causes

if TYPE_CHECKING:
    import torch

_core: Any = LazyLibrary("onnxscript.function_libs.torch_lib.ops", "core")
_SAID = re.compile(r"OpOverload\(op='([\w.]+)', overload='(\w+)'.*complex-valued", re.DOTALL)
_FIX = "compute that line with real numbers: the real and the imaginary part as two tensors, as cos and sin make them"


@cache
def mend_complexes() -> None:
    """Register what is written here for every later export of this process: the exporter's argument
    `custom_translation_table` is for real numbers alone."""
    import torch
    from torch.onnx._internal.exporter._torchlib import _torchlib_registry

    aten = torch.ops.aten
    own: dict[Any, Any] = {
        aten.alias.default: _itself,
        aten.copy.default: _copied,
        aten.cumsum.default: _running_sum,
        aten.einsum.default: _einsum,
        aten.exp.default: _exponential,
        aten.mul.Scalar: _times,
        aten.roll.default: _rolled,
        aten.slice_scatter.default: _with_slice,
        aten.unsqueeze.default: _unsqueeze,
        aten.where.self: _where,
        aten.zeros_like.default: _nothing_like,
    }
    for target, function in own.items():
        _torchlib_registry.onnx_impl(target, no_compile=True, complex=True)(function)


def _itself(self: Any) -> Any:
    return op.Identity(self)


def _parts(value: Any) -> tuple[Any, Any]:
    return op.Gather(value, 0, axis=-1), op.Gather(value, 1, axis=-1)


def _pair(real: Any, imaginary: Any) -> Any:
    return op.Concat(op.Unsqueeze(real, [-1]), op.Unsqueeze(imaginary, [-1]), axis=-1)


def _times(self: Any, other: complex) -> Any:
    (a, b), (c, d) = _parts(self), (op.CastLike(each, self) for each in (complex(other).real, complex(other).imag))
    return _pair(op.Sub(op.Mul(a, c), op.Mul(b, d)), op.Add(op.Mul(a, d), op.Mul(b, c)))


def _exponential(self: Any) -> Any:
    real, turn = _parts(self)
    return op.Mul(op.Unsqueeze(op.Exp(real), [-1]), _pair(op.Cos(turn), op.Sin(turn)))


def _einsum(equation: str, tensors: Sequence[Any], path: Sequence[int] | None = None) -> Any:  # noqa: ARG001  (how fast)
    """Of one tensor, or two."""
    if len(tensors) == 1:
        return _pair(*(op.Einsum(part, equation=equation) for part in _parts(tensors[0])))
    if len(tensors) > 2:
        raise NotImplementedError(equation)  # the exporter names the operator
    (a, b), (c, d) = map(_parts, tensors)
    both = [op.Einsum(*pair, equation=equation) for pair in ((a, c), (b, d), (a, d), (b, c))]
    return _pair(op.Sub(*both[:2]), op.Add(*both[2:]))


def _running_sum(self: Any, dim: int, dtype: int = -1) -> Any:  # noqa: ARG001  (of complex numbers they stay)
    return op.CumSum(self, op.Constant(value_int=_axis(dim)))


def _rolled(self: Any, shifts: Any, dims: Any = ()) -> Any:
    return rolled(self, shifts, list(map(_axis, dims)), [-1, 2])


def _unsqueeze(self: Any, dim: int) -> Any:
    return op.Unsqueeze(self, [_axis(dim)])


def _where(condition: Any, self: Any, other: Any) -> Any:
    return op.Where(op.Unsqueeze(condition, [-1]), self, other)


def _nothing_like(self: Any, dtype: int = -1, **_: Any) -> Any:
    if dtype is not None and dtype != -1:
        raise NotImplementedError(dtype)  # the exporter names the operator
    return op.Expand(op.CastLike(0.0, self), op.Shape(self))


def _copied(self: Any, src: Any, non_blocking: bool = False) -> Any:  # noqa: ARG001  (when, not what)
    return op.Expand(src, op.Shape(self))


def _with_slice(  # noqa: PLR0917  (the operator's own arguments)
    self: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Any:
    return _core.aten_slice_scatter(self, src, _axis(dim), start, end, step)


def _axis(dim: int) -> int:
    """Counted from the end there is one more behind it."""
    return dim - 1 if dim < 0 else dim


def complex_refused(error: BaseException | None, program: torch.export.ExportedProgram) -> Refused | None:
    """The refusal that an error of the exporter stands for; None where it is about something else."""
    found = next(filter(None, (_SAID.search(str(each)) for each in causes(error))), None)
    if found is None:
        return None
    line = _line(found[1], program.graph.nodes)
    where = f", at {line} or in what it calls" if line else ""  # it keeps the frames of forward alone
    return Refused(f"torch's exporter has no ONNX of {found[1]}.{found[2]} of complex numbers{where}", fix=_FIX)


def _line(operator: str, nodes: Any) -> str | None:
    """The model's line that the operator comes from; else the first that has complex numbers."""
    found = [node for node in nodes if any(map(_is_complex, (node, *node.all_input_nodes)))]
    meant = [node for node in found if str(node.target).startswith(f"{operator}.")]
    return next(filter(None, (line_in(node.meta.get("stack_trace") or "") for node in (*meant, *found))), None)


def _is_complex(node: Any) -> bool:
    value = node.meta.get("val")
    return bool(getattr(getattr(value, "dtype", None), "is_complex", False))

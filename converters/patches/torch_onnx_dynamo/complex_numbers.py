"""Complex numbers through torch's dynamo exporter: what it lacks is written here, or refused with the model's line.

It holds them as pairs, (..., 2): the real parts and the imaginary ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from ....models.errors import Refused
from ....models.source_lines import line_in
from .. import private_onnxscript, private_torch, torch_messages
from ..ledger import operator_named, translations
from ..torch_shared.dynamo_graph import OnnxValue, op
from .moved_elements import rolled
from .untranslated import causes

if TYPE_CHECKING:
    import torch

_FIX = "compute that line with real numbers: the real and the imaginary part as two tensors, as cos and sin make them"


@cache
def register_complex_translations() -> None:
    """Register the translations for good: the exporter's `custom_translation_table` is for real numbers alone."""
    for patch in PATCHES:
        operator = operator_named(patch.name.removesuffix(COMPLEX))
        private_torch._torchlib_registry.onnx_impl(operator, no_compile=True, complex=True)(patch.replacement)


COMPLEX = " (complex)"  # how the names of these records end


def _identity(self: OnnxValue) -> OnnxValue:
    return op.Identity(self)


def _parts(value: OnnxValue) -> tuple[OnnxValue, OnnxValue]:
    return op.Gather(value, 0, axis=-1), op.Gather(value, 1, axis=-1)


def _pair(real: OnnxValue, imaginary: OnnxValue) -> OnnxValue:
    return op.Concat(op.Unsqueeze(real, [-1]), op.Unsqueeze(imaginary, [-1]), axis=-1)


def _multiply(self: OnnxValue, other: complex) -> OnnxValue:
    (a, b), (c, d) = _parts(self), (op.CastLike(part, self) for part in (complex(other).real, complex(other).imag))
    return _pair(op.Sub(op.Mul(a, c), op.Mul(b, d)), op.Add(op.Mul(a, d), op.Mul(b, c)))


def _exp(self: OnnxValue) -> OnnxValue:
    real, angle = _parts(self)
    return op.Mul(op.Unsqueeze(op.Exp(real), [-1]), _pair(op.Cos(angle), op.Sin(angle)))


def _einsum(equation: str, tensors: Sequence[OnnxValue], path: Sequence[int] | None = None) -> OnnxValue:  # noqa: ARG001  (how fast)
    """Lower complex einsum; more than two operands are refused."""
    if len(tensors) == 1:
        return _pair(*(op.Einsum(part, equation=equation) for part in _parts(tensors[0])))
    if len(tensors) > 2:
        raise NotImplementedError(equation)  # the exporter names the operator
    (a, b), (c, d) = map(_parts, tensors)
    ac, bd, ad, bc = (op.Einsum(*pair, equation=equation) for pair in ((a, c), (b, d), (a, d), (b, c)))
    return _pair(op.Sub(ac, bd), op.Add(ad, bc))


def _zeros_like(self: OnnxValue, dtype: int = -1, **_: object) -> OnnxValue:
    if dtype is not None and dtype != -1:
        raise NotImplementedError(dtype)  # the exporter names the operator
    return op.Expand(op.CastLike(0.0, self), op.Shape(self))


def _axis(dim: int) -> int:
    """Return an axis counted from before the parts: one counted from the end has one more behind it."""
    return dim - 1 if dim < 0 else dim


def complex_refused(error: BaseException | None, program: torch.export.ExportedProgram) -> Refused | None:
    """Return the refusal that an error of the exporter stands for; None where it is about something else."""
    match = next(filter(None, (torch_messages.COMPLEX_OPERATOR.search(str(cause)) for cause in causes(error))), None)
    if match is None:
        return None
    line = _model_line(match[1], program.graph.nodes)
    where = f", at {line} or in what it calls" if line else ""  # torch keeps the frames of forward alone
    return Refused(f"torch's exporter has no ONNX of {match[1]}.{match[2]} of complex numbers{where}", fix=_FIX)


def _model_line(operator: str, nodes: Iterable[torch.fx.Node]) -> str | None:
    """Return the model's line that the operator comes from; else the first that has complex numbers."""
    complex_nodes = [node for node in nodes if any(map(_is_complex, (node, *node.all_input_nodes)))]
    calls = [node for node in complex_nodes if str(node.target).startswith(f"{operator}.")]
    lines = (line_in(node.meta.get("stack_trace") or "") for node in (*calls, *complex_nodes))
    return next(filter(None, lines), None)


def _is_complex(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    return bool(getattr(getattr(value, "dtype", None), "is_complex", False))


_TRANSLATIONS: Mapping[str, Callable[..., object]] = {
    "aten.alias.default": _identity,
    "aten.copy.default": lambda self, src, *_: op.Expand(src, op.Shape(self)),
    "aten.cumsum.default": lambda self, dim, **_: op.CumSum(self, op.Constant(value_int=_axis(dim))),
    "aten.einsum.default": _einsum,
    "aten.exp.default": _exp,
    "aten.mul.Scalar": _multiply,
    "aten.roll.default": lambda self, shifts, dims=(): rolled(self, shifts, list(map(_axis, dims)), [-1, 2]),
    "aten.slice_scatter.default": lambda self, src, dim=0, *places: private_onnxscript.core.aten_slice_scatter(
        self, src, _axis(dim), *places
    ),
    "aten.unsqueeze.default": lambda self, dim: op.Unsqueeze(self, [_axis(dim)]),
    "aten.where.self": lambda condition, self, other: op.Where(op.Unsqueeze(condition, [-1]), self, other),
    "aten.zeros_like.default": _zeros_like,
}
PATCHES = translations(
    {f"{name}{COMPLEX}": function for name, function in _TRANSLATIONS.items()},
    why="torchlib has no translation of it for complex numbers",
    upstream="onnxscript/function_libs/torch_lib/ops/core.py: the functions registered with complex=True",
    until="torchlib translates it for complex numbers",
)

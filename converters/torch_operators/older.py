"""What torch's older exporter lacks or has wrong, registered for every later export of this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .attention import mend_attention
from .floor import mend_floors
from .formulas import angle_of, log2_of_two, log_of_sigmoid, log_of_sum, log_of_two
from .fused import mend_fused
from .nearest import mend_nearest
from .places import mend_places
from .recurrent import mend_recurrent
from .traced import BOOL, INT64, Symbolics, Traced, constant, helper, register, scalar_of


def mend_older_exporter() -> None:
    """Numbers are divided as PyTorch does it, places counted from the end, attention that is fused written out and 0
    where it sees nothing, recurrent nets unpacked and with projections; logs of sums stay finite, angles have their
    quadrant, any and all count what is not 0; and of what pack_padded_sequence asks for, `lengths.cpu()` stays, and
    that it is a tensor is known."""
    mend_attention()
    mend_floors()
    mend_fused()
    mend_nearest()
    mend_places()
    mend_recurrent()
    symbolics: Symbolics = {
        "aten::all": _of_booleans("_all"),
        "aten::any": _of_booleans("_any"),
        "aten::cpu": _unmoved,
        "aten::__not_": _opposite,
        "aten::ceil": _rounded("Ceil"),
        "aten::floor": _rounded("Floor"),
        "aten::atan2": _by(angle_of),
        "aten::log_sigmoid": _by(log_of_sigmoid),
        "aten::logaddexp": _by(log_of_two),
        "aten::logaddexp2": _by(log2_of_two),
        "aten::logsumexp": _log_of_sum,
        "aten::softplus": _softplus,
        "prim::isinstance": _is_instance,
    }
    register(symbolics)


def _unmoved(_g: Any, self: Any) -> Any:
    return self


def _of_booleans(name: str) -> Callable[..., Any]:
    """The exporter's own asks whether the sum of all numbers, cut to whole ones, is above 0."""

    def translation(g: Any, self: Any, *more: Any) -> Any:
        from torch.onnx._internal.torchscript_exporter import symbolic_opset9

        return symbolic_opset9.__dict__[name](g, g.op("Cast", self, to_i=BOOL), *more)

    return translation


def _softplus(g: Any, self: Any, beta: Any, threshold: Any) -> Any:
    """The number itself above the threshold, which the exporter leaves out."""
    from torch.onnx._internal.torchscript_exporter import symbolic_opset9

    made, op = symbolic_opset9.softplus(g, self, beta, threshold), Traced(g)
    if helper._get_const(threshold, "f", "threshold") >= _FLAT:
        return made
    scaled = op.Mul(self, op.CastLike(beta, self))
    return op.Where(op.Greater(scaled, op.CastLike(threshold, self)), self, made)


_FLAT = 20  # times beta: from there on softplus is the number itself, to the last bit but one


def _by(formula: Callable[..., Any]) -> Callable[..., Any]:
    return lambda g, *values: formula(Traced(g), *values)


def _log_of_sum(g: Any, self: Any, dim: Any, keepdim: Any) -> Any:
    if helper._get_tensor_rank(self) == 0:
        return self
    axes = helper._get_const(dim, "is", "dim")
    made = log_of_sum(Traced(g), self, lambda name, value: _reduced(g, name, value, axes))
    if helper._get_const(keepdim, "i", "keepdim"):
        return made
    return g.op("Squeeze", made, constant(g, axes))


def _reduced(g: Any, name: str, value: Any, axes: Sequence[int]) -> Any:
    """The axes stay. Those of ReduceMax are an attribute before opset 18."""
    if name == "ReduceMax" and g.opset < _AXES_ARE_INPUTS:
        return g.op(name, value, axes_i=axes)
    return g.op(name, value, constant(g, axes))


_AXES_ARE_INPUTS = 18


def _is_instance(g: Any, value: Any, **_: Any) -> Any:
    """A constant: of a branch on it the exporter then takes one side."""
    fits = any(value.type().isSubtypeOf(kind) for kind in g.original_node.tys("types"))
    if not fits and value.type().kind() in _OPEN:
        return helper._unimplemented("isinstance", "of a value whose type shows as the model runs", value)
    return constant(g, fits)


_OPEN = ("AnyType", "OptionalType", "UnionType")


def _rounded(name: str) -> Callable[..., Any]:
    """`math.ceil` and `math.floor` of compiled code give whole numbers, which count the steps of a loop."""

    def translation(g: Any, value: Any) -> Any:
        made = g.op(name, value)
        whole = scalar_of(g.original_node.output()) == "Long"  # what was an int is a tensor of it by now
        return g.op("Cast", made, to_i=INT64) if whole else made

    return translation


def _opposite(g: Any, value: Any) -> Any:
    if value.node().kind() == "onnx::Constant":
        return constant(g, not value.node().t("value"))
    return g.op("Not", value)

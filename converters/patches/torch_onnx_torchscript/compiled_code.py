"""Compiled code for torch's older exporter: what it asks (isinstance, not), whole numbers (math.ceil, math.floor),
and the `lengths.cpu()` of pack_padded_sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..torch_shared.traced_symbolics import INT64, Symbolics, constant, helper, register, scalar_of


def mend_compiled() -> None:
    """Register the answers for every later export of this process."""
    symbolics: Symbolics = {
        "aten::cpu": _unmoved,
        "aten::__not_": _opposite,
        "aten::ceil": _rounded("Ceil"),
        "aten::floor": _rounded("Floor"),
        "prim::isinstance": _is_instance,
    }
    register(symbolics)


def _unmoved(_g: Any, self: Any) -> Any:
    return self


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

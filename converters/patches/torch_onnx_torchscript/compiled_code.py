"""Operators of compiled code for torch's TorchScript exporter.

These are isinstance, not, math.ceil and math.floor, and the `lengths.cpu()` of pack_padded_sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ledger import symbolics
from ..torch_shared.graph_types import TracedGraph, TracedValue
from ..torch_shared.traced_symbolics import INT64, constant, helper, scalar_of


def _unmoved(_g: TracedGraph, self: TracedValue) -> TracedValue:
    return self


def _is_instance(g: TracedGraph, value: TracedValue, **_: object) -> Any:
    """Write the answer as a constant: of a branch on it the exporter then takes one side."""
    fits = any(value.type().isSubtypeOf(kind) for kind in g.original_node.tys("types"))
    if not fits and value.type().kind() in _OPEN:
        return helper._unimplemented("isinstance", "of a value whose type shows as the model runs", value)
    return constant(g, fits)


_OPEN = ("AnyType", "OptionalType", "UnionType")


def _rounded(name: str) -> Callable[..., TracedValue]:
    """Return a symbolic for rounding: math.ceil and math.floor give integers, which count the steps of a loop."""

    def symbolic(g: TracedGraph, value: TracedValue) -> TracedValue:
        rounded = g.op(name, value)
        is_integer = scalar_of(g.original_node.output()) == "Long"  # an int of the code is a tensor by now
        return g.op("Cast", rounded, to_i=INT64) if is_integer else rounded

    return symbolic


def _opposite(g: TracedGraph, value: TracedValue) -> TracedValue:
    if value.node().kind() == "onnx::Constant":
        return constant(g, not value.node().t("value"))
    return g.op("Not", value)


PATCHES = symbolics(
    {
        "aten::cpu": _unmoved,
        "aten::__not_": _opposite,
        "aten::ceil": _rounded("Ceil"),
        "aten::floor": _rounded("Floor"),
        "prim::isinstance": _is_instance,
    },
    why="Has no symbolic of what compiled code asks, or gives floats where compiled code counts with integers.",
    upstream="torch/onnx/_internal/torchscript_exporter/symbolic_opset9.py",
    until="the TorchScript exporter is no longer used",
)

"""What torch's older exporter lacks or has wrong, registered for every later export of this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .attention import mend_attention
from .floor import mend_floors
from .fused import mend_fused
from .places import mend_places
from .recurrent import mend_recurrent
from .traced import INT64, OPSETS, scalar_of


def mend_older_exporter() -> None:
    """Whole numbers are divided as PyTorch does it, places counted from the end, attention that is fused written out
    and 0 where it sees nothing, recurrent nets unpacked and with projections; log_sigmoid stays finite; and of what
    pack_padded_sequence asks for, `lengths.cpu()` stays, and that it is a tensor is known."""
    import torch

    mend_attention()
    mend_floors()
    mend_fused()
    mend_places()
    mend_recurrent()
    exporter: Any = torch.onnx  # not all of it is in its types
    for opset in OPSETS:
        exporter.register_custom_op_symbolic("aten::cpu", _unmoved, opset)
        exporter.register_custom_op_symbolic("aten::__not_", _opposite, opset)
        exporter.register_custom_op_symbolic("aten::ceil", _rounded("Ceil"), opset)
        exporter.register_custom_op_symbolic("aten::floor", _rounded("Floor"), opset)
        exporter.register_custom_op_symbolic("aten::log_sigmoid", _log_of_sigmoid, opset)
        exporter.register_custom_op_symbolic("prim::isinstance", _is_instance, opset)


def _unmoved(_g: Any, self: Any) -> Any:
    return self


def _log_of_sigmoid(g: Any, self: Any) -> Any:
    """As numbers.py has it for the dynamo exporter."""
    return g.op("Neg", g.op("Softplus", g.op("Neg", self)))


def _is_instance(g: Any, value: Any, **_: Any) -> Any:
    """A constant: of a branch on it the exporter then takes one side."""
    from torch.onnx import symbolic_helper

    fits = any(value.type().isSubtypeOf(kind) for kind in g.original_node.tys("types"))
    if not fits and value.type().kind() in _OPEN:
        return symbolic_helper._unimplemented("isinstance", "of a value whose type shows as the model runs", value)
    return _constant(g, fits)


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
        return _constant(g, not value.node().t("value"))
    return g.op("Not", value)


def _constant(g: Any, value: bool) -> Any:
    import torch

    return g.op("Constant", value_t=torch.tensor(value))

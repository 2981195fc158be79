"""The larger and the smaller of integers of 64 bits, by both of torch's exporters: ONNX Runtime's own Max, Min, Clip,
Relu and Sign compare the lower halves of numbers from 2^31 to 2^32 - 1 as if they had a sign (1.31: `clamp(0, 2)` of
2^31 was 0). By Less they are right. Sizes, which are numbers without axes, keep the exporters' simple form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import private_onnxscript, private_torch
from .onnxscript_opset import Translations, ir, op
from .traced_symbolics import INT64, Symbolics, Traced, constant, helper, register, scalar_of


def larger(op: Any, one: Any, other: Any) -> Any:
    """Of two tensors of integers, element by element."""
    return op.Where(op.Less(one, other), other, one)


def smaller(op: Any, one: Any, other: Any) -> Any:
    """Of two tensors of integers, element by element."""
    return op.Where(op.Less(other, one), other, one)


def clamped(op: Any, value: Any, least: Any, most: Any) -> Any:
    """Between two bounds, either of which may be None. Where they are the wrong way round it is the upper one."""
    value = value if least is None else larger(op, value, least)
    return value if most is None else smaller(op, value, most)


def _sign(op: Any, value: Any, zero: Any) -> Any:
    above, below = (op.Cast(each, to=INT64) for each in (op.Less(zero, value), op.Less(value, zero)))
    return op.Sub(above, below)


def integers() -> Translations:
    """A part of the dynamo exporter's `custom_translation_table`."""
    import torch

    aten = torch.ops.aten
    return {
        aten.clamp.default: _clamp,
        aten.clamp_min.default: lambda self, min: _clamp(self, min, None),  # noqa: A006  (PyTorch's name)
        aten.clamp_max.default: lambda self, max: _clamp(self, None, max),  # noqa: A006
        aten.clamp_min.Tensor: _chosen(larger, private_onnxscript.core.aten_clamp_min_tensor),
        aten.clamp_max.Tensor: _chosen(smaller, private_onnxscript.core.aten_clamp_max_tensor),
        aten.maximum.default: _chosen(larger, private_onnxscript.core.aten_maximum),
        aten.minimum.default: _chosen(smaller, private_onnxscript.core.aten_minimum),
        aten.relu.default: _relu,
        aten.sign.default: lambda self: (
            _sign(op, self, _number(0)) if is_wide(self) else private_onnxscript.core.aten_sign(self)
        ),
    }


def is_wide(*values: Any) -> bool:
    """Whether these, of the dynamo exporter, are integers of 64 bits of which one at least has axes."""
    return all(each.dtype == ir.DataType.INT64 for each in values) and any(each.rank != 0 for each in values)


def _number(value: int) -> Any:
    return op.Constant(value=ir.tensor(value, dtype=ir.DataType.INT64))


def _clamp(self: Any, min: Any = None, max: Any = None) -> Any:  # noqa: A002  (PyTorch's names)
    if not is_wide(self) or isinstance(min, float) or isinstance(max, float):
        return private_onnxscript.core.aten_clamp(self, min, max)
    return clamped(op, self, *(_number(each) if isinstance(each, int) else each for each in (min, max)))


def _chosen(choose: Callable[..., Any], own: Any) -> Callable[[Any, Any], Any]:
    def translation(self: Any, other: Any) -> Any:
        return choose(op, self, other) if is_wide(self, other) else own(self, other)

    return translation


def _relu(self: Any) -> Any:
    return larger(op, self, _number(0)) if is_wide(self) else private_onnxscript.nn.aten_relu(self)


def mend_integers() -> None:
    """Register the right forms for every later export by the older exporter."""
    choices = {"max": larger, "maximum": larger, "min": smaller, "minimum": smaller}
    symbolics: Symbolics = {
        **{f"aten::{name}": _chosen_traced(name, choose) for name, choose in choices.items()},
        "aten::clamp": _clamp_traced,
        "aten::clamp_min": lambda g, self, least: _clamp_traced(g, self, least, None),
        "aten::clamp_max": lambda g, self, most: _clamp_traced(g, self, None, most),
        "aten::relu": _against_zero("relu", larger),
        "aten::sign": _against_zero("sign", _sign),
    }
    register(symbolics)


def _is_wide_traced(*values: Any) -> bool:
    """As `is_wide`; what the exporter knows no rank of has axes."""
    ranks = map(helper._get_tensor_rank, values)
    return all(scalar_of(each) == "Long" for each in values) and any(rank != 0 for rank in ranks)


def _chosen_traced(name: str, choose: Callable[..., Any]) -> Callable[..., Any]:
    """Of two tensors; of one, along an axis or not, by the exporter's own."""

    def translation(g: Any, self: Any, other: Any = None, keepdim: Any = None) -> Any:
        if keepdim is None and other is not None and _is_wide_traced(self, other):
            return choose(Traced(g), self, other)
        own = getattr(private_torch.symbolic_opset9, name)
        return own(g, self, other) if keepdim is None else own(g, self, other, keepdim)

    return translation


def _clamp_traced(g: Any, self: Any, least: Any, most: Any) -> Any:
    bounds = [None if helper._is_none(each) else each for each in (least, most)]
    if not _is_wide_traced(self) or any(each is not None and scalar_of(each) != "Long" for each in bounds):
        return private_torch.symbolic_opset11.clamp(g, self, least, most)
    return clamped(Traced(g), self, *(each if each is None else g.op("Cast", each, to_i=INT64) for each in bounds))


def _against_zero(name: str, formula: Callable[..., Any]) -> Callable[..., Any]:
    def translation(g: Any, self: Any) -> Any:
        if _is_wide_traced(self):
            return formula(Traced(g), self, constant(g, 0))
        return getattr(private_torch.symbolic_opset9, name)(g, self)

    return translation

"""Attention of which a query may see no key: PyTorch answers 0 there, whatever kind of mask says so.

Both of torch's exporters answer NaN where minus infinities say so. Where booleans do, the one makes the lowest number
of them, which ends as the mean of the values, and the other minus infinities, of which TFLite makes that too.

Formula: torch.nn.functional.scaled_dot_product_attention, and _safe_softmax in it.
"""

from __future__ import annotations

from typing import Any

from .. import private_onnxscript, private_torch
from .onnxscript_opset import Translations, ir, op
from .traced_symbolics import constant, helper, register


def attention() -> Translations:
    """A part of the dynamo exporter's `custom_translation_table`."""
    import torch

    aten = torch.ops.aten
    return {
        aten.scaled_dot_product_attention.default: _attend,
        aten._scaled_dot_product_flash_attention_for_cpu.default: _attend_fused,
    }


def mend_attention() -> None:
    """Register the same for every later export of the older exporter in this process."""
    register({"aten::scaled_dot_product_attention": _attend_traced})


def _attend(  # noqa: PLR0917  (the operator's own arguments)
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """(B, heads, L, features of the values) of (B, heads, L, E), (B, heads, S, E) and (B, heads, S, features)."""
    added = attn_mask
    if attn_mask is not None and attn_mask.dtype == ir.DataType.BOOL:
        added = op.Where(attn_mask, _number(0.0, query), _number(query.dtype.min, query))
        added.dtype = query.dtype
    attend = private_onnxscript.nn.aten_scaled_dot_product_attention
    made = attend(query, key, value, added, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    return _sighted(made, attn_mask, query)


def _attend_fused(  # noqa: PLR0917  (the operator's own arguments)
    query: Any,
    key: Any,
    value: Any,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    attn_mask: Any = None,
    scale: float | None = None,
) -> Any:
    """What of that is left in a program that was decomposed; its masks are floats."""
    attend = private_onnxscript.nn.aten__scaled_dot_product_flash_attention_for_cpu
    made, sums = attend(query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)
    return _sighted(made, attn_mask, query), sums


def _sighted(made: Any, mask: Any, like: Any) -> Any:
    """0 where a query sees no key."""
    if mask is None:
        return made
    is_seen = mask if mask.dtype == ir.DataType.BOOL else op.Not(op.Less(mask, _number(mask.dtype.min, mask)))
    count = op.ReduceSum(op.Cast(is_seen, to=ir.DataType.INT32), [-1], keepdims=True)
    return op.Where(op.Cast(count, to=ir.DataType.BOOL), made, _number(0.0, like))


def _number(value: float, like: Any) -> Any:
    return op.Constant(value=ir.tensor(value, dtype=like.dtype))


def _attend_traced(g: Any, query: Any, key: Any, value: Any, mask: Any = None, *settings: Any) -> Any:
    import torch

    attend: Any = private_torch.symbolic_opset14.scaled_dot_product_attention
    if mask is None or helper._is_none(mask):
        return attend(g, query, key, value, mask, *settings)
    kind = query.type().dtype()
    zero, lowest = (constant(g, each, kind) for each in (0.0, torch.finfo(kind).min))
    is_bool = mask.type().dtype() == torch.bool
    added = g.op("Where", mask, zero, lowest) if is_bool else mask
    is_seen = mask if is_bool else g.op("Not", g.op("Less", mask, lowest))
    count = g.op("ReduceSum", g.op("Cast", is_seen, to_i=_INT32), constant(g, [-1]), keepdims_i=1)
    return g.op("Where", g.op("Cast", count, to_i=_BOOL), attend(g, query, key, value, added, *settings), zero)


_INT32, _BOOL = 6, 9  # onnx.TensorProto's

"""Attention with queries that see no key: PyTorch answers 0 there, for boolean masks and for added ones.

Both of torch's exporters answer NaN where the mask is minus infinity. Of booleans the one makes the lowest number,
which ends as the mean of the values, and the other minus infinities, of which TFLite makes the mean as well.

Formula: torch.nn.functional.scaled_dot_product_attention, and _safe_softmax in it.
"""

from __future__ import annotations

from typing import Any

from .. import private_onnxscript, private_torch
from ..ledger import symbolics, translations
from .dynamo_graph import OnnxValue, constant_of, ir, op
from .formulas import BOOL, INT32
from .traced_graph import TracedGraph, TracedValue, constant, helper


def _attend(  # noqa: PLR0917  (the operator's own arguments)
    query: OnnxValue,
    key: OnnxValue,
    value: OnnxValue,
    attn_mask: OnnxValue | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> OnnxValue:
    """Write attention of (B, heads, L, E), (B, heads, S, E) and (B, heads, S, F): (B, heads, L, F)."""
    added = attn_mask
    if attn_mask is not None and attn_mask.dtype == ir.DataType.BOOL:
        added = op.Where(attn_mask, constant_of(0.0, query.dtype), constant_of(query.dtype.min, query.dtype))
        added.dtype = query.dtype
    attend = private_onnxscript.nn.aten_scaled_dot_product_attention
    attended = attend(query, key, value, added, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    return _zero_where_blind(attended, attn_mask, query)


def _attend_fused(  # noqa: PLR0917  (the operator's own arguments)
    query: OnnxValue,
    key: OnnxValue,
    value: OnnxValue,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    attn_mask: OnnxValue | None = None,
    scale: float | None = None,
) -> tuple[OnnxValue, object]:
    """Write the fused operator that a decomposed program holds; its masks are floats."""
    attend = private_onnxscript.nn.aten__scaled_dot_product_flash_attention_for_cpu
    attended, sums = attend(query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)
    return _zero_where_blind(attended, attn_mask, query), sums


def _zero_where_blind(attended: OnnxValue, mask: OnnxValue | None, like: OnnxValue) -> OnnxValue:
    """Write 0 where a query sees no key."""
    if mask is None:
        return attended
    is_seen = mask if mask.dtype == ir.DataType.BOOL else op.Not(op.Less(mask, constant_of(mask.dtype.min, mask.dtype)))
    count = op.ReduceSum(op.Cast(is_seen, to=ir.DataType.INT32), [-1], keepdims=True)
    return op.Where(op.Cast(count, to=ir.DataType.BOOL), attended, constant_of(0.0, like.dtype))


def _attend_traced(
    g: TracedGraph,
    query: TracedValue,
    key: TracedValue,
    value: TracedValue,
    mask: TracedValue | None = None,
    *settings: TracedValue,
) -> Any:
    import torch

    attend = private_torch.symbolic_opset14.scaled_dot_product_attention
    if mask is None or helper._is_none(mask):
        return attend(g, query, key, value, mask, *settings)
    dtype = query.type().dtype()
    zero, lowest = (constant(g, number, dtype) for number in (0.0, torch.finfo(dtype).min))
    is_bool = mask.type().dtype() == torch.bool
    added = g.op("Where", mask, zero, lowest) if is_bool else mask
    is_seen = mask if is_bool else g.op("Not", g.op("Less", mask, lowest))
    count = g.op("ReduceSum", g.op("Cast", is_seen, to_i=INT32), constant(g, [-1]), keepdims_i=1)
    return g.op("Where", g.op("Cast", count, to_i=BOOL), attend(g, query, key, value, added, *settings), zero)


_FLASH = "aten._scaled_dot_product_flash_attention_for_cpu.default"
PATCHES = (
    *translations(
        {"aten.scaled_dot_product_attention.default": _attend, _FLASH: _attend_fused},
        why="Answers NaN for a query that sees no key, where PyTorch answers 0.",
        upstream="onnxscript/function_libs/torch_lib/ops/nn.py (aten_scaled_dot_product_attention)",
        until="it answers 0 for such a query (_safe_softmax)",
    ),
    *symbolics(
        {"aten::scaled_dot_product_attention": _attend_traced},
        why="Answers NaN, or the mean of the values, for a query that sees no key, where PyTorch answers 0.",
        upstream="torch/onnx/_internal/torchscript_exporter/symbolic_opset14.py",
    ),
)

"""Attention in TorchScript, for torch's older exporter. Where PyTorch fuses it in evaluation mode a
TransformerEncoderLayer or MultiheadAttention is one operator, of which the exporter knows nothing; where it does not,
the exporter loses the number of axes."""

from __future__ import annotations

import math
from typing import Any, NoReturn

from ....models.errors import Refused
from .. import private_torch
from ..torch_shared.traced_symbolics import Symbolics, constant, helper, register


def mend_fused() -> None:
    """Register their definitions for every later export of this process.

    Formulas: torch.nn.TransformerEncoderLayer and torch.nn.functional.scaled_dot_product_attention.
    """
    symbolics: Symbolics = {
        "aten::_transformer_encoder_layer_fwd": _encoder_layer,
        "aten::_native_multi_head_attention": _self_attention,
        "aten::unflatten": _unflatten,
    }
    register(symbolics, _OPSETS)


_OPSETS = range(17, 21)  # from the one on that has LayerNormalization


def _encoder_layer(  # noqa: PLR0917 - as the operator has them
    g: Any, x: Any, width: Any, heads: Any, qkv: Any, qkv_bias: Any, out: Any, out_bias: Any, gelu: Any,
    norm_first: Any, eps: Any, scale1: Any, shift1: Any, scale2: Any, shift2: Any, wide: Any, wide_bias: Any,
    narrow: Any, narrow_bias: Any, mask: Any, mask_type: Any,
) -> Any:  # fmt: skip
    hidden = _hidden(g, mask, mask_type)
    epsilon = _number(eps, "f")

    def norm(value: Any, scale: Any, shift: Any) -> Any:
        return g.op("LayerNormalization", value, scale, shift, axis_i=-1, epsilon_f=epsilon)

    def attend(value: Any) -> Any:
        made, _ = _attention(g, value, _number(width, "i"), _number(heads, "i"), qkv, qkv_bias, hidden)
        return _linear(g, made, out, out_bias)

    def feed(value: Any) -> Any:
        inner = _linear(g, value, wide, wide_bias)
        return _linear(g, _gelu(g, inner, wide) if _number(gelu, "i") else g.op("Relu", inner), narrow, narrow_bias)

    if _number(norm_first, "i"):
        x = g.op("Add", x, attend(norm(x, scale1, shift1)))
        return g.op("Add", x, feed(norm(x, scale2, shift2)))
    x = norm(g.op("Add", x, attend(x)), scale1, shift1)
    return norm(g.op("Add", x, feed(x)), scale2, shift2)


def _self_attention(  # noqa: PLR0917 - as the operator has them
    g: Any, query: Any, key: Any, value: Any, width: Any, heads: Any, qkv: Any, qkv_bias: Any, out: Any,
    out_bias: Any, mask: Any, need_weights: Any, average: Any, mask_type: Any,
) -> Any:  # fmt: skip
    """Of one input, which is all that MultiheadAttention fuses; and each row's shares, (B, T, T) or for each head."""
    if query is not key or key is not value:
        _refuse("with three different inputs")
    hidden = _hidden(g, mask, mask_type)
    made, shares = _attention(g, query, _number(width, "i"), _number(heads, "i"), qkv, qkv_bias, hidden)
    if not _number(need_weights, "i"):
        shares = constant(g, [])  # nobody reads it
    elif _number(average, "i"):
        total = g.op("ReduceSum", shares, constant(g, [1]), keepdims_i=0)
        shares = g.op("Mul", total, _number_like(g, 1 / _number(heads, "i"), qkv))
    return _linear(g, made, out, out_bias), shares


def _attention(  # noqa: PLR0917 - as the operator has them
    g: Any, x: Any, width: int, heads: int, qkv: Any, bias: Any, hidden: Any
) -> tuple[Any, Any]:
    """What every row takes of every other, (B, T, E) of (B, T, E), before the projection behind it, and the shares
    (B, heads, T, T). `hidden`: where a row has no share, or None."""
    apart = constant(g, [0, 0, 3, heads, -1])
    rows = g.op("Reshape", _linear(g, x, qkv, bias), apart)
    turned = g.op("Transpose", rows, perm_i=[2, 0, 3, 1, 4])  # (3, B, heads, T, E / heads)
    query, key, value = (g.op("Gather", turned, constant(g, place), axis_i=0) for place in range(3))
    scores = g.op("MatMul", query, g.op("Transpose", key, perm_i=[0, 1, 3, 2]))
    scores = g.op("Mul", scores, _number_like(g, math.sqrt(heads / width), qkv))
    if hidden is not None:  # of a row that sees nothing NaN comes out, as of PyTorch's
        scores = g.op("Where", hidden, _number_like(g, -math.inf, qkv), scores)
    shares = g.op("Softmax", scores, axis_i=-1)
    made = g.op("Transpose", g.op("MatMul", shares, value), perm_i=[0, 2, 1, 3])
    return g.op("Reshape", made, constant(g, [0, 0, -1])), shares


def _linear(g: Any, x: Any, weight: Any, bias: Any) -> Any:
    return g.op("Add", g.op("MatMul", x, g.op("Transpose", weight, perm_i=[1, 0])), bias)


def _gelu(g: Any, x: Any, like: Any) -> Any:
    share = g.op("Erf", g.op("Mul", x, _number_like(g, math.sqrt(0.5), like)))
    return g.op("Mul", g.op("Mul", x, _number_like(g, 0.5, like)), g.op("Add", share, _number_like(g, 1.0, like)))


def _number_like(g: Any, value: float, like: Any) -> Any:
    """A number of a tensor's dtype."""
    return constant(g, value, like.type().dtype())


def _number(value: Any, kind: str) -> Any:
    return helper._get_const(value, kind, "a setting of the layer")


def _unflatten(g: Any, x: Any, axis: Any, sizes: Any) -> Any:
    """Of the last axis, as MultiheadAttention does it: the exporter's own form forgets how many axes there are then."""
    rank, known = helper._get_tensor_rank(x), _sizes(sizes)
    if rank is None or known.count(-1) > 1 or _number(axis, "i") not in (-1, rank - 1):
        return private_torch.symbolic_opset13.unflatten(g, x, axis, sizes)
    return g.op("Reshape", x, constant(g, [0] * (rank - 1) + known))


def _sizes(value: Any) -> list[int]:
    """A list of sizes, -1 for each that is computed."""
    if not helper._is_packed_list(value):
        return [int(each) for each in _number(value, "is")]
    found = [helper._maybe_get_const(each, "i") for each in helper._unpack_list(value)]
    return [each if isinstance(each, int) else -1 for each in found]


def _hidden(g: Any, mask: Any, mask_type: Any) -> Any:
    """A mask as booleans over (B, heads, T, T), or None. It hides where it is not 0: of rows and columns (0), of the
    columns of each sample (1), or of both for each head (2)."""
    if helper._is_none(mask):
        return None
    kind = _number(mask_type, "i")
    if kind not in (0, 1, 2):
        _refuse(f"with a mask of the kind {kind}")
    boolean = g.op("Cast", mask, to_i=9)
    axes = {0: [0, 1], 1: [1, 2], 2: []}[kind]
    return g.op("Unsqueeze", boolean, constant(g, axes)) if axes else boolean


def _refuse(what: str) -> NoReturn:
    raise Refused(
        f"the TorchScript holds PyTorch's fused attention {what}, which has no ONNX",
        fix="trace or script the model after torch.backends.mha.set_fastpath_enabled(False), or name its Python code",
    )

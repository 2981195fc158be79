"""Attention of TorchScript modules for torch's TorchScript exporter.

In evaluation mode PyTorch fuses a TransformerEncoderLayer or MultiheadAttention into one operator, of which the
exporter has no symbolic; where it does not fuse, the exporter loses the rank. Formulas:
torch.nn.TransformerEncoderLayer and torch.nn.functional.scaled_dot_product_attention.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

from ....models.errors import Refused
from .. import private_torch
from ..ledger import symbolics
from ..torch_shared.traced_graph import TracedGraph as Graph
from ..torch_shared.traced_graph import TracedValue as Value
from ..torch_shared.traced_graph import constant, helper


def _encoder_layer(  # noqa: PLR0917 - as the operator has them
    g: Graph, x: Value, width: Value, heads: Value, qkv: Value, qkv_bias: Value, out: Value, out_bias: Value,
    gelu: Value, norm_first: Value, eps: Value, scale1: Value, shift1: Value, scale2: Value, shift2: Value,
    wide: Value, wide_bias: Value, narrow: Value, narrow_bias: Value, mask: Value, mask_type: Value,
) -> Any:  # fmt: skip
    hidden = _hidden(g, mask, mask_type)
    epsilon = _number(eps, "f")

    def norm(value: Value, scale: Value, shift: Value) -> Value:
        return g.op("LayerNormalization", value, scale, shift, axis_i=-1, epsilon_f=epsilon)

    def attend(value: Value) -> Value:
        attended, _ = _attention(g, value, _number(width, "i"), _number(heads, "i"), qkv, qkv_bias, hidden)
        return _linear(g, attended, out, out_bias)

    def feed(value: Value) -> Value:
        inner = _linear(g, value, wide, wide_bias)
        return _linear(g, _gelu(g, inner, wide) if _number(gelu, "i") else g.op("Relu", inner), narrow, narrow_bias)

    if _number(norm_first, "i"):
        x = g.op("Add", x, attend(norm(x, scale1, shift1)))
        return g.op("Add", x, feed(norm(x, scale2, shift2)))
    x = norm(g.op("Add", x, attend(x)), scale1, shift1)
    return norm(g.op("Add", x, feed(x)), scale2, shift2)


def _self_attention(  # noqa: PLR0917 - as the operator has them
    g: Graph, query: Value, key: Value, value: Value, width: Value, heads: Value, qkv: Value, qkv_bias: Value,
    out: Value, out_bias: Value, mask: Value, need_weights: Value, average: Value, mask_type: Value,
) -> Any:  # fmt: skip
    """Write self-attention, all that MultiheadAttention fuses, and its weights: (B, T, T), or for each head."""
    if query is not key or key is not value:
        _refuse("with three different inputs")
    hidden = _hidden(g, mask, mask_type)
    attended, shares = _attention(g, query, _number(width, "i"), _number(heads, "i"), qkv, qkv_bias, hidden)
    if not _number(need_weights, "i"):
        shares = constant(g, [])  # nobody reads it
    elif _number(average, "i"):
        total = g.op("ReduceSum", shares, constant(g, [1]), keepdims_i=0)
        shares = g.op("Mul", total, _number_like(g, 1 / _number(heads, "i"), qkv))
    return _linear(g, attended, out, out_bias), shares


def _attention(  # noqa: PLR0917 - as the operator has them
    g: Graph,
    x: Value,
    width: int,
    heads: int,
    qkv: Value,
    bias: Value,
    hidden: Value | None,
) -> tuple[Value, Value]:
    """Write attention of (B, T, E) before its output projection, and the weights (B, heads, T, T).

    `hidden` tells the places without weight; None hides nothing.
    """
    apart = constant(g, [0, 0, 3, heads, -1])
    rows = g.op("Reshape", _linear(g, x, qkv, bias), apart)
    turned = g.op("Transpose", rows, perm_i=[2, 0, 3, 1, 4])  # (3, B, heads, T, E / heads)
    query, key, value = (g.op("Gather", turned, constant(g, place), axis_i=0) for place in range(3))
    scores = g.op("MatMul", query, g.op("Transpose", key, perm_i=[0, 1, 3, 2]))
    scores = g.op("Mul", scores, _number_like(g, math.sqrt(heads / width), qkv))
    if hidden is not None:  # a row that sees nothing becomes NaN, as PyTorch's does
        scores = g.op("Where", hidden, _number_like(g, -math.inf, qkv), scores)
    shares = g.op("Softmax", scores, axis_i=-1)
    attended = g.op("Transpose", g.op("MatMul", shares, value), perm_i=[0, 2, 1, 3])
    return g.op("Reshape", attended, constant(g, [0, 0, -1])), shares


def _linear(g: Graph, x: Value, weight: Value, bias: Value) -> Value:
    return g.op("Add", g.op("MatMul", x, g.op("Transpose", weight, perm_i=[1, 0])), bias)


def _gelu(g: Graph, x: Value, like: Value) -> Value:
    share = g.op("Erf", g.op("Mul", x, _number_like(g, math.sqrt(0.5), like)))
    return g.op("Mul", g.op("Mul", x, _number_like(g, 0.5, like)), g.op("Add", share, _number_like(g, 1.0, like)))


def _number_like(g: Graph, value: float, like: Value) -> Value:
    """Write a number in a tensor's dtype."""
    return constant(g, value, like.type().dtype())


def _number(value: Value, kind: str) -> Any:
    return helper._get_const(value, kind, "a setting of the layer")


def _unflatten(g: Graph, x: Value, axis: Value, sizes: Value) -> Any:
    """Write unflatten of the last axis, as in MultiheadAttention: after the exporter's own the rank is unknown."""
    rank, known = helper._get_tensor_rank(x), _sizes(sizes)
    if rank is None or known.count(-1) > 1 or _number(axis, "i") not in (-1, rank - 1):
        return private_torch.symbolic_opset13.unflatten(g, x, axis, sizes)
    return g.op("Reshape", x, constant(g, [0] * (rank - 1) + known))


def _sizes(value: Value) -> list[int]:
    """Return a list of sizes, with -1 for each that is computed."""
    if not helper._is_packed_list(value):
        return [int(size) for size in _number(value, "is")]
    known = [helper._maybe_get_const(size, "i") for size in helper._unpack_list(value)]
    return [size if isinstance(size, int) else -1 for size in known]


def _hidden(g: Graph, mask: Value, mask_type: Value) -> Any:
    """Write a mask as booleans over (B, heads, T, T); None for no mask.

    It hides where it is not 0. Its kind tells the axes: rows and columns (0), columns of each sample (1), or both for
    each head (2).
    """
    if helper._is_none(mask):
        return None
    kind = _number(mask_type, "i")
    if kind not in (0, 1, 2):
        _refuse(f"with a mask of the kind {kind}")
    boolean = g.op("Cast", mask, to_i=9)
    axes = {0: [0, 1], 1: [1, 2], 2: []}[kind]
    return g.op("Unsqueeze", boolean, constant(g, axes)) if axes else boolean


def _refuse(feature: str) -> NoReturn:
    raise Refused(
        f"the TorchScript holds PyTorch's fused attention {feature}, which has no ONNX",
        fix="trace or script the model after torch.backends.mha.set_fastpath_enabled(False), or name its Python code",
    )


PATCHES = (
    *symbolics(
        {
            "aten::_transformer_encoder_layer_fwd": _encoder_layer,
            "aten::_native_multi_head_attention": _self_attention,
        },
        why="Has no symbolic of the operators that PyTorch fuses attention into.",
        upstream="torch/onnx/_internal/torchscript_exporter (none)",
    ),
    *symbolics(
        {"aten::unflatten": _unflatten},
        why="The rank of its result is unknown.",
        upstream="torch/onnx/_internal/torchscript_exporter/symbolic_opset13.py (unflatten)",
    ),
)

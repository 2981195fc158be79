"""The table of lowerings: which function lowers which operator, for which opsets and dtypes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ..onnx_graph import operator_registry
from .values import Value

Lowered: TypeAlias = Value | Sequence[Value | None]
Lowering: TypeAlias = Callable[..., Lowered]  # its one argument is an OperatorContext, which reads this table
Entry: TypeAlias = operator_registry.Entry[Lowering]

MICROSOFT = operator_registry.MICROSOFT
FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
SIGNED = frozenset({"int8", "int16", "int32", "int64"})
INTEGERS = SIGNED | frozenset({"uint8", "uint16", "uint32", "uint64"})
BOOL = frozenset({"bool"})
SUMMABLE = FLOATS | {"int32", "int64", "uint32", "uint64"}  # that the specification lets be summed and multiplied
NUMBERS = FLOATS | INTEGERS
ANY = NUMBERS | BOOL
INDICES = frozenset({"int32", "int64"})
# TensorFlow has no arithmetic for these. Such values lie in a wider dtype (narrow_dtypes.py), and an operator that
# takes ANY, and so only moves its input, takes them too.
SMALL_INTEGERS = frozenset({"int2", "int4", "uint2", "uint4"})
SMALL_FLOATS = frozenset(
    {"float4_e2m1fn", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"}
)
NARROW = SMALL_INTEGERS | SMALL_FLOATS

FAMILIES = (
    "control.conditional", "control.loops", "control.sequences", "image.detection", "image.resize", "image.sampling",
    "layers.attention", "layers.convolution", "layers.fused", "layers.fused_attention", "layers.normalization",
    "layers.pooling", "layers.recurrent", "math.activation", "math.casting", "math.einsum", "math.elementwise",
    "math.linear", "math.logic", "math.classification_losses", "math.quantization", "math.quantized", "math.random",
    "math.reduction", "math.signal", "tensor.constants", "tensor.indexing", "tensor.joining", "tensor.padding",
    "tensor.selection", "tensor.shape", "tensor.slicing", "tensor.text",
)  # fmt: skip

_REGISTRY = operator_registry.Registry[Lowering](f"{__package__}.operators", FAMILIES)
lowers = _REGISTRY.register
entries = _REGISTRY.entries
find = _REGISTRY.find

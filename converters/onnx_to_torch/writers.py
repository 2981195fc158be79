"""Which operator is written by which function, for which wordings of the specification and which dtypes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ..onnx_graph import operator_registry
from .operator_context import CodegenContext
from .values import Expression

OutputTerm: TypeAlias = "str | Expression | None"  # a Python expression, or a value that the function has made
OutputCode: TypeAlias = "OutputTerm | Sequence[OutputTerm]"
OperatorWriter: TypeAlias = "Callable[[CodegenContext], OutputCode]"
Entry: TypeAlias = operator_registry.Entry[OperatorWriter]

MICROSOFT = operator_registry.MICROSOFT
FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint8"})
NUMBERS = FLOATS | INTEGERS
BOOL = frozenset({"bool"})
INDICES = frozenset({"int32", "int64"})
ORDINARY = NUMBERS | BOOL  # what PyTorch computes in: of wider unsigned integers and floats of 8 bits it only moves
HELD = ORDINARY | {
    "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"
}  # fmt: skip

FAMILIES = (
    "control.conditional", "control.loops", "control.sequences", "image.detection", "image.resize", "image.sampling",
    "layers.convolution", "layers.fused", "layers.normalization", "layers.pooling", "layers.recurrent",
    "math.activation", "math.casting", "math.elementwise", "math.linear", "math.logic", "math.quantization",
    "math.reduction", "math.signal", "tensor.constants", "tensor.indexing", "tensor.joining", "tensor.padding",
    "tensor.selection", "tensor.shape", "tensor.slicing",
)  # fmt: skip

_REGISTRY = operator_registry.Registry[OperatorWriter](f"{__package__}.operators", FAMILIES)
writes = _REGISTRY.register
entries = _REGISTRY.entries
find = _REGISTRY.find


def write_call(name: str, function: str, *, since: int, dtypes: frozenset[str]) -> None:
    """Register an operator that is one call of a PyTorch function on its only input."""

    @writes(name, since=since, T=dtypes)
    def written(op: CodegenContext) -> OutputCode:
        return f"{function}({op.value(0)})"

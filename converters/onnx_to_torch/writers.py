"""Which operator is written by which function, for which wordings of the specification and which dtypes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import Formatter
from typing import TypeAlias

from ..onnx_graph import operator_registry
from .operator_context import CodegenContext
from .values import Expression

OutputTerm: TypeAlias = "str | Expression | None"  # a Python expression, or a value that the function has made
OutputCode: TypeAlias = "OutputTerm | Sequence[OutputTerm]"
OperatorWriter: TypeAlias = "Callable[[CodegenContext], OutputCode]"
Entry: TypeAlias = operator_registry.Entry[OperatorWriter]

MICROSOFT, NEWEST_READ = operator_registry.MICROSOFT, operator_registry.NEWEST_READ
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
    "control.conditional", "control.loops", "control.sequences", "image.boxes_and_grids", "image.resize",
    "layers.convolution", "layers.normalization", "layers.pooling", "layers.recurrent",
    "math.activation", "math.casting", "math.elementwise", "math.linear", "math.quantization",
    "math.reduction", "math.signal", "tensor.constants", "tensor.indexing",
    "tensor.shape", "tensor.slicing_and_joining",
)  # fmt: skip

_REGISTRY = operator_registry.Registry[OperatorWriter](f"{__package__}.operators", FAMILIES)
writes = _REGISTRY.register
entries = _REGISTRY.entries
find = _REGISTRY.find


def write_as(op_type: str, code: str, *, since: int, until: int = NEWEST_READ, **dtypes: frozenset[str]) -> None:
    """Register an operator by its code, in which {0} is its first input, and {alpha} its attribute alpha."""
    fields = {field for _, field, _, _ in Formatter().parse(code) if field}
    inputs = range(len([field for field in fields if field.isdigit()]))

    @writes(op_type, since=since, until=until, **dtypes)
    def written(op: CodegenContext) -> OutputCode:
        values = [op.value(at) for at in inputs]
        attributes = {name: op.literal(name, values[0].dtype) for name in fields if not name.isdigit()}
        return code.format(*values, **attributes)

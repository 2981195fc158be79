"""Operator functions: the context passed to each, and which one writes which operators, wordings and dtypes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import Formatter
from typing import TypeAlias

from ...models.signature import Array
from ..onnx_graph import operator_registry
from ..onnx_graph.graph import Node
from ..onnx_graph.node_reader import NodeReader
from .module_writer import ModuleWriter
from .safe_names import number
from .values import Expression, ExpressionSequence, LoopSequence, SizeTerm, SizeTerms, express_sizes, known


class CodegenContext(NodeReader[Expression, SizeTerm]):
    """One node, as an operator function reads it; the function returns an expression for each output."""

    sequence_type = ExpressionSequence
    takes_negative_pads = True
    wanted, sequence_fix = "one tensor", "check the model"

    def __init__(self, node: Node, inputs: Sequence[Expression | None], writer: ModuleWriter) -> None:
        super().__init__(node, inputs)
        self.writer = writer

    # Inputs

    def sequence(self, at: int) -> ExpressionSequence:
        """Return an input that must be a sequence of known length."""
        sequence = self.any_sequence(at)
        if isinstance(sequence, LoopSequence):
            self.refuse(
                "its sequence is what a loop appended, and its length is known only when the model runs",
                fix="stack that sequence, and take its parts from the tensor",
            )
        return sequence

    def any_sequence(self, at: int) -> ExpressionSequence:
        """Return an input that must be a sequence."""
        sequence = self.anything(at)
        if not isinstance(sequence, ExpressionSequence):
            self.refuse(f"its input {at} is no sequence of tensors", fix="check the model with onnx.checker")
        return sequence

    def sizes(self, at: int, name: str) -> tuple[SizeTerm, ...]:
        """Return a vector or scalar of whole numbers; those of a computed tensor are read when the module runs."""
        value = self.value(at)
        sizes = value.size_parts()
        if sizes is not None:
            return sizes
        count = 1 if not value.rank else value.shape[0]
        if value.rank > 1 or count is None:
            self.refuse(f"the length of its {name} is not known", fix=f"make the {name} a vector of known length")
        if not value.rank:
            return (self.writer.number(f"{value}.item()", name),)
        parts = value.some_parts or [None] * count
        return tuple(
            self.writer.number(f"{value}[{place}].item()", name) if part is None else part
            for place, part in enumerate(parts)
        )

    def literal(self, name: str, dtype: str = "float32") -> str:
        """Return an attribute as a Python literal: an integer, or a float to be computed with in `dtype`."""
        value = self._attribute(name)
        return str(value) if isinstance(value, int) else number(value, dtype)

    def bound(self, at: int) -> str | None:
        """Return a scalar input as a literal or as a tensor; None where the model leaves it out."""
        value = self.optional(at)
        return None if value is None else value.scalar or f"{value}"

    # Answers

    def let(self, code: str, name: str = "") -> Expression:
        """Write a part of the answer into a variable."""
        return self.writer.let(code, name or self.node.op_type)

    def unpack(self, code: str, count: int) -> list[Expression]:
        """Write an expression that makes several tensors into variables that are called after the outputs."""
        return self.writer.unpack(code, self.output_names(count))

    def output_names(self, count: int) -> list[str]:
        """Return the names of the first outputs, for variables."""
        return [self.node.outputs[at] if self.wants(at) else "_unused" for at in range(count)]

    def known(self, array: Array) -> Expression:
        """Return an output that is known while the module is written."""
        return known(self.writer, array)

    def sized(self, parts: Sequence[SizeTerm] | SizeTerms, dtype: str = "int64") -> Expression:
        """Return an output that is a vector of sizes, or an array of them in another shape."""
        return express_sizes(self.writer, parts, dtype)


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
    "layers.convolution", "layers.normalization", "layers.pooling", "layers.recurrent", "math.activation",
    "math.casting", "math.elementwise", "math.linear", "math.quantization", "math.reduction", "math.signal",
    "tensor.constants", "tensor.indexing", "tensor.shape", "tensor.slicing_and_joining",
)  # fmt: skip

_REGISTRY = operator_registry.Registry[OperatorWriter](f"{__package__}.operators", FAMILIES)
writes = _REGISTRY.register
entries = _REGISTRY.entries
find = _REGISTRY.find


def write_as(op_type: str, code: str, *, since: int, until: int = NEWEST_READ, **dtypes: frozenset[str]) -> None:
    """Register an operator by its code, in which {0} is its first input, and {alpha} its attribute alpha."""
    fields = {field for _, field, _, _ in Formatter().parse(code) if field}
    inputs = range(len([field for field in fields if field.isdigit()]))

    @writes(op_type, since=since, until=until, domain="", folds=True, **dtypes)
    def written(op: CodegenContext) -> OutputCode:
        values = [op.value(at) for at in inputs]
        attributes = {name: op.literal(name, values[0].dtype) for name in fields if not name.isdigit()}
        return code.format(*values, **attributes)

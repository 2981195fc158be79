"""Sequences of tensors, which exist only while a module is written: of known length, or what a loop appended."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from ...onnx_graph.node_reader import NodeReader
from ...onnx_graph.semantics.loops_and_sequences import common_dtype
from ..values import Expression, ExpressionWriter, SizeTerm


class ExpressionSequence(Expression):
    """Tensors of one dtype in a row. Whoever takes it for a tensor is refused."""

    __slots__ = ("tensors",)

    def __init__(self, writer: ExpressionWriter, dtype: str, tensors: Sequence[Expression]) -> None:
        super().__init__(writer, dtype, ())
        self.tensors = tuple(tensors)

    def __copy__(self) -> ExpressionSequence:
        """Return the sequence with copies of its tensors."""
        return ExpressionSequence(self.writer, self.dtype, [copy(tensor) for tensor in self.tensors])

    def __str__(self) -> str:
        """Raise ValueError: a sequence has no code."""
        raise ValueError("a sequence of tensors stands where one tensor is needed")


class LoopSequence(ExpressionSequence):
    """What a loop appended: tensors of one shape, whose number is known only after the loop."""

    __slots__ = ("stack",)

    def __init__(self, stack: Expression) -> None:
        super().__init__(stack.writer, stack.dtype, ())
        self.stack = stack  # the steps along its first axis

    def __copy__(self) -> LoopSequence:
        """Return the sequence with a copy of its stack."""
        return LoopSequence(copy(self.stack))


def sequence_of(op: NodeReader[Expression, SizeTerm], tensors: Sequence[Expression]) -> ExpressionSequence:
    """Return tensors as a sequence; they must share their dtype."""
    return ExpressionSequence(tensors[0].writer, common_dtype(op, tensors), tensors)

"""Sequences of tensors, which exist while a module is written only: lists whose length is known, or what a
loop appended."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from ...onnx_graph.node_reader import NodeReader
from ...onnx_graph.semantics.sequence_operators import common_dtype
from ..module_writer import Page
from ..values import Part, Value


class TensorSequence(Value):
    """Tensors of one dtype in a row. It is no tensor, and whoever takes it for one is refused."""

    __slots__ = ("tensors",)

    def __init__(self, page: Page, dtype: str, tensors: Sequence[Value]) -> None:
        super().__init__(page, dtype, ())
        self.tensors = tuple(tensors)

    @property
    def is_empty(self) -> bool:
        """Whether it is known to have no tensor."""
        return not self.tensors

    def __copy__(self) -> TensorSequence:
        """With copies of its tensors."""
        return TensorSequence(self.page, self.dtype, [copy(each) for each in self.tensors])

    def __str__(self) -> str:
        """Raises ValueError: it has no code."""
        raise ValueError("a sequence of tensors stands where one tensor is needed")


class GrownSequence(TensorSequence):
    """What a loop appended, a tensor of one shape at each step; how many there are is known only when it has run."""

    __slots__ = ("stack",)

    def __init__(self, stack: Value) -> None:
        super().__init__(stack.page, stack.dtype, ())
        self.stack = stack  # the steps along its first axis

    @property
    def is_empty(self) -> bool:
        """Nobody knows."""
        return False

    def __copy__(self) -> GrownSequence:
        """With a copy of what it holds."""
        return GrownSequence(copy(self.stack))


def listed(op: NodeReader[Value, Part], tensors: Sequence[Value]) -> TensorSequence:
    """Tensors as a sequence; they must share their dtype."""
    return TensorSequence(tensors[0].page, common_dtype(op, tensors), tensors)

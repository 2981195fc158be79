"""Sequences of tensors, which nothing but the lowering sees: lists whose length is known, or what a loop appended."""

from __future__ import annotations

from collections.abc import Sequence

from ..values import Layout, TfTensor, Value


class TensorSequence(Value):
    """Tensors of one dtype in a row. It is no tensor, and whoever takes it for one is refused."""

    __slots__ = ("elements",)

    def __init__(self, dtype: str, elements: Sequence[Value]) -> None:
        super().__init__(dtype, ())
        self.elements = tuple(elements)

    @property
    def is_empty(self) -> bool:
        """Whether it is known to have no tensor."""
        return not self.elements

    @property
    def computing(self) -> bool:
        """Whether an element is known only when the model runs."""
        return any(each.computing for each in self.elements)

    def tensor(self, layout: Layout = Layout.LOGICAL) -> TfTensor:  # noqa: ARG002 - a tensor's own
        """Raises ValueError: there is none."""
        raise ValueError("a sequence of tensors stands where one tensor is needed")


class GrownSequence(TensorSequence):
    """What a loop appended, a tensor of one shape at each step; how many there are is known only when it has run."""

    __slots__ = ("stack",)

    def __init__(self, stack: Value) -> None:
        super().__init__(stack.dtype, ())
        self.stack = stack  # the steps along its first axis

    @property
    def is_empty(self) -> bool:
        """Nobody knows."""
        return False

    @property
    def computing(self) -> bool:
        """It is."""
        return True

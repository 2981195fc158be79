"""Sequences of tensors, which exist while a module is written only: lists whose length is known."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from .page import Page
from .values import Value


class TensorSequence(Value):
    """Tensors of one dtype in a row. It is no tensor, and whoever takes it for one is refused."""

    __slots__ = ("tensors",)

    def __init__(self, page: Page, dtype: str, tensors: Sequence[Value]) -> None:
        super().__init__(page, dtype, ())
        self.tensors = tuple(tensors)

    def __copy__(self) -> TensorSequence:
        """With copies of its tensors."""
        return TensorSequence(self.page, self.dtype, [copy(each) for each in self.tensors])

    def __str__(self) -> str:
        """Raises ValueError: it has no code."""
        raise ValueError("a sequence of tensors stands where one tensor is needed")

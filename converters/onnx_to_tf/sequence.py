"""Sequences of tensors: lists whose length is known while lowering, and which nothing but the lowering ever sees."""

from __future__ import annotations

from collections.abc import Sequence

from .values import Layout, TfTensor, Value


class TensorSequence(Value):
    """Tensors of one dtype in a row. It is no tensor, and whoever takes it for one is refused."""

    __slots__ = ("elements",)

    def __init__(self, dtype: str, elements: Sequence[Value]) -> None:
        super().__init__(dtype, ())
        self.elements = tuple(elements)

    @property
    def computing(self) -> bool:
        """Whether an element is known only when the model runs."""
        return any(each.computing for each in self.elements)

    def tensor(self, layout: Layout = Layout.LOGICAL) -> TfTensor:  # noqa: ARG002 - a tensor's own
        """Raises ValueError: there is none."""
        raise ValueError("a sequence of tensors stands where one tensor is needed")

"""Sequences of tensors, which exist while lowering only: lists of known length, or what a loop appended."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..values import Layout, TfTensor, Value


@dataclass(frozen=True, eq=False, slots=True)
class TensorSequence(Value):
    """Tensors of one dtype in a row. It is no tensor, and an operator that takes it for one is refused."""

    elements: tuple[Value, ...] = field(default=(), kw_only=True)

    @property
    def computing(self) -> bool:
        """Whether an element is known only when the model runs."""
        return any(element.computing for element in self.elements)

    def tensor(self, layout: Layout = Layout.LOGICAL) -> TfTensor:  # noqa: ARG002 - a tensor's own
        """Raise ValueError: there is none."""
        raise ValueError("a sequence of tensors stands where one tensor is needed")


@dataclass(frozen=True, eq=False, slots=True)
class GrownSequence(TensorSequence):
    """The tensors of one shape that a loop appended, one a step; how many is known only when it has run."""

    stack: Value = field(kw_only=True)  # the steps along its first axis

    @property
    def computing(self) -> bool:
        """Whether it is known only when the model runs: always."""
        return True

"""What the steps of a loop make, collected into one tensor with the steps as its first axis."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ..lazy_tensorflow import tf
from ..values import Size, TfTensor, pack


class Pile(ABC):
    """Carried through a loop by its state, which `empty` begins and `add` goes on with.

    `spec`: shape (without the steps) and dtype of what a step makes; sizes may be None. `steps`: how many there will
    be, or None where that shows only at the end.
    """

    def __init__(self, spec: Any, steps: Size | None) -> None:
        self.spec = spec
        self.steps = steps

    @abstractmethod
    def empty(self) -> Any:
        """The state before the first step."""

    @abstractmethod
    def invariant(self) -> Any:
        """What tf.while_loop may count on of the state's shape."""

    @abstractmethod
    def add(self, state: Any, count: TfTensor, value: TfTensor) -> Any:
        """The state with one more; `count` lie there already."""

    @abstractmethod
    def stacked(self, state: Any, count: TfTensor) -> TfTensor:
        """The whole, (count, *shape). Of no steps at all, sizes that are not known are 0, as ONNX Runtime has it."""

    def _nothing(self) -> TfTensor:
        return tf.zeros([0, *(size or 0 for size in self.spec.shape)], self.spec.dtype)


class ListPile(Pile):
    """TensorFlow's list of tensors: nothing is copied before the end."""

    def empty(self) -> Any:
        """A list of no tensors."""
        size = 0 if self.steps is None else tf.maximum(self.steps, 0)
        return tf.TensorArray(
            self.spec.dtype,
            size,
            dynamic_size=self.steps is None,
            element_shape=self.spec.shape,
            clear_after_read=False,
        )

    def invariant(self) -> Any:
        """A list has no shape."""
        return None

    def add(self, state: Any, count: TfTensor, value: TfTensor) -> Any:
        """At its place."""
        return state.write(count, value)

    def stacked(self, state: Any, count: TfTensor) -> TfTensor:
        """One tensor of all."""
        if self.spec.shape.is_fully_defined() or (isinstance(self.steps, int) and self.steps > 0):
            return state.stack()
        return tf.cond(count > 0, state.stack, self._nothing)


class GrownPile(Pile):
    """One tensor that grows: TFLite has no list of tensors whose sizes are not all known. It copies what a loop
    carries at every step as it is, so that this costs no other order of time than the loop itself."""

    def empty(self) -> Any:
        """A tensor of no steps."""
        return self._nothing()

    def invariant(self) -> Any:
        """Only the number of steps changes."""
        return tf.TensorShape([None, *self.spec.shape])

    def add(self, state: Any, count: TfTensor, value: TfTensor) -> Any:
        """At the end."""
        # Shaped anew: sizes may differ from the zeros before the first step, and the runtime fails to join a tensor of
        # no elements as it comes into a loop.
        sizes = [tf.shape(value)[axis] if size is None else size for axis, size in enumerate(self.spec.shape)]
        before = tf.reshape(state, pack([count, *sizes]))
        return tf.concat([before, value[None]], 0)

    def stacked(self, state: Any, count: TfTensor) -> TfTensor:
        """It is one already."""
        del count
        return state

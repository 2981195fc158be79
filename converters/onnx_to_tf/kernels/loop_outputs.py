"""The outputs of a loop's steps, collected into one tensor with the steps as its first axis."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ..lazy_tensorflow import tf
from ..values import Size, TfTensor, pack_sizes


class OutputCollector(ABC):
    """Collects one output of a loop; the loop carries a state, which `empty` begins and `add` extends.

    `spec`: shape (without the steps) and dtype of one step's output; sizes may be None. `steps`: how many there will
    be, or None where that shows only at the end.
    """

    def __init__(self, spec: Any, steps: Size | None) -> None:
        self.spec = spec
        self.steps = steps

    @abstractmethod
    def empty(self) -> Any:
        """Return the state before the first step."""

    @abstractmethod
    def invariant(self) -> Any:
        """Return what tf.while_loop may rely on in the state's shape."""

    @abstractmethod
    def add(self, state: Any, count: TfTensor, value: TfTensor) -> Any:
        """Return the state with one more output; it holds `count` already."""

    @abstractmethod
    def stacked(self, state: Any, count: TfTensor) -> TfTensor:
        """Return all outputs, (count, *shape); without any, sizes that are not known are 0, as ONNX Runtime has it."""

    def _nothing(self) -> TfTensor:
        return tf.zeros([0, *(size or 0 for size in self.spec.shape)], self.spec.dtype)


class ListCollector(OutputCollector):
    """Collects in TensorFlow's list of tensors: nothing is copied before the end."""

    def empty(self) -> Any:
        """Return a list of no tensors."""
        size = 0 if self.steps is None else tf.maximum(self.steps, 0)
        dtype, shape, dynamic = self.spec.dtype, self.spec.shape, self.steps is None
        return tf.TensorArray(dtype, size, dynamic_size=dynamic, element_shape=shape, clear_after_read=False)

    def invariant(self) -> Any:
        """Return None: a list has no shape."""
        return None

    def add(self, state: Any, count: TfTensor, value: TfTensor) -> Any:
        """Write the output at its place."""
        return state.write(count, value)

    def stacked(self, state: Any, count: TfTensor) -> TfTensor:
        """Return one tensor of all outputs."""
        if self.spec.shape.is_fully_defined() or (isinstance(self.steps, int) and self.steps > 0):
            return state.stack()
        return tf.cond(count > 0, state.stack, self._nothing)


class GrowingCollector(OutputCollector):
    """Collects in one tensor that grows: TFLite has no list of tensors whose sizes are not all known.

    TFLite copies what a loop carries at every step anyway, so this costs no other order of time than the loop itself.
    """

    def empty(self) -> Any:
        """Return a tensor of no steps."""
        return self._nothing()

    def invariant(self) -> Any:
        """Return the state's shape, of which only the number of steps changes."""
        return tf.TensorShape([None, *self.spec.shape])

    def add(self, state: Any, count: TfTensor, value: TfTensor) -> Any:
        """Append the output."""
        # Shaped anew: sizes may differ from the zeros before the first step, and the runtime fails to join a tensor of
        # no elements as it comes into a loop.
        sizes = [tf.shape(value)[axis] if size is None else size for axis, size in enumerate(self.spec.shape)]
        before = tf.reshape(state, pack_sizes([count, *sizes]))
        return tf.concat([before, value[None]], 0)

    def stacked(self, state: Any, count: TfTensor) -> TfTensor:
        """Return the state, which is the result already."""
        del count
        return state

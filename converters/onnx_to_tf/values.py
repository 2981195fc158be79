"""What flows between operators: a value with a logical shape, and apart from it the layout in which it lies in memory.

A value is known (an array: it is folded while lowering), partly known (a vector of sizes of which some are numbers and
some are tensors: the arithmetic of shapes), or computed (a tensor). Shapes and axes are always the logical ones, those
of the ONNX model. Convolutions want channels last; what they make stays in that layout until somebody asks for the
logical one, and the transpose is placed there, once. Nothing is ever concluded from sizes that happen to be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ...models.signature import Array
from .lazy import tf

if TYPE_CHECKING:
    from .weights import Weights

TfTensor: TypeAlias = Any  # tensorflow has no types
Size: TypeAlias = Any  # an int, or an int32 scalar tensor where it is known only when the model runs


class Layout(Enum):
    """The order in which the axes lie in memory."""

    LOGICAL = "logical"  # as the ONNX model has them: N, C, spatial axes
    CHANNELS_LAST = "channels-last"  # N, spatial axes, C

    def order(self, rank: int) -> tuple[int, ...]:
        """The logical axis that lies at each physical place."""
        if self is Layout.CHANNELS_LAST and rank > 2:
            return (0, *range(2, rank), 1)
        return tuple(range(rank))

    def place(self, axis: int, rank: int) -> int:
        """The physical place of a logical axis."""
        return self.order(rank).index(axis)


_NONE: Any = None  # a computed value asks for no weights


class Value:
    """One value of the model. Made by `known`, `sizes` and `computed` below."""

    __slots__ = ("_forms", "_sizes", "array", "dtype", "layout", "native", "non_negative", "parts", "shape", "weights")

    def __init__(
        self,
        dtype: str,
        shape: tuple[int | None, ...],
        *,
        array: Array | None = None,
        parts: tuple[Size, ...] | None = None,
        native: TfTensor = None,
        layout: Layout = Layout.LOGICAL,
        non_negative: bool = False,
        weights: Weights = _NONE,
    ) -> None:
        self.dtype = dtype  # a numpy name
        self.shape = shape  # logical; None is a size known only when the model runs
        self.array = array
        self.parts = parts  # the elements of a vector (or of a scalar) of sizes
        self.native = native  # the tensor, as it was computed, in `layout`
        self.layout = layout if len(shape) > 2 else Layout.LOGICAL
        self.non_negative = non_negative  # by the operator that made it, as after Relu
        self.weights = weights
        self._forms: dict[tuple[object, Layout], TfTensor] = {}
        self._sizes: dict[tuple[object, int], Size] = {}

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def computing(self) -> bool:
        """Whether it is known only when the model runs, wholly or in part."""
        return self.array is None

    def tensor(self, layout: Layout = Layout.LOGICAL) -> TfTensor:
        """The value in a layout. The transpose, where there must be one, is made once."""
        if self.native is not None and (self.rank < 3 or layout is self.layout):
            return self.native
        key = (graph_now(), layout)
        if key not in self._forms:
            self._forms[key] = self._in(layout)
        return self._forms[key]

    def _in(self, layout: Layout) -> TfTensor:
        if self.array is not None:
            return self.weights.hold(self.array, layout.order(self.rank))
        if self.parts is not None:
            stacked = tf.stack(list(self.parts)) if self.shape else tf.convert_to_tensor(self.parts[0])
            return tf.cast(stacked, self.dtype)
        order = [self.layout.place(axis, self.rank) for axis in layout.order(self.rank)]
        return transpose(self.native, order)

    def size(self, axis: int) -> Size:
        """The size of a logical axis: an int, or an int32 scalar tensor."""
        known_size = self.shape[axis]
        if known_size is not None:
            return known_size
        key = (graph_now(), axis)
        if key not in self._sizes:
            self._sizes[key] = tf.shape(self.native)[self.layout.place(axis, self.rank)]
        return self._sizes[key]

    def size_parts(self) -> tuple[Size, ...] | None:
        """The elements of an integer scalar or vector of known length, or None where it is none."""
        if self.parts is not None:
            return self.parts
        if self.rank > 1 or not np.issubdtype(np.dtype(self.dtype), np.integer):
            return None
        if self.array is not None:
            return tuple(int(each) for each in self.array.reshape(-1))
        if self.shape == ():
            return (tf.cast(self.native, tf.int32),)
        if self.shape[0] is None:
            return None
        vector = tf.cast(self.native, tf.int32)
        return tuple(vector[at] for at in range(self.shape[0]))

    def place(self, axis: int) -> int:
        """Where a logical axis lies in `native`."""
        return self.layout.place(axis, self.rank)


def graph_now() -> object:
    """The graph that tensors are made in at the moment. One graph's tensors mean nothing in another one, as in a
    branch; and while something is folded, the graph that is being traced stays the default one of TensorFlow."""
    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


def known(array: Array, weights: Weights) -> Value:
    """A value that is known while lowering."""
    array = np.asarray(array)
    return Value(array.dtype.name, array.shape, array=array, weights=weights)


def sizes(parts: Sequence[Size], weights: Weights, *, scalar: bool = False, dtype: str = "int64") -> Value:
    """A vector of sizes, or one of them as a scalar. Known as a whole where every element is."""
    shape = () if scalar else (len(parts),)
    if all(isinstance(each, int) for each in parts):
        return known(np.array(parts, dtype).reshape(shape), weights)
    return Value(dtype, shape, parts=tuple(parts), weights=weights)


def computed(tensor: TfTensor, layout: Layout = Layout.LOGICAL, *, non_negative: bool = False) -> Value:
    """A value that TensorFlow computes, lying in `layout`."""
    rank = tensor.shape.rank
    if rank is None:
        raise ValueError("a tensor of unknown rank")
    if rank < 3:
        layout = Layout.LOGICAL
    physical = tensor.shape.as_list()
    shape = tuple(physical[layout.place(axis, rank)] for axis in range(rank))
    return Value(tensor.dtype.name, shape, native=tensor, layout=layout, non_negative=non_negative)


def transpose(tensor: TfTensor, order: Sequence[int]) -> TfTensor:
    """tf.transpose; nothing where nothing moves, and a reshape where only axes of size 1 move."""
    if list(order) == list(range(len(order))):
        return tensor
    shape = tensor.shape.as_list()
    moved = [axis for axis in order if shape[axis] != 1]
    target = [shape[axis] for axis in order]
    if moved == sorted(moved) and target.count(None) <= 1:
        return tf.reshape(tensor, [-1 if size is None else size for size in target])
    return tf.transpose(tensor, order)


def reshape(tensor: TfTensor, target: Sequence[Size]) -> TfTensor:
    """tf.reshape to sizes of which some are tensors: one such becomes -1, so that the shape is a constant."""
    unknown = [at for at, size in enumerate(target) if not isinstance(size, int)]
    if len(unknown) == 1 and -1 not in [size for size in target if isinstance(size, int)]:
        fixed = [size for size in target if isinstance(size, int)]
        if prod(fixed) > 0:
            return tf.reshape(tensor, [size if isinstance(size, int) else -1 for size in target])
    return tf.reshape(tensor, pack(target))


def pack(target: Sequence[Size]) -> TfTensor:
    """Sizes as an int32 vector for TensorFlow; a plain list where all are known."""
    if all(isinstance(size, int) for size in target):
        return [int(size) for size in target]
    return tf.stack([tf.cast(size, tf.int32) for size in target])


def mapped(value: Value, function: Callable[[TfTensor], TfTensor], *, non_negative: bool = False) -> Value:
    """An elementwise function, in whichever layout the value lies."""
    native = value.tensor(value.layout)
    return computed(function(native), value.layout, non_negative=non_negative)


def broadcast(function: Callable[..., TfTensor], *values: Value) -> Value:
    """An elementwise function of several values under numpy's broadcasting, which ONNX shares.

    Channels last where a value of the result's rank lies so: then the others are brought there.
    """
    rank = max(value.rank for value in values)
    last = any(value.layout is Layout.CHANNELS_LAST and value.rank == rank for value in values)
    layout = Layout.CHANNELS_LAST if last else Layout.LOGICAL
    return computed(function(*[_aligned(value, layout, rank) for value in values]), layout)


def _aligned(value: Value, layout: Layout, rank: int) -> TfTensor:
    """A value in a layout of `rank` axes: axes of size 1 come before its own, where it has fewer."""
    if layout is Layout.LOGICAL or value.rank in (0, rank):
        return value.tensor(layout if value.rank == rank else Layout.LOGICAL)
    leading = (1,) * (rank - value.rank)
    if value.array is not None:
        return known(value.array.reshape(leading + value.array.shape), value.weights).tensor(layout)
    logical = reshape(value.tensor(), [*leading, *(value.size(axis) for axis in range(value.rank))])
    return computed(logical).tensor(layout)


def broadcast_size(a: Size, b: Size) -> Size:
    """The size of an axis under broadcasting: where one side is 1 the other one's."""
    if a is b or (isinstance(b, int) and b == 1):
        return a
    if isinstance(a, int):
        return b if a == 1 else a
    return b if isinstance(b, int) else tf.where(tf.equal(a, 1), b, a)


def product(parts: Sequence[Size]) -> Size:
    """The product of sizes; the known ones are multiplied now."""
    answer: Size = prod(part for part in parts if isinstance(part, int))
    for part in parts:
        if not isinstance(part, int):
            answer = part if isinstance(answer, int) and answer == 1 else answer * part
    return answer


def is_axis_size(tensor: TfTensor) -> bool:
    """Whether it is one element of tf.shape, and so never negative."""
    return bool(tensor.op.type == "StridedSlice" and tensor.op.inputs[0].op.type == "Shape")

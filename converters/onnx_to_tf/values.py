"""What flows between operators: a value with a logical shape, and apart from it the layout in which it lies in memory.

A value is known (an array: it is folded while lowering), partly known (a vector of sizes of which some are numbers and
some are tensors: the arithmetic of shapes), or computed (a tensor). Shapes and axes are always the logical ones, those
of the ONNX model. Convolutions want channels last; what they make stays in that layout until somebody asks for the
logical one, and the transpose is placed there, once. Nothing is ever concluded from sizes that happen to be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ...models.signature import Array
from .lazy_tensorflow import tf

if TYPE_CHECKING:
    from .weight_variables import Weights

TfTensor: TypeAlias = Any  # tensorflow has no types
Size: TypeAlias = Any  # an int, or an int32 scalar tensor where it is known only when the model runs

FAR = 2**31 - 1  # sizes and places are int32
MOST_BROADCAST = 5  # axes that every kernel broadcasts along


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


# The dtypes whose numbers can be sizes, and their bits.
_OF_SIZES = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint8": 8, "uint16": 16, "uint32": 32}

_NONE: Any = None  # a computed value asks for no weights


class Value:
    """One value of the model. Made by `known`, `sizes` and `computed` below."""

    __slots__ = (
        "_forms", "_origins", "_sizes",
        "array", "dtype", "layout", "native", "non_negative", "parts", "shape", "weights",
    )  # fmt: skip

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
        self.dtype = dtype  # a numpy name; the tensor's is another one where CARRIERS has it
        self.shape = shape  # logical; None is a size known only when the model runs
        self.array = array
        self.parts = parts  # the elements of a vector (or of a scalar) of sizes
        self.native = native  # the tensor, as it was computed, in `layout`
        self.layout = layout if len(shape) > 2 else Layout.LOGICAL
        self.non_negative = non_negative  # by the operator that made it, as after Relu
        self.weights = weights
        self._forms: dict[tuple[object, Layout], TfTensor] = {}
        self._sizes: dict[tuple[object, int], Size] = {}
        self._origins: dict[int, tuple[Value, int]] = {}  # by axis, the value and the axis that it has its size from

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
        if axis in self._origins:
            value, its = self._origins[axis]
            return value.size(its)
        key = (graph_now(), axis)
        if key not in self._sizes:
            self._sizes[key] = tf.shape(self.native)[self.layout.place(axis, self.rank)]
        return self._sizes[key]

    def origin(self, axis: int) -> tuple[Value, int]:
        """The value and the axis that a logical axis has its size from. Equal origins are equal sizes."""
        return self._origins.get(axis, (self, axis))

    def as_long_as(self, other: Value, axes: Iterable[tuple[int, int]] | None = None) -> Value:
        """This value, now knowing that its axes are as long as those of `other`: of the same places, or by pairs of
        (own axis, axis of the other). Sizes that have one origin are one tensor, and cancel in shape arithmetic."""
        for own, its in axes if axes is not None else ((axis, axis) for axis in range(self.rank)):
            if self.shape[own] is None and other.shape[its] is None and other.origin(its) != (self, own):
                self._origins[own] = other.origin(its)
        return self

    def of_sizes(self, target: Sequence[Size]) -> Value:
        """This value, now knowing by which tensors its sizes were made: those that cannot stand for "what is left"."""
        for axis, size in enumerate(target):
            if self.shape[axis] is None and not isinstance(size, int) and is_axis_size(size):
                self._sizes[graph_now(), axis] = size
        return self

    @property
    def only_parts(self) -> tuple[Size, ...] | None:
        """`parts` where they are all there is. Beside a tensor some of them may be numbers cut to what a size can be:
        good for who wants sizes, and not for who hands them on."""
        return self.parts if self.native is None else None

    def with_parts_of(self, value: Value, arrange: Callable[[Array], Array] = lambda places: places) -> Value:
        """This value, now knowing what is known of its elements: those of `value`, as `arrange` puts their places. So
        exporters turn pads round: a vector by pairs, from behind, by columns. No more than matrices: they lie one way.
        """
        if value.parts is not None and None not in value.shape and value.rank <= 2:
            places = arrange(np.arange(len(value.parts)).reshape(value.shape))
            self.parts = tuple(value.parts[at] for at in places.reshape(-1))
        return self

    def size_parts(self, *, exact: bool = False) -> tuple[Size, ...] | None:
        """The elements of an integer scalar or vector of known length, or None where it is none.

        A number that does not fit into an int32 becomes the nearest one that does, as exporters write the largest
        integer for "to the end". Arithmetic asks for `exact` parts: None for numbers that might be such.
        """
        if self.parts is not None and not (exact and self.native is not None):
            return self.parts
        if self.rank > 1 or self.dtype not in _OF_SIZES:
            return None
        if self.array is not None:
            return tuple(int(each) for each in self.array.reshape(-1))
        if self.shape == (None,) or (exact and _OF_SIZES[self.dtype] > 31):
            return None
        vector = as_int32(self.native)
        return tuple(vector[at] for at in range(self.shape[0] or 0)) if self.shape else (vector,)

    def place(self, axis: int) -> int:
        """Where a logical axis lies in `native`."""
        return self.layout.place(axis, self.rank)


def as_int32(tensor: TfTensor) -> TfTensor:
    """Integers, not uint64, as int32; one that does not fit becomes the largest or the smallest but one."""
    if tensor.dtype.size > 4 or tensor.dtype == tf.uint32:
        tensor = tf.clip_by_value(tf.cast(tensor, tf.int64), -FAR, FAR)
    return tf.cast(tensor, tf.int32)


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


def computed(
    tensor: TfTensor, layout: Layout = Layout.LOGICAL, *, non_negative: bool = False, dtype: str = ""
) -> Value:
    """A value that TensorFlow computes, lying in `layout`. `dtype` is its own where the tensor's only carries it."""
    rank = tensor.shape.rank
    if rank is None:
        raise ValueError("a tensor of unknown rank")
    if rank < 3:
        layout = Layout.LOGICAL
    physical = tensor.shape.as_list()
    shape = tuple(physical[layout.place(axis, rank)] for axis in range(rank))
    return Value(dtype or tensor.dtype.name, shape, native=tensor, layout=layout, non_negative=non_negative)


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
    """tf.reshape to sizes of which some are tensors: one such becomes -1, so that the shape is a constant.

    What TFLite's converter may take for no reshape at all (reshapes.py) gets an axis more, which a gather takes off.
    """
    from .kernels.tflite_reshapes import looks_like_none, of_that_shape  # kernels import this module

    if looks_like_none(tensor, target) and of_that_shape(tensor, target) is None:
        return tf.gather(_reshape(tensor, [1, *target]), 0, axis=0)
    return _reshape(tensor, target)


def _reshape(tensor: TfTensor, target: Sequence[Size]) -> TfTensor:
    from .kernels.tflite_reshapes import of_that_shape

    same = of_that_shape(tensor, target)
    if same is not None:
        return same
    unknown = [at for at, size in enumerate(target) if not isinstance(size, int)]
    if len(unknown) == 1 and -1 not in [size for size in target if isinstance(size, int)]:
        fixed = [size for size in target if isinstance(size, int)]
        if prod(fixed) > 0:
            return tf.reshape(tensor, [size if isinstance(size, int) else -1 for size in target])
    return tf.reshape(tensor, pack(target))


def ranked(tensor: TfTensor, rank: int) -> TfTensor:
    """The tensor, of a rank that TensorFlow did not see."""
    tensor.set_shape([None] * rank)
    return tensor


def pack(target: Sequence[Size]) -> TfTensor:
    """Sizes as an int32 vector for TensorFlow; a plain list where all are known."""
    if all(isinstance(size, int) for size in target):
        return [int(size) for size in target]
    return tf.stack([tf.cast(size, tf.int32) for size in target])


def mapped(value: Value, function: Callable[[TfTensor], TfTensor], *, non_negative: bool = False) -> Value:
    """An elementwise function, in whichever layout the value lies."""
    native = value.tensor(value.layout)
    return computed(function(native), value.layout, non_negative=non_negative).as_long_as(value)


def broadcast(function: Callable[..., TfTensor], *values: Value) -> Value:
    """An elementwise function of several values under numpy's broadcasting, which ONNX shares.

    Channels last where a value of the result's rank lies so: then the others are brought there.
    """
    rank = max(value.rank for value in values)
    last = any(value.layout is Layout.CHANNELS_LAST and value.rank == rank for value in values)
    layout = Layout.CHANNELS_LAST if last else Layout.LOGICAL
    aligned = [_aligned(value, layout, rank, [each for each in values if each is not value]) for value in values]
    answer = computed(function(*(_spread(aligned) if rank > MOST_BROADCAST else aligned)), layout)
    for axis in range(rank):
        own = [(value, axis - rank + value.rank) for value in values if axis >= rank - value.rank]
        origins = {value.origin(its) for value, its in own if value.shape[its] != 1}
        if len(origins) == 1:
            ((value, its),) = origins
            answer.as_long_as(value, [(axis, its)])
    return answer


def _spread(tensors: Sequence[TfTensor]) -> list[TfTensor]:
    """Tensors in the shape that they broadcast to, where TensorFlow's kernels might not: they take five axes of sizes
    that are repeated in turns by the one and by the other."""
    shape = reduce(tf.broadcast_dynamic_shape, [tf.shape(tensor) for tensor in tensors])
    static = reduce(tf.broadcast_static_shape, [tensor.shape for tensor in tensors])
    spread = [tf.broadcast_to(tensor, shape) for tensor in tensors]
    for tensor in spread:
        tensor.set_shape(static)
    return spread


def _aligned(value: Value, layout: Layout, rank: int, others: Sequence[Value]) -> TfTensor:
    """A value in a layout of `rank` axes: axes of size 1 come before its own, where it has fewer."""
    if value.array is not None and value.rank > 0:
        beside = [each for each in others if each.computing]
        return _constant(value.array, value.weights, layout, rank, beside)
    if layout is Layout.LOGICAL or value.rank in (0, rank):
        return value.tensor(layout if value.rank == rank else Layout.LOGICAL)
    leading = (1,) * (rank - value.rank)
    logical = reshape(value.tensor(), [*leading, *(value.size(axis) for axis in range(value.rank))])
    return computed(logical).tensor(layout)


def _constant(array: Array, weights: Weights, layout: Layout, rank: int, beside: Sequence[Value]) -> TfTensor:
    """A known array beside computed values: a single number is a scalar where another value has the result's rank.

    TensorFlow 2.21's graph optimiser takes an Add of a constant for one with the bias of the BiasAdd before it, and
    fails where the constant is not as wide as that: such an array is held where the optimiser does not see it.
    """
    if array.size == 1 and any(each.rank == rank for each in beside):
        return known(array.reshape(()), weights).tensor()
    missing = rank - array.ndim if layout is Layout.CHANNELS_LAST else 0
    order = layout.order(missing + array.ndim)
    shape = [1 if axis < missing else array.shape[axis - missing] for axis in order]
    last = layout.order(rank)[-1]
    as_wide = all(each.rank == rank and each.shape[last] == shape[-1] for each in beside)
    own = [axis - missing for axis in order if axis >= missing]
    return weights.hold(array, own, shape if missing else (), hidden=array.dtype.kind not in "iub" and not as_wide)


def biased(tensor: TfTensor, bias: Value | None) -> TfTensor:
    """The tensor plus a vector along its last axis, by the operator that runtimes fuse into a product before it."""
    return tensor if bias is None else tf.nn.bias_add(tensor, bias.tensor())


def same_size(a: Size, b: Size) -> bool:
    """Whether two sizes are known to be the same."""
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


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


# Which inputs of an operator have to be sizes for its answer to be one.
_MAKE_SIZES = {"Mul": slice(None), "AddV2": slice(None), "FloorDiv": slice(None), "SelectV2": slice(1, None)}


def is_axis_size(tensor: TfTensor) -> bool:
    """Whether it is one element of tf.shape, or made of such by sums, products and choices: never negative."""
    if tensor.op.type in _MAKE_SIZES:
        return all(is_axis_size(each) for each in tensor.op.inputs[_MAKE_SIZES[tensor.op.type]])
    if tensor.op.type == "Const":
        return bool(np.all(tf.get_static_value(tensor) >= 0))
    return bool(tensor.op.type == "StridedSlice" and tensor.op.inputs[0].op.type == "Shape")

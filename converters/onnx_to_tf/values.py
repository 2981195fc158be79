"""What flows between operators: values with a logical shape and, apart from it, the layout of their memory.

A value is known (an array: it is folded while lowering), partly known (a vector of sizes of which some are numbers and
some are tensors: the arithmetic of shapes), or computed (a tensor). Shapes and axes are always the logical ones, those
of the ONNX model. Convolutions want channels last; their results stay in that layout until an operator asks for the
logical one, and the transpose is placed there, once. Nothing is ever concluded from sizes that happen to be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ...models.signature import Array
from .kernels.tflite_reshapes import find_tensor_of_shape, looks_like_none
from .lazy_tensorflow import tf

if TYPE_CHECKING:
    from .weight_variables import Weights

TfTensor: TypeAlias = Any  # tensorflow has no types
Size: TypeAlias = Any  # an int, or an int32 scalar tensor where it is known only when the model runs

FAR = 2**31 - 1  # sizes and indices are int32
MOST_BROADCAST = 5  # axes that every kernel broadcasts along


class Layout(Enum):
    """The order in which the axes lie in memory."""

    LOGICAL = "logical"  # as the ONNX model has them: N, C, spatial axes
    CHANNELS_LAST = "channels-last"  # N, spatial axes, C

    def order(self, rank: int) -> tuple[int, ...]:
        """Return the logical axis that lies at each physical place."""
        if self is Layout.CHANNELS_LAST and rank > 2:
            return (0, *range(2, rank), 1)
        return tuple(range(rank))

    def place(self, axis: int, rank: int) -> int:
        """Return the physical place of a logical axis."""
        return self.order(rank).index(axis)


# The dtypes whose numbers can be sizes, and their bits.
_SIZE_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint8": 8, "uint16": 16, "uint32": 32}

_NO_WEIGHTS: Any = None  # a computed value asks for no weights


@dataclass(frozen=True, eq=False, slots=True)
class SizeOrigin:
    """The axis of a tensor that a size is read from. Axes that share an origin are known to be equally long."""

    tensor: TfTensor
    place: int
    sizes: dict[object, Size] = field(default_factory=dict)  # by graph; filled as sizes are asked for

    def size(self) -> Size:
        """Return the size as an int32 scalar of the graph that is being built, the same one at every call."""
        graph = current_graph()
        if graph not in self.sizes:
            self.sizes[graph] = tf.shape(self.tensor)[self.place]
        return self.sizes[graph]


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """One value of the model, made by `known`, `sizes` and `computed` below; nothing of it changes afterwards."""

    dtype: str  # a numpy name; the tensor's is another one where CARRIERS has it
    shape: tuple[int | None, ...] = ()  # logical; None is a size known only when the model runs
    array: Array | None = None
    parts: tuple[Size, ...] | None = None  # the elements of a vector (or of a scalar) of sizes
    native: TfTensor = None  # the tensor, as it was computed, in `layout`
    layout: Layout = Layout.LOGICAL
    non_negative: bool = False  # by the operator that computed it, as after Relu
    weights: Weights = _NO_WEIGHTS
    origins: tuple[SizeOrigin, ...] = ()  # by axis, of a computed value
    _forms: dict[tuple[object, Layout], TfTensor] = field(
        default_factory=dict, repr=False
    )  # by graph; filled on demand

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def computing(self) -> bool:
        """Whether it is known only when the model runs, in full or in part."""
        return self.array is None

    def tensor(self, layout: Layout = Layout.LOGICAL) -> TfTensor:
        """Return the value in a layout. A transpose that this takes is placed once in each graph."""
        if self.native is not None and (self.rank < 3 or layout is self.layout):
            return self.native
        key = (current_graph(), layout)
        if key not in self._forms:
            self._forms[key] = self._form(layout)
        return self._forms[key]

    def _form(self, layout: Layout) -> TfTensor:
        if self.array is not None:
            return self.weights.hold(self.array, layout.order(self.rank))
        if self.parts is not None:
            stacked = tf.stack(list(self.parts)) if self.shape else tf.convert_to_tensor(self.parts[0])
            return tf.cast(stacked, self.dtype)
        order = [self.layout.place(axis, self.rank) for axis in layout.order(self.rank)]
        return transpose(self.native, order)

    def size(self, axis: int) -> Size:
        """Return the size of a logical axis: an int, or an int32 scalar tensor."""
        known_size = self.shape[axis]
        return self.origins[axis].size() if known_size is None else known_size

    def with_sizes_of(self, other: Value, axes: Iterable[tuple[int, int]] | None = None) -> Value:
        """Return this value with the knowledge that its axes are as long as those of `other`.

        `axes` are pairs of (own axis, axis of the other); without it axes of the same place are meant. Sizes that have
        one origin are one tensor, and cancel in shape arithmetic.
        """
        origins = list(self.origins)
        for axis, other_axis in axes if axes is not None else ((axis, axis) for axis in range(self.rank)):
            if self.shape[axis] is None and other.shape[other_axis] is None:
                origins[axis] = other.origins[other_axis]
        return replace(self, origins=tuple(origins))

    def with_sizes(self, target: Sequence[Size]) -> Value:
        """Return this value with the tensors that its sizes come from, except those that may stand for "the rest"."""
        origins = list(self.origins)
        for axis, size in enumerate(target):
            if self.shape[axis] is None and not isinstance(size, int) and is_axis_size(size):
                origins[axis] = replace(origins[axis], sizes={current_graph(): size})
        return replace(self, origins=tuple(origins))

    @property
    def only_parts(self) -> tuple[Size, ...] | None:
        """`parts`, unless there is a tensor beside: then some may be cut to a size's range, wrong as a result."""
        return self.parts if self.native is None else None

    def with_parts_of(self, value: Value, arrange: Callable[[Array], Array] = lambda places: places) -> Value:
        """Return this value with the known elements of `value`, whose places `arrange` reorders.

        Exporters turn pads round in this way: a vector by pairs, from behind, by columns. Only up to matrices, which
        lie in one way.
        """
        if value.parts is None or None in value.shape or value.rank > 2:
            return self
        places = arrange(np.arange(len(value.parts)).reshape(value.shape))
        return replace(self, parts=tuple(value.parts[at] for at in places.reshape(-1)))

    def size_parts(self, *, exact: bool = False) -> tuple[Size, ...] | None:
        """Return the elements of an integer scalar or vector of known length, or None where it is none.

        A number that does not fit into an int32 becomes the nearest one that does, as exporters write the largest
        integer for "to the end". Arithmetic asks for `exact` parts: None for numbers that might be such.
        """
        if self.parts is not None and not (exact and self.native is not None):
            return self.parts
        if self.rank > 1 or self.dtype not in _SIZE_BITS:
            return None
        if self.array is not None:
            return tuple(int(number) for number in self.array.reshape(-1))
        if self.shape == (None,) or (exact and _SIZE_BITS[self.dtype] > 31):
            return None
        vector = as_int32(self.native)
        return tuple(vector[at] for at in range(self.shape[0] or 0)) if self.shape else (vector,)

    def place(self, axis: int) -> int:
        """Return where a logical axis lies in `native`."""
        return self.layout.place(axis, self.rank)


def as_int32(tensor: TfTensor) -> TfTensor:
    """Cast integers, not uint64, to int32; one that does not fit becomes the largest or the smallest but one."""
    if tensor.dtype.size > 4 or tensor.dtype == tf.uint32:
        tensor = tf.clip_by_value(tf.cast(tensor, tf.int64), -FAR, FAR)
    return tf.cast(tensor, tf.int32)


def current_graph() -> object:
    """Return the graph in which tensors are made at the moment, or None while something is folded.

    One graph's tensors mean nothing in another one, as in a branch. While something is folded, the graph that is being
    traced stays TensorFlow's default one.
    """
    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


def known(array: Array, weights: Weights) -> Value:
    """Return a value that is known while lowering."""
    array = np.asarray(array)
    return Value(array.dtype.name, array.shape, array=array, weights=weights)


def sizes(parts: Sequence[Size], weights: Weights, *, scalar: bool = False, dtype: str = "int64") -> Value:
    """Return a vector of sizes, or one of them as a scalar; a known value where every element is a number."""
    shape = () if scalar else (len(parts),)
    if all(isinstance(part, int) for part in parts):
        return known(np.array(parts, dtype).reshape(shape), weights)
    return Value(dtype, shape, parts=tuple(parts), weights=weights)


def computed(
    tensor: TfTensor, layout: Layout = Layout.LOGICAL, *, non_negative: bool = False, dtype: str = ""
) -> Value:
    """Return a value that TensorFlow computes; `dtype` where the tensor only carries it. Unknown rank: ValueError."""
    rank = tensor.shape.rank
    if rank is None:
        raise ValueError("a tensor of unknown rank")
    if rank < 3:
        layout = Layout.LOGICAL
    physical, order = tensor.shape.as_list(), [layout.place(axis, rank) for axis in range(rank)]
    shape, origins = tuple(physical[place] for place in order), tuple(SizeOrigin(tensor, place) for place in order)
    dtype = dtype or tensor.dtype.name
    return Value(dtype, shape, native=tensor, layout=layout, non_negative=non_negative, origins=origins)


def transpose(tensor: TfTensor, order: Sequence[int]) -> TfTensor:
    """Transpose a tensor: not at all where nothing moves, and by a reshape where only axes of size 1 move."""
    if list(order) == list(range(len(order))):
        return tensor
    shape = tensor.shape.as_list()
    moved = [axis for axis in order if shape[axis] != 1]
    target = [shape[axis] for axis in order]
    if moved == sorted(moved) and target.count(None) <= 1:
        return tf.reshape(tensor, [-1 if size is None else size for size in target])
    return tf.transpose(tensor, order)


def reshape(tensor: TfTensor, target: Sequence[Size]) -> TfTensor:
    """Reshape to sizes of which some are tensors: a single one becomes -1, so that the shape is a constant.

    A reshape that a converter may drop (kernels/tflite_reshapes.py) gets one axis more, which a gather takes off.
    """
    if looks_like_none(tensor, target) and find_tensor_of_shape(tensor, target) is None:
        return tf.gather(_reshape(tensor, [1, *target]), 0, axis=0)
    return _reshape(tensor, target)


def _reshape(tensor: TfTensor, target: Sequence[Size]) -> TfTensor:
    same = find_tensor_of_shape(tensor, target)
    if same is not None:
        return same
    unknown = [at for at, size in enumerate(target) if not isinstance(size, int)]
    if len(unknown) == 1 and -1 not in [size for size in target if isinstance(size, int)]:
        fixed = [size for size in target if isinstance(size, int)]
        if prod(fixed) > 0:
            return tf.reshape(tensor, [size if isinstance(size, int) else -1 for size in target])
    return tf.reshape(tensor, pack_sizes(target))


def line_along(line: TfTensor, axis: int, rank: int) -> TfTensor:
    """Reshape a vector to lie along one of `rank` axes, to be broadcast along the others."""
    return tf.reshape(line, [-1 if at == axis else 1 for at in range(rank)])


def with_rank(tensor: TfTensor, rank: int) -> TfTensor:
    """Return the tensor with its rank, which TensorFlow could not infer."""
    tensor.set_shape([None] * rank)
    return tensor


def pack_sizes(target: Sequence[Size]) -> TfTensor:
    """Return sizes as an int32 vector for TensorFlow; a plain list where all are known."""
    if all(isinstance(size, int) for size in target):
        return [int(size) for size in target]
    return tf.stack([tf.cast(size, tf.int32) for size in target])


def map_elements(value: Value, function: Callable[[TfTensor], TfTensor], *, non_negative: bool = False) -> Value:
    """Apply an elementwise function in whichever layout the value lies."""
    native = value.tensor(value.layout)
    return computed(function(native), value.layout, non_negative=non_negative).with_sizes_of(value)


def broadcast(function: Callable[..., TfTensor], *values: Value) -> Value:
    """Apply a function under numpy's broadcasting, which is ONNX's; channels last where one of full rank lies so."""
    rank = max(value.rank for value in values)
    last = any(value.layout is Layout.CHANNELS_LAST and value.rank == rank for value in values)
    layout = Layout.CHANNELS_LAST if last else Layout.LOGICAL
    aligned = [_align(value, layout, rank, [other for other in values if other is not value]) for value in values]
    result = computed(function(*(_broadcast_all(aligned) if rank > MOST_BROADCAST else aligned)), layout)
    for axis in (axis for axis in range(rank) if result.shape[axis] is None):
        at = axis - rank  # the same axis of every value, counted from the end
        long = [value for value in values if value.rank >= -at and value.shape[at] != 1]
        if len({value.origins[at] if value.shape[at] is None else None for value in long}) == 1:
            result = result.with_sizes_of(long[0], [(axis, at)])
    return result


def _broadcast_all(tensors: Sequence[TfTensor]) -> list[TfTensor]:
    """Broadcast fully: TensorFlow's kernels take five axes, and more only if the sides do not repeat in turns."""
    shape = reduce(tf.broadcast_dynamic_shape, [tf.shape(tensor) for tensor in tensors])
    static = reduce(tf.broadcast_static_shape, [tensor.shape for tensor in tensors])
    spread = [tf.broadcast_to(tensor, shape) for tensor in tensors]
    for tensor in spread:
        tensor.set_shape(static)
    return spread


def _align(value: Value, layout: Layout, rank: int, other_values: Sequence[Value]) -> TfTensor:
    """Return a value in a layout of `rank` axes; where it has fewer, axes of size 1 come before its own."""
    if value.array is not None and value.rank > 0:
        beside = [other for other in other_values if other.computing]
        return _constant_tensor(value.array, value.weights, layout, rank, beside)
    if layout is Layout.LOGICAL or value.rank in (0, rank):
        return value.tensor(layout if value.rank == rank else Layout.LOGICAL)
    leading = (1,) * (rank - value.rank)
    logical = reshape(value.tensor(), [*leading, *(value.size(axis) for axis in range(value.rank))])
    return computed(logical).tensor(layout)


def _constant_tensor(array: Array, weights: Weights, layout: Layout, rank: int, beside: Sequence[Value]) -> TfTensor:
    """Return a known array beside computed values; a single number as a scalar where another value has the full rank.

    TensorFlow 2.21's graph optimiser takes an Add of a constant for one with the bias of the BiasAdd before it, and
    fails where the constant is not as wide as that. Such an array is held where the optimiser does not see it.
    """
    if array.size == 1 and any(value.rank == rank for value in beside):
        return known(array.reshape(()), weights).tensor()
    missing = rank - array.ndim if layout is Layout.CHANNELS_LAST else 0
    order = layout.order(missing + array.ndim)
    shape = [1 if axis < missing else array.shape[axis - missing] for axis in order]
    last = layout.order(rank)[-1]
    as_wide = all(value.rank == rank and value.shape[last] == shape[-1] for value in beside)
    axes = [axis - missing for axis in order if axis >= missing]
    return weights.hold(array, axes, shape if missing else (), hidden=array.dtype.kind not in "iub" and not as_wide)


def add_bias(tensor: TfTensor, bias: Value | None, *, fuse: bool = True) -> TfTensor:
    """Add a vector along the last axis, by the operator that runtimes fuse into a product before it, or by one that
    they do not fuse."""
    if bias is None:
        return tensor
    return tf.nn.bias_add(tensor, bias.tensor()) if fuse else tensor - (-bias.tensor())


def is_same_size(a: Size, b: Size) -> bool:
    """Return whether two sizes are known to be the same."""
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


def broadcast_size(a: Size, b: Size) -> Size:
    """Return the size of an axis under broadcasting: where one side is 1, the other side's."""
    if a is b or (isinstance(b, int) and b == 1):
        return a
    if isinstance(a, int):
        return b if a == 1 else a
    return b if isinstance(b, int) else tf.where(tf.equal(a, 1), b, a)


def product(parts: Sequence[Size]) -> Size:
    """Return the product of sizes; the known ones are multiplied now."""
    total: Size = prod(part for part in parts if isinstance(part, int))
    for part in parts:
        if not isinstance(part, int):
            total = part if isinstance(total, int) and total == 1 else total * part
    return total


# Which inputs of an operator have to be sizes for its result to be one.
_MAKE_SIZES = {"Mul": slice(None), "AddV2": slice(None), "FloorDiv": slice(None), "SelectV2": slice(1, None)}


def is_axis_size(tensor: TfTensor) -> bool:
    """Return whether a tensor is never negative: an element of tf.shape, or sums, products and choices of such."""
    if tensor.op.type in _MAKE_SIZES:
        return all(is_axis_size(source) for source in tensor.op.inputs[_MAKE_SIZES[tensor.op.type]])
    if tensor.op.type == "Const":
        return bool(np.all(tf.get_static_value(tensor) >= 0))
    return bool(tensor.op.type == "StridedSlice" and tensor.op.inputs[0].op.type == "Shape")

"""Which sizes the dynamic axes of a model are tried at: near those of an example, and as large as there is room for."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations

from ..signature import ANY_SIZE, Bounds, TensorSpec, batch_axis, bounds_of

_OWN = 5  # the size of the first axis that nothing is known of; the next has 7, and so on
_ENOUGH = 5  # an axis that begins here may take multiples of its lower end alone, as images do in a deep network
_BATCH = 2  # of a call at far sizes
_SMALL = 2  # a size of 1 takes part in broadcasting, which hides what goes wrong
_LARGE = (65, 257)  # sizes that none of the checks has
_LARGEST = (1025, 513, 257, 129)  # of one axis where the others are small: the first that there is room for
_TOGETHER = (65, 33, 17)  # of all axes at once, likewise
_ALIGNED = (64, 32)  # of all axes at once: multiples of what networks pad to, where there is a branch
_MOST_ELEMENTS = 100_000  # of the inputs of such a call


def axes_of(specs: Iterable[TensorSpec]) -> tuple[str, ...]:
    """Return the dynamic axes by name, each once, in the order of the inputs."""
    return tuple(dict.fromkeys(axis for spec in specs for axis in spec.dynamic_axes.values()))


def other_axes(specs: Sequence[TensorSpec]) -> tuple[str, ...]:
    """Return the dynamic axes that are not the batch."""
    batch = batch_axis(specs)
    return tuple(axis for axis in axes_of(specs) if axis != batch)


def bounds_within(specs: Sequence[TensorSpec], axis: str | None) -> Bounds:
    """Return the bounds of an axis; of None, which is a batch that is not there, those of one sample a call."""
    return Bounds(1, 1) if axis is None else bounds_of(specs).get(axis, ANY_SIZE)


def batches_within(specs: Sequence[TensorSpec], batches: Iterable[int]) -> tuple[int, ...]:
    """Return the batch sizes to try a model at in place of `batches`, which it may not take.
    Of 1, 2 and 5 in 4..6 they are 4, 5 and 6. A model without a batch is called with one sample at a time."""
    bounds = bounds_within(specs, batch_axis(specs)).filled
    shifted = (size if size >= bounds.low else bounds.low + (size - 1) * bounds.step for size in batches)
    return tuple(dict.fromkeys(map(bounds.nearest, shifted)))


def fixed_batch(copy: Sequence[TensorSpec], specs: Sequence[TensorSpec]) -> dict[str, Bounds]:
    """Return the bounds of the batch of `specs` in a copy whose inputs have it fixed: one size."""
    shapes, batch = {spec.name: spec.shape for spec in copy}, batch_axis(specs)
    axes = ((axis, size) for spec in specs for axis, size in zip(spec.shape, shapes.get(spec.name, ()), strict=False))
    return {axis: Bounds(size, size) for axis, size in axes if axis == batch and isinstance(size, int)}


def empty_axes(specs: Iterable[TensorSpec]) -> tuple[str, ...]:
    """Return the dynamic axes that may have the size 0: those whose bounds say so."""
    return tuple(axis for axis, bounds in bounds_of(specs).items() if bounds.low == 0)


def with_sizes(spec: TensorSpec, axes: Collection[str]) -> TensorSpec:
    """Write SIZE for these axes of an input, for a hint whose reader puts one size there."""
    shape = tuple("SIZE" if axis in axes else axis for axis in spec.shape)
    return replace(spec, shape=shape, bounds=tuple((axis, limits) for axis, limits in spec.bounds if axis not in axes))


def other_sizes(size: int, bounds: Bounds) -> Iterator[int]:
    """Yield sizes to try in place of `size`.
    Smaller ones come first, for the samples hold enough for them. Half and double are among them, because some models
    take multiples alone. Bounds with a step have the nearest size in place of each."""
    filled, step = bounds.filled, bounds.step
    wanted = (size - max(step, size // 3), size - step, size // 2, size + step, size + size // 2 + 1, 2 * size)
    stepped = wanted if step == 1 else map(filled.nearest, wanted)
    return (other for other in dict.fromkeys(stepped) if other in filled and other != size)


def resized_axes(axis: str, size: int, own: Mapping[str, int]) -> tuple[dict[str, int], ...]:
    """Return the changes to try for an `axis` of another `size`: it alone, then all axes that are as large in `own`.
    Axes of one size may be one axis under several names."""
    alike = {other: size for other, known in own.items() if known == own.get(axis)}
    return ({axis: size}, *([alike] if len(alike) > 1 else []))


def example_sizes(specs: Sequence[TensorSpec], batch: int) -> dict[str, int]:
    """Choose a size within its bounds for every dynamic axis, none of them empty.
    The batch is as near to `batch` as its bounds allow. Each other axis has a size of its own, where there is room for
    that."""
    name = batch_axis(specs)
    sizes = {} if name is None else {name: bounds_within(specs, name).filled.nearest(batch)}
    for at, axis in enumerate(other_axes(specs)):
        sizes[axis] = _distinct_size(bounds_within(specs, axis).filled, at, sizes.values())
    return sizes


def stride_of(bounds: Bounds) -> int:
    """Return what a size grows by at least: the step; without one, the lower end where a model may take its multiples
    alone."""
    return bounds.low if bounds.step == 1 and bounds.low >= _ENOUGH else bounds.step


def _distinct_size(bounds: Bounds, at: int, used: Collection[int]) -> int:
    low, high, step = bounds
    stride = stride_of(bounds)
    wanted = bounds.nearest(low + (1 + at) * stride if stride > 1 else _OWN + 2 * at)
    near = map(bounds.nearest, (low + stride, low, high or low + 2 * step, low + step, low + 2 * step))
    return next((size for size in (wanted, *near) if size not in used), wanted)


def two_sizes(specs: Sequence[TensorSpec]) -> tuple[dict[str, int], dict[str, int]]:
    """Choose two sizes within its bounds, neither of them 0, for every dynamic axis, the batch too.
    No two axes have the same pair, where there is room for that: what changes between two calls then tells by which
    axis."""
    pairs: dict[str, tuple[int, int]] = {}
    for at, axis in enumerate(axes_of(specs)):
        bounds = bounds_within(specs, axis).filled
        few = (bounds.nearest(_BATCH), bounds.nearest(2 * _BATCH + 1))  # a call takes as long as it has samples
        is_few = axis == batch_axis(specs) and few[0] != few[1] and few not in pairs.values()
        pairs[axis] = few if is_few else _distinct_pair(bounds, at, pairs.values())
    return {axis: pair[0] for axis, pair in pairs.items()}, {axis: pair[1] for axis, pair in pairs.items()}


def _distinct_pair(bounds: Bounds, at: int, used: Collection[tuple[int, int]]) -> tuple[int, int]:
    low, step, stride = bounds.low, bounds.step, stride_of(bounds)
    first = low + (1 + at) * stride if stride > 1 else _OWN + 3 * at
    sizes = dict.fromkeys(map(bounds.nearest, (first, first + stride, low, low + step, low + 2 * step)))
    pairs = list(permutations(sizes, 2))  # at least one: the bounds of an axis hold two sizes or more
    return next((pair for pair in pairs if pair not in used), pairs[0])


def most_elements(specs: Sequence[TensorSpec]) -> int:
    """Return how many elements the inputs of a call at other sizes may have: no fewer than an example has."""
    return max(_MOST_ELEMENTS, count_elements(specs, example_sizes(specs, _BATCH)))


def count_elements(specs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> int:
    """Count the elements of the inputs at these sizes of their dynamic axes."""
    return sum(math.prod(spec.sized(sizes)) for spec in specs)


def times_elements(specs: Sequence[TensorSpec], own: Mapping[str, int], sizes: Mapping[str, int]) -> float:
    """Return how many times the elements of its `own` sizes a sample has at other `sizes`."""
    before, after = ({**own, **changed, batch_axis(specs) or "": 1} for changed in ({}, sizes))
    return count_elements(specs, after) / max(1, count_elements(specs, before))


def least_sizes(specs: Sequence[TensorSpec], small: int = _SMALL) -> dict[str, int]:
    """Return every dynamic axis as near to a small size as its bounds allow."""
    return _within_bounds(specs, dict.fromkeys(example_sizes(specs, _BATCH), small))


def far_sizes(specs: Sequence[TensorSpec]) -> list[dict[str, int]]:
    """List the far sizes to try a program at.
    Each dynamic axis is large, beside the others as in an example and then as small as they may be: a relation between
    two breaks at one of them alone. Then all are large at once, all are 64 or 32, and each is empty where it may be."""
    own, least, most = example_sizes(specs, _BATCH), least_sizes(specs), most_elements(specs)
    points: list[dict[str, int]] = []
    for axis in own:
        points += _with_room(specs, ({**own, axis: size} for size in _LARGE), _MOST_ELEMENTS)
        points += list(_with_room(specs, ({**least, axis: size} for size in _LARGEST), most))[:1]
    if len(own) > 1:
        steps = {axis: bounds_within(specs, axis).step for axis in own}
        together = ({axis: size + place * steps[axis] for place, axis in enumerate(own)} for size in _TOGETHER)
        points += list(_with_room(specs, together, most))[:1]
    points += list(_with_room(specs, (dict.fromkeys(own, size) for size in _ALIGNED), most))[:1]
    points += [{**own, axis: 0} for axis in empty_axes(specs)]
    return [point for at, point in enumerate(points) if point != own and point not in points[:at]]


def _with_room(specs: Sequence[TensorSpec], points: Iterable[Mapping[str, int]], most: int) -> Iterator[dict[str, int]]:
    within = (_within_bounds(specs, point) for point in points)
    return (point for point in within if count_elements(specs, point) <= most)


def with_bounds(specs: Iterable[TensorSpec], bounds: Mapping[str, Bounds]) -> tuple[TensorSpec, ...]:
    """Return the inputs with these bounds, each on those axes that it has, in place of their own."""
    return tuple(
        replace(
            spec,
            bounds=tuple((axis, bounds[axis]) for axis in dict.fromkeys(spec.dynamic_axes.values()) if axis in bounds),
        )
        for spec in specs
    )


def _within_bounds(specs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> dict[str, int]:
    return {axis: bounds_within(specs, axis).filled.nearest(size) for axis, size in sizes.items()}

"""The sizes that axes are tried at lie within their bounds, and tell the axes apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transload.models.probes.sizes import (
    axes_of,
    batches_within,
    example_sizes,
    far_sizes,
    other_axes,
    other_sizes,
    two_sizes,
)
from transload.models.signature import ANY_SIZE, Bounds, TensorSpec, batch_axis, parse_input

bounds = st.one_of(
    st.none(),
    st.builds(lambda low: Bounds(low, None), st.integers(0, 300)),
    st.builds(lambda low, more: Bounds(low, low + more), st.integers(0, 300), st.integers(2, 300)),
    st.builds(
        lambda low, more, step: Bounds(low, low + more * step if more else None, step),
        st.integers(0, 300),
        st.sampled_from([0, *range(3, 40)]),
        st.integers(2, 64),
    ),
)


@st.composite
def models(draw: st.DrawFn) -> tuple[TensorSpec, ...]:
    """An input with up to four dynamic axes."""
    names = draw(st.lists(st.sampled_from(["batch", "h", "w", "tokens"]), unique=True, min_size=1))
    known = [(axis, found) for axis in names if (found := draw(bounds))]
    return (TensorSpec("x", "float32", (*names, 3), tuple(known)),)


def of(spec: TensorSpec, axis: str) -> Bounds:
    return dict(spec.bounds).get(axis, ANY_SIZE)


@given(models(), st.integers(1, 70))
def test_examples_lie_within_the_bounds_and_the_batch_near_what_is_asked(
    specs: tuple[TensorSpec, ...], batch: int
) -> None:
    sizes = example_sizes(specs, batch)
    assert set(sizes) == set(specs[0].dynamic_axes.values())
    assert all(size and size in of(specs[0], axis) for axis, size in sizes.items())
    name = str(batch_axis(specs))
    assert sizes[name] == of(specs[0], name).filled.nearest(batch)


@given(models())
def test_two_sizes_differ_on_every_axis_and_tell_which_it_was(specs: tuple[TensorSpec, ...]) -> None:
    first, second = two_sizes(specs)
    assert all(first[axis] in of(specs[0], axis) and second[axis] in of(specs[0], axis) for axis in first)
    assert all(first[axis] != second[axis] and first[axis] and second[axis] for axis in first)
    assert len({(first[axis], second[axis]) for axis in first}) == len(first)


@given(models(), st.lists(st.integers(1, 99), min_size=1))
def test_batches_are_those_that_the_model_takes(specs: tuple[TensorSpec, ...], asked: list[int]) -> None:
    found = batches_within(specs, asked)
    taken = of(specs[0], str(batch_axis(specs)))
    assert all(batch in taken for batch in found)
    assert {size for size in asked if size in taken} <= set(found)
    assert batches_within(specs, found) == found, "a worker may do again what its parent has done"


@pytest.mark.parametrize(
    ("spec", "batches"),
    [
        ("x=float32[batch]", (1, 2, 5)),
        ("x=float32[batch=4..6]", (4, 5)),
        ("x=float32[batch=60..64]", (60, 61, 64)),
        ("x=float32[batch=1..3]", (1, 2, 3)),
        ("x=float32[batch=8..:8]", (8, 16, 40)),
        ("x=float32[batch=4..8:4]", (4, 8)),
        ("x=float32[8,3]", (1,)),
        ("x=float32[]", (1,)),
    ],
)
def test_a_batch_out_of_bounds_is_moved_into_them(spec: str, batches: tuple[int, ...]) -> None:
    assert batches_within([parse_input(spec)], (1, 2, 5)) == batches


def test_an_axis_that_begins_high_is_tried_at_multiples_of_that() -> None:
    specs = [parse_input("x=float32[batch,3,h=32..256,w=32..256]")]
    assert example_sizes(specs, 2) == {"batch": 2, "h": 64, "w": 96}
    assert all(size % 32 == 0 for sizes in two_sizes(specs) for axis, size in sizes.items() if axis != "batch")


@given(models(), st.integers(1, 400))
def test_every_size_that_is_tried_is_one_that_the_model_takes(specs: tuple[TensorSpec, ...], size: int) -> None:
    for axis in axes_of(specs):
        own = of(specs[0], axis)
        others = list(other_sizes(own.filled.nearest(size), own))
        assert all(other in own and other for other in others)
        assert own.step == 1 or others, "a step leads somewhere from each size"
    for point in far_sizes(specs):
        assert all(at in of(specs[0], axis) for axis, at in point.items())


def test_other_axes_keep_their_order() -> None:
    assert other_axes([parse_input("x=float32[batch,b,a]"), parse_input("y=float32[batch,c,a]")]) == ("b", "a", "c")

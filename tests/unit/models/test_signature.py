"""What a signature says of axes: bounds, and which of them is the batch."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transload.models.errors import BadRequest
from transload.models.signature import Bounds, Signature, TensorSpec, ValueRange, batch_axis, check_feeds, parse_input

OUTPUT = (TensorSpec("y", "float32", ("batch",)),)


def specs(*texts: str) -> tuple[TensorSpec, ...]:
    return tuple(map(parse_input, texts))


@pytest.mark.parametrize(
    ("dims", "shape", "bounds"),
    [
        ("batch=1..64,3,224,224", ("batch", 3, 224, 224), {"batch": Bounds(1, 64)}),
        ("batch=1..", ("batch",), {"batch": Bounds(1, None)}),
        ("past=0..", ("past",), {"past": Bounds(0, None)}),
        ("past=0..8", ("past",), {"past": Bounds(0, 8)}),
        ("batch, tokens = 8 .. 512", ("batch", "tokens"), {"tokens": Bounds(8, 512)}),
        ("h=32..1024:32", ("h",), {"h": Bounds(32, 1024, 32)}),
        ("h = 16 .. : 16", ("h",), {"h": Bounds(16, None, 16)}),
        ("h=0..64:32", ("h",), {"h": Bounds(0, 64, 32)}),
        ("h=33..:32", ("h",), {"h": Bounds(33, None, 32)}),
        ("16*h, 8 * w", ("h", "w"), {"h": Bounds(16, None, 16), "w": Bounds(8, None, 8)}),
        ("h=2..5:1", ("h",), {"h": Bounds(2, 5)}),
        ("n=2..5,n", ("n", "n"), {"n": Bounds(2, 5)}),
        ("n=2..5,n=2..5", ("n", "n"), {"n": Bounds(2, 5)}),
        ("2,edges", (2, "edges"), {}),
        ("", (), {}),
    ],
)
def test_dims_are_sizes_names_and_bounds(dims: str, shape: tuple[int | str, ...], bounds: dict[str, Bounds]) -> None:
    spec = parse_input(f"x=float32[{dims}]")
    assert (spec.shape, dict(spec.bounds)) == (shape, bounds)


MESSAGES = [
    ("n=5..2", "--input 'x=int64[n=5..2]': 'n=5..2' leaves no two sizes\n  fix: write n=2..5"),
    ("n=4..4", "--input 'x=int64[n=4..4]': 'n=4..4' leaves no two sizes\n  fix: a fixed size is written 4"),
    (
        "n=0..1",
        "--input 'x=int64[n=0..1]': 'n=0..1' leaves no two sizes that hold anything\n  fix: write n=0.. or n=0..2",
    ),
    (
        "n=0..0",
        "--input 'x=int64[n=0..0]': 'n=0..0' leaves no two sizes that hold anything\n  fix: a fixed size is written 0",
    ),
    (
        "n=4..9:0",
        "--input 'x=int64[n=4..9:0]': 'n=4..9:0' has a step of 0\n  fix: write n=4..9, or a step as in n=32..1024:32",
    ),
    (
        "n=0..32:32",
        "--input 'x=int64[n=0..32:32]': 'n=0..32:32' leaves no two sizes that hold anything\n"
        "  fix: write n=0..:32 or n=0..64:32",
    ),
    (
        "n=32..1000:32",
        "--input 'x=int64[n=32..1000:32]': 'n=32..1000:32' counts in steps of 32 from 32, and does not come to 1000\n"
        "  fix: write n=32..992:32",
    ),
    (
        "n=1..1024:32",
        "--input 'x=int64[n=1..1024:32]': 'n=1..1024:32' counts in steps of 32 from 1, and does not come to 1024\n"
        "  fix: write n=1..993:32, or n=32..1024:32 for multiples of 32",
    ),
    ("n=9..4:2", "--input 'x=int64[n=9..4:2]': 'n=9..4:2' leaves no two sizes\n  fix: write n=4..8:2"),
    ("n=4..5:2", "--input 'x=int64[n=4..5:2]': 'n=4..5:2' leaves no two sizes\n  fix: a fixed size is written 4"),
    ("n=1..2,n=1..3", "--input 'x=int64[n=1..2,n=1..3]': the axis n has two bounds\n  fix: give n its bounds once"),
    (
        "n*16",
        "--input 'x=int64[n*16]': 'n*16' is neither a size nor the name of an axis\n"
        "  fix: write a step as in height=32..1024:32 or height=32..:32",
    ),
    (
        "n=8",
        "--input 'x=int64[n=8]': 'n=8' is neither a size nor the name of an axis\n"
        "  fix: write it as in --input image=float32[batch,3,224,224] (docs/convert.md)",
    ),
]


@pytest.mark.parametrize(("dims", "text"), MESSAGES)
def test_what_a_person_reads_of_bounds_that_are_none(dims: str, text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_input(f"x=int64[{dims}]")
    assert str(caught.value) == text


def test_an_axis_with_two_bounds_is_refused_wherever_they_stand() -> None:
    with pytest.raises(BadRequest) as caught:
        Signature(specs("a=float32[n=1..4]", "b=float32[n=1..5]"), OUTPUT)
    assert str(caught.value) == (
        "the axis n is 1..4 in one place and 1..5 in another\n  fix: give n its bounds once; one name is one axis"
    )


def test_bounds_that_are_given_once_hold_in_every_input() -> None:
    inputs = specs("a=float32[n=2..4]", "b=float32[3,n]")
    assert Signature(inputs, OUTPUT).bounds == {"n": Bounds(2, 4)}
    feeds = {"a": np.zeros(5, np.float32), "b": np.zeros((3, 5), np.float32)}
    with pytest.raises(BadRequest, match=r"the axis n has the size 5, and the model takes 2\.\.4"):
        check_feeds(inputs, feeds)
    assert check_feeds(inputs, {name: value[..., :4] for name, value in feeds.items()}) == {"n": 4}


@pytest.mark.parametrize(
    ("size", "fix"),
    [
        (40, "send a size within 32..96:32, such as 32 or 64"),
        (8, "send a size within 32..96:32, such as 32"),
        (128, "send a size within 32..96:32, such as 96"),
    ],
)
def test_a_size_between_two_steps_is_refused_with_those_beside_it(size: int, fix: str) -> None:
    (spec,) = specs("x=float32[batch,h=32..96:32]")
    assert check_feeds([spec], {"x": np.zeros((1, 64), np.float32)}) == {"batch": 1, "h": 64}
    with pytest.raises(BadRequest) as caught:
        check_feeds([spec], {"x": np.zeros((1, size), np.float32)})
    assert (caught.value.what, caught.value.fix) == (
        f"the axis h has the size {size}, and the model takes 32..96:32",
        fix,
    )


@given(st.integers(0, 40), st.integers(0, 9), st.integers(1, 40), st.integers(0, 500))
def test_the_nearest_allowed_size_is_nearest(low: int, steps: int, step: int, size: int) -> None:
    bounds = Bounds(low, low + steps * step if steps else None, step)
    allowed = [known for known in range(1000) if known in bounds]
    assert abs(bounds.nearest(size) - size) == min(abs(known - size) for known in allowed)
    assert bounds.at_most(size) == max((known for known in allowed if known <= size), default=low)
    assert bounds.at_least(size) == min((known for known in allowed if known >= size), default=allowed[-1])
    assert all(known in bounds for known in (bounds.within(size, None).low, bounds.within(low, size).high or low))


sizes = st.integers(1, 99)
names = st.sampled_from(["batch", "n", "tokens"])
axes = st.one_of(sizes, names)
bounds = st.builds(
    lambda low, more, step: Bounds(low, low + more * step if more else None, step),
    sizes,
    st.integers(0, 9),
    st.sampled_from([1, 1, 2, 32]),
)


@st.composite
def tensors(draw: st.DrawFn) -> TensorSpec:
    shape = tuple(draw(st.lists(axes, max_size=4)))
    named = sorted({axis for axis in shape if isinstance(axis, str)})
    chosen = draw(st.lists(st.sampled_from(named), unique=True)) if named else []
    return TensorSpec("x", "float32", shape, tuple((axis, draw(bounds)) for axis in sorted(chosen)))


@given(tensors())
def test_a_spec_survives_its_text_and_its_json(spec: TensorSpec) -> None:
    found = parse_input(str(spec))
    assert (found.shape, dict(found.bounds)) == (spec.shape, dict(spec.bounds))
    assert TensorSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert ("bounds" in spec.to_json()) == bool(spec.bounds), "a record without bounds is what it was before"


@pytest.mark.parametrize(
    ("inputs", "batch"),
    [
        (["x=float32[batch,3]"], "batch"),
        (["x=float32[n,3]", "y=int64[n]"], "n"),
        (["x=float32[n,3]", "scale=float32[]"], "n"),
        (["x=float32[batch,3]", "table=float32[7,3]"], "batch"),
        (["x=float32[time,batch,3]"], "batch"),
        (["nodes=float32[nodes,4]", "edges=int64[2,edges]"], None),
        (["x=float32[n,3]", "y=float32[m,3]"], None),
        (["x=float32[4,3]"], None),
        (["x=float32[]"], None),
        (["x=float32[batch,3]", "pairs=float32[batch,batch]"], None),
    ],
)
def test_the_batch_is_what_every_input_begins_with_or_is_called_so(inputs: list[str], batch: str | None) -> None:
    assert batch_axis(specs(*inputs)) == Signature(specs(*inputs), OUTPUT).batch == batch


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("ids=int64[batch,seq=1..128] in 0..30521", ValueRange(0, 30521)),
        ("b=int64[batch]  in  1 .. 9", ValueRange(1, 9)),
        ("t=int32[] in -5..5", ValueRange(-5, 5)),
        ("image=uint8[batch,3,8,8] in 0..255", ValueRange(0, 255)),
        ("x=float32[batch,4] in -1..1", ValueRange(-1.0, 1.0)),
        ("x=float32[batch,4] in .5..1e3", ValueRange(0.5, 1000.0)),
    ],
)
def test_values_are_part_of_an_input(text: str, values: ValueRange) -> None:
    spec = parse_input(text)
    assert spec.values == values
    assert type(spec.values.low) is type(values.low)
    assert parse_input(str(spec)) == spec
    assert TensorSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_a_record_of_former_times_has_no_values() -> None:
    row = {"name": "x", "dtype": "float32", "shape": ["batch", 3]}
    assert TensorSpec.from_json(row).values is None
    assert TensorSpec.from_json(row).to_json() == row


REFUSED_VALUES = [
    ("ids=int64[batch] in 9..1", "'9..1' leaves no two values", "write 1..9"),
    ("ids=int64[batch] in 4..4", "'4..4' leaves no two values", "a number that never changes is no input"),
    ("ids=int64[batch] in 1..1.5", "int64 holds whole numbers", "write them without a point"),
    ("ids=int64[batch] in 1", "'1' is no LOW..HIGH", "write it as in --input 'ids=int64[batch] in 0..9'"),
    ("x=uint8[batch] in -1..4", "uint8 holds 0 to 255", "give values within that"),
    ("m=bool[batch] in 0..1", "true and false are all that a bool holds", "leave it out"),
    ("x=float32[batch] in nan..1", "'nan..1' is no LOW..HIGH", "write it as in --input 'ids=int64[batch] in 0..9'"),
]


@pytest.mark.parametrize(("text", "what", "fix"), REFUSED_VALUES)
def test_values_that_cannot_be_are_refused(text: str, what: str, fix: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_input(text)
    assert (caught.value.what, caught.value.fix) == (f"--input {text!r}: {what}", fix)


@pytest.mark.parametrize(
    "text",
    [
        f"x=float32[{'9' * 5000}]", f"x=float32[{1 << 60}]", f"x=int64[2] in 0..{'9' * 5000}",
        "n" * 1100 + "=float32[2]", f"x=float32[n=1..{'9' * 5000}]", "x=float32[" + "1," * 70 + "1]",
    ],
)  # fmt: skip
def test_numbers_and_names_that_no_record_takes_are_refused(text: str) -> None:
    with pytest.raises(BadRequest, match=r"^--input ") as caught:
        parse_input(text)
    assert caught.value.fix == "write it as in --input image=float32[batch,3,224,224] (docs/convert.md)"

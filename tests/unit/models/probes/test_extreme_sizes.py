"""Sizes beyond those of samples: what the declaration allows, as far as there is room and time."""

from __future__ import annotations

import pytest

from transload.models.probes.extreme_sizes import Room, far_batches, far_sizes_of
from transload.models.signature import parse_input


@pytest.mark.parametrize(
    ("batch", "asked", "wanted"),
    [
        ("batch", (1, 2, 5), [(65, 33, 17)]),
        ("batch=1..8", (1, 2, 5), [(8,)]),
        ("batch=1..64", (1, 2, 5), [(64, 33, 17), (33, 17)]),
        ("batch=1..128", (1, 2, 5), [(128, 65, 33, 17), (65, 33, 17)]),
        ("batch=1..5", (1, 2, 5), []),
        ("batch=8..:8", (8, 16), [(32,)]),
        ("batch", (100,), []),
        ("4", (1,), []),
    ],
)
def test_batches_go_to_the_upper_end_and_beyond_a_power_of_two(
    batch: str, asked: tuple[int, ...], wanted: list[tuple[int, ...]]
) -> None:
    assert far_batches([parse_input(f"x=float32[{batch},3]")], asked) == wanted


@pytest.mark.parametrize(
    ("axis", "own", "wanted"),
    [
        ("tokens", 5, [(65, 33, 17), (128,), (257,), (1025, 513)]),
        ("tokens", 200, [(257,), (1025, 513)]),
        ("tokens=1..64", 5, [(64, 33, 17), (63,), (33,), (32,), (2,)]),
        ("tokens=1..9", 5, [(9,), (8,), (6,), (5,), (2,)]),
        ("tokens=0..8", 5, [(8,), (7,), (5,), (4,), (2,)]),
        ("tokens=32..", 64, [(128,), (256,), (1024, 512)]),
        ("tokens=16..:16", 32, [(64,), (128,), (256,), (1024, 512)]),
        ("tokens=2..:2", 4, [(8,), (128,), (256,), (1024, 512)]),
        ("tokens=32..1024:32", 64, [(1024, 512, 256, 128), (992,), (576,), (544,), (64,)]),
        ("tokens=1..129:32", 33, [(129, 65), (97,), (97,), (65,), (33,)]),
    ],
)
def test_bounds_are_asked_at_their_ends_and_between_odd_and_even(
    axis: str, own: int, wanted: list[tuple[int, ...]]
) -> None:
    assert far_sizes_of([parse_input(f"x=float32[batch,{axis},3]")], "tokens", own) == wanted


def test_there_is_room_for_what_takes_little_memory_and_time_and_more_time_for_a_declared_end() -> None:
    specs = [parse_input("x=float32[batch=1..65,tokens,100]")]
    usual = {"batch": 5, "tokens": 4}
    quick = Room(specs, usual, call_s=0.001)
    assert quick.has({"batch": 33})
    assert not quick.has({"tokens": 1000}), "500,000 elements"
    slow = Room(specs, usual, call_s=0.5)
    assert not slow.has({"batch": 33}), "3.3 s"
    assert slow.has({"batch": 65}), "6.5 s, at the end of its bounds"
    assert not Room(specs, usual, call_s=1.0).has({"batch": 65})

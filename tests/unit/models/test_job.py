"""Options and facts as records: the JSON of them, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from transload.models.job import Facts, JsonRecord
from transload.models.signature import TensorSpec, parse_input


@dataclass(frozen=True, kw_only=True)
class Inner(JsonRecord):
    name: str


@dataclass(frozen=True, kw_only=True)
class Outer(Facts):
    path: str
    inputs: tuple[TensorSpec, ...] = ()
    inner: Inner | None = None
    by_axis: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    pair: tuple[str, int] = ("", 0)


FULL = Outer(
    path="a",
    inputs=(parse_input("x=float32[batch,3]"),),
    inner=Inner(name="n"),
    by_axis={"rows": (1, 2)},
    pair=("p", 1),
)


def test_a_record_is_the_same_after_json() -> None:
    document = FULL.to_json()
    assert Outer.from_json(document) == FULL
    assert document["by_axis"] == {"rows": [1, 2]}
    assert document["inner"] == {"name": "n"}


def test_a_field_with_its_default_is_not_in_the_json() -> None:
    assert Outer(path="a").to_json() == {"path": "a"}
    assert Outer.from_json({"path": "a", "peak_rss_bytes": 5}).peak_rss_bytes == 5


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"path": "a", "oops": 1}, "Outer has no oops; it has peak_rss_bytes, path, inputs, inner, by_axis, pair"),
        ({"pair": ["p", 1]}, "Outer lacks path"),
        ({"path": "a", "inner": {}}, "Inner lacks name"),
    ],
)
def test_a_wrong_key_is_named(document: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011  (the message is compared whole)
        Outer.from_json(document)
    assert str(refused.value) == message


def test_the_part_of_a_larger_object_is_read() -> None:
    assert Inner.part_of({"name": "n", "version": "1"}) == Inner(name="n")

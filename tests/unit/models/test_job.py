"""Options and facts as records: the JSON of them, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from transload.models.errors import StepFailed
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
        ({"path": 7}, "7 is no str"),
        ({"path": "a", "pair": ["p", True]}, "True is no int"),
        ({"path": "a", "by_axis": {"rows": ["x"]}}, "'x' is no int"),
        ({"path": "a", "by_axis": [1]}, "'list' object has no attribute 'items'"),
        ({"path": "a", "inputs": 5}, "object of type 'int' has no len()"),
        ({"path": "a", "inputs": [{}]}, "'name'"),
    ],
)
def test_a_wrong_key_or_value_is_named(document: dict[str, Any], message: str) -> None:
    with pytest.raises(StepFailed) as refused:
        Outer.from_json(document)
    assert refused.value.what == f"a step answered with something that is no Outer: {message}"


def test_the_part_of_a_larger_object_is_read() -> None:
    assert Inner.part_of({"name": "n", "version": "1"}) == Inner(name="n")

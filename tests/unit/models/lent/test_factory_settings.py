"""Settings of a factory in another interpreter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from transload.models.lent.factory_settings import factory_arguments
from transload.models.lent.failures import Refusal


@dataclass
class Head:
    classes: int = 2
    widths: tuple[int, ...] = (1,)


@dataclass
class Config:
    depth: int = 3
    head: Head = field(default_factory=Head)


def make(config: Config | None = None, size: int = 4, shape: tuple[int, ...] = (1, 2)) -> None:
    """A factory."""


def test_dotted_names_set_the_fields_of_nested_dataclasses() -> None:
    values = factory_arguments(make, {"config.depth": 5, "config.head.classes": 7, "shape": [3, 4]}, "net.py:make")
    assert values == {"config": Config(5, Head(7)), "shape": (3, 4)}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sise": 1}, "takes no 'sise'"),
        ({"config": 1, "config.depth": 2}, "both as a value and by its fields"),
    ],
)
def test_wrong_settings_are_refused_by_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        factory_arguments(make, settings, "net.py:make")


def test_a_setting_that_is_needed_is_named() -> None:
    def needs(depth: int) -> None:
        """A factory."""

    with pytest.raises(Refusal, match="needs depth") as refused:
        factory_arguments(needs, {}, "net.py:needs")
    assert refused.value.fix == "give what it needs: --set depth=VALUE"

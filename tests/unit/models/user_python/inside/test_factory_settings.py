"""Settings of a factory in another interpreter."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, get_type_hints

import pytest

from transload.models.user_python.inside.factory_settings import factory_arguments
from transload.models.user_python.inside.failures import Refusal
from transload.models.user_python.inside.settings_dict import SettingsDict

if TYPE_CHECKING:
    from decimal import Decimal


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
        ({"config.head.clases": 1}, r"config\.head of net\.py:make takes no 'config\.head\.clases'"),
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


def partly(other: Decimal | None, config: Config | None = None, shape: tuple[int, ...] | None = None) -> None:
    """A factory with an annotation that cannot be evaluated, as `X | Y` cannot be in Python 3.9."""


def test_an_annotation_that_cannot_be_evaluated_does_not_hide_the_others() -> None:
    values = factory_arguments(partly, {"other": 1, "config.head.classes": 7}, "net.py:partly")
    assert values == {"other": 1, "config": Config(3, Head(7))}


class Old(type):
    """Types as they are in Python 3.9: without the operator |."""

    def __or__(cls, other: object) -> Any:
        raise TypeError("unsupported operand type(s) for |: 'type' and 'NoneType'")


@dataclass
class OldHead(metaclass=Old):
    classes: int = 2


@dataclass
class OldConfig(metaclass=Old):
    head: OldHead | None = None
    heads: list[OldHead | None] | None = None


def old(config: OldConfig | None = None) -> None:
    """A factory."""


def test_unions_in_texts_need_no_operator_of_types() -> None:
    with pytest.raises(TypeError):
        get_type_hints(old)
    values = factory_arguments(old, {"config.head.classes": 7}, "net.py:old")
    assert values == {"config": OldConfig(OldHead(7))}


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


def record(**values: Any) -> dict[str, Any]:
    return {"file": "last.ckpt", "values": values, "open_names": []}


def test_annotations_make_members_and_paths() -> None:
    def sized(size: Size, file: Path, other: Size = Size.SMALL) -> None:
        """A factory."""

    values = factory_arguments(sized, {"size": "LARGE", "file": "a/b", "other": "l"}, "net.py:sized")
    assert values == {"size": Size.LARGE, "file": Path("a/b"), "other": Size.LARGE}


def test_what_a_checkpoint_records_is_taken_and_settings_go_before_it() -> None:
    def built(depth: int, config: Config | None = None, pretrained: bool = False) -> None:
        """A factory."""

    recorded = record(depth=9, config={"depth": 6, "head": {"classes": 4}}, pretrained=True, learning_rate=0.1)
    values = factory_arguments(built, {"config.head.classes": 8}, "net.py:built", recorded)
    assert values == {"depth": 9, "config": Config(6, Head(8))}
    assert factory_arguments(built, {"depth": 1}, "net.py:built", record(depth=9, config={"size": 3})) == {"depth": 1}


def recorded(kind: str, **fields: Any) -> dict[str, Any]:
    return {"values": {"config": {"$class": kind, "$fields": fields}}, "open_names": []}


def takes_anything(config=None) -> None:
    """A factory."""


def namespace(config: argparse.Namespace) -> None:
    """A factory."""


def test_a_recorded_namespace_is_one_again_and_its_members_can_be_set() -> None:
    file = recorded("argparse:Namespace", depth=3, widths=[1, 2])
    for factory in (takes_anything, namespace):
        values = factory_arguments(factory, {"config.depth": 5}, "net.py:make", file)
        assert values == {"config": argparse.Namespace(depth=5, widths=[1, 2])}


def test_a_recorded_object_of_a_class_that_is_away_has_attributes() -> None:
    config = factory_arguments(takes_anything, {}, "net.py:make", recorded("gone:Config", depth=3))["config"]
    assert isinstance(config, SettingsDict)
    assert (config.depth, config["depth"]) == (3, 3)


def test_a_recorded_dataclass_is_made_by_its_annotation() -> None:
    values = factory_arguments(make, {"config.head.classes": 9}, "net.py:make", recorded("m:Config", depth=8))
    assert values == {"config": Config(8, Head(9))}


def test_a_recorded_configuration_is_one_where_omegaconf_is_and_else_has_attributes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = recorded("omegaconf.dictconfig:DictConfig", model={"widths": [{"size": 1}]})
    monkeypatch.delitem(sys.modules, "omegaconf", raising=False)
    config = factory_arguments(takes_anything, {}, "net.py:make", file)["config"]
    assert config.model.widths[0].size == 1
    maker = SimpleNamespace(create=lambda values: ("made", values), is_config=lambda value: False)
    monkeypatch.setitem(sys.modules, "omegaconf", SimpleNamespace(OmegaConf=maker))
    config = factory_arguments(takes_anything, {}, "net.py:make", file)["config"]
    assert config == ("made", {"model": {"widths": [{"size": 1}]}})

"""What makes a model is called with what a person sets, held against its own signature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from transload.models.errors import BadRequest
from transload.models.loading.factory_arguments import arguments


@dataclass(frozen=True)
class Head:
    classes: int
    bias: bool = True


@dataclass(frozen=True)
class Config:
    depth: int = 18
    widths: tuple[int, ...] = (4, 8)
    rate: float = 0.1
    head: Head = field(default_factory=lambda: Head(10))


class Net:
    def __init__(self, width: int, *, kind: str = "plain", rate: float | None = None) -> None:
        self.made = (width, kind, rate)


def configured(config: Config = Config(depth=34)) -> Any:
    return config


def needs_config(config: Config) -> Any:
    return config


def needs_head(head: Head) -> Any:
    return head


def options(options: dict[str, Any]) -> Any:
    return options


def open_ended(width: int = 3, **more: Any) -> Any:
    return width, more


def nothing() -> None:
    """Takes no argument."""


def unknown(config: Any = None, /) -> Any:
    return config


def opaque(config: "NoSuchName" = None) -> Any:  # type: ignore[name-defined]  # noqa: F821, UP037
    return config


def test_a_class_is_called_with_what_is_set() -> None:
    assert Net(**arguments(Net, {"width": 8, "kind": "wide", "rate": 1}, "net.py:Net")).made == (8, "wide", 1)


@pytest.mark.parametrize(
    ("factory", "settings", "wanted"),
    [
        (configured, {"config.depth": 50}, Config(50)),
        (configured, {"config.widths": [8, 16]}, Config(34, widths=(8, 16))),
        (configured, {"config": {"depth": 50}}, Config(50)),
        (configured, {"config.head.classes": 3}, Config(34, head=Head(3))),
        (needs_config, {"config.rate": 0.5}, Config(rate=0.5)),
        (needs_head, {"head": {"classes": 2, "bias": False}}, Head(2, False)),
        (options, {"options.depth": 5, "options.inner.rate": 1}, {"depth": 5, "inner": {"rate": 1}}),
        (open_ended, {"depth": 5}, (3, {"depth": 5})),
    ],
)  # fmt: skip
def test_dotted_names_and_objects_fill_what_an_argument_holds(
    factory: Callable[..., Any], settings: dict[str, Any], wanted: Any
) -> None:
    assert factory(**arguments(factory, settings, "net.py:make")) == wanted


REFUSED: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (Net, {"widht": 8}, r"net\.py:make takes no 'widht'\n  fix: did you mean 'width'\? it takes width, kind, rate"),
    (Net, {}, r"net\.py:make needs width\n  fix: give what it needs: --set width=VALUE"),
    (needs_config, {}, r"net\.py:make needs config\n  fix: give what it needs: --set config\.depth=VALUE"),
    (Net, {"width": "eight"}, r"width of net\.py:make takes int, got 'eight'"),
    (Net, {"width": True}, r"width of net\.py:make takes int, got True"),
    (Net, {"width": 8, "kind": 3}, "takes str, got 3\n  fix: give kind as str, as in --set kind='\"3\"'"),
    (Net, {"width": 8, "rate": "x"}, "takes float or None, got 'x'"),
    (nothing, {"a": 1}, r"net\.py:make takes no settings, and got a\n  fix: leave --set out"),
    (unknown, {"config": 1}, "takes no settings"),
    (configured, {"config.dept": 5}, r"takes no 'config\.dept'\n  fix: did you mean 'config\.depth'"),
    (configured, {"config": {}, "config.depth": 5}, "names config both whole and by its fields"),
    (configured, {"config.depth": 5, "config": {}}, "names config both whole and by its fields"),
    (configured, {"config.depth": "x"}, r"config\.depth of net\.py:make takes int, got 'x'"),
    (needs_head, {"head.bias": True}, r"head of net\.py:make needs classes\n  fix: .* --set head\.classes=VALUE"),
    (opaque, {"config.depth": 5}, "is neither a dataclass nor a dict\n  fix: write a function that makes config"),
]


@pytest.mark.parametrize(("factory", "settings", "words"), REFUSED)
def test_what_does_not_fit_is_one_sentence_with_the_names(
    factory: Callable[..., Any], settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadRequest, match=words):
        arguments(factory, settings, "net.py:make")

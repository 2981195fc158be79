"""Settings of a command line become what annotations mean: nested records, enums, containers of them, paths."""

from __future__ import annotations

import argparse
import enum
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict

import attrs
import pydantic
import pytest
import torch

from transload.models.errors import BadRequest
from transload.models.loading.factory_arguments import arguments


class Kind(enum.Enum):
    PLAIN = "plain"
    WIDE = "wide-block"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Head:
    classes: int = 3
    kind: Kind = Kind.PLAIN
    bias: bool = True


@dataclass
class DeepHead(Head):
    depth: int = 2


class Size(NamedTuple):
    width: int
    height: int = 4


class Typed(TypedDict, total=False):
    head: Head
    rate: float


class Model(pydantic.BaseModel):
    width: int = 3
    head: Head = Head()


@attrs.define
class Attrs:
    width: int
    _private: int = 1


class Plain:
    def __init__(self, width: int = 3, head: Head | None = None) -> None:
        self.width, self.head = width, head


@dataclass
class Config:
    heads: dict[str, Head] = field(default_factory=dict)
    layers: list[Head] = field(default_factory=lambda: [Head(1), Head(2)])
    best: Head | None = None
    size: Size = Size(1)  # noqa: RUF009  (a tuple)
    levels: dict[Level, int] = field(default_factory=dict)
    where: Path = Path()
    mode: Literal["mean", "max", 3] = "mean"
    either: int | str | Head = 0
    pair: tuple[int, str] = (1, "a")
    paths: tuple[Path, ...] = ()
    dtype: torch.dtype = torch.float32
    model: Model = field(default_factory=Model)
    attrs: Attrs = field(default_factory=lambda: Attrs(1))
    plain: Plain = field(default_factory=Plain)
    typed: Typed = field(default_factory=Typed)
    options: argparse.Namespace = field(default_factory=lambda: argparse.Namespace(a=1, b=argparse.Namespace(c=2)))
    any: Any = None
    level: Annotated[Level, "noted"] = Level.LOW


def needs(config: Config) -> Any:
    return config


def config_of(**settings: Any) -> Any:
    """Return the configuration that settings make; two underscores stand for a dot."""
    dotted = {f"config.{name.replace('__', '.')}": value for name, value in settings.items()}
    return needs(**arguments(needs, dotted, "net.py:make"))


CASES: list[tuple[dict[str, Any], Callable[[Any], Any], Any]] = [
    ({"heads__kind__classes": 7}, lambda c: c.heads, {"kind": Head(7)}),
    ({"heads": {"a": {"kind": "WIDE"}}}, lambda c: c.heads, {"a": Head(kind=Kind.WIDE)}),
    ({"heads__a__kind": "wide-block", "heads__a__bias": False}, lambda c: c.heads["a"], Head(3, Kind.WIDE, False)),
    ({"heads__a__kind": "plain"}, lambda c: c.heads["a"].kind, Kind.PLAIN),
    ({"layers__1__classes": 9}, lambda c: c.layers, [Head(1), Head(9)]),
    ({"layers": [{"classes": 5}]}, lambda c: c.layers, [Head(5)]),
    ({"best__classes": 4}, lambda c: c.best, Head(4)),
    ({"best": None}, lambda c: c.best, None),
    ({"size__height": 8}, lambda c: c.size, Size(1, 8)),
    ({"levels__HIGH": 3}, lambda c: c.levels, {Level.HIGH: 3}),
    ({"level": 2}, lambda c: c.level, Level.HIGH),
    ({"where": "a/b"}, lambda c: c.where, Path("a/b")),
    ({"mode": 3}, lambda c: c.mode, 3),
    ({"either": "x"}, lambda c: c.either, "x"),
    ({"either__classes": 2}, lambda c: c.either, Head(2)),
    ({"pair": [2, "b"]}, lambda c: c.pair, (2, "b")),
    ({"paths": ["a", "b"]}, lambda c: c.paths, (Path("a"), Path("b"))),
    ({"dtype": "bfloat16"}, lambda c: c.dtype, torch.bfloat16),
    ({"model__head__classes": 6}, lambda c: (c.model.width, c.model.head), (3, Head(6))),
    ({"attrs__private": 2}, lambda c: c.attrs, Attrs(1, 2)),
    ({"plain__head__classes": 2}, lambda c: (c.plain.width, c.plain.head), (3, Head(2))),
    ({"typed__head__classes": 2}, lambda c: c.typed, {"head": Head(2)}),
    ({"options__b__c": 5}, lambda c: c.options, argparse.Namespace(a=1, b=argparse.Namespace(c=5))),
    ({"any": {"a": 1}}, lambda c: c.any, {"a": 1}),
]


@pytest.mark.parametrize(("settings", "part", "wanted"), CASES)
def test_a_setting_becomes_what_the_annotation_means(
    settings: dict[str, Any], part: Callable[[Any], Any], wanted: Any
) -> None:
    value = part(config_of(**settings))
    assert value == wanted
    assert type(value) is type(wanted)


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    (
        {"heads__a__clases": 7},
        "config.heads.a of net.py:make takes no 'config.heads.a.clases'",
        "did you mean 'config.heads.a.classes'? it takes config.heads.a.classes, config.heads.a.kind, "
        "config.heads.a.bias",
    ),
    (
        {"heads__a__classes": "x"},
        "config.heads.a.classes of net.py:make takes int, got 'x'",
        "give config.heads.a.classes as int",
    ),
    (
        {"heads__a__kind": "wied"},
        "config.heads.a.kind of net.py:make takes PLAIN or WIDE, got 'wied'",
        "did you mean 'WIDE'? give config.heads.a.kind as one of them",
    ),
    (
        {"level": 5},
        "config.level of net.py:make takes Level (LOW, HIGH), got 5",
        "give config.level as Level (LOW, HIGH)",
    ),
    (
        {"layers__7__classes": 1},
        "config.layers of net.py:make has no element 7",
        "it has 2, from config.layers.0; or give all of config.layers, as a list",
    ),
    ({"best": "x"}, "config.best of net.py:make takes Head or None, got 'x'", "give config.best as Head or None"),
    (
        {"mode": "man"},
        "config.mode of net.py:make takes 'mean' or 'max' or 3, got 'man'",
        "did you mean 'mean'? give config.mode as one of them",
    ),
    ({"pair": [1]}, "config.pair of net.py:make takes 2 values, got 1", "give config.pair all of them"),
    (
        {"pair": [1, 2]},
        "config.pair.1 of net.py:make takes str, got 2",
        "give config.pair.1 as str, as in --set config.pair.1='\"2\"'",
    ),
    ({"where": 3}, "config.where of net.py:make takes Path, got 3", "give config.where as Path"),
    (
        {"dtype": "float7"},
        "config.dtype of net.py:make takes a dtype of torch, got 'float7'",
        "give config.dtype as float32",
    ),
    (
        {"where__a": 3},
        "the fields of config.where of net.py:make cannot be set: it is neither a dataclass nor a dict",
        "write a function that makes config.where, and name that function",
    ),
]


@pytest.mark.parametrize(("settings", "words", "fix"), REFUSED)
def test_what_an_annotation_does_not_allow_is_one_sentence(settings: dict[str, Any], words: str, fix: str) -> None:
    with pytest.raises(BadRequest) as caught:
        config_of(**settings)
    assert (caught.value.what, caught.value.fix) == (words, fix)


def test_a_record_that_refuses_its_values_says_so() -> None:
    @dataclass
    class Checked:
        width: int = 1

        def __post_init__(self) -> None:
            if self.width < 1:
                raise ValueError("width is positive")

    def make(config: Checked = Checked()) -> Checked:  # noqa: B008
        return config

    make.__annotations__["config"] = Checked  # a local class, which text cannot name
    with pytest.raises(BadRequest, match=r"config of net\.py:make is not made: ValueError: width is positive"):
        arguments(make, {"config.width": 0}, "net.py:make")


def by_defaults(head=DeepHead(), kind=Kind.PLAIN, where=Path(), sizes=(1, 2), more=[Head()]):  # noqa: B006, B008
    return head, kind, where, sizes, more


def spaced(space=types.SimpleNamespace(a=1)):  # noqa: B008
    return space


def test_a_default_says_what_is_not_annotated() -> None:
    settings = {"head.depth": 5, "kind": "WIDE", "where": "a", "sizes": [3], "more.0.classes": 8}
    values = by_defaults(**arguments(by_defaults, settings, "net.py:make"))
    assert values == (DeepHead(depth=5), Kind.WIDE, Path("a"), (3,), [Head(8)])
    assert spaced(**arguments(spaced, {"space.a": 2}, "net.py:make")) == types.SimpleNamespace(a=2)


Width = NewType("Width", int)


def test_an_annotation_that_cannot_be_read_does_not_hide_the_others() -> None:
    def make(head: Head, config: NoSuchName = None, width: Width = Width(1), of: Mapping[str, Head] = {}) -> Any:  # type: ignore[name-defined]  # noqa: F821
        return head, config, width, of

    settings = {"head.classes": 2, "config": 3, "of.a.classes": 4}
    assert make(**arguments(make, settings, "net.py:make")) == (Head(2), 3, 1, {"a": Head(4)})
    with pytest.raises(BadRequest, match=r"width of net\.py:make takes int, got 'x'"):
        arguments(make, {"head.classes": 2, "width": "x"}, "net.py:make")

"""A checkpoint's own settings make the model: dataclasses, enums, namespaces, OmegaConf. Nothing is imported for it."""

from __future__ import annotations

import argparse
import enum
import functools
import pathlib
import re
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import pydantic
import pytest
import torch

from transload.models.errors import BadRequest
from transload.models.loading.factory_arguments import FactoryArguments, factory_arguments
from transload.models.loading.weight_files import WeightFile, open_weight_file
from transload.models.user_python.inside.settings_dict import SettingsDict


class Kind(enum.Enum):
    PLAIN = "plain"
    WIDE = 2


@dataclass
class Head:
    classes: int = 3
    kind: Kind = Kind.PLAIN
    area: int = field(init=False, default=9)


@dataclass(frozen=True, slots=True)
class Frozen:
    rate: float = 0.5
    head: Head | None = None


@dataclass
class Slotted:
    __slots__ = ("width",)
    width: int


@dataclass
class DeepHead(Head):
    depth: int = 2


class Size(NamedTuple):
    width: int
    height: int = 4


class Model(pydantic.BaseModel):
    width: int = 3


@attrs.define
class Attrs:
    width: int


@dataclass
class Config:
    heads: dict[str, Head] = field(default_factory=dict)
    frozen: Frozen = field(default_factory=Frozen)
    slotted: Slotted = field(default_factory=lambda: Slotted(1))
    size: Size = Size(1)  # noqa: RUF009  (a tuple)
    depths: tuple[int, ...] = ()
    where: Path = Path()
    model: Model = field(default_factory=Model)
    attrs: Attrs = field(default_factory=lambda: Attrs(1))
    options: argparse.Namespace = field(default_factory=argparse.Namespace)
    kinds: dict[Kind, int] = field(default_factory=dict)
    layer: Any = torch.nn.ReLU
    dtype: torch.dtype = torch.float32
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))


CONFIG = Config(
    heads={"a": Head(7, Kind.WIDE), "b": DeepHead(2, depth=5)},
    frozen=Frozen(0.25, Head(1)),
    slotted=Slotted(6),
    size=Size(2, 8),
    depths=(3, 4),
    where=Path("a/b"),
    model=Model(width=5),
    attrs=Attrs(4),
    options=argparse.Namespace(a=1, b=[1, {"c": 2}]),
    kinds={Kind.WIDE: 1},
    layer=torch.nn.GELU,
    dtype=torch.bfloat16,
    device=torch.device("meta"),
)


def opened(tmp_path: Path, **parts: Any) -> WeightFile:
    torch.save({"state_dict": {"w": torch.ones(1)}, **parts}, tmp_path / "last.ckpt")
    return open_weight_file(tmp_path / "last.ckpt")


def called(factory: Callable[..., Any], file: WeightFile, **settings: Any) -> FactoryArguments:
    return factory_arguments(factory, settings, "net.py:Net", file.recorded_settings())


def needs(config: Config) -> Any:
    return config


def unannotated(config):
    return config


@pytest.mark.parametrize("factory", [needs, unannotated])
def test_a_recorded_dataclass_is_made_again_with_all_that_is_in_it(factory: Callable[..., Any], tmp_path: Path) -> None:
    call = called(factory, opened(tmp_path, hyper_parameters={"config": CONFIG, "lr": 0.1}))
    assert call.values == {"config": CONFIG}
    assert isinstance(call.values["config"].heads["b"], DeepHead)
    assert call.notes == ("config: from the settings in last.ckpt; --set has precedence",)


def test_a_setting_changes_a_field_of_what_is_recorded(tmp_path: Path) -> None:
    file = opened(tmp_path, hyper_parameters={"config": CONFIG})
    settings = {"config.heads.a.classes": 8, "config.frozen.head.classes": 2}
    config = factory_arguments(needs, settings, "net.py:Net", file.recorded_settings()).values["config"]
    assert (config.heads["a"], config.heads["b"]) == (Head(8, Kind.WIDE), DeepHead(2, depth=5))
    assert (config.frozen, config.depths) == (Frozen(0.25, Head(2)), (3, 4))


def named(config: Any = None, width: int = 3, pretrained: bool = True, *, optimizer: Any = None) -> Any:
    return config, width, pretrained, optimizer


def test_members_are_offered_by_name_and_what_was_set_wins(tmp_path: Path) -> None:
    file = opened(tmp_path, hyper_parameters={"width": 8, "pretrained": True, "lr": 0.1})
    assert called(named, file).values == {"width": 8}, "the checkpoint brings the weights, and no others are fetched"
    assert called(named, file, width=5).values == {"width": 5}
    assert called(named, file, width=5).notes == ()
    assert called(named, opened(tmp_path, args=argparse.Namespace(width=4))).values == {"width": 4}
    assert called(named, opened(tmp_path, config={"width": 4})).values == {"config": {"width": 4}, "width": 4}
    assert called(named, opened(tmp_path)).values == {}


def test_lightnings_one_argument_has_its_name_back(tmp_path: Path) -> None:
    file = opened(tmp_path, hyper_parameters={"width": 8}, hparams_name="config")
    assert called(named, file).values == {"config": {"width": 8}}


def keywords(**settings: Any) -> Any:
    return settings


def test_a_factory_with_keywords_takes_all_hyper_parameters_and_no_others(tmp_path: Path) -> None:
    file = opened(tmp_path, hyper_parameters={"width": 8, "depth": 2}, args={"seed": 1})
    assert called(keywords, file).values == {"width": 8, "depth": 2}


@pytest.mark.parametrize(
    ("recorded", "wanted"),
    [
        (argparse.Namespace(a=1, b=argparse.Namespace(c=2)), argparse.Namespace(a=1, b=argparse.Namespace(c=2))),
        (types.SimpleNamespace(a=1), types.SimpleNamespace(a=1)),
        ({"a": (1, 2), 3: {4}}, {"a": (1, 2), 3: {4}}),
        (pathlib.PurePosixPath("a"), Path("a")),
        (Kind.WIDE, Kind.WIDE),
        (Head, Head),
        (SettingsDict(a=SettingsDict(b=1)), SettingsDict(a=SettingsDict(b=1))),
    ],
)
def test_without_an_annotation_a_value_is_what_it_was(recorded: Any, wanted: Any, tmp_path: Path) -> None:
    value = called(unannotated, opened(tmp_path, hyper_parameters={"config": recorded})).values["config"]
    assert value == wanted
    assert type(value) is type(wanted)


def namespace(config: argparse.Namespace) -> Any:
    return config


def plain(config: dict[str, Any]) -> Any:
    return config


def test_the_annotation_says_what_a_namespace_becomes(tmp_path: Path) -> None:
    for recorded in ({"a": 1}, argparse.Namespace(a=1), SettingsDict(a=1)):
        file = opened(tmp_path, hyper_parameters={"config": recorded})
        assert called(plain, file).values == {"config": {"a": 1}}
        assert type(called(plain, file).values["config"]) is dict
    assert called(namespace, opened(tmp_path, config=argparse.Namespace(a=1))).values["config"] == argparse.Namespace(
        a=1
    )
    heads = {"heads": {"a": {"classes": 7, "kind": "plain"}}, "where": "a/b"}
    config = called(needs, opened(tmp_path, config=heads)).values["config"]
    assert (config.heads, config.where) == ({"a": Head(7)}, Path("a/b"))


class Holder:
    """A base that keeps what it is made with."""

    def __init__(self, **own: Any) -> None:
        self.__dict__.update(own)


@contextmanager
def classes_of(module: str, *names: str) -> Iterator[list[Any]]:
    """Make classes of a module that is there while they are pickled, and gone when the file is read."""
    package = module.partition(".")[0]
    for name in (package, module):
        sys.modules[name] = types.ModuleType(name)
    try:
        classes = [type(name, (Holder,), {"__module__": module}) for name in names]
        for cls in classes:
            setattr(sys.modules[module], cls.__name__, cls)
        yield classes
    finally:
        sys.modules.pop(module)
        sys.modules.pop(package, None)


def test_a_class_that_is_not_there_gives_its_fields_as_attributes(tmp_path: Path) -> None:
    with classes_of("gone", "Cfg") as (cfg,):
        file = opened(tmp_path, hyper_parameters={"config": cfg(a=1, head=cfg(b=2))})
    config = called(unannotated, file).values["config"]
    assert (config.a, config.head.b, config["head"]) == (1, 2, {"b": 2})
    assert "gone" not in sys.modules


def test_a_class_of_that_name_in_the_models_file_stands_for_one_that_has_moved(tmp_path: Path) -> None:
    with classes_of("gone", "Head") as (head,):
        file = opened(tmp_path, hyper_parameters={"config": {"heads": {"a": head(classes=5)}}})
    assert called(needs, file).values["config"].heads == {"a": Head(5)}


def optional(config: Any = 1) -> Any:
    return config


UNMADE: list[tuple[Any, str]] = [
    (functools.partial(Head, classes=1), " is an object of functools.partial in the checkpoint, which is not made"),
    (torch.nn.Linear(2, 2), " is an object of torch.nn.modules.linear.Linear in the checkpoint, which is not made"),
    (torch.ones(2), " is an object of torch.Tensor in the checkpoint, which is not made"),
    (pathlib.Path.home, " is pathlib.Path.home in the checkpoint, which is not imported"),
    (argparse.ArgumentParser, " is argparse.ArgumentParser in the checkpoint, which is not imported"),
]


@pytest.mark.parametrize(("recorded", "words"), UNMADE)
def test_what_cannot_be_made_names_the_field(recorded: Any, words: str, tmp_path: Path) -> None:
    file = opened(tmp_path, hyper_parameters={"config": recorded})
    with pytest.raises(BadRequest) as caught:
        called(unannotated, file)
    words = f"config of net.py:Net{words}"
    assert caught.value.what == words
    assert "--set config" in caught.value.fix
    nested = opened(tmp_path, hyper_parameters={"config": {"a": [recorded]}})
    with pytest.raises(BadRequest, match=r"^config\.a\.0 of net\.py:Net is "):
        called(unannotated, nested)
    file = opened(tmp_path, hyper_parameters={"config": recorded})
    call = called(optional, file)
    assert (call.values, call.notes) == ({}, (f"config is left at its default: {words}",))
    assert called(unannotated, file, config=3).values == {"config": 3}
    with pytest.raises(BadRequest, match=re.escape(words)):
        factory_arguments(optional, {"config.a": 1}, "net.py:Net", file.recorded_settings())


def test_a_field_that_the_code_lost_is_named(tmp_path: Path) -> None:
    with classes_of("gone", "Head") as (head,):
        file = opened(tmp_path, hyper_parameters={"config": {"heads": {"a": head(colour=5)}}})
    with pytest.raises(BadRequest) as caught:
        called(needs, file)
    assert str(caught.value) == (
        "Head has no field 'colour', which the checkpoint records for config.heads.a of net.py:Net\n"
        "  fix: use the code that the model was trained with, or give it: --set config=VALUE"
    )


@pytest.mark.parametrize(
    "recorded",
    [{"$class": "os:system", "$args": ["true"]}, {"$class": "builtins:type"}, {"$class": 3, "$pairs": [1]}],
)
def test_a_dict_that_looks_like_a_record_is_a_dict(recorded: dict[str, Any], tmp_path: Path) -> None:
    assert called(unannotated, opened(tmp_path, config=recorded)).values == {"config": recorded}


def test_a_configuration_of_omegaconf_is_read_with_its_references(tmp_path: Path) -> None:
    """Its pickles hold a value in `_val`, and what a container has in `_content`."""
    with classes_of("omegaconf.dictconfig", "Node", "DictConfig") as (node_class, config_class):

        def node(value: object) -> Any:
            return node_class(_val=value, _parent=None)

        def config(content: object) -> Any:
            return config_class(_content=content, _metadata=None)

        values = {"width": 8, "name": "net-${model.width}", "inner": "${model.width}", "unset": "???"}
        model = {
            **{name: node(value) for name, value in values.items()},
            "depths": config([node(1), node("${oc.env:X}")]),
        }
        file = opened(tmp_path, hyper_parameters={"config": config({"model": config(model)})})
        head = config({"classes": node(4), "kind": node("PLAIN")})
        torch.save({"cfg": config({"heads": config({"a": head})})}, tmp_path / "heads.ckpt")
    wanted = {"width": 8, "name": "net-8", "inner": 8, "depths": [1, "${oc.env:X}"]}
    assert called(plain, file).values == {"config": {"model": wanted}}
    assert called(unannotated, file).values["config"].model.width == 8
    recorded = open_weight_file(tmp_path / "heads.ckpt")
    assert called(structured, recorded).values["cfg"].heads == {"a": Head(4)}


def structured(cfg: Config) -> Any:
    return cfg

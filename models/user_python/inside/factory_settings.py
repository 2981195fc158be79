"""Make the arguments of a user's factory from settings by name, as `--set config.depth=50` gives them."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import sys
import typing
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import PurePath
from typing import Any

from .failures import Refusal
from .settings_dict import CLASS, FIELDS, NAMESPACES, SettingsDict, with_attributes

# Names of weights to start from: a checkpoint brings its own.
_OTHER_WEIGHTS = (
    "pretrained", "weights", "checkpoint", "checkpoint_path", "ckpt", "ckpt_path", "resume", "download",
)  # fmt: skip
_NO_RECORD: Mapping[str, Any] = {"values": {}, "open_names": []}


def factory_arguments(
    factory: Any, settings: Mapping[str, Any], owner: str, recorded: Mapping[str, Any] = _NO_RECORD
) -> dict[str, Any]:
    """Return keyword arguments for `factory`; a dotted name sets a field of a dataclass, or a key of a dict.
    Arguments that are not set are those that a checkpoint records (plain_settings.py), as far as they can be
    made. Raises Refusal where the factory takes no such argument, or needs one that is not set."""
    nested = _nested(settings)
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # some callables of C have none
        return dict(nested)
    kinds = [parameter.kind for parameter in parameters.values()]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    known = [name for name, parameter in parameters.items() if parameter.kind in named]
    is_open = inspect.Parameter.VAR_KEYWORD in kinds
    if not is_open:
        _check_names(nested, known, owner)
    hints = _hints(factory)
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    accepted = [*known, *(name for name in recorded["open_names"] if is_open and name not in known)]
    offered = _offered(recorded["values"], accepted, hints, defaults)
    values = {**offered, **nested}
    lacking = [name for name in known if defaults[name] is inspect.Parameter.empty and name not in values]
    if lacking:
        words = " ".join(f"--set {name}=VALUE" for name in lacking)
        raise Refusal(f"{owner} needs {' and '.join(lacking)}", f"give what it needs: {words}")
    bases = {**defaults, **offered}
    places = {name: _SettingPlace(name, owner) for name in nested}
    return {
        **offered,
        **{name: _argument(value, hints.get(name), bases.get(name), places[name]) for name, value in nested.items()},
    }


def _offered(
    values: Mapping[str, Any], names: Sequence[str], hints: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the recorded arguments of these names that can be made."""
    offered = {}
    for name in names:
        has_default = defaults.get(name, inspect.Parameter.empty) is not inspect.Parameter.empty
        if name in values and not (name in _OTHER_WEIGHTS and has_default):
            try:
                place = _SettingPlace(name, "the checkpoint")
                offered[name] = _argument(values[name], hints.get(name), defaults.get(name), place)
            except Exception as error:  # noqa: BLE001  (a class of theirs that takes other fields)
                print(f"the recorded {name} is left out: {type(error).__name__}: {error}")
    return offered


@dataclasses.dataclass(frozen=True)
class _SettingPlace:
    """Where a value goes: the dotted name of an argument, and what it is an argument of."""

    name: str
    owner: str

    def part(self, key: str) -> _SettingPlace:
        """Return the place of a field."""
        return _SettingPlace(f"{self.name}.{key}", self.owner)


class _FieldSettings(dict):  # type: ignore[type-arg]
    """Settings of one argument, by the names of its fields."""


def _nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in settings.items():
        head, dot, rest = name.partition(".")
        if dot:
            fields = nested.setdefault(head, _FieldSettings())
            if not isinstance(fields, _FieldSettings):
                raise Refusal(f"--set names {head} both as a value and by its fields", f"give {head} one way")
            fields[rest] = value
        else:
            nested[head] = value
    return nested


def _check_names(names: Iterable[str], known: list[str], owner: str) -> None:
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            did = f"did you mean {near[0]!r}? " if near else ""
            fix = f"{did}it takes {', '.join(known)}" if known else "leave --set out"
            raise Refusal(f"{owner} takes no {name!r}", fix)


def _hints(factory: Any) -> dict[str, Any]:
    """Return the types of a factory's arguments, as far as their annotations can be evaluated here."""
    function = factory.__init__ if inspect.isclass(factory) else factory
    try:
        return typing.get_type_hints(function)
    except Exception:  # noqa: BLE001  (an annotation is any expression)
        names = getattr(function, "__globals__", {})
        annotations = getattr(function, "__annotations__", {})
        hints = {name: _evaluated(annotation, names) for name, annotation in annotations.items()}
        return {name: hint for name, hint in hints.items() if hint is not None}


def _evaluated(annotation: Any, names: dict[str, Any]) -> Any:
    """Evaluate one annotation; None where that cannot be done. `X | Y` in a text is a union in Python 3.9, too, where
    types have no such operator."""
    if not isinstance(annotation, str):
        return annotation
    try:
        tree = ast.fix_missing_locations(_Unions().visit(ast.parse(annotation, mode="eval")))
        code = compile(tree, "<annotation>", "eval")
        return eval(code, names, {_Unions.NAME: typing.Union})  # noqa: S307  (their own code, as get_type_hints runs it)
    except Exception:  # noqa: BLE001  (it may name what only a type checker imports)
        return None


class _Unions(ast.NodeTransformer):
    """Rewrites `X | Y` as `Union[X, Y]`."""

    NAME = "__union__"

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.BitOr):
            return node
        union = ast.Name(id=self.NAME, ctx=ast.Load())
        parts = ast.Tuple(elts=[node.left, node.right], ctx=ast.Load())
        return ast.Subscript(value=union, slice=parts, ctx=ast.Load())


def _argument(value: Any, hint: Any, default: Any, place: _SettingPlace) -> Any:
    """Turn a JSON value into the argument that is meant: fields into a dataclass, a list into a tuple.
    Raises Refusal where a dataclass has no such field."""
    kinds = typing.get_args(hint) or (hint,)
    if isinstance(value, list):
        parts = [_argument(part, None, None, place) for part in value]
        return tuple(parts) if isinstance(default, tuple) or typing.get_origin(hint) is tuple else parts
    if not isinstance(value, Mapping):
        return _scalar(value, kinds, default)
    recorded_class = ""
    if CLASS in value:
        recorded_class, value = value[CLASS], value[FIELDS]
    records = [kind for kind in kinds if isinstance(kind, type) and dataclasses.is_dataclass(kind)]
    of_default = type(default) if dataclasses.is_dataclass(default) else None
    kind: Any = of_default or next(iter(records), None)
    fields = _nested(value) if isinstance(value, _FieldSettings) else dict(value)
    if kind is None:
        return _members(fields, recorded_class, (*kinds, type(default)), default, place)
    known = [place.part(field.name).name for field in dataclasses.fields(kind) if field.init]
    _check_names([place.part(name).name for name in fields], known, f"{place.name} of {place.owner}")
    hints = _hints(kind)
    values = {
        name: _argument(part, hints.get(name), getattr(default, name, None), place.part(name))
        for name, part in fields.items()
    }
    return dataclasses.replace(default, **values) if of_default else kind(**values)


def _members(
    fields: Mapping[str, Any], recorded_class: str, kinds: Sequence[Any], default: Any, place: _SettingPlace
) -> Any:
    """Make what has members and is no dataclass: a configuration of OmegaConf, a namespace, or a dict.
    A recorded object whose class is not there is a dict whose items are attributes."""
    is_config = recorded_class.startswith("omegaconf") or any(_is_of_omegaconf(kind) for kind in kinds)
    maker = sys.modules["omegaconf"].OmegaConf if is_config and "omegaconf" in sys.modules else None
    namespaces = [kind for kind in kinds if kind in NAMESPACES.values()]
    namespace = next(iter(namespaces), NAMESPACES.get(recorded_class))
    base: Mapping[str, Any] = default if isinstance(default, dict) else {}
    if maker and maker.is_config(default):
        base = maker.to_container(default)
    elif isinstance(default, tuple(NAMESPACES.values())):
        base = vars(default)
    parts = {name: _argument(part, None, base.get(name), place.part(name)) for name, part in fields.items()}
    values = {**base, **parts}
    if maker:
        return maker.create(values)
    if namespace:
        return namespace(**values)
    if is_config:
        return with_attributes(values)
    return SettingsDict(values) if recorded_class or isinstance(default, SettingsDict) else values


def _is_of_omegaconf(kind: Any) -> bool:
    return str(getattr(kind, "__module__", "")).startswith("omegaconf")


def _scalar(value: Any, kinds: Sequence[Any], default: Any) -> Any:
    """Return an enum's member for its name or value, or a path for a text, where annotation or default is one."""
    for kind in (*kinds, type(default)):
        if isinstance(kind, type) and issubclass(kind, enum.Enum) and not isinstance(value, kind):
            return kind[value] if value in kind.__members__ else kind(value)
        if isinstance(kind, type) and issubclass(kind, PurePath) and isinstance(value, str):
            return kind(value)
    return value

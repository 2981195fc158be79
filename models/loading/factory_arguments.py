"""Make the arguments of a factory: from settings by name (`--set depth=50`), and from what a checkpoint records.

They are checked against the factory's own signature. A wrong one ends in a sentence with the names that it takes.
Worker only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import BadRequest
from ..sources import RecordedSettings
from .annotated_values import ArgumentPlace, Fields, annotated_value, check_complete, check_names, nested_settings
from .record_classes import hints_of
from .recorded_values import RecordedValues

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
# Names of weights to start from: a checkpoint brings its own.
_OTHER_WEIGHTS = frozenset((
    "pretrained", "weights", "checkpoint", "checkpoint_path", "ckpt", "ckpt_path", "resume", "download",
))  # fmt: skip
_NO_RECORD = RecordedSettings()


@dataclass(frozen=True)
class FactoryArguments:
    """Keyword arguments, and sentences for the user on those that a checkpoint records."""

    values: dict[str, Any]
    notes: tuple[str, ...] = ()


@dataclass
class _Offer:
    """The arguments that a checkpoint offers: those that were made of it, and why others were not."""

    values: dict[str, Any] = field(default_factory=dict)
    refusals: dict[str, BadRequest] = field(default_factory=dict)


def arguments(factory: Callable[..., object], settings: Mapping[str, object], owner: str) -> dict[str, Any]:
    """Make keyword arguments for `factory` of settings alone (factory_arguments)."""
    return factory_arguments(factory, settings, owner).values


def factory_arguments(
    factory: Callable[..., object],
    settings: Mapping[str, object],
    owner: str,
    recorded: RecordedSettings = _NO_RECORD,
) -> FactoryArguments:
    """Make keyword arguments for `factory`, which errors name as `owner`.

    `config.depth` sets one field of the argument config, which is made as its annotation says. Arguments that are not
    set are those that the checkpoint records, and fields that are set replace recorded ones.
    Raises BadRequest where the factory takes no such argument, needs one that is not set, or takes another kind of
    it."""
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # some callables of C have none
        return FactoryArguments(dict(settings))
    hints = hints_of(factory.__init__ if inspect.isclass(factory) else factory)
    nested = nested_settings(settings)
    named = {name: parameter for name, parameter in parameters.items() if parameter.kind in _NAMED}
    is_open = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    if not is_open:
        check_names(nested, tuple(named), owner)
    offered = {name: recorded.values[name] for name in recorded.values if name in named}
    if is_open:
        offered |= {name: recorded.values[name] for name in recorded.open_names if name not in named}
    defaults = {
        name: parameter.default for name, parameter in named.items() if parameter.default is not parameter.empty
    }
    set_names = {name for name, value in nested.items() if not isinstance(value, Fields)} | (
        _OTHER_WEIGHTS & set(defaults)
    )
    wanted = {name: part for name, part in offered.items() if name not in set_names}
    offer = _offer(wanted, hints, defaults, RecordedValues(factory, owner))
    _check_complete({**offer.values, **nested}, (parameters, hints), owner, offer)
    values = {
        name: annotated_value(
            value, hints.get(name), offer.values.get(name, defaults.get(name)), ArgumentPlace(name, owner)
        )
        for name, value in nested.items()
    }
    return FactoryArguments({**offer.values, **values}, _notes(offer, values, recorded, defaults))


def _offer(
    offered: Mapping[str, Any], hints: Mapping[str, Any], defaults: Mapping[str, Any], maker: RecordedValues
) -> _Offer:
    """Make the arguments that a checkpoint records, as far as they can be made."""
    offer = _Offer()
    for name, recorded in offered.items():
        try:
            offer.values[name] = maker.value(recorded, hints.get(name), defaults.get(name), name)
        except BadRequest as error:
            offer.refusals[name] = error
    return offer


def _notes(
    offer: _Offer, values: Mapping[str, object], recorded: RecordedSettings, defaults: Mapping[str, object]
) -> tuple[str, ...]:
    """Say which arguments the checkpoint gave, and which are left at their defaults as its own are not made."""
    notes = [
        f"{name} is left at its default: {error.what}"
        for name, error in offer.refusals.items()
        if name in defaults and name not in values
    ]
    if offer.values:
        notes.insert(0, f"{', '.join(offer.values)}: from the settings in {recorded.file}; --set has precedence")
    return tuple(notes)


def _check_complete(
    names: Mapping[str, object],
    signature: tuple[Mapping[str, inspect.Parameter], Mapping[str, object]],
    owner: str,
    offer: _Offer,
) -> None:
    """Raise BadRequest where an argument without a default is not set, and is not made of the checkpoint."""
    parameters, hints = signature
    needed = [parameter for parameter in parameters.values() if parameter.default is inspect.Parameter.empty]
    by_place = [parameter.name for parameter in needed if parameter.kind is inspect.Parameter.POSITIONAL_ONLY]
    if by_place:
        raise BadRequest(f"{owner} takes {', '.join(by_place)} by position", fix="name a function without arguments")
    needed_names = {parameter.name: hints.get(parameter.name) for parameter in needed if parameter.kind in _NAMED}
    for name, refusal in offer.refusals.items():
        if isinstance(names.get(name), Fields) or (name in needed_names and name not in names):
            raise refusal
    check_complete(names, needed_names, owner)

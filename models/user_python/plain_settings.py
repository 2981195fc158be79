"""The settings that a checkpoint records, as plain values for a factory in another interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..loading.checkpoints.hyper_parameters import ARGS, ELEMENTS, members_of
from ..sources import RecordedSettings
from .inside.settings_dict import CLASS, FIELDS


def plain_settings(recorded: RecordedSettings) -> dict[str, Any]:
    """Return the record for inside/factory_settings.py: {"file", "values", "open_names"}.
    Objects are their class and their members, of which a dataclass, a namespace or a configuration is made there; one
    without members is left out."""
    values = {name: value for name, part in recorded.values.items() if (value := _plain(part)) is not _NOTHING}
    return {"file": recorded.file, "values": values, "open_names": list(recorded.open_names)}


_NOTHING = object()


def _plain(part: Any) -> Any:
    if isinstance(part, list):
        return _all_plain(part)
    if not isinstance(part, Mapping):
        return part
    if ELEMENTS in part:
        return _all_plain(part[ELEMENTS])
    return _plain_members(part)


def _plain_members(part: Mapping[str, Any]) -> Any:
    members = members_of(part)
    if CLASS in part and not members:  # an enum or a path: its annotation there takes the value
        arguments = part.get(ARGS, ())
        return arguments[0] if len(arguments) == 1 and isinstance(arguments[0], str | int | float) else _NOTHING
    if "_parameters" in members:  # of torch's own modules
        return _NOTHING
    values = {name: _plain(value) for name, value in members.items()}
    if any(value is _NOTHING for value in values.values()):
        return _NOTHING
    return {CLASS: part[CLASS], FIELDS: values} if CLASS in part else values


def _all_plain(parts: list[Any]) -> Any:
    values = [_plain(value) for value in parts]
    return _NOTHING if any(value is _NOTHING for value in values) else values

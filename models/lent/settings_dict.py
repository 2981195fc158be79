"""A dict for recorded settings."""

from __future__ import annotations

from typing import Any


class SettingsDict(dict[str, Any]):
    """A dict whose items are attributes, too: for a recorded object whose class is not there."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


def with_attributes(value: Any) -> Any:
    """Make a SettingsDict of every dict in a value of dicts and lists."""
    if isinstance(value, list):
        return [with_attributes(part) for part in value]
    if not isinstance(value, dict):
        return value
    return SettingsDict({name: with_attributes(part) for name, part in value.items()})

"""Recorded settings: how a checkpoint's objects are written, and what stands for one whose class is not there."""

from __future__ import annotations

import argparse
import types
from collections.abc import Mapping
from typing import Any

CLASS, FIELDS = "$class", "$fields"  # keys of a recorded object: "module:Name", and its members by name
NAMESPACES: Mapping[str, Any] = {
    "argparse:Namespace": argparse.Namespace, "types:SimpleNamespace": types.SimpleNamespace,
}  # fmt: skip


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

"""Libraries that are imported when they are first used: what names them can be read without them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any


class Lazy:
    """A library, or a part of one by its name, which is imported when something of it is asked for."""

    def __init__(self, library: str, part: str = "") -> None:
        self._library, self._part = library, part

    def __getattr__(self, attribute: str) -> Any:
        found: Any = import_module(self._library)
        return getattr(getattr(found, self._part) if self._part else found, attribute)


def name_of(modules: Mapping[str, str], name: str, asker: str) -> Any:
    """Import and return a name by the module that has it; for the `__getattr__` of a module of such names."""
    if name not in modules:
        raise AttributeError(f"{asker} lists no {name}")
    library = import_module(modules[name])
    return getattr(library, name) if hasattr(library, name) else import_module(f"{modules[name]}.{name}")

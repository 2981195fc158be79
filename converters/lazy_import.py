"""Libraries that are imported at their first use: a module that names them can be imported without them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any


class LazyLibrary:
    """A library, or a part of it, which is imported when an attribute is first read."""

    def __init__(self, library: str, part: str = "") -> None:
        self._library, self._part = library, part

    def __getattr__(self, attribute: str) -> Any:
        library: Any = import_module(self._library)
        return getattr(getattr(library, self._part) if self._part else library, attribute)


def name_of(modules: Mapping[str, str], name: str, module_name: str) -> Any:
    """Import and return a name by the module that has it; for the `__getattr__` of a module of such names."""
    if name not in modules:
        raise AttributeError(f"{module_name} lists no {name}")
    library = import_module(modules[name])
    return getattr(library, name) if hasattr(library, name) else import_module(f"{modules[name]}.{name}")

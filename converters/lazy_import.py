"""Libraries that are imported when they are first used: what names them can be read without them."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Lazy:
    """A library, or a part of one by its name, which is imported when something of it is asked for."""

    def __init__(self, library: str, part: str = "") -> None:
        self._library, self._part = library, part

    def __getattr__(self, attribute: str) -> Any:
        found: Any = import_module(self._library)
        return getattr(getattr(found, self._part) if self._part else found, attribute)

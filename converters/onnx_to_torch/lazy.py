"""PyTorch, imported when it is first used: the helpers can be read, and their text pasted, without it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _Lazy:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


torch: Any = _Lazy("torch")
F: Any = _Lazy("torch.nn.functional")

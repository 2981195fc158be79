"""`int(...)` of a tensor or of a size in files of a model: torch.export stops there or makes a constant of it, where
the same number by `item()` is a size that data tell. What the int of Python gives is always a number of its own."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

from ..shared.replaced import Instead, replaced

_OTHERS = ("torch", "__main__", "__mp_main__", __name__.partition(".")[0])  # wherever they lie


def open_numbers() -> AbstractContextManager[None]:
    """While a model is captured that was not without."""
    return replaced([Instead(module, "int", Whole) for module in _written_by_users()])


class _Int(type):
    def __call__(cls, *args: Any, **more: Any) -> Any:
        import torch

        if len(args) == 1 and not more:
            (given,) = args
            if isinstance(given, torch.SymInt):
                return given
            if isinstance(given, torch.Tensor):
                return given.to(torch.int64).item()
        return int(*args, **more)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, int)


class Whole(int, metaclass=_Int):
    """int, of what a tensor or a size says."""


def _written_by_users() -> Iterator[ModuleType]:
    """Modules that lie where neither Python nor its packages do, and call no int of their own."""
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    for module in {id(each): each for each in sys.modules.values()}.values():  # one may have two names
        file = getattr(module, "__file__", None)
        if file and module.__name__.partition(".")[0] not in _OTHERS and "int" not in vars(module):
            folders = Path(file).resolve().parents
            if not any(folder in folders for folder in installed):
                yield module

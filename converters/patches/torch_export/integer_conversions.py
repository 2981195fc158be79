"""`int(...)` of a tensor or of a size, and `len(...)` of a tensor, where a model is written: torch.export stops there
or makes a constant of it, where the same number by `item()` is a size that data tell, and by `size(0)` an open one.
What Python's own int and len give is always a number of its own."""

from __future__ import annotations

import math
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..torch_shared.replaced import Instead, replaced

if TYPE_CHECKING:
    import torch

_OTHERS = ("torch", "__main__", "__mp_main__", __name__.partition(".")[0])  # wherever they lie


def open_numbers(model: torch.nn.Module) -> AbstractContextManager[None]:
    """While a model is captured that was not without."""
    words: dict[str, Any] = {"int": Whole, "len": _length}
    modules = {id(each): each for each in (*_written_by_users(), *_of_classes(model))}.values()
    return replaced(
        [Instead(each, name, word) for each in modules for name, word in words.items() if name not in vars(each)]
    )


def _length(given: Any) -> Any:
    import torch

    return given.size(0) if isinstance(given, torch.Tensor) and given.dim() else len(given)


class _Int(type):
    def __call__(cls, *args: Any, **more: Any) -> Any:
        import torch

        if len(args) == 1 and not more:
            (given,) = args
            if isinstance(given, torch.SymInt):
                return given
            if isinstance(given, torch.SymFloat):
                return math.trunc(given)
            if isinstance(given, torch.Tensor):
                return given.to(torch.int64).item()
        return int(*args, **more)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, int)


class Whole(int, metaclass=_Int):
    """int, of what a tensor or a size says."""


def _written_by_users() -> Iterator[ModuleType]:
    """Modules that lie where neither Python nor its packages do."""
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    for module in [*sys.modules.values()]:
        file = getattr(module, "__file__", None)
        if file and not _is_another(module):
            folders = Path(file).resolve().parents
            if not any(folder in folders for folder in installed):
                yield module


def _of_classes(model: torch.nn.Module) -> Iterator[ModuleType]:
    """Modules in which parts of a model are written, as those of a library of models."""
    for name in {type(part).__module__ for part in model.modules()}:
        if (module := sys.modules.get(name)) and not _is_another(module):
            yield module


def _is_another(module: ModuleType) -> bool:
    return module.__name__.partition(".")[0] in _OTHERS

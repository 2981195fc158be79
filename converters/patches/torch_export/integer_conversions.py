"""Keep `int(...)` of a tensor or of a size, and `len(...)` of a tensor, open in the modules that a model is written in.

torch.export stops there or makes a constant: Python's own int and len always return a plain number. The same number by
`item()` is an unbacked size, and by `size(0)` an open one.
"""

from __future__ import annotations

import math
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..ledger import always, swapped, swaps

if TYPE_CHECKING:
    import torch

_NEVER_MODELS = ("torch", "__main__", "__mp_main__", __name__.partition(".")[0])  # wherever they are installed


def open_numbers(model: torch.nn.Module) -> AbstractContextManager[None]:
    """Swap int and len while a model is captured, after a capture without this has failed."""
    modules = {id(module): module for module in (*_modules_of_users(), *_modules_of_parts(model))}
    return swapped(PATCHES, inside=modules.values())


def _length(value: Any) -> int:
    import torch

    return value.size(0) if isinstance(value, torch.Tensor) and value.dim() else len(value)


class _OpenIntType(type):
    def __call__(cls, *args: Any, **keywords: Any) -> Any:
        import torch

        if len(args) == 1 and not keywords:
            (value,) = args
            if isinstance(value, torch.SymInt):
                return value
            if isinstance(value, torch.SymFloat):
                return math.trunc(value)
            if isinstance(value, torch.Tensor):
                return value.to(torch.int64).item()
        return int(*args, **keywords)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, int)


class OpenInt(int, metaclass=_OpenIntType):
    """The type int, except that a tensor or a size stays symbolic."""


def _modules_of_users() -> Iterator[ModuleType]:
    """Yield the modules outside of Python's own folders and those of installed packages."""
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    for module in [*sys.modules.values()]:
        file = getattr(module, "__file__", None)
        if file and _may_hold_models(module):
            folders = Path(file).resolve().parents
            if not any(folder in folders for folder in installed):
                yield module


def _modules_of_parts(model: torch.nn.Module) -> Iterator[ModuleType]:
    """Yield the modules that define the classes of a model's parts, as those of a library of models do."""
    for name in {type(part).__module__ for part in model.modules()}:
        if (module := sys.modules.get(name)) and _may_hold_models(module):
            yield module


def _may_hold_models(module: ModuleType) -> bool:
    return module.__name__.partition(".")[0] not in _NEVER_MODELS


PATCHES = swaps(
    "builtins",
    {"int": always(OpenInt), "len": always(_length)},
    why="torch.export stops at `int(...)` of a tensor, and makes a constant of `int(...)` of a size and of `len(...)` "
    "of a tensor.",
    upstream="torch/export/_trace.py; Python's int() and len() return plain numbers",
    until="torch.export keeps them open",
)

"""Import the object that a reference names: a file of the user's, or a module of their environment."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

from .failures import Refusal

_PRIVATE = "_transload_user_"  # a user's json.py becomes this module and a suffix, not json


def put_on_path(*folders: str) -> None:
    """Put folders on sys.path before what is installed, as a script's own is, and behind Python's own library."""
    installed = (at for at, path in enumerate(sys.path) if os.path.basename(path).endswith("-packages"))
    at = next(installed, len(sys.path))
    sys.path[at:at] = [path for path in dict.fromkeys(folders) if path not in sys.path]


def import_object(file: str | None, module: str | None, name: str, root: str | None) -> tuple[Any, ModuleType]:
    """Return the object `name` of a file or a module, and the module. Raises Refusal where it holds no such name."""
    holder = _from_file(file, root) if file else _from_name(str(module), root)
    place = file or str(module)
    value: Any = holder
    for part in name.split("."):
        if not hasattr(value, part):
            raise Refusal(f"{place} holds no {name}", f"name what it holds: {place}:{last_public_name(holder)}")
        value = getattr(value, part)
    return value, holder


def _from_file(file: str, root: str | None) -> ModuleType:
    folder, stem = os.path.dirname(file), os.path.splitext(os.path.basename(file))[0]
    parts = [stem]
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        parts.insert(0, os.path.basename(folder))
        folder = os.path.dirname(folder)
    put_on_path(*([root] if root else []), folder)
    name = ".".join(parts) if len(parts) > 1 else _PRIVATE + stem
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise Refusal(f"{file} is no Python file", "name a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look a module up by its name
    if len(parts) > 1:
        importlib.import_module(".".join(parts[:-1]))
    spec.loader.exec_module(module)
    return module


def _from_name(module: str, root: str | None) -> ModuleType:
    put_on_path(*([root] if root else []))
    return importlib.import_module(module)


def last_public_name(module: ModuleType) -> str:
    """Return the last public name defined in the module, for the fix in an error."""
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    return own[-1] if own else "NAME"

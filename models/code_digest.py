"""Digest of a file's code and of everything it imports that is ours or the user's.

Imports are read with ast, wherever they stand in a file, and followed where they resolve under a root. Installed
packages are a matter of versions, not of this digest. Nothing is imported.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from os.path import dirname, isdir, isfile
from pathlib import Path
from typing import TypeAlias

from .errors import BadRequest
from .loading.source_folders import import_folders

_Import: TypeAlias = tuple[int, tuple[str, ...]]  # the dots before the name (none: absolute), and its parts

# Inside this module paths are texts: a command looks up some 25,000 names, and a Path costs ten times the look-up.
_OURS = str(Path(__file__).absolute().parents[1])
_PACKAGE = "transload"
_INSTALLED = {"site-packages", "dist-packages"}  # never a root: all of torch would be read
_LOOK_AGAIN_S = 1.0  # files are checked for changes at most once in this interval
_IMPORT = re.compile(rb"^[ \t]*((?:from[ \t]+[.\w]+[ \t]+)?import[ \t]+(?:\([^)]*\)|[^\n#;(]+))", re.MULTILINE)
_parsing = threading.Lock()  # CPython 3.11 raises SystemError where threads parse at once: they share its depth count


def code_digest(path: Path, root: Path | None = None) -> str:
    """Return the sha256 of the file at `path` and of its imports, transitively.

    Imports are followed relatively, from `root`, from the file's own folder, and from this package. The same code has
    the same digest wherever it lies.
    Raises BadRequest where the file is missing."""
    path = path.absolute()
    if not path.is_file():
        raise BadRequest(f"no such file: {path}", fix="check the path; it starts at the folder you run transload in")
    roots = dict.fromkeys([*(import_folders(root) if root else ()), path.parent])
    own = tuple(str(folder) for folder in roots if folder.name not in _INSTALLED)
    return _digest(_closure([str(path)], lambda file: _imported(file, own)), own)


def module_file(name: str, root: Path | None = None, path: Sequence[str] | None = None) -> Path:
    """Find the file of the module `package.module`, on sys.path or under `root`, without importing any of it.
    `path` stands for sys.path, where another interpreter imports it.
    Raises BadRequest where there is none."""
    first, *rest = name.split(".")
    search = sys.path if path is None else path
    own = import_folders(root) if root else ()
    spec = PathFinder.find_spec(first, [*search, *map(str, own)])
    spec = spec or (_known(first) if path is None else None)
    if spec and rest:
        bases = [Path(folder) for folder in spec.submodule_search_locations or ()]
        files = [file for base in bases for file in _candidates(base.joinpath(*rest))]
    else:
        files = [Path(spec.origin)] if spec and spec.origin else []
    for file in files:
        if file.is_file():
            return file
    if (
        root
        and spec
        and spec.origin
        and any((base / first).exists() or (base / f"{first}.py").exists() for base in own)
    ):
        raise BadRequest(
            f"there is no module {name!r}: {spec.origin} hides the {first} of {root}", fix=f"rename your {first}"
        )
    library = "" if rest else f"; a model of a library is named as in torchvision:{name} or timm:{name}"
    raise BadRequest(
        f"there is no module {name!r}", fix=f"check its name, and the folder you run transload in{library}"
    )


def _candidates(module: Path) -> tuple[Path, Path]:
    return module.with_name(f"{module.name}.py"), module / "__init__.py"


def _known(name: str) -> ModuleSpec | None:
    """Find a top-level name of an editable install or of Python itself. That imports nothing either."""
    try:
        return find_spec(name) if name.isidentifier() else None
    except (ImportError, ValueError):
        return None


def entry_digest(entry: str) -> str:
    """Return the sha256 of an entry's code, as "transload.converters.to_tflite.tflite_from_onnx:tflite_int8".

    Where its imports enter a sub-package of ours (converters/onnx_to_tf/), all of that sub-package counts: it is a
    registry that imports its modules by name at run time. Of a third party's step its relative imports and those from
    its own folder count; the rest is a matter of its version.
    Raises BadRequest where there is no such module."""
    name = entry.partition(":")[0]
    parts = tuple(name.split("."))
    interval = int(time.monotonic() // _LOOK_AGAIN_S)
    if parts[0] != _PACKAGE:
        return _foreign_digest(parts, tuple(sys.path), interval)
    return _own_digest(parts, _state_of_ours(_OURS, interval))


@lru_cache(maxsize=256)
def _foreign_digest(parts: tuple[str, ...], _path: tuple[str, ...], _interval: int) -> str:
    """Digest a module of a third party, as it was in an interval."""
    file = module_file(".".join(parts))
    return code_digest(file, file.parents[len(parts) - (file.name != "__init__.py")])


@lru_cache(maxsize=256)
def _own_digest(parts: tuple[str, ...], state: str) -> str:
    """Digest a module of ours, cached for as long as no file of ours changes."""
    files = _resolve(parts, ())
    if not files or Path(files[-1]) not in _candidates(Path(_OURS, *parts[1:])):
        raise BadRequest(f"no module of transload is called {'.'.join(parts)}", fix="name MODULE:FUNCTION")
    return _digest(_closure(files, lambda file: _own_imports(file, state)), ())


@lru_cache(maxsize=1)
def _state_of_ours(ours: str, _interval: int) -> str:
    """Return a digest of path, time of change, size and inode of each Python file of this package, as they were in an
    interval: a list of models asks a hundred times a second, and there are some 800 files.
    A checkout also holds what is no part of the package, such as .venv: only folders with an __init__.py are entered.
    """
    state = []
    folders = [ours, *(str(init.parent) for init in Path(ours).glob("*/__init__.py"))]
    for folder in folders:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    stat = entry.stat()
                    state.append((entry.path, stat.st_mtime_ns, stat.st_size, stat.st_ino))
                elif folder != folders[0] and entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
    return hashlib.sha256(repr(sorted(state)).encode()).hexdigest()


def _closure(files: Iterable[str], follow: Callable[[str], Iterable[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(files)
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += follow(path)
    return seen


@lru_cache(maxsize=4096)
def _own_imports(path: str, state: str) -> tuple[str, ...]:
    """List what a file of ours imports, and every file of the sub-package that it lies in: none in a layer itself."""
    layer, *inner = path[len(_OURS) + 1 :].split("/")
    return *_imported(path, ()), *(_sub_package(f"{_OURS}/{layer}/{inner[0]}", state) if len(inner) > 1 else ())


@lru_cache(maxsize=256)
def _sub_package(folder: str, _state: str) -> tuple[str, ...]:
    return tuple(sorted(map(str, Path(folder).rglob("*.py"))))


def _imported(path: str, roots: tuple[str, ...]) -> Iterator[str]:
    for level, parts in _parsed(path).imports:
        if level == 0:
            yield from _resolve(parts, roots)
            continue
        base = path.rsplit("/", level)[0]
        yield from _under(base, parts)
        if isfile(f"{base}/__init__.py"):  # the import may name what that file defines
            yield f"{base}/__init__.py"


def _resolve(parts: tuple[str, ...], roots: tuple[str, ...]) -> list[str]:
    """List the files that an absolute import reads: ours by the package's name, the user's under the first root."""
    if parts[0] == _PACKAGE:
        files = _under(_OURS, parts[1:])
        return [f"{_OURS}/__init__.py", *files] if files or len(parts) == 1 else []
    for root in roots:
        if files := _under(root, parts):
            return files
    return []


def _under(base: str, parts: tuple[str, ...]) -> list[str]:
    """List the files of a dotted name: each package's __init__ on the way and the module, as far as they exist.
    The last part may be a name inside the module before it."""
    files: list[str] = []
    for part in parts:
        base = f"{base}/{part}"
        if isfile(f"{base}.py"):
            return [*files, f"{base}.py"]
        if not isdir(base):
            break
        if isfile(f"{base}/__init__.py"):
            files.append(f"{base}/__init__.py")
    return files


def _digest(files: set[str], roots: tuple[str, ...]) -> str:
    lines = sorted(f"{_label(path, roots)}\0{_parsed(path).sha256}\n" for path in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _label(path: str, roots: tuple[str, ...]) -> str:
    """Name the place of a file so that moving the whole tree changes nothing."""
    if path.startswith(f"{_OURS}/"):
        return _PACKAGE + path[len(_OURS) :]
    near = next((root for root in roots if path.startswith(f"{root}/")), dirname(path))
    return path[len(near) + 1 :]


@dataclass(frozen=True, slots=True)
class _Parsed:
    sha256: str
    imports: tuple[_Import, ...]


def _parsed(path: str) -> _Parsed:
    state = os.stat(path)
    return _read(path, state.st_mtime_ns, state.st_size, state.st_ino)


@lru_cache(maxsize=4096)
def _read(path: str, *_state: int) -> _Parsed:
    """Read a file's digest and imports, cached for as long as the file is unchanged.
    A file that does not parse imports nothing: whoever runs it reports that better."""
    text = Path(path).read_bytes()
    try:
        with _parsing:
            imports = dict.fromkeys(_imports(_import_tree(path, text)))
    except (SyntaxError, ValueError):
        imports = {}
    return _Parsed(hashlib.sha256(text).hexdigest(), tuple(imports))


def _import_tree(path: str, text: bytes) -> ast.Module:
    """Parse a file; of ours only the lines that import, for all of them are read at every command.
    Ours have one statement a line; what looks like an import in a text of theirs counts, too."""
    if path.startswith(f"{_OURS}/") and isfile(f"{_OURS}/{path[len(_OURS) + 1 :].partition('/')[0]}/__init__.py"):
        with suppress(SyntaxError):
            return ast.parse(b"\n".join(_IMPORT.findall(text)))
    return ast.parse(text)


def _imports(tree: ast.Module) -> Iterator[_Import]:
    """Yield the imports among a file's statements and those inside them: an expression holds none."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        for name in ("body", "orelse", "handlers", "cases", "finalbody"):
            waiting += getattr(node, name, ())
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield 0, tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            module = tuple(node.module.split(".")) if node.module else ()
            for alias in node.names:
                yield node.level, (*module, alias.name)

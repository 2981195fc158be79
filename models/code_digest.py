"""The digest of code: of a file and of everything it imports that is ours or the user's.

Imports are read with ast, wherever they stand in a file, and followed where they resolve under a root; what is
installed is a matter of versions, not of this digest. Nothing is imported.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

from .errors import BadRequest

_OURS = Path(__file__).absolute().parents[1]
_PACKAGE = "transload"
_INSTALLED = {"site-packages", "dist-packages"}  # never a root: all of torch would be read


def code_digest(path: Path, root: Path | None = None) -> str:
    """The sha256 of the file at `path` and of what it imports, transitively: relatively, from `root`, from its own
    folder, or from this package. The same code has the same digest wherever it lies.

    Raises BadRequest where the file is not there.
    """
    path = path.absolute()
    if not path.is_file():
        raise BadRequest(f"no such file: {path}", fix="check the path")
    roots = dict.fromkeys([*([root.absolute()] if root else []), path.parent])
    own = tuple(folder for folder in roots if folder.name not in _INSTALLED)
    return _digest(_closure([path], own), own)


def module_file(name: str, root: Path | None = None) -> Path:
    """The file of the module `package.module`, on sys.path or under `root`, found without importing any of it.

    Raises BadRequest where there is none.
    """
    first, *rest = name.split(".")
    spec = PathFinder.find_spec(first, [*sys.path, str(root.absolute())] if root else None) or _known(first)
    if spec and rest:
        bases = [Path(folder) for folder in spec.submodule_search_locations or ()]
        files = [file for base in bases for file in _candidates(base.joinpath(*rest))]
    else:
        files = [Path(spec.origin)] if spec and spec.origin else []
    for file in files:
        if file.is_file():
            return file
    if root and spec and spec.origin and any(each.exists() for each in ((root / first), (root / f"{first}.py"))):
        raise BadRequest(
            f"there is no module {name!r}: {spec.origin} hides the {first} of {root}", fix=f"rename your {first}"
        )
    raise BadRequest(f"there is no module {name!r}", fix="check its name, and the folder you run transload in")


def _candidates(module: Path) -> tuple[Path, Path]:
    return module.with_name(f"{module.name}.py"), module / "__init__.py"


def _known(name: str) -> ModuleSpec | None:
    """What an editable install, or Python itself, answers to a top-level name. That imports nothing either."""
    try:
        return find_spec(name) if name.isidentifier() else None
    except (ImportError, ValueError):
        return None


def entry_digest(entry: str) -> str:
    """The sha256 of an entry of ours, as in "transload.converters.to_tflite.tflite_from_onnx:tflite_int8",
    or of a third party's step.

    Where its imports enter a sub-package (converters/onnx_to_tf/), all of that sub-package counts: such a package
    is a registry that imports its modules by name at run time. Of a third party's, what its module imports relatively
    or from its own folder counts; the rest of it is a matter of its version.

    Raises BadRequest where there is no such module.
    """
    name = entry.partition(":")[0]
    parts = tuple(name.split("."))
    if parts[0] != _PACKAGE:
        file = module_file(name)
        return code_digest(file, file.parents[len(parts) - (file.name != "__init__.py")])
    found = _resolve(parts, ())
    if parts[0] != _PACKAGE or not found or found[-1] not in _candidates(_OURS.joinpath(*parts[1:])):
        raise BadRequest(f"no module of transload is called {name}", fix="name MODULE:FUNCTION")
    return _digest(_closure(found, (), whole=True), ())


def _closure(files: Iterable[Path], roots: tuple[Path, ...], whole: bool = False) -> set[Path]:
    seen: set[Path] = set()
    waiting = list(files)
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        waiting += _imported(path, roots)
        if whole:
            waiting += _sub_package(path)
    return seen


def _sub_package(path: Path) -> list[Path]:
    """Every file of the sub-package of ours that `path` lies in; none where it lies in a room itself."""
    if not path.is_relative_to(_OURS) or len(path.relative_to(_OURS).parts) < 3:
        return []
    room, inner = path.relative_to(_OURS).parts[:2]
    return sorted((_OURS / room / inner).rglob("*.py"))


def _imported(path: Path, roots: tuple[Path, ...]) -> Iterator[Path]:
    for imported in _parsed(path).imports:
        if imported.level:
            base = path.parents[imported.level - 1]
            yield from _under(base, imported.parts)
            yield from _packages(base)
        else:
            yield from _resolve(imported.parts, roots)


def _resolve(parts: tuple[str, ...], roots: tuple[Path, ...]) -> list[Path]:
    """The files that an absolute import reads: ours by the package's name, the user's under the first root."""
    if parts[0] == _PACKAGE:
        found = _under(_OURS, parts[1:])
        return [_OURS / "__init__.py", *found] if found or len(parts) == 1 else []
    for root in roots:
        if files := _under(root, parts):
            return files
    return []


def _under(base: Path, parts: tuple[str, ...]) -> list[Path]:
    """The files for a dotted name: each package's __init__ on the way and the module, as far as they exist.
    The last part may be a name inside the module before it."""
    found: list[Path] = []
    for part in parts:
        if (base / f"{part}.py").is_file():
            return [*found, base / f"{part}.py"]
        base = base / part
        if not base.is_dir():
            break
        if (base / "__init__.py").is_file():
            found.append(base / "__init__.py")
    return found


def _packages(folder: Path) -> Iterator[Path]:
    """The __init__ of a package: a relative import from it may name what that file defines."""
    if (folder / "__init__.py").is_file():
        yield folder / "__init__.py"


def _digest(files: set[Path], roots: tuple[Path, ...]) -> str:
    lines = sorted(f"{_label(path, roots)}\0{_parsed(path).sha256}\n" for path in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _label(path: Path, roots: tuple[Path, ...]) -> str:
    """Where a file lies, said so that moving the whole tree changes nothing."""
    if path.is_relative_to(_OURS):
        return f"{_PACKAGE}/{path.relative_to(_OURS).as_posix()}"
    near = next((root for root in roots if path.is_relative_to(root)), path.parent)
    return path.relative_to(near).as_posix()


@dataclass(frozen=True, slots=True)
class _Import:
    level: int  # dots before the name; 0 is absolute
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Parsed:
    sha256: str
    imports: tuple[_Import, ...]


def _parsed(path: Path) -> _Parsed:
    state = path.stat()
    return _read(path, state.st_mtime_ns, state.st_size, state.st_ino)


@lru_cache(maxsize=4096)
def _read(path: Path, *_state: int) -> _Parsed:
    """A file's digest and imports, kept for as long as the file is unchanged. One that does not parse imports
    nothing: whoever runs it says so better."""
    text = path.read_bytes()
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError):
        nodes = []
    return _Parsed(hashlib.sha256(text).hexdigest(), tuple(dict.fromkeys(i for node in nodes for i in _of(node))))


def _of(node: ast.AST) -> Iterator[_Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield _Import(0, tuple(alias.name.split(".")))
    elif isinstance(node, ast.ImportFrom):
        module = tuple(node.module.split(".")) if node.module else ()
        for alias in node.names:
            yield _Import(node.level, (*module, alias.name))

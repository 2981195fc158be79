"""Tables of rows that packages add to by entry points: formats, steps, runtimes (docs/steps.md).

Reading them imports the module that defines the rows, and nothing that a row names. If one row does not fit, the whole
package is left out with one sentence that names it.
"""

from __future__ import annotations

import re
import site
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from symtable import symtable
from typing import Any, Protocol, TypeVar

from .errors import BadRequest
from .library_messages import first_line

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,60}")  # logs and scripts are named after rows
_FRAMEWORKS = ("torch", "tensorflow", "onnx", "onnxruntime", "keras", "tf_keras", "jax", "ai_edge_litert", "onnx2tf")


_GROUPS = tuple(f"transload.{kind}s" for kind in ("format", "step", "runtime"))


class Row(Protocol):
    """A frozen dataclass with a name."""

    @property
    def name(self) -> str:
        """By which it is found."""

    @property
    def package(self) -> str:
        """Name and version of the package that provides it; empty if it is ours."""


RowT = TypeVar("RowT", bound=Row)


class UnfitRow(ValueError):
    """The reason why a package's rows are refused: the end of a sentence that begins with its name."""


class ExtensibleTable(Mapping[str, RowT]):
    """A table of rows by their names: ours, then those of installed packages. The latter are read when a name is not
    ours, or the whole table is asked for.

    `check(row, known)` raises UnfitRow for a row that does not fit; `known` are those before it.
    """

    def __init__(
        self,
        kind: str,
        row_type: type[RowT],
        own: Iterable[RowT],
        check: Callable[[RowT, Mapping[str, RowT]], None],
        points: Callable[[], Iterable[metadata.EntryPoint]] | None = None,
    ) -> None:
        self._kind, self._type, self._check = kind, row_type, check
        self._points = points or (lambda: metadata.entry_points(group=f"transload.{kind}s"))
        self._own = {row.name: row for row in own}
        self._known: tuple[tuple[str, ...], tuple[Mapping[str, RowT], tuple[str, ...]]] | None = None

    def __getitem__(self, name: str) -> RowT:
        """Return the row of a name."""
        return self._own[name] if name in self._own else self._collected[0][name]

    def __iter__(self) -> Iterator[str]:
        """Yield all names, packages in the order of theirs."""
        return iter(self._collected[0])

    def __len__(self) -> int:
        """Count all rows."""
        return len(self._collected[0])

    @property
    def refused(self) -> tuple[str, ...]:
        """A sentence for each package whose rows were refused."""
        return self._collected[1]

    @property
    def _collected(self) -> tuple[Mapping[str, RowT], tuple[str, ...]]:
        path = tuple(sys.path)  # which grows when a worker is told where packages are
        if self._known is None or self._known[0] != path:
            self._known = path, self._collect()
        return self._known[1]

    def _collect(self) -> tuple[Mapping[str, RowT], tuple[str, ...]]:
        rows, refused = dict(self._own), []
        for point in sorted(self._points(), key=lambda point: (_package_of(point), point.name)):
            package = _package_of(point)
            try:
                rows |= self._fitting(_load_rows(point, self._type), package, rows)
            except UnfitRow as error:
                refused.append(f"the {self._kind}s of {package} are left out: {error}")
        return rows, tuple(refused)

    def _fitting(self, rows: Iterable[RowT], package: str, known: Mapping[str, RowT]) -> dict[str, RowT]:
        """Return the rows with their package's name. Raises UnfitRow at the first that does not fit."""
        fitting: dict[str, RowT] = {}
        for row in rows:
            if not isinstance(row.name, str) or not _NAME.fullmatch(row.name):
                raise UnfitRow(f"a {self._kind} is called {row.name!r}; a name has letters, digits and . _ - @")
            if row.name in known or row.name in fitting:
                owner = (known[row.name].package or "transload") if row.name in known else "the same package"
                raise UnfitRow(f"the name {row.name} is taken by a {self._kind} of {owner}")
            self._check(row, {**known, **fitting})
            fitting[row.name] = replace(row, package=package)  # type: ignore[type-var]  # a Row is a dataclass
        return fitting


def check_entry(name: str, entry: object) -> None:
    """Raise UnfitRow where the function that a row names does not exist; nothing is imported."""
    from .code_digest import module_file  # costly, and needed for packages only

    module, colon, function = entry.partition(":") if isinstance(entry, str) else ("", "", "")
    if not (colon and function.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        raise UnfitRow(f"the entry of {name} is {entry!r} and must be MODULE:FUNCTION")
    try:
        file = module_file(module)
    except BadRequest as error:
        raise UnfitRow(f"the entry of {name} is {entry}, and {error.what}") from error
    if file.suffix == ".py" and function not in _top_level_names(file):
        raise UnfitRow(f"the entry of {name} is {entry}, and {module} has no {function}")


def check_requires(name: str, requires: object) -> None:
    """Raise UnfitRow where what a row requires is no tuple of modules."""
    if not isinstance(requires, tuple) or not all(isinstance(module, str) for module in requires):
        raise UnfitRow(f"{name} requires {requires!r}, which is no tuple of names of modules")


@cache
def package_folders() -> tuple[str, ...]:
    """Return the folders from which workers import what packages add, where they are not installed as we are."""
    from .code_digest import module_file

    folders: dict[str, None] = {}
    for group in _GROUPS:
        for point in metadata.entry_points(group=group):
            with suppress(BadRequest):  # its rows are refused
                file = module_file(point.module)
                folder = file.parents[point.module.count(".") + (file.name == "__init__.py")]
                folders[str(folder)] = None
    return tuple(folder for folder in folders if folder not in site.getsitepackages())


def _package_of(point: metadata.EntryPoint) -> str:
    """Return the name and version of an entry point's distribution."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def _load_rows(point: metadata.EntryPoint, row_type: type[RowT]) -> tuple[RowT, ...]:
    """Return the rows of an entry point.
    Raises UnfitRow if it cannot be imported, is something else, or loads a framework."""
    before = set(sys.modules)
    try:
        loaded: Any = point.load()
    except (Exception, SystemExit) as error:
        message = first_line(error, nothing="no message")
        raise UnfitRow(f"importing {point.value} raised {type(error).__name__}: {message}") from error
    if heavy := sorted({name.partition(".")[0] for name in set(sys.modules) - before} & set(_FRAMEWORKS)):
        raise UnfitRow(f"importing {point.value} loads {', '.join(heavy)}, which belongs inside of an entry's function")
    rows: tuple[RowT, ...] = loaded if isinstance(loaded, tuple) else (loaded,)
    if not rows or not all(isinstance(row, row_type) for row in rows):
        raise UnfitRow(f"{point.value} is neither a {row_type.__name__} nor a tuple of them")
    return rows


def _top_level_names(file: Path) -> set[str]:
    """Return the names that a file binds at its top level."""
    try:
        symbols = symtable(file.read_bytes(), str(file), "exec").get_symbols()  # type: ignore[arg-type]  # takes bytes, too
    except (SyntaxError, ValueError):
        return set()
    return {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}


def load_entry(entry: str) -> Callable[..., Any]:
    """Import the function that an entry names. Worker only."""
    module, _, function = entry.partition(":")
    loaded: Callable[..., Any] = getattr(import_module(module), function)
    return loaded

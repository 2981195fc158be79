"""Steps of other packages, from the entry point group `transload.steps` (docs/steps.md).

Reading them imports the module that defines the rows, and nothing that a row names. If one row does not fit, the whole
package is left out with one sentence that names it.
"""

from __future__ import annotations

import re
import site
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from math import isfinite
from pathlib import Path
from symtable import symtable

from ..models.code_digest import module_file
from ..models.errors import BadRequest
from ..models.foreign_errors import first_line
from ..models.formats import Precision, Target
from .steps import STEPS, Step

GROUP = "transload.steps"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,60}")  # logs and scripts are named after steps
_FRAMEWORKS = ("torch", "tensorflow", "onnx", "onnxruntime", "keras", "tf_keras", "jax", "ai_edge_litert", "onnx2tf")


@dataclass(frozen=True)
class KnownSteps:
    """All steps, ours first, and a sentence for each package whose steps were refused."""

    steps: tuple[Step, ...]
    refused: tuple[str, ...] = ()


class UnfitSteps(ValueError):
    """The reason why a package's steps are refused: the end of a sentence that begins with its name."""


@cache
def known_steps() -> KnownSteps:
    """Return the table with the steps of installed packages; it is read once."""
    return collect_steps(metadata.entry_points(group=GROUP))


def collect_steps(points: Iterable[metadata.EntryPoint]) -> KnownSteps:
    """Collect our steps and those of fitting entry points, in the order of the packages' names."""
    steps, refused = list(STEPS), []
    for point in sorted(points, key=lambda point: (package_of(point), point.name)):
        try:
            steps += _check_rows(_load_rows(point), package_of(point), {step.name: step for step in steps})
        except UnfitSteps as error:
            refused.append(f"the steps of {package_of(point)} are left out: {error}")
    return KnownSteps(tuple(steps), tuple(refused))


def package_of(point: metadata.EntryPoint) -> str:
    """Return the name and version of an entry point's distribution."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def import_folders(step: Step) -> tuple[str, ...]:
    """Return the folders that a worker needs on its path to import a third party's step.

    None are needed if its package is installed in site-packages.
    """
    if not step.package:
        return ()
    name = step.entry.partition(":")[0]
    file = module_file(name)
    folder = file.parents[name.count(".") + (file.name == "__init__.py")]
    return () if str(folder) in site.getsitepackages() else (str(folder),)


def _load_rows(point: metadata.EntryPoint) -> tuple[Step, ...]:
    """Return the rows of an entry point.

    Raises UnfitSteps if it cannot be imported, is something else, or loads a framework.
    """
    before = set(sys.modules)
    try:
        loaded = point.load()
    except (Exception, SystemExit) as error:
        message = first_line(error, nothing="no message")
        raise UnfitSteps(f"importing {point.value} raised {type(error).__name__}: {message}") from error
    if heavy := sorted({name.partition(".")[0] for name in set(sys.modules) - before} & set(_FRAMEWORKS)):
        raise UnfitSteps(
            f"importing {point.value} loads {', '.join(heavy)}, which belongs inside of the step's function"
        )
    rows = loaded if isinstance(loaded, tuple) else (loaded,)
    if not rows or not all(isinstance(row, Step) for row in rows):
        raise UnfitSteps(f"{point.value} is neither a Step nor a tuple of Steps")
    return rows


def _check_rows(rows: tuple[Step, ...], package: str, known_steps: Mapping[str, Step]) -> list[Step]:
    """Return the rows with their package's name. Raises UnfitSteps at the first that does not fit."""
    names = dict.fromkeys(known_steps, "")
    for row in rows:
        _check_fields(row)
        if row.name in names:
            owner = known_steps[row.name].package or "transload" if row.name in known_steps else "the same package"
            raise UnfitSteps(f"the name {row.name} is taken by a step of {owner}")
        names[row.name] = package
        _check_entry(row)
        if row.stands_in_for and row.stands_in_for not in names:
            raise UnfitSteps(f"{row.name} stands in for {row.stands_in_for}, which is no step")
    return [replace(row, package=package) for row in rows]


def _check_fields(row: Step) -> None:
    if not isinstance(row.name, str) or not _NAME.fullmatch(row.name):
        raise UnfitSteps(f"a step is called {row.name!r}; a name has letters, digits and . _ - @")
    if not isinstance(row.target, Target) or not (row.source is None or isinstance(row.source, Target)):
        raise UnfitSteps(f"{row.name} goes from {row.source!r} to {row.target!r}, and one of them is no Target")
    if row.source == row.target:
        raise UnfitSteps(f"{row.name} ends where it starts, at {row.target}")
    if row.source and row.source.precision is not Precision.FP32:
        raise UnfitSteps(f"{row.name} starts from {row.source}; nothing is built on a reduced precision")
    if not isinstance(row.cost, int | float) or not isfinite(row.cost) or row.cost <= 0:
        raise UnfitSteps(f"the cost of {row.name} is {row.cost!r} and must be a number above 0")
    if not isinstance(row.requires, tuple) or not all(isinstance(name, str) for name in row.requires):
        raise UnfitSteps(f"{row.name} requires {row.requires!r}, which is no tuple of names of modules")


def _check_entry(row: Step) -> None:
    """Raise UnfitSteps if the step's function does not exist; nothing is imported."""
    module, colon, function = row.entry.partition(":") if isinstance(row.entry, str) else ("", "", "")
    if not (colon and function.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        raise UnfitSteps(f"the entry of {row.name} is {row.entry!r} and must be MODULE:FUNCTION")
    try:
        file = module_file(module)
    except BadRequest as error:
        raise UnfitSteps(f"the entry of {row.name} is {row.entry}, and {error.what}") from error
    if file.suffix == ".py" and function not in _top_level_names(file):
        raise UnfitSteps(f"the entry of {row.name} is {row.entry}, and {module} has no {function}")


def _top_level_names(file: Path) -> set[str]:
    """Return the names that a file binds at its top level."""
    try:
        symbols = symtable(file.read_bytes(), str(file), "exec").get_symbols()  # type: ignore[arg-type]  # takes bytes, too
    except (SyntaxError, ValueError):
        return set()
    return {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}

"""Steps that other packages bring, by the entry point group `transload.steps` (docs/steps.md).

Reading them imports the module that defines the rows, and nothing that a row names. What does not fit is refused as a
whole package, in one sentence that names it, and the table goes on without it.
"""

from __future__ import annotations

import ast
import re
import site
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from math import isfinite
from pathlib import Path

from ..models.code_digest import module_file
from ..models.errors import BadRequest
from ..models.foreign_errors import first_line
from ..models.formats import Precision, Target
from .steps import STEPS, Step

GROUP = "transload.steps"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,60}")  # a step's name is part of the names of logs and scripts
_FRAMEWORKS = ("torch", "tensorflow", "onnx", "onnxruntime", "keras", "tf_keras", "jax", "ai_edge_litert", "onnx2tf")


@dataclass(frozen=True)
class Known:
    """Every step, ours first, and a sentence for each package whose steps were refused."""

    steps: tuple[Step, ...]
    refused: tuple[str, ...] = ()


class Unfit(ValueError):
    """Why a package's steps cannot be taken: the end of a sentence that begins with its name."""


@cache
def known() -> Known:
    """The table with what is installed beside us. Read once."""
    return gather(metadata.entry_points(group=GROUP))


def gather(points: Iterable[metadata.EntryPoint]) -> Known:
    """Our steps and those of entry points that fit, in the order of the packages' names."""
    steps, refused = list(STEPS), []
    for point in sorted(points, key=lambda each: (package_of(each), each.name)):
        try:
            steps += _checked(_load(point), package_of(point), {step.name: step for step in steps})
        except Unfit as why:
            refused.append(f"the steps of {package_of(point)} are left out: {why}")
    return Known(tuple(steps), tuple(refused))


def package_of(point: metadata.EntryPoint) -> str:
    """Name and version of the distribution that an entry point is of."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def folders(step: Step) -> tuple[str, ...]:
    """What a worker needs on its path to import a third party's step: nothing where it is installed as we are."""
    if not step.package:
        return ()
    name = step.entry.partition(":")[0]
    file = module_file(name)
    folder = file.parents[name.count(".") + (file.name == "__init__.py")]
    return () if str(folder) in site.getsitepackages() else (str(folder),)


def _load(point: metadata.EntryPoint) -> tuple[Step, ...]:
    """The rows that an entry point gives.

    Raises Unfit where it cannot be imported, gives something else, or loads a framework.
    """
    before = set(sys.modules)
    try:
        found = point.load()
    except (Exception, SystemExit) as error:
        said = first_line(error, nothing="no message")
        raise Unfit(f"importing {point.value} raised {type(error).__name__}: {said}") from error
    if heavy := sorted({name.partition(".")[0] for name in set(sys.modules) - before} & set(_FRAMEWORKS)):
        raise Unfit(f"importing {point.value} loads {', '.join(heavy)}, which belongs inside of the step's function")
    rows = found if isinstance(found, tuple) else (found,)
    if not rows or not all(isinstance(row, Step) for row in rows):
        raise Unfit(f"{point.value} is neither a Step nor a tuple of Steps")
    return rows


def _checked(rows: tuple[Step, ...], package: str, taken: Mapping[str, Step]) -> list[Step]:
    """The rows under their package's name. Raises Unfit at the first that does not fit: all of them, or none."""
    names = dict.fromkeys(taken, "")
    for row in rows:
        _check_fields(row)
        if row.name in names:
            whose = taken[row.name].package or "transload" if row.name in taken else "the same package"
            raise Unfit(f"the name {row.name} is taken by a step of {whose}")
        names[row.name] = package
        _check_entry(row)
        if row.stands_in_for and row.stands_in_for not in names:
            raise Unfit(f"{row.name} stands in for {row.stands_in_for}, which is no step")
    return [replace(row, package=package) for row in rows]


def _check_fields(row: Step) -> None:
    if not isinstance(row.name, str) or not _NAME.fullmatch(row.name):
        raise Unfit(f"a step is called {row.name!r}; a name has letters, digits and . _ - @")
    if not isinstance(row.target, Target) or not (row.source is None or isinstance(row.source, Target)):
        raise Unfit(f"{row.name} goes from {row.source!r} to {row.target!r}, and one of them is no Target")
    if row.source == row.target:
        raise Unfit(f"{row.name} ends where it starts, at {row.target}")
    if row.source and row.source.precision is not Precision.FP32:
        raise Unfit(f"{row.name} starts from {row.source}; nothing is built on a reduced precision")
    if not isinstance(row.cost, int | float) or not isfinite(row.cost) or row.cost <= 0:
        raise Unfit(f"the cost of {row.name} is {row.cost!r} and must be a number above 0")
    if not isinstance(row.requires, tuple) or not all(isinstance(each, str) for each in row.requires):
        raise Unfit(f"{row.name} requires {row.requires!r}, which is no tuple of names of modules")


def _check_entry(row: Step) -> None:
    """Where the step's function is: looked for, and not imported."""
    module, colon, function = row.entry.partition(":") if isinstance(row.entry, str) else ("", "", "")
    if not (colon and function.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        raise Unfit(f"the entry of {row.name} is {row.entry!r} and must be MODULE:FUNCTION")
    try:
        file = module_file(module)
    except BadRequest as error:
        raise Unfit(f"the entry of {row.name} is {row.entry}, and {error.what}") from error
    if file.suffix == ".py" and function not in _names(file):
        raise Unfit(f"the entry of {row.name} is {row.entry}, and {module} has no {function}")


def _names(file: Path) -> set[str]:
    """What a file gives a name to, at its top."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return set()
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            found |= {each.id for each in node.targets if isinstance(each, ast.Name)}
    return found

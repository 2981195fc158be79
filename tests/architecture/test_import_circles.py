"""No module needs itself to be imported: a circle of imports shows only where a certain module comes first."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TypeAlias

import pytest

from .import_nodes import nodes_at_import

LAYERS = ("models", "converters", "serving", "pipeline")
Name: TypeAlias = tuple[str, ...]


def needs(name: Name, source: str, names: Iterable[Name], *, is_package: bool) -> set[Name]:
    """Return the modules of ours that are imported while `name` is, with the packages that they lie in."""
    known, package, found = set(names), name if is_package else name[:-1], set()
    for node in nodes_at_import(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = (*package[: len(package) - node.level + 1], *(node.module.split(".") if node.module else ()))
            for alias in node.names:
                module = (*base, alias.name) if (*base, alias.name) in known else base
                found |= {module[:depth] for depth in range(1, len(module) + 1)}
    return (found & known) - {name[:depth] for depth in range(1, len(name) + 1)}


def circle(graph: Mapping[Name, set[Name]]) -> list[str]:
    """Return the modules of a circle; an empty list where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [".".join(name) for name in error.args[1]]
    return []


def test_no_module_needs_itself(root: Path) -> None:
    files: dict[Name, Path] = {}
    for layer in LAYERS:
        for file in (root / layer).rglob("*.py"):
            parts = file.relative_to(root).with_suffix("").parts
            files[parts[:-1] if file.stem == "__init__" else parts] = file
    graph = {
        name: needs(name, file.read_text(), files, is_package=file.stem == "__init__") for name, file in files.items()
    }
    assert sum(map(len, graph.values())) > len(files)
    assert circle(graph) == []


@pytest.mark.parametrize(
    ("text", "circular"),
    [
        ("from .b import x", True),
        ("from . import b", True),
        ("from .c import x", False),
        ("def f():\n    from .b import x", False),
        ("if TYPE_CHECKING:\n    from .b import x", False),
        ("try:\n    from .b import x\nexcept ImportError:\n    x = None", True),
    ],
)
def test_a_circle_is_found(text: str, circular: bool) -> None:
    sources = {("p",): "", ("p", "a"): text, ("p", "b"): "from .a import y", ("p", "c"): ""}
    graph = {name: needs(name, source, sources, is_package=name == ("p",)) for name, source in sources.items()}
    assert bool(circle(graph)) is circular

"""How much of the package is typed by Any: a share that may only fall."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from .syntax import parsed

ROOT = Path(__file__).parents[2]
LAYERS = ("models", "converters", "serving", "pipeline")
MOST = {"": 0.15, "converters/patches": 0.08}  # the share of annotations that hold Any: of the package, of a room


def annotations_of(tree: ast.AST) -> Iterator[ast.expr]:
    """The annotations of parameters, results, variables and fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
            yield from (argument.annotation for argument in every if argument and argument.annotation)
            if node.returns:
                yield node.returns
        elif isinstance(node, ast.AnnAssign):
            yield node.annotation


def share_of_any(sources: list[str]) -> float:
    texts = [ast.unparse(annotation) for source in sources for annotation in annotations_of(parsed(source))]
    return sum("Any" in text for text in texts) / len(texts)


@pytest.mark.parametrize("room", MOST)
def test_the_share_of_any_does_not_grow(room: str) -> None:
    folders = [ROOT / room] if room else [ROOT / layer for layer in LAYERS]
    assert share_of_any([file.read_text() for folder in folders for file in folder.rglob("*.py")]) <= MOST[room]


def test_the_share_counts_every_kind_of_annotation() -> None:
    assert share_of_any(["def f(a: Any, *b: int, c: list[Any]) -> None: ...", "x: Any = 1"]) == 3 / 5

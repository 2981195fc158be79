"""The helpers that a generated module may call: as functions for the trial, and as text to paste."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

MODULES = (
    "basics", "padding_and_windows", "axis_resampling", "recurrent_layers", "quantized_arithmetic",
    "gather_scatter", "bounded_loops", "boxes",
)  # fmt: skip


@cache
def functions() -> Mapping[str, Callable[..., Any]]:
    """Return every helper by its name, in the order of the files. Names differ between files."""
    helpers: dict[str, Callable[..., Any]] = {}
    for module in MODULES:
        loaded = import_module(f"{__package__}.helpers.{module}")
        helpers.update({name: function for name, function in vars(loaded).items() if inspect.isfunction(function)})
    return helpers


def text_of(names: Iterable[str]) -> str:
    """Return the source of these helpers and of those that they call, each once, callees first."""
    wanted = needed(names)
    return "\n\n\n".join(_source(name) for name in functions() if name in wanted)


def needed(names: Iterable[str]) -> set[str]:
    """Return the names of these helpers and of all that they call."""
    todo, called = list(names), set[str]()
    while todo:
        name = todo.pop()
        if name not in called:
            called.add(name)
            tree = ast.parse(_source(name))
            names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            todo.extend(names & functions().keys())
    return called


@cache
def _source(name: str) -> str:
    return inspect.getsource(functions()[name]).rstrip()

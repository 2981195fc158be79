"""Graphs inside a node become functions inside of `forward`, which see the names around them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..onnx_graph.graph import Graph
from .operator_context import Op
from .statements import Block
from .values import Value, computed

if TYPE_CHECKING:
    import torch

    from .module_writer import Page

Scope = dict[str, Value]
Run = Callable[[Graph, Sequence[Value], Scope], list[Value]]


@dataclass(frozen=True)
class Function:
    """A graph as a function: its text, and what it makes."""

    block: Block
    trials: list[torch.Tensor]


@dataclass(frozen=True)
class Inside:
    """Writes graphs that see the names around a node."""

    op: Op
    run: Run
    scope: Scope

    def here(self, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
        """What a graph makes, as statements where the node is."""
        return self.run(graph, inputs, self.scope)

    def function(
        self, name: str, arguments: Sequence[Value], write: Callable[[Inside], Sequence[Value]], result: str = "{}"
    ) -> Function:
        """A function of these arguments, that gives what `write` makes in it, each written as `result`."""
        page = self.op.page
        called = page.names.fresh(f"{name}_of_{self.op.node.name or self.op.node.op_type}", name)
        # What is made a tensor in here has no name outside.
        inner = Inside(self.op, self.run, {at: copy(value) for at, value in self.scope.items()})
        with _statements(page) as lines:
            made = write(inner)
            codes = [result.format(value) for value in made]
        trials = [page.run(f"{value}") for value in made]
        block = Block(called, tuple(map(str, arguments)), tuple(lines), tuple(codes), page.origin)
        if copied := _sharing(block, page.scope):
            page.helpers.add("plain_copy")
        return Function(replace(block, copied=copied), trials)


def _sharing(block: Block, scope: Mapping[str, Any]) -> tuple[str, ...]:
    """What a function reads around it that shares its memory with something else that it reads there: PyTorch's
    branches and loops take no two of these."""
    import torch

    inside = set(block.arguments) | set(block.targets)
    held: dict[int, str] = {}
    found = []
    for name in dict.fromkeys(re.findall(r"\b(?:self\.)?[a-z_]\w*", block.code)):
        owner, _, own = name.rpartition(".")
        tensor = getattr(scope["self"], own, None) if owner else scope.get(name)
        if name in inside or not isinstance(tensor, torch.Tensor):
            continue
        if held.setdefault(tensor.untyped_storage()._cdata, name) != name and not owner:
            found.append(name)
    return tuple(found)


@contextmanager
def _statements(page: Page) -> Iterator[list[Any]]:
    """A list that takes the statements written meanwhile."""
    outer, page.lines = page.lines, []
    try:
        yield page.lines
    finally:
        page.lines = outer


def truth(condition: Value) -> bool | None:
    """The condition, where it is known."""
    if condition.array is not None:
        return bool(condition.array.reshape(()))
    part = None if condition.parts is None else condition.parts.reshape(-1)[0]
    return part if isinstance(part, bool) else None


def same_size(a: Any, b: Any) -> bool:
    """Whether two sizes are one, without asking which sizes they are."""
    return bool(_expression(a) == _expression(b))


def _expression(size: Any) -> Any:
    import sympy  # type: ignore[import-untyped]

    return sympy.Integer(size) if isinstance(size, int) else size.node.expr


def placed(op: Op, code: str, trials: Sequence[torch.Tensor]) -> list[Value]:
    """Variables for what a call makes, of which the trial is known."""
    page = op.page
    targets = [page.names.fresh(op.node.outputs[at] if op.wants(at) else "_unused") for at in range(len(trials))]
    page.scope.update(zip(targets, trials, strict=True))
    page.write(targets, code if len(targets) > 1 else f"{code}[0]")
    return [computed(page, target, trial) for target, trial in zip(targets, trials, strict=True)]

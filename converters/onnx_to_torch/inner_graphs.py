"""Graphs inside a node become functions inside of `forward`, which see the names around them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from ..onnx_graph.graph import Graph
from .lazy_torch import torch
from .module_writer import ModuleWriter
from .statements import FunctionStatement
from .values import Expression
from .writers import CodegenContext

Scope = dict[str, Expression]
GraphRunner = Callable[[Graph, Sequence[Expression], Scope], list[Expression]]


@dataclass(frozen=True)
class InnerFunction:
    """A graph as a function: its text, and the trials of its results."""

    block: FunctionStatement
    trials: list[torch.Tensor]


@dataclass(frozen=True)
class InnerGraphWriter:
    """Writes graphs that see the names around a node."""

    op: CodegenContext
    run: GraphRunner
    scope: Scope

    def here(self, graph: Graph, inputs: Sequence[Expression]) -> list[Expression]:
        """Write a graph as statements where the node is, and return its outputs."""
        return self.run(graph, inputs, self.scope)

    def function(
        self,
        name: str,
        arguments: Sequence[Expression],
        write: Callable[[InnerGraphWriter], Sequence[Expression]],
        result: str = "{}",
    ) -> InnerFunction:
        """Write a function of these arguments that returns what `write` makes in it, each formatted by `result`."""
        writer = self.op.writer
        called = writer.names.fresh(f"{name}_of_{self.op.node.name or self.op.node.op_type}", name)
        # A copy, because a tensor made in the function has no name outside of it.
        inner = InnerGraphWriter(self.op, self.run, {at: copy(value) for at, value in self.scope.items()})
        with _statements(writer) as lines:
            values = write(inner)
            codes = [result.format(value) for value in values]
        trials = [writer.run(f"{value}") for value in values]
        block = FunctionStatement(called, tuple(map(str, arguments)), tuple(lines), tuple(codes), writer.origin)
        if copied := _sharing(block, writer.scope):
            writer.helpers.add("plain_copy")
        return InnerFunction(replace(block, copied=copied), trials)


def _sharing(block: FunctionStatement, scope: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the outer names whose memory a function reads by two names, which PyTorch's branches and loops refuse."""
    inside = set(block.arguments) | set(block.targets)
    held: dict[int, str] = {}
    shared = []
    for name in dict.fromkeys(re.findall(r"\b(?:self\.)?[a-z_]\w*", block.code)):
        owner, _, own = name.rpartition(".")
        tensor = getattr(scope["self"], own, None) if owner else scope.get(name)
        if name in inside or not isinstance(tensor, torch.Tensor):
            continue
        if held.setdefault(tensor.untyped_storage()._cdata, name) != name and not owner:
            shared.append(name)
    return tuple(shared)


@contextmanager
def _statements(writer: ModuleWriter) -> Iterator[list[Any]]:
    """Collect the statements written meanwhile in a list of their own."""
    outer, writer.lines = writer.lines, []
    try:
        yield writer.lines
    finally:
        writer.lines = outer


def known_truth(condition: Expression) -> bool | None:
    """Return the condition, where it is known."""
    if condition.array is not None:
        return bool(condition.array.reshape(()))
    part = None if condition.parts is None else condition.parts.reshape(-1)[0]
    return part if isinstance(part, bool) else None


def same_size(a: Any, b: Any) -> bool:
    """Return whether two sizes are one, without asking torch which sizes they are."""
    first, second = (size if isinstance(size, int) else size.node.expr for size in (a, b))
    return bool(first == second)


def assign_outputs(op: CodegenContext, code: str, trials: Sequence[torch.Tensor]) -> list[Expression]:
    """Write a call whose trials are known, and return a variable for each of its results."""
    return op.writer.assign(code if len(trials) > 1 else f"{code}[0]", op.output_names(len(trials)), trials)

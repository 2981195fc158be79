"""Pieces of an exported program: some of its operators as a module, with the inputs that they have in the program.

Used to find the smallest piece at which a step fails (pipeline/minimal_repro/piece_search.py). Worker only.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...models.signature import Array, Signature
from ...models.source_lines import line_in
from .graph_pieces import Cutter, GraphPiece
from .torch_pieces import AxisNames, arrays_of, hold

if TYPE_CHECKING:
    import torch

_FREEING = re.compile(r";  (\w+ = )+None$", re.MULTILINE)  # torch writes it after the last use of a value


@dataclass(frozen=True)
class ProgramPiece(GraphPiece):
    """Some operators as a module. `second_feeds` belong to a call with other sizes, which shows the dynamic axes."""

    second_feeds: Mapping[str, Array]
    module: torch.fx.GraphModule

    def write(self, folder: Path) -> None:
        """Write the module as a source, the input of torch.export."""
        hold(self.module, self.signature, folder)

    @property
    def code(self) -> str:
        """Return the text of the method `forward`, indented for a class."""
        text = _FREEING.sub("", self.module.graph.python_code("self").src).strip()
        return "\n".join(f"    {line}".rstrip() for line in text.splitlines())

    @property
    def imports(self) -> list[str]:
        """Return the import lines that `code` needs, except for torch itself."""
        written = self.module.graph.python_code("self")
        used = {name: value for name, value in written.globals.items() if re.search(rf"\b{name}\b", written.src)}
        lines = [_import_line(name, value) for name, value in used.items() if name != "torch"]
        return [*lines, *(["import torchvision"] if "torch.ops.torchvision." in written.src else [])]

    @property
    def weights(self) -> dict[str, Array]:
        """Return the module's tensors by name."""
        return arrays_of(self.module.state_dict())


class ProgramCutter(Cutter):
    """An exported program that can be cut into pieces.
    Computations of sizes, and the parts of several results, are not counted: a piece includes those that it needs."""

    def __init__(
        self,
        program: torch.export.ExportedProgram,
        signature: Signature,
        first: Mapping[str, Array],
        second: Mapping[str, Array],
    ) -> None:
        self._module = program.module()
        self._all = list(self._module.graph.nodes)
        self.nodes = [node for node in self._all if _is_operator(node)]
        self._axes = AxisNames(signature, first, second)
        self._values = [_all_values(self._module, feeds.values()) for feeds in (first, second)]

    def piece(self, chosen: Iterable[int]) -> ProgramPiece | None:
        """Return these operators as a module; None if an input or output is no tensor, or there are no inputs."""
        inside = {self.nodes[at] for at in chosen}
        inside |= {user for node in inside for user in node.users if user.target is operator.getitem}
        included, inputs = self._included_and_inputs(inside)
        outputs = self._outputs_of(inside)
        sizes = _size_replacements(included, inputs)
        inputs = [node for node in inputs if any(user in included and user not in sizes for user in node.users)]
        module = self._build_module(included, inputs, outputs, sizes)
        feeds, second_feeds = (arrays_of({node.name: values[node] for node in inputs}) for values in self._values)
        if module is None or not outputs or not len(feeds) == len(second_feeds) == len(inputs) > 0:
            return None
        names = [node.name for node in outputs]
        expected, second_expected = (_outputs(module, names, call_feeds) for call_feeds in (feeds, second_feeds))
        signature = self._axes.signature((feeds, second_feeds), (expected, second_expected))
        if signature is None or len(expected) < len(names):
            return None
        return ProgramPiece(signature, feeds, expected, sum(map(_is_operator, included)), second_feeds, module)

    def with_predecessors(self, index: int, limit: int) -> list[int]:
        """Return an operator and those that it depends on, nearest first, up to `limit` of them."""
        numbers = {node: number for number, node in enumerate(self.nodes)}
        chosen: list[int] = []
        pending = [self.nodes[index]]
        for node in pending:
            if node in numbers and len(chosen) < limit:
                chosen.append(numbers[node])
            pending += [source for source in reversed(node.all_input_nodes) if source not in pending]
        return chosen

    def describe(self, index: int) -> tuple[str, str, str | None]:
        """Return an operator's name in PyTorch, a description with its line, and the line that torch.export noted."""
        node = self.nodes[index]
        line = line_in(node.meta.get("stack_trace") or "")
        return str(node.target), f"the operator {node.target} ({node.name}){f', from {line}' if line else ''}", line

    def _included_and_inputs(self, inside: set[torch.fx.Node]) -> tuple[list[torch.fx.Node], list[torch.fx.Node]]:
        """Return the nodes that a piece includes, and the tensors that are its inputs, both in their order."""
        included: set[torch.fx.Node] = set()
        inputs: set[torch.fx.Node] = set()
        pending = list(inside)
        while pending:
            node = pending.pop()
            if node in inside or node.op == "get_attr" or not _is_tensor(node):
                included.add(node)
                pending += [source for source in node.all_input_nodes if source not in included]
            else:
                inputs.add(node)
        return [node for node in self._all if node in included], [node for node in self._all if node in inputs]

    def _outputs_of(self, inside: set[torch.fx.Node]) -> list[torch.fx.Node]:
        """Return the nodes of a piece that others read; else its last tensor."""
        tensors = [node for node in self._all if node in inside and _is_tensor(node)]
        return [node for node in tensors if any(user not in inside for user in node.users)] or tensors[-1:]

    def _build_module(
        self,
        included: Sequence[torch.fx.Node],
        inputs: Sequence[torch.fx.Node],
        outputs: Sequence[torch.fx.Node],
        sizes: Mapping[torch.fx.Node, tuple[torch.fx.Node, int]],
    ) -> torch.fx.GraphModule | None:
        """Build the module of a piece; None if it contains another graph, as a branch on data does."""
        import torch

        graph, root = torch.fx.Graph(), torch.nn.Module()
        built: dict[torch.fx.Node, Any] = {node: graph.placeholder(node.name) for node in inputs}
        for node in included:
            if node.op == "get_attr":
                value = self._values[0][node]
                if not isinstance(value, torch.Tensor):
                    return None
                root.register_buffer(node.name, value)
                built[node] = graph.get_attr(node.name)
            elif node in sizes:
                tensor, axis = sizes[node]
                built[node] = graph.call_function(torch.ops.aten.sym_size.int, (built[tensor], axis))
            elif node.op == "placeholder":  # a number that the program was exported for
                built[node] = self._values[0][node]
            else:
                built[node] = graph.node_copy(node, built.__getitem__)
        graph.output(tuple(built[node] for node in outputs))
        return torch.fx.GraphModule(root, graph).eval()


def _import_line(name: str, value: Any) -> str:
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}"
    if isinstance(value, float):  # inf and nan
        return f"from math import {name}"
    return f"from {value.__module__} import {value.__name__} as {name}"


def _is_tensor(node: torch.fx.Node) -> bool:
    import torch

    return isinstance(node.meta.get("val"), torch.Tensor)


def _is_operator(node: torch.fx.Node) -> bool:
    if node.op != "call_function" or node.target is operator.getitem:
        return False
    return _is_tensor(node) or isinstance(node.meta.get("val"), tuple | list)


def _size_replacements(
    included: Sequence[torch.fx.Node], inputs: Sequence[torch.fx.Node]
) -> dict[torch.fx.Node, tuple[torch.fx.Node, int]]:
    """Return for sizes of inputs that serve nothing else another input with the same axis, and its position."""
    import torch

    reads = [node for node in included if node.target is torch.ops.aten.sym_size.int]
    candidates = [node for node in inputs if any(user in included and user not in reads for user in node.users)]
    replacements = {}
    for node in reads:
        axes = [(candidate, at) for candidate in candidates for at, size in enumerate(candidate.meta["val"].shape)
                if str(size) == str(node.meta["val"])]  # fmt: skip
        if axes and node.args[0] in inputs and node.args[0] not in candidates:
            replacements[node] = axes[0]
    return replacements


def _all_values(module: torch.fx.GraphModule, feeds: Iterable[Array]) -> dict[torch.fx.Node, Any]:
    """Return a copy of every node's result at that moment: some operators write into their inputs."""
    import torch

    values: dict[torch.fx.Node, Any] = {}

    class Keeper(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            result = super().run_node(n)
            kept = result.detach() if isinstance(result, torch.Tensor) else result
            values[n] = kept.clone() if kept is not result and n.op != "get_attr" else kept  # weights are not copied
            return result

    with torch.no_grad():
        Keeper(module).run(*(torch.from_numpy(array.copy()) for array in feeds))
    return values


def _outputs(module: torch.fx.GraphModule, names: Sequence[str], feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs of a piece that arrays can hold."""
    import torch

    with torch.no_grad():
        results = module(*(torch.from_numpy(array.copy()) for array in feeds.values()))
    return arrays_of(dict(zip(names, results, strict=True)))

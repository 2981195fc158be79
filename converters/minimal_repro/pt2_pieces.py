"""Pieces of an exported program: some of its operators as a module of their own, fed with what they are fed in the
whole.

For finding the smallest piece that a step fails at (pipeline/minimal_repro/pt2_search.py). Worker only.
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
from .onnx_pieces import line_in
from .torch_pieces import Axes, array_of, hold

if TYPE_CHECKING:
    import torch

_FREED = re.compile(r";  (\w+ = )+None$", re.MULTILINE)  # what torch writes behind the last use of a value


@dataclass(frozen=True)
class Piece:
    """Some operators as a module. `expected` is what PyTorch computes for `feeds`; `others` are those of a second call,
    of other sizes, which tells what is dynamic."""

    module: torch.fx.GraphModule
    signature: Signature
    feeds: Mapping[str, Array]
    expected: Mapping[str, Array]
    others: Mapping[str, Array]
    operators: int

    def write(self, folder: Path) -> None:
        """As a source, which torch.export can be given."""
        hold(self.module, self.signature, folder)

    @property
    def code(self) -> str:
        """The method `forward`, as a class has it."""
        text = _FREED.sub("", self.module.graph.python_code("self").src).strip()
        return "\n".join(f"    {line}".rstrip() for line in text.splitlines())

    @property
    def imports(self) -> list[str]:
        """The lines that `code` needs above it, but for torch itself."""
        written = self.module.graph.python_code("self")
        used = {name: value for name, value in written.globals.items() if re.search(rf"\b{name}\b", written.src)}
        lines = [_import_of(name, value) for name, value in used.items() if name != "torch"]
        return [*lines, *(["import torchvision"] if "torch.ops.torchvision." in written.src else [])]

    @property
    def weights(self) -> dict[str, Array]:
        """The tensors that it holds, by name."""
        return _arrays(self.module.state_dict())


class Cutter:
    """An exported program, ready to be cut. Its operators are numbered in their order; numbers that it works out of
    sizes, and the parts of what has several results, are none: a piece takes along those that it needs."""

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
        self._axes = Axes(signature, first, second)
        self._values = [_every_value(self._module, feeds.values()) for feeds in (first, second)]

    def piece(self, chosen: Iterable[int]) -> Piece | None:
        """These operators as a module. None where what they read or give is no tensor, or nothing goes in."""
        inside = {self.nodes[at] for at in chosen}
        inside |= {user for node in inside for user in node.users if user.target is operator.getitem}
        taken, fed = self._needed(inside)
        given = self._given(inside)
        sizes = _found_elsewhere(taken, fed)
        fed = [node for node in fed if any(user in taken and user not in sizes for user in node.users)]
        module = self._assembled(taken, fed, given, sizes)
        feeds, others = (_arrays({node.name: values[node] for node in fed}) for values in self._values)
        if module is None or not given or not len(feeds) == len(others) == len(fed) > 0:
            return None
        return self._described(module, feeds, others, [node.name for node in given], sum(map(_is_operator, taken)))

    def _described(
        self,
        module: torch.fx.GraphModule,
        feeds: Mapping[str, Array],
        others: Mapping[str, Array],
        names: Sequence[str],
        operators: int,
    ) -> Piece | None:
        expected, again = (_answers(module, names, given) for given in (feeds, others))
        try:
            signature = Signature(
                tuple(self._axes.spec(name, feeds[name], others[name]) for name in feeds),
                tuple(self._axes.spec(name, expected[name], again[name]) for name in names),
            )
        except (ValueError, KeyError):  # a dtype that nothing here carries
            return None
        return Piece(module, signature, feeds, expected, others, operators)

    def behind(self, at: int, most: int) -> list[int]:
        """An operator and those before it that it depends on, nearest first, up to `most` of them."""
        numbers = {node: number for number, node in enumerate(self.nodes)}
        found: list[int] = []
        waiting = [self.nodes[at]]
        for node in waiting:
            if node in numbers and len(found) < most:
                found.append(numbers[node])
            waiting += [each for each in reversed(node.all_input_nodes) if each not in waiting]
        return found

    def _needed(self, inside: set[torch.fx.Node]) -> tuple[list[torch.fx.Node], list[torch.fx.Node]]:
        """The nodes that a piece takes along, and the tensors that it is fed, both in their order."""
        taken: set[torch.fx.Node] = set()
        fed: set[torch.fx.Node] = set()
        waiting = list(inside)
        while waiting:
            node = waiting.pop()
            if node in inside or node.op == "get_attr" or not _is_tensor(node):
                taken.add(node)
                waiting += [each for each in node.all_input_nodes if each not in taken]
            else:
                fed.add(node)
        return [node for node in self._all if node in taken], [node for node in self._all if node in fed]

    def _given(self, inside: set[torch.fx.Node]) -> list[torch.fx.Node]:
        """What a piece gives: what others read of it; else what its last operator makes."""
        tensors = [node for node in self._all if node in inside and _is_tensor(node)]
        return [node for node in tensors if any(user not in inside for user in node.users)] or tensors[-1:]

    def _assembled(
        self,
        taken: Sequence[torch.fx.Node],
        fed: Sequence[torch.fx.Node],
        given: Sequence[torch.fx.Node],
        sizes: Mapping[torch.fx.Node, tuple[torch.fx.Node, int]],
    ) -> torch.fx.GraphModule | None:
        """None where it holds a graph of its own, as a branch on data does."""
        import torch

        graph, root = torch.fx.Graph(), torch.nn.Module()
        made: dict[torch.fx.Node, Any] = {node: graph.placeholder(node.name) for node in fed}
        for node in taken:
            if node.op == "get_attr":
                value = self._values[0][node]
                if not isinstance(value, torch.Tensor):
                    return None
                root.register_buffer(node.name, value)
                made[node] = graph.get_attr(node.name)
            elif node in sizes:
                tensor, axis = sizes[node]
                made[node] = graph.call_function(torch.ops.aten.sym_size.int, (made[tensor], axis))
            elif node.op == "placeholder":  # a number, which the program was made for
                made[node] = self._values[0][node]
            else:
                made[node] = graph.node_copy(node, made.__getitem__)
        graph.output(tuple(made[node] for node in given))
        return torch.fx.GraphModule(root, graph).eval()


def _import_of(name: str, value: Any) -> str:
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}"
    if isinstance(value, float):  # inf and nan
        return f"from math import {name}"
    return f"from {value.__module__} import {value.__name__} as {name}"


def described(node: torch.fx.Node) -> str:
    """An operator for a person: its name in PyTorch, and the line of the model that it comes from where that is
    known."""
    line = line_of(node)
    return f"the operator {node.target} ({node.name}){f', from {line}' if line else ''}"


def line_of(node: torch.fx.Node) -> str | None:
    """The line of the user's own code, as torch.export has noted it."""
    return line_in(node.meta.get("stack_trace") or "")


def _is_tensor(node: torch.fx.Node) -> bool:
    import torch

    return isinstance(node.meta.get("val"), torch.Tensor)


def _is_operator(node: torch.fx.Node) -> bool:
    if node.op != "call_function" or node.target is operator.getitem:
        return False
    return _is_tensor(node) or isinstance(node.meta.get("val"), tuple | list)


def _found_elsewhere(
    taken: Sequence[torch.fx.Node], fed: Sequence[torch.fx.Node]
) -> dict[torch.fx.Node, tuple[torch.fx.Node, int]]:
    """Sizes that are read of a tensor which is fed for nothing else: another that has the axis, and where."""
    import torch

    asked = [node for node in taken if node.target is torch.ops.aten.sym_size.int]
    others = [node for node in fed if any(user in taken and user not in asked for user in node.users)]
    found = {}
    for node in asked:
        axes = [(other, at) for other in others for at, size in enumerate(other.meta["val"].shape)
                if str(size) == str(node.meta["val"])]  # fmt: skip
        if axes and node.args[0] in fed and node.args[0] not in others:
            found[node] = axes[0]
    return found


def _every_value(module: Any, given: Iterable[Array]) -> dict[torch.fx.Node, Any]:
    """What every node gives, as it is then: some operators write into what they are given."""
    import torch

    found: dict[torch.fx.Node, Any] = {}

    class Keeper(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            made = super().run_node(n)
            kept = made.detach() if isinstance(made, torch.Tensor) else made
            found[n] = kept.clone() if kept is not made and n.op != "get_attr" else kept  # weights are held once
            return made

    with torch.no_grad():
        Keeper(module).run(*(torch.from_numpy(array.copy()) for array in given))
    return found


def _answers(module: torch.fx.GraphModule, names: Sequence[str], feeds: Mapping[str, Array]) -> dict[str, Array]:
    """What a piece gives, as far as arrays hold it."""
    import torch

    with torch.no_grad():
        made = module(*(torch.from_numpy(array.copy()) for array in feeds.values()))
    return _arrays(dict(zip(names, made, strict=True)))


def _arrays(values: Mapping[str, Any]) -> dict[str, Array]:
    """Copies of tensors; less what no array holds."""
    arrays = {name: array_of(value) for name, value in values.items()}
    return {name: array for name, array in arrays.items() if array is not None}

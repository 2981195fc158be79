"""What a captured program computes of its weights alone by linear algebra, computed before torch's dynamo exporter gets
it: of matrices of any size, and by operators that have no ONNX at all."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_ALGEBRA = (  # what their names begin with
    "linalg_", "cholesky", "det.", "inverse", "logdet", "lu_", "matrix_exp", "matrix_power", "pinverse", "qr",
    "slogdet", "svd", "triangular_solve",
)  # fmt: skip


def compute_known(program: torch.export.ExportedProgram) -> None:
    """In its graph, in place: what is known becomes a constant."""
    import torch

    known = _Known(program)
    with torch.no_grad():
        found = [(node, known.value_of(node)) for node in _results(program.graph) if known.holds(node)]
    for node, value in found:
        node.replace_all_uses_with(_constant(program, value, node))
    if found:
        program.graph.eliminate_dead_code()
        program.graph_module.recompile()


def _results(graph: Any) -> Iterator[Any]:
    """Of linear algebra: a tensor, or each that is taken out of a tuple."""
    for node in graph.nodes:
        name = getattr(node.target, "__name__", "").lstrip("_")
        if node.op == "call_function" and name.startswith(_ALGEBRA):
            several = isinstance(node.meta.get("val"), tuple | list)
            yield from (user for user in node.users if user.target is operator.getitem) if several else (node,)


class _Known:
    """Values of nodes that follow from weights alone."""

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        self._values: dict[Any, Any] = {}
        self._unknown: set[Any] = set()
        weights, written = _weights(program), _written(program.graph)
        for node in program.graph.nodes:
            if node in written:
                self._unknown.add(node)
            elif node.name in weights:
                self._values[node] = weights[node.name]
            elif not (node.op == "call_function" and _is_plain(node.target) and self._follows(node)):
                self._unknown.add(node)

    def _follows(self, node: Any) -> bool:
        return not any(each in self._unknown for each in node.all_input_nodes)

    def holds(self, node: Any) -> bool:
        return node not in self._unknown

    def value_of(self, node: Any) -> Any:
        """Computed once."""
        if node not in self._values:
            import torch

            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), self.value_of)
            self._values[node] = node.target(*args, **kwargs)
        return self._values[node]


def _weights(program: Any) -> dict[str, Any]:
    """By the names of their nodes: parameters and buffers, but those that a call changes."""
    from torch.export.graph_signature import InputKind

    changed = {*program.graph_signature.buffers_to_mutate.values()}
    kinds = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
    held = {**program.state_dict, **program.constants}
    specs = [spec for spec in program.graph_signature.input_specs if spec.kind in kinds and spec.target not in changed]
    return {spec.arg.name: held[spec.target] for spec in specs}


def _written(graph: Any) -> set[Any]:
    """What is written in place, and what it is a view of."""
    found: set[Any] = set()
    left = [each for node in graph.nodes if _writes(node.target) for each in node.all_input_nodes]
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += node.all_input_nodes if _is_view(node.target) else []
    return found


def _writes(target: Any) -> bool:
    return bool(getattr(getattr(target, "_schema", None), "is_mutable", False))


def _is_view(target: Any) -> bool:
    returns = getattr(getattr(target, "_schema", None), "returns", ())
    return target is operator.getitem or any(each.alias_info is not None for each in returns)


def _is_plain(target: Any) -> bool:
    """Whether it answers the same each time, and does nothing else."""
    import torch

    if target is operator.getitem:
        return True
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded not in target.tags


def _constant(program: Any, value: Any, like: Any) -> Any:
    """A node before the first input, which holds the value."""
    from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

    signature = program.graph_signature
    specs, held = signature.input_specs, [node for node in program.graph.nodes if node.op == "placeholder"]
    at = next((at for at, spec in enumerate(specs) if spec.kind is InputKind.USER_INPUT), len(specs))
    name = f"known.{len(program.constants)}"
    with program.graph.inserting_before(held[at]):
        node = program.graph.placeholder(name.replace(".", "_"))
    node.meta["val"] = like.meta["val"]
    specs.insert(at, InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), name))
    program.constants[name] = value.contiguous().clone()
    return node

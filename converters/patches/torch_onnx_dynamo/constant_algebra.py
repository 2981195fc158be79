"""Linear algebra of weights alone, computed before torch's dynamo exporter gets the captured program: of matrices of
any size, and by operators that have no ONNX at all."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .. import private_torch
from ..ledger import rewrites

if TYPE_CHECKING:
    import torch

_ALGEBRA = (  # what their names begin with
    "linalg_", "cholesky", "det.", "inverse", "logdet", "lu_", "matrix_exp", "matrix_power", "pinverse", "qr",
    "slogdet", "svd", "triangular_solve",
)  # fmt: skip


def fold_constant_algebra(program: torch.export.ExportedProgram) -> None:
    """Replace results of linear algebra that follow from weights alone by constants, in the program's graph."""
    import torch

    constants = _ConstantNodes(program)
    with torch.no_grad():
        values = [(node, constants.value_of(node)) for node in _algebra_results(program.graph) if node in constants]
    for node, value in values:
        node.replace_all_uses_with(_add_constant(program, value, node))
    if values:
        program.graph.eliminate_dead_code()
        program.graph_module.recompile()


def _algebra_results(graph: torch.fx.Graph) -> Iterator[torch.fx.Node]:
    """Yield the results of linear algebra: a tensor, or each that is taken out of a tuple."""
    for node in graph.nodes:
        name = getattr(node.target, "__name__", "").lstrip("_")
        if node.op == "call_function" and name.startswith(_ALGEBRA):
            is_tuple = isinstance(node.meta.get("val"), tuple | list)
            yield from (user for user in node.users if user.target is operator.getitem) if is_tuple else (node,)


class _ConstantNodes:
    """The nodes whose values follow from weights alone, and these values."""

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        self._values: dict[torch.fx.Node, Any] = {}
        self._unknown: set[torch.fx.Node] = set()
        weights, mutated = _weights(program), _mutated(program.graph)
        for node in program.graph.nodes:
            if node in mutated:
                self._unknown.add(node)
            elif node.name in weights:
                self._values[node] = weights[node.name]
            elif node.op != "call_function" or not _is_pure(node.target) or self._unknown & {*node.all_input_nodes}:
                self._unknown.add(node)

    def __contains__(self, node: torch.fx.Node) -> bool:
        return node not in self._unknown

    def value_of(self, node: torch.fx.Node) -> Any:
        """Compute a node's value, once."""
        if node not in self._values:
            import torch

            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), self.value_of)
            self._values[node] = node.target(*args, **kwargs)  # type: ignore[operator]  # a call_function has one
        return self._values[node]


def _weights(program: torch.export.ExportedProgram) -> Mapping[str, Any]:
    """Return parameters and buffers, but those that a call changes, by the names of their nodes."""
    from torch.export.graph_signature import InputKind

    changed = {*program.graph_signature.buffers_to_mutate.values()}
    kinds = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
    tensors = {**program.state_dict, **program.constants}
    specs = [spec for spec in program.graph_signature.input_specs if spec.kind in kinds and spec.target not in changed]
    return {spec.arg.name: tensors[str(spec.target)] for spec in specs}


def _mutated(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """Return the nodes that are written in place, and those that they are views of."""
    mutated: set[torch.fx.Node] = set()
    writers = (node for node in graph.nodes if getattr(getattr(node.target, "_schema", None), "is_mutable", False))
    pending = [source for node in writers for source in node.all_input_nodes]
    while pending:
        node = pending.pop()
        if node not in mutated:
            mutated.add(node)
            pending += node.all_input_nodes if _is_view(node.target) else []
    return mutated


def _is_view(target: object) -> bool:
    returns = getattr(getattr(target, "_schema", None), "returns", ())
    return target is operator.getitem or any(result.alias_info is not None for result in returns)


def _is_pure(target: object) -> bool:
    """Return whether an operator answers the same each time, and does nothing else."""
    import torch

    if target is operator.getitem:
        return True
    return isinstance(target, private_torch.OpOverload) and torch.Tag.nondeterministic_seeded not in target.tags


def _add_constant(program: torch.export.ExportedProgram, value: torch.Tensor, like: torch.fx.Node) -> torch.fx.Node:
    """Add a node before the first input, which holds the value."""
    from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

    specs = program.graph_signature.input_specs
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    at = next((at for at, spec in enumerate(specs) if spec.kind is InputKind.USER_INPUT), len(specs))
    name = f"known.{len(program.constants)}"
    with program.graph.inserting_before(placeholders[at]):
        node: torch.fx.Node = program.graph.placeholder(name.replace(".", "_"))
    node.meta["val"] = like.meta["val"]
    specs.insert(at, InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), name))
    program.constants[name] = value.contiguous().clone()
    return node


PATCHES = rewrites(
    "torch.export.ExportedProgram",
    {"linear algebra of weights": fold_constant_algebra},
    why="torch's dynamo exporter has no ONNX of most of linear algebra, and folds no constants before it translates",
    upstream="torch/onnx/_internal/exporter/_core.py: _exported_program_to_onnx_program",
    until="the exporter folds what follows from weights alone",
)

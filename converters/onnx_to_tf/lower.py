"""ONNX in, tf.function out: walks the graph, folds what is known, and refuses by name what it would get wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...models.errors import Refused
from ...models.signature import TensorSpec
from .graph import Graph, Node, read_model
from .lazy import tf
from .patterns import fused
from .reader import OTHER_ROUTE, Branch, Op
from .registry import Entry, find
from .values import TfTensor, Value, computed, known
from .weights import Weights

Scope = dict[str, Value]
NOT_FOLDED = frozenset({"RandomNormal", "RandomUniform", "If", "Loop", "Scan"})


@dataclass(frozen=True)
class LoweredModel:
    """`module.serve`, a concrete function, takes the inputs as positional arguments, in the ONNX model's order and
    under aliases of their names (`arguments`), and returns a dict of the outputs by their ONNX names."""

    module: Any  # a tf.Module with `serve` and the variables in `weights`
    inputs: tuple[TensorSpec, ...]
    arguments: tuple[str, ...]  # what TensorFlow calls the inputs
    outputs: tuple[str, ...]
    opset: int
    operators: int


def lower(path: Path) -> LoweredModel:
    """The ONNX model at `path` as a tf.Module.

    Raises BadRequest where the file is no model, Refused where an operator cannot be carried as the specification
    words it; the message names the node, the module and the line it comes from.
    """
    model = read_model(path)
    graph = fused(model.graph)
    weights = Weights(graph.constants)
    arguments = aliases([spec.name for spec in model.inputs])
    specs = [
        tf.TensorSpec([axis if isinstance(axis, int) else None for axis in spec.shape], spec.dtype, name=name)
        for spec, name in zip(model.inputs, arguments, strict=True)
    ]

    def serve(*inputs: TfTensor) -> dict[str, TfTensor]:
        scope = _constants(graph, weights)
        scope.update({name: computed(tensor) for name, tensor in zip(graph.inputs, inputs, strict=True)})
        run(graph.nodes, scope, weights)
        return {name: tf.identity(scope[name].tensor()) for name in graph.outputs}

    module = tf.Module(name="lowered")
    # Traced once, here; a tf.function would be traced again when it is saved.
    module.serve = tf.function(serve, input_signature=specs, autograph=False).get_concrete_function()
    module.weights = tuple(weights.variables)
    return LoweredModel(module, model.inputs, arguments, graph.outputs, model.opset, len(graph.nodes))


def aliases(names: Sequence[str]) -> tuple[str, ...]:
    """What TensorFlow calls the inputs: their names where it can hold them, and else their places."""
    fits = all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) and name != "self" for name in names)
    return tuple(names) if fits else tuple(f"input_{at}" for at in range(len(names)))


def _constants(graph: Graph, weights: Weights) -> Scope:
    return {name: known(array, weights) for name, array in graph.constants.items()}


def run(nodes: Sequence[Node], scope: Scope, weights: Weights) -> None:
    """Lower nodes one after the other; `scope` holds the values by name and takes in the new ones."""
    for node in nodes:
        answers = lower_node(node, scope, weights)
        scope.update(
            {name: value for name, value in zip(node.outputs, answers, strict=False) if name and value is not None}
        )


def lower_node(node: Node, scope: Scope, weights: Weights) -> Sequence[Value | None]:
    """What one node makes of its inputs, which are in `scope`."""
    entry = find(node.domain, node.op_type, node.version)
    if entry is None:
        raise Refused(
            f"{node}: the operator, as opset {node.opset} words it, is not among those that can be lowered",
            fix=OTHER_ROUTE,
        )
    inputs = [scope[name] if name else None for name in node.inputs]
    op = Op(node, inputs, weights, branch=_branch(scope, weights))
    check_dtypes(op, inputs, entry)
    fold = node.op_type not in NOT_FOLDED and not any(each is not None and each.computing for each in inputs)
    answers = _answers(op, entry, fold=fold)
    op.check_all_read(answers)
    return answers


def _answers(op: Op, entry: Entry, *, fold: bool) -> Sequence[Value | None]:
    """Call the operator's function; at once, outside the graph, where all that it reads is known."""
    try:
        with tf.init_scope() if fold else nullcontext():
            made = entry.function(op)
            answers = [made] if isinstance(made, Value) else list(made)
            return [_folded(each, op.weights) for each in answers] if fold else answers
    except (ValueError, TypeError, NotImplementedError, tf.errors.OpError) as error:
        raise Refused(f"{op.node}: TensorFlow does not take it: {_first_line(error)}", fix=OTHER_ROUTE) from error


def _folded(value: Value | None, weights: Weights) -> Value | None:
    return known(value.tensor().numpy(), weights) if value is not None and value.native is not None else value


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def check_dtypes(op: Op, inputs: Sequence[Value | None], entry: Entry) -> None:
    """Hold each input's dtype against what the lowering takes, by the type variables of the specification.

    Raises Refused. An operator that onnx does not define is checked by the lowering's only set, if it names one.
    """
    for at, value in enumerate(inputs):
        allowed = entry.dtypes.get(type_variable(op.node, at))
        if value is not None and allowed is not None and value.dtype not in allowed:
            op.refuse(
                f"its input {at} is {value.dtype}, and only {', '.join(sorted(allowed))} can be carried",
                fix="cast it to another dtype in the model",
            )


def type_variable(node: Node, at: int) -> str:
    """The name of the type variable of an input, as "T"; a fixed type's own text where it has none."""
    import onnx.defs

    if not onnx.defs.has(node.op_type, node.opset, node.domain):
        return "T"
    formal = onnx.defs.get_schema(node.op_type, node.opset, node.domain).inputs
    return str(formal[min(at, len(formal) - 1)].type_str)


def _branch(scope: Scope, weights: Weights) -> Branch:
    """How a node runs a graph that lies inside it: names that the graph does not make come from around the node."""

    def run_inside(graph: Graph, inputs: Sequence[Value]) -> list[Value]:
        inner = {**scope, **_constants(graph, weights)}
        inner.update(zip(graph.inputs, inputs, strict=True))
        run(graph.nodes, inner, weights)
        return [inner[name] for name in graph.outputs]

    return run_inside

"""The lowering of a model: ONNX in, tf.function out, with the model's inputs and outputs by name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...models.errors import Refused
from ...models.signature import NARROW_DTYPES, TensorSpec
from ..onnx_graph.graph import Node, read_model
from ..onnx_graph.patterns import fused
from .common.tensor_sequence import TensorSequence
from .folding import fold_batch_normalizations
from .kernels.dialects import TENSORFLOW, Kernels
from .lazy_tensorflow import tf
from .lower_graph import GraphLowering
from .narrow_dtypes import CARRIERS
from .values import TfTensor, Value, computed
from .weight_variables import Weights


@dataclass(frozen=True)
class LoweredModel:
    """A lowered model, whose `module.serve`, a concrete function, returns a dict of the outputs by their ONNX names.

    It takes the inputs as positional arguments, in the ONNX model's order, under aliases of their names (`arguments`).
    """

    module: Any  # a tf.Module with `serve` and the variables in `weights`
    inputs: tuple[TensorSpec, ...]
    arguments: tuple[str, ...]  # what TensorFlow calls the inputs
    outputs: tuple[str, ...]
    opset: int
    operators: int
    origins: Mapping[str, str]  # by the name of an operator of `serve`, the node that it lowers, and that node's origin


def lower(path: Path, kernels: Kernels = TENSORFLOW) -> LoweredModel:
    """Lower the ONNX model at `path` to a tf.Module, in operators of the dialect `kernels`.

    Raises BadRequest where the file is no model, Refused where an operator cannot be lowered as the specification words
    it; the message names the node, the module and the line it comes from.
    """
    model = read_model(path)
    graph = fold_batch_normalizations(fused(model.graph))
    weights = Weights(graph.constants)
    lowering = GraphLowering(weights, kernels, model.functions)
    arguments = aliases([spec.name for spec in model.inputs])
    specs = [
        tf.TensorSpec([axis if isinstance(axis, int) else None for axis in spec.shape], spec.dtype, name=name)
        for spec, name in zip(model.inputs, arguments, strict=True)
    ]

    def serve(*inputs: TfTensor) -> dict[str, TfTensor]:
        values = lowering.run_inside(graph, input_values(model.inputs, inputs), {})
        return {name: _output_tensor(name, value) for name, value in zip(graph.outputs, values, strict=True)}

    module = tf.Module(name="lowered")
    # Traced once, here; a tf.function would be traced again when it is saved.
    module.serve = tf.function(serve, input_signature=specs, autograph=False).get_concrete_function()
    module.weights = tuple(weights.variables)
    origins = _node_of_operators(module.serve.graph, lowering.results)
    return LoweredModel(module, model.inputs, arguments, graph.outputs, model.opset, len(graph.nodes), origins)


def _node_of_operators(graph: Any, results: Sequence[tuple[TfTensor, Node]]) -> dict[str, str]:
    """Map each operator of a graph to its node: operators lie in order, a node's end with the one of its result."""
    last: dict[str, str] = {}
    for tensor, node in results:
        if tf.is_symbolic_tensor(tensor) and tensor.graph is graph:
            where = f", {node.origin}" if str(node.origin) else ""
            last.setdefault(tensor.op.name, f"{node.op_type} node {node.name or node.outputs[0]}{where}")
    origins: dict[str, str] = {}
    origin = ""
    for operator in reversed(graph.get_operations()):
        origin = last.get(operator.name, origin)
        origins[operator.name] = origin
    return {name: origin for name, origin in origins.items() if origin}


def input_values(specs: Sequence[TensorSpec], tensors: Sequence[TfTensor]) -> list[Value]:
    """Return the inputs as values. An axis that has the name of an earlier one is as long as that."""
    first: dict[str, tuple[Value, int]] = {}
    values = []
    for spec, tensor in zip(specs, tensors, strict=True):
        value = _input_value(tensor)
        for axis, name in enumerate(spec.shape):
            if isinstance(name, str):
                other, other_axis = first.setdefault(name, (value, axis))
                value = value.with_sizes_of(other, [(axis, other_axis)])
        values.append(value)
    return values


def _input_value(tensor: TfTensor) -> Value:
    dtype = tensor.dtype.name
    return computed(tf.cast(tensor, CARRIERS[dtype]), dtype=dtype) if dtype in CARRIERS else computed(tensor)


def _output_tensor(name: str, value: Value) -> TfTensor:
    """Return an output of the model as a tensor. Raises Refused where TensorFlow has none of its dtype."""
    if isinstance(value, TensorSequence):
        raise Refused(f"the output {name} is a sequence of tensors", fix="return its tensors one by one")
    if value.dtype not in CARRIERS:
        return tf.identity(value.tensor())
    if value.dtype not in NARROW_DTYPES:
        raise Refused(
            f"the output {name} is {value.dtype}, which TensorFlow has no kernels for",
            fix=f"let the model give one of {', '.join(NARROW_DTYPES)}, or cast it in the model",
        )
    return tf.cast(value.tensor(), value.dtype)


def aliases(names: Sequence[str]) -> tuple[str, ...]:
    """Return TensorFlow's names of the inputs: their own where it accepts all (to it X is x), else numbered ones."""
    fits = all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) and name != "self" for name in names)
    fits = fits and len({name.lower() for name in names}) == len(names)
    return tuple(names) if fits else tuple(f"input_{at}" for at in range(len(names)))

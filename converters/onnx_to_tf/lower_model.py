"""ONNX in, tf.function out: a model as a whole, with its inputs and outputs by name."""

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
from .folding import folded
from .kernels import TENSORFLOW, Kernels
from .lazy_tensorflow import tf
from .lower_graph import Walk
from .narrow_dtypes import CARRIERS
from .values import TfTensor, Value, computed
from .weight_variables import Weights


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
    origins: Mapping[str, str]  # by the name of an operator of `serve`, the node that it was made for, and its origin


def lower(path: Path, kernels: Kernels = TENSORFLOW) -> LoweredModel:
    """The ONNX model at `path` as a tf.Module, in operators that `kernels` has: TensorFlow's or TFLite's.

    Raises BadRequest where the file is no model, Refused where an operator cannot be carried as the specification
    words it; the message names the node, the module and the line it comes from.
    """
    model = read_model(path)
    graph = folded(fused(model.graph))
    weights = Weights(graph.constants)
    walk = Walk(weights, kernels, model.functions)
    arguments = aliases([spec.name for spec in model.inputs])
    specs = [
        tf.TensorSpec([axis if isinstance(axis, int) else None for axis in spec.shape], spec.dtype, name=name)
        for spec, name in zip(model.inputs, arguments, strict=True)
    ]

    def serve(*inputs: TfTensor) -> dict[str, TfTensor]:
        made = walk.run_inside(graph, arguments_of(model.inputs, inputs), {})
        return {name: _answer(name, value) for name, value in zip(graph.outputs, made, strict=True)}

    module = tf.Module(name="lowered")
    # Traced once, here; a tf.function would be traced again when it is saved.
    module.serve = tf.function(serve, input_signature=specs, autograph=False).get_concrete_function()
    module.weights = tuple(weights.variables)
    origins = _origins(module.serve.graph, walk.made)
    return LoweredModel(module, model.inputs, arguments, graph.outputs, model.opset, len(graph.nodes), origins)


def _origins(graph: Any, made: Sequence[tuple[TfTensor, Node]]) -> dict[str, str]:
    """What each operator of a graph was made for. Operators lie in the order in which they were made, and those of a
    node end with the one that makes its answer."""
    last: dict[str, str] = {}
    for tensor, node in made:
        if tf.is_symbolic_tensor(tensor) and tensor.graph is graph:
            where = f", {node.origin}" if str(node.origin) else ""
            last.setdefault(tensor.op.name, f"{node.op_type} node {node.name or node.outputs[0]}{where}")  # its maker
    found: dict[str, str] = {}
    origin = ""
    for operator in reversed(graph.get_operations()):
        origin = last.get(operator.name, origin)
        found[operator.name] = origin
    return {name: origin for name, origin in found.items() if origin}


def arguments_of(specs: Sequence[TensorSpec], tensors: Sequence[TfTensor]) -> list[Value]:
    """The inputs as values. An axis that has the name of an earlier one is as long as that."""
    first: dict[str, tuple[Value, int]] = {}
    values = [_given(tensor) for tensor in tensors]
    for spec, value in zip(specs, values, strict=True):
        for axis, name in enumerate(spec.shape):
            if isinstance(name, str):
                other, its = first.setdefault(name, (value, axis))
                value.as_long_as(other, [(axis, its)])
    return values


def _given(tensor: TfTensor) -> Value:
    dtype = tensor.dtype.name
    return computed(tf.cast(tensor, CARRIERS[dtype]), dtype=dtype) if dtype in CARRIERS else computed(tensor)


def _answer(name: str, value: Value) -> TfTensor:
    """An output of the model. Raises Refused where TensorFlow cannot make one of its dtype."""
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
    """What TensorFlow calls the inputs: their names where it can hold them, and else their places. To it X is x."""
    fits = all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) and name != "self" for name in names)
    fits = fits and len({name.lower() for name in names}) == len(names)
    return tuple(names) if fits else tuple(f"input_{at}" for at in range(len(names)))

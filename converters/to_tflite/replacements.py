"""Replacement of SavedModel operators that TensorFlow's TFLite converter converts wrongly.

For float32 the converter writes

Softplus   log(1 + exp(x)), which is infinite from 88 on, and so log_sigmoid below -88
Log1p      log(1 + x), and Expm1 exp(x) - 1: near 0 the digits are lost
FloorDiv   TFLite's FLOOR_DIV, which divides in double, and rounds down what TensorFlow has rounded up: 1.5 // 0.1 is 14

and reports success. Samples around 0 do not show it. So each operator becomes a call of a function that computes it
with operators that are converted correctly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..lazy_import import tf
from ..onnx_to_tf.kernels.tflite_functions import expm1, log1p, softplus
from ..to_saved_model.saved_model_from_onnx import read_program, write_with_links
from ..to_saved_model.simplify import simplify_operators

if TYPE_CHECKING:
    from tensorflow.core.framework.function_pb2 import FunctionDef


def _floor_div(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Divide in float32, then round down.

    The minimum keeps the divisor from being a constant: the converter would multiply by its reciprocal, which is a bit
    off.
    """
    return tf.floor(x / tf.minimum(y, tf.abs(x) + y))


_REPLACEMENTS: Mapping[str, tuple[Callable[..., tf.Tensor], int]] = {  # function and number of its inputs
    "Softplus": (softplus, 1),
    "Log1p": (log1p, 1),
    "Expm1": (expm1, 1),
    "FloorDiv": (_floor_div, 2),
}


def with_exact_operators(path: Path) -> Path:
    """Return `path`, or a SavedModel in the worker's own folder that replaces the operators of this module."""
    model = read_program(path)
    changed = simplify_operators(model)
    replaced = [(graph.graph_def.library, _replace(graph.graph_def)) for graph in model.meta_graphs]
    if not changed and not any(operators for _, operators in replaced):
        return path
    for library, operators in replaced:
        library.function.extend(map(_function_def, sorted(operators)))
    write_with_links(path, model, folder := Path("words"))
    return folder


def _replace(graph: tf.compat.v1.GraphDef) -> set[str]:
    """Turn such operators of a graph and its functions into calls; return the operators that were replaced."""
    # No result needs renaming here: a graph calls it `name:0`, a function `name:output:0`.
    operators = {_make_call(node) for node in graph.node if _is_wrong(node)}
    for function in graph.library.function:
        wrong = [node for node in function.node_def if _is_wrong(node)]
        operators |= {_make_call(node) for node in wrong}
        _rename_results(function, {node.name for node in wrong})
    return operators


def _is_wrong(node: tf.compat.v1.NodeDef) -> bool:
    return node.op in _REPLACEMENTS and node.attr["T"].type == tf.float32.as_datatype_enum


def _make_call(node: tf.compat.v1.NodeDef) -> str:
    """Turn a node into a call; return the operator that it was."""
    operator, kind = str(node.op), node.attr["T"].type
    node.op = "PartitionedCall"
    del node.attr["T"]
    node.attr["Tin"].list.type.extend([kind] * _REPLACEMENTS[operator][1])
    node.attr["Tout"].list.type.append(kind)
    node.attr["f"].func.name = _function_name(operator)
    return operator


def _rename_results(function: FunctionDef, calls: set[str]) -> None:
    """Rename the results of calls: a call names its result `output`, whatever its operator named it."""

    def renamed(result: str) -> str:
        name = result.partition(":")[0]
        return f"{name}:output:0" if name in calls else result

    for node in function.node_def if calls else ():
        node.input[:] = [renamed(operand) for operand in node.input]
    for key, result in function.ret.items() if calls else ():
        function.ret[key] = renamed(result)


def _function_name(operator: str) -> str:
    return f"transload_{operator}"


def _function_def(operator: str) -> FunctionDef:
    """Return the function that computes an operator for inputs of any shape."""
    compute, count = _REPLACEMENTS[operator]
    specs = [tf.TensorSpec(None, tf.float32) for _ in range(count)]
    definition = tf.function(compute, input_signature=specs, autograph=False).get_concrete_function().function_def
    definition.signature.name = _function_name(operator)
    return definition

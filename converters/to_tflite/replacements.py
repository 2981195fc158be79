"""A SavedModel in other words, where TensorFlow's converter to TFLite carries an operator of its own wrongly.

Of float32 it writes

Softplus   log(1 + exp(x)), which is infinite from 88 on, and so log_sigmoid below -88
Log1p      log(1 + x), and Expm1 exp(x) - 1: near 0 the digits are lost
FloorDiv   TFLite's FLOOR_DIV, which divides in double, and rounds down what TensorFlow has rounded up: 1.5 // 0.1 is 14

and reports success. Samples around 0 do not show it. So each becomes a call of a function that computes it in operators
which come through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..onnx_to_tf.kernels.tflite_functions import expm1, log1p, softplus
from ..to_saved_model.saved_model_from_onnx import write_beside
from ..to_saved_model.simplify import write_plainly

if TYPE_CHECKING:
    import tensorflow as tf


def _floor_div(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """The quotient, rounded as float32 is, then down. The divisor is least of two, for of a constant the converter
    takes the reciprocal, and a product with that is a bit off."""
    import tensorflow as tf

    return tf.floor(x / tf.minimum(y, tf.abs(x) + y))


_WORDS: Mapping[str, tuple[Callable[..., Any], int]] = {  # and how many inputs they have
    "Softplus": (softplus, 1),
    "Log1p": (log1p, 1),
    "Expm1": (expm1, 1),
    "FloorDiv": (_floor_div, 2),
}


def in_words(path: Path) -> Path:
    """The SavedModel at `path`, or where it holds such an operator, one without in the worker's own folder."""
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    model = SavedModel.FromString((path / "saved_model.pb").read_bytes())
    changed = write_plainly(model)
    found = [(graph.graph_def.library, _replace(graph.graph_def)) for graph in model.meta_graphs]
    if not changed and not any(operators for _, operators in found):
        return path
    for library, operators in found:
        library.function.extend(map(_function, sorted(operators)))
    write_beside(path, model, folder := Path("words"))
    return folder


def _replace(graph: Any) -> set[str]:
    """Make calls of such operators in a graph and in its functions; the operators that were there."""
    found = {_call(node) for node in graph.node if _is_wrong(node)}  # there `name:0` is a result, in functions not
    for function in graph.library.function:
        wrong = [node for node in function.node_def if _is_wrong(node)]
        found |= {_call(node) for node in wrong}
        _rename_results(function, {node.name for node in wrong})
    return found


def _is_wrong(node: Any) -> bool:
    from tensorflow.core.framework.types_pb2 import DT_FLOAT

    return node.op in _WORDS and node.attr["T"].type == DT_FLOAT


def _call(node: Any) -> str:
    """Make a call of a node; its operator."""
    operator, kind = str(node.op), node.attr["T"].type
    node.op = "PartitionedCall"
    del node.attr["T"]
    node.attr["Tin"].list.type.extend([kind] * _WORDS[operator][1])
    node.attr["Tout"].list.type.append(kind)
    node.attr["f"].func.name = _name(operator)
    return operator


def _rename_results(function: Any, calls: set[str]) -> None:
    """What a call results in is its `output`, whatever its operator called it."""

    def renamed(result: str) -> str:
        name = result.partition(":")[0]
        return f"{name}:output:0" if name in calls else result

    for node in function.node_def if calls else ():
        node.input[:] = [renamed(each) for each in node.input]
    for key, result in function.ret.items() if calls else ():
        function.ret[key] = renamed(result)


def _name(operator: str) -> str:
    return f"transload_{operator}"


def _function(operator: str) -> Any:
    """The function that computes an operator of any shape."""
    import tensorflow as tf

    compute, count = _WORDS[operator]
    specs = [tf.TensorSpec(None, tf.float32) for _ in range(count)]
    made = tf.function(compute, input_signature=specs, autograph=False).get_concrete_function().function_def
    made.signature.name = _name(operator)
    return made

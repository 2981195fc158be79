"""The graph that a SavedModel serves, with variables turned into constants and calls inlined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ...models.errors import Refused
from ..lazy_import import tf
from ..patches import private_tensorflow
from ..to_saved_model.saved_model_from_onnx import SIGNATURE, read_program, write_with_links
from ..to_saved_model.simplify import simplify_operators
from .finish_model import PROTOBUF_LIMIT_BYTES

if TYPE_CHECKING:
    from tensorflow.core.framework.function_pb2 import FunctionDef
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
    from tensorflow.python.trackable.autotrackable import AutoTrackable

_COMPILED = "_XlaMustCompile"  # attribute of a function or a call that is not inlined


@dataclass(frozen=True)
class FrozenGraph:
    """A graph, and its tensors' names (`x:0`) by the names of the signature."""

    graph: tf.Graph
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


def freeze(path: Path) -> FrozenGraph:
    """Freeze `serving_default` of the SavedModel at `path`. Loops and branches stay single operators.

    Raises Refused if the model is too large for one graph, or keeps other state than variables.
    """
    loaded = _load_uncompiled(path)
    function = loaded.signatures[SIGNATURE]
    weights_bytes = sum(tensor.shape.num_elements() * tensor.dtype.size for tensor in function.graph.variables)
    if weights_bytes > PROTOBUF_LIMIT_BYTES:
        raise Refused(
            f"tf2onnx takes models up to 2 GB, and the weights of this one take {weights_bytes / 1e9:.1f} GB",
            fix="serve this model as SavedModel",
        )
    frozen = private_tensorflow.convert_variables_to_constants_v2(
        function, lower_control_flow=False, aggressive_inlining=True
    )
    if any(tensor.dtype == tf.resource for tensor in frozen.inputs):
        raise Refused(
            "the model keeps a table, or other state that is no variable, and ONNX has none",
            fix="serve this model as SavedModel, or look things up outside of it",
        )
    # A graph refuses names such as `input-1`. The outputs of a signature's function are sorted by name.
    signature_names = {tensor.name: name for tensor, name in zip(function.inputs, function._arg_keywords, strict=False)}
    inputs = {signature_names.get(tensor.name, tensor.name.removesuffix(":0")): tensor.name for tensor in frozen.inputs}
    outputs = dict(zip(sorted(function.structured_outputs), [tensor.name for tensor in frozen.outputs], strict=True))
    return FrozenGraph(frozen.graph, inputs, outputs)


def _load_uncompiled(path: Path) -> AutoTrackable:
    """Load the SavedModel without functions or operators that prevent inlining.

    Keras has its grouped convolutions compiled by XLA, because TensorFlow's own kernels lack them on the CPU.
    """
    model = read_program(path)
    compiled = [owner.attr for owner in _functions_and_nodes(model) if _COMPILED in owner.attr]
    if not simplify_operators(model) and not compiled:
        return tf.saved_model.load(str(path))
    for attributes in compiled:
        del attributes[_COMPILED]
    with TemporaryDirectory() as folder:
        write_with_links(path, model, Path(folder))
        return tf.saved_model.load(folder)


def _functions_and_nodes(model: SavedModel) -> Iterator[FunctionDef | tf.compat.v1.NodeDef]:
    """Yield everything in a SavedModel that has attributes."""
    for graph in model.meta_graphs:
        yield from graph.graph_def.node
        for function in graph.graph_def.library.function:
            yield function
            yield from function.node_def

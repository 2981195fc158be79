"""The graph that a SavedModel serves, with its variables as constants and its calls written out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ...models.errors import Refused
from ..to_saved_model.saved_model_from_onnx import SIGNATURE, write_with_links
from ..to_saved_model.simplify import simplify_operators
from .onnx_from_source import PROTOBUF_LIMIT_BYTES

if TYPE_CHECKING:
    import tensorflow as tf

_COMPILED = "_XlaMustCompile"  # of a function, or of a call: it stays a call


@dataclass(frozen=True)
class Frozen:
    """A graph, and what its tensors are called (`x:0`) by the names of the signature."""

    graph: tf.Graph
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


def frozen(path: Path) -> Frozen:
    """`serving_default` of the SavedModel at `path`. Loops and branches stay the operators that they are.

    Raises Refused where the model is too large for one graph, or keeps other state than variables.
    """
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    loaded = _loaded(path)
    function = loaded.signatures[SIGNATURE]
    weights_bytes = sum(each.shape.num_elements() * each.dtype.size for each in function.graph.variables)
    if weights_bytes > PROTOBUF_LIMIT_BYTES:
        raise Refused(
            f"tf2onnx takes models up to 2 GB, and the weights of this one take {weights_bytes / 1e9:.1f} GB",
            fix="serve this model as SavedModel",
        )
    found = convert_variables_to_constants_v2(function, lower_control_flow=False, aggressive_inlining=True)
    if any(each.dtype == tf.resource for each in found.inputs):
        raise Refused(
            "the model keeps a table, or other state that is no variable, and ONNX has none",
            fix="serve this model as SavedModel, or look things up outside of it",
        )
    # A graph has no such names as `input-1`. The outputs of a signature's function are in the order of their names.
    words = {each.name: word for each, word in zip(function.inputs, function._arg_keywords, strict=False)}
    inputs = {words.get(each.name, each.name.removesuffix(":0")): each.name for each in found.inputs}
    outputs = dict(zip(sorted(function.structured_outputs), [each.name for each in found.outputs], strict=True))
    return Frozen(found.graph, inputs, outputs)


def _loaded(path: Path) -> Any:
    """The SavedModel, with every function one whose calls can be written out, and no operators that stop that. Keras
    has its grouped convolutions compiled by XLA, for TensorFlow's own kernels lack them on the CPU."""
    import tensorflow as tf
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    model = SavedModel.FromString((path / "saved_model.pb").read_bytes())
    compiled = [each.attr for each in _functions_and_nodes(model) if _COMPILED in each.attr]
    if not simplify_operators(model) and not compiled:
        return tf.saved_model.load(str(path))
    for attributes in compiled:
        del attributes[_COMPILED]
    with TemporaryDirectory() as folder:
        write_with_links(path, model, Path(folder))
        return tf.saved_model.load(folder)


def _functions_and_nodes(model: Any) -> Iterator[Any]:
    """Whatever has attributes in a SavedModel."""
    for graph in model.meta_graphs:
        yield from graph.graph_def.node
        for function in graph.graph_def.library.function:
            yield function
            yield from function.node_def

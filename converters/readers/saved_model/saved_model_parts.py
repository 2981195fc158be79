"""Parts of a SavedModel that loaders see differently: variables of which copies are restored, further functions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ....models.errors import BadRequest
from ....models.library_messages import first_line
from ....models.signature import Signature, TensorSpec
from ....models.tensorflow_names import DEFAULT
from ...embedded_metadata import EXTRA_FILE
from ...lazy_import import tf
from .saved_model_proto import called_names

_MOST_NAMED_BYTES = 1 << 20
_COMPOSITE = {"RaggedTensorSpec": "ragged", "SparseTensorSpec": "sparse"}

if TYPE_CHECKING:  # the messages of saved_model_proto have the same fields, with text as bytes
    from tensorflow.core.framework.node_def_pb2 import NodeDef
    from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef, SignatureDef


def unrestored_variables(graph: MetaGraphDef) -> list[str]:
    """Return the variables that `serving_default` reads and the graph's own restoring and starting do not fill.

    tf.saved_model.save writes such files of Keras 3 models: it tracks copies of their variables. TensorFlow 2's loader
    follows the objects and fills both; TensorFlow Serving and TensorFlow 1 run the graph.
    """
    nodes = {node.name: node for node in graph.graph_def.node}
    roots = [graph.saver_def.restore_op_name]
    for key, entry in graph.signature_def.items():
        roots += _outputs_of(entry) if key == "__saved_model_init_op" else []
    for key, collection in graph.collection_def.items():
        roots += collection.node_list.value if key.endswith("_op") else []
    held = _variables(nodes, roots)
    return sorted(_variables(nodes, _outputs_of(graph.signature_def[DEFAULT])) - held)


def _outputs_of(entry: SignatureDef) -> list[bytes]:
    return [tensor.name for tensor in entry.outputs.values()]


def _variables(nodes: dict[bytes, NodeDef], roots: list[bytes]) -> set[str]:
    """Return the names under which the runtime keeps the variables that nodes reach."""
    variables: set[str] = set()
    seen: set[bytes] = set()
    pending = list(roots)
    while pending:
        name = pending.pop().lstrip(b"^").partition(b":")[0]
        if name in seen or name not in nodes:
            continue
        seen.add(name)
        node = nodes[name]
        pending += node.input
        if node.op == b"VarHandleOp":
            variables.add((node.attr["shared_name"].s or name).decode(errors="replace"))
    return variables


def fitting_inputs(folder: Path, declared: Signature) -> tuple[TensorSpec, ...]:
    """Return the inputs, with names of axes, that transload wrote into the folder of a conversion, if they are those
    that the model declares; else none."""
    try:
        with (folder / EXTRA_FILE).open("rb") as file:
            named = Signature.from_json(json.loads(file.read(_MOST_NAMED_BYTES))["signature"]).inputs
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # it is another's file, or cut short
        return ()
    shapes = {(spec.name, spec.dtype, len(spec.shape)): spec.shape for spec in named}
    kinds = {(spec.name, spec.dtype, len(spec.shape)): spec.shape for spec in declared.inputs}
    fits = shapes.keys() == kinds.keys() and all(
        isinstance(axis, str) or axis == size
        for key in kinds
        for axis, size in zip(kinds[key], shapes[key], strict=True)
    )
    return named if fits else ()


def save_again(folder: Path, payload: Path) -> None:
    """Write a SavedModel as TensorFlow 2's loader reads it, so that every loader restores its variables.

    Raises BadRequest if that loader does not take it.
    """
    try:
        loaded = tf.saved_model.load(str(folder))
        signatures = {name: function for name, function in loaded.signatures.items() if not name.startswith("__")}
        tf.saved_model.save(loaded, str(payload), signatures=signatures)
    except Exception as error:  # TensorFlow raises errors of many classes about a file
        raise BadRequest(
            f"TensorFlow cannot load {folder}: {first_line(error)}", fix="save it again with model.export(FOLDER)"
        ) from error


def functions_not_asked(graph: MetaGraphDef) -> list[str]:
    """Return the names of signatures, and `__call__`, that compute by other functions than `serving_default`."""
    served = set(_called(graph, graph.signature_def[DEFAULT]))
    names = {
        name
        for name, entry in graph.signature_def.items()
        if not name.startswith("__") and name != DEFAULT and not served.intersection(_called(graph, entry))
    }
    objects = graph.object_graph_def.nodes
    for child in objects[0].children if objects else ():
        if child.local_name == b"__call__" and 0 <= child.node_id < len(objects):
            own = set(objects[child.node_id].function.concrete_functions)
            names |= {"__call__"} if own and not own & served else set()
    return sorted(names)


def refuse_composite_inputs(graph: MetaGraphDef, folder: Path) -> None:
    """Raise BadRequest if `serving_default` takes ragged or sparse tensors, which its signature shows in parts."""
    concrete_functions = graph.object_graph_def.concrete_functions
    for name in _called(graph, graph.signature_def[DEFAULT]):
        function = concrete_functions.get(name.decode(errors="replace"))
        pending = [function.canonicalized_input_signature] if function is not None else []
        while pending:
            part = pending.pop()
            kind = part.type_spec_value.type_spec_class_name.decode(errors="replace")
            if kind in _COMPOSITE:
                raise BadRequest(
                    f"{folder} takes a {_COMPOSITE[kind]} tensor, whose parts (values, and where they belong) have "
                    "unlike lengths, and the formats carry dense tensors alone",
                    fix="save a signature that takes a dense, padded tensor and the lengths, and makes the "
                    "tf.RaggedTensor or tf.SparseTensor of them itself, as in tf.RaggedTensor.from_tensor(x, lengths)",
                )
            pending += [*part.list_value.values, *part.tuple_value.values, *part.dict_value.fields.values()]


def _called(graph: MetaGraphDef, entry: SignatureDef) -> Iterator[bytes]:
    """Yield the functions that a signature's wrapper calls, or, without a wrapper, the nodes that it names."""
    library = {function.signature.name: function for function in graph.graph_def.library.function}
    nodes = {node.name: node for node in graph.graph_def.node}
    for output in _outputs_of(entry):
        producer = output.partition(b":")[0]
        wrappers = [name for name in called_names(nodes[producer]) if name in library] if producer in nodes else []
        calls = [name for wrapper in wrappers for node in library[wrapper].node_def for name in called_names(node)]
        yield from [name for name in calls if name in library] or wrappers or [producer]

"""Check of a SavedModel from an untrusted source, and its signature.

A SavedModel is a program of TensorFlow's operators, and some operators read files, write files or run Python. So every
operator in the graph and in the library of functions is checked against a list of those that only compute
(allowed_operators.py). Restoring the variables reads a file: that is allowed where nothing else calls it, and where the
file is the one that the loader passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ....models.errors import BadRequest
from ....models.signature import BATCH, STRINGS, Signature, TensorSpec, served_dtype
from ....models.tensorflow_names import DEFAULT
from ..allowed_operators import ALLOWED, RESTORING, SAVING, STRING_OPERATORS, TRUST, effect_of
from ..file_content import whole_file
from .saved_model_proto import called_names, message_class

if TYPE_CHECKING:  # the messages of saved_model_proto have the same fields, with text as bytes
    from tensorflow.core.framework.graph_pb2 import GraphDef
    from tensorflow.core.framework.node_def_pb2 import NodeDef
    from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef, SignatureDef, TensorInfo

_Key = tuple[str, bytes]  # ("", name of a node) or ("f", name of a function)
_COPY_AGAIN = "copy it again, or save it again with tf.saved_model.save"
_MAX_PROTO_BYTES = 1 << 31  # protobuf's own limit
MOST_NODES = 500_000
_FILE = "saved_model.pb"
# tensorflow/core/framework/types.proto
_DTYPES = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: STRINGS, 9: "int64", 10: "bool",
    14: "bfloat16", 17: "uint16", 19: "float16", 22: "uint32", 23: "uint64",
}  # fmt: skip


def read_saved_model(folder: Path, *, trust: bool = False, strings: bool = False) -> MetaGraphDef:
    """Check a SavedModel without links and return the graph that is served; `trust` leaves the operators unchecked, and
    `strings` allows what no format but this one carries.

    Raises BadRequest if it is no complete SavedModel, takes or gives what the formats do not carry, or holds an
    operator that may do more than compute.
    """
    from google.protobuf.message import DecodeError

    for path in folder.iterdir():
        if path.name.startswith("saved_model.") and path.name != _FILE:
            raise BadRequest(f"{path} would be read in place of {_FILE}", fix="leave one of the two away")
    file = folder / _FILE
    if not file.is_file() or not file.stat().st_size:
        raise BadRequest(f"{folder} holds no SavedModel: its {_FILE} is missing or empty", fix=_COPY_AGAIN)
    if file.stat().st_size >= _MAX_PROTO_BYTES:
        raise BadRequest(f"{file} is larger than such a file can be (2 GB)", fix=_COPY_AGAIN)
    try:
        model = message_class("SavedModel").FromString(file.read_bytes())
    except DecodeError as error:
        raise BadRequest(f"{file} is no whole SavedModel: it cannot be decoded", fix=_COPY_AGAIN) from error
    with whole_file(folder, "SavedModel", _COPY_AGAIN):
        return _check_graphs(model.meta_graphs, folder, trust=trust, strings=strings)


def _check_graphs(meta_graphs: Sequence[MetaGraphDef], folder: Path, *, trust: bool, strings: bool) -> MetaGraphDef:
    """Check all graphs of a SavedModel, and return the one that is served."""
    graphs = [graph for graph in meta_graphs if b"serve" in graph.meta_info_def.tags]
    for graph in meta_graphs:
        _check_size(graph.graph_def, folder)
    if not graphs:
        raise BadRequest(f"{folder} holds no graph that is tagged serve", fix="save it with tf.saved_model.save")
    # Before the operators: what parses text is refused for its text, which no --trust mends.
    _check_dtypes(graphs[0], folder, strings=strings)
    if not trust:
        allowed = ALLOWED | STRING_OPERATORS if strings else ALLOWED
        for graph in meta_graphs:
            _check_operators(graph, folder, allowed)
    _check_variables(graphs[0], folder)
    return graphs[0]


def _check_size(graph: GraphDef, folder: Path) -> None:
    count = len(graph.node) + sum(len(function.node_def) for function in graph.library.function)
    if count > MOST_NODES:
        raise BadRequest(
            f"{folder} holds {count:,} nodes, and {MOST_NODES:,} are the most that are read",
            fix="save it with its loops as loops",
        )


def signature_of_saved_model(graph: MetaGraphDef, folder: Path, requested: Sequence[TensorSpec] = ()) -> Signature:
    """Return the signature `serving_default`. `requested` gives the shape of an input without a declared one.

    Inputs keep the order in which the model's own function takes them. TensorFlow keeps no order of outputs: they are
    sorted by name (output_2 before output_10). An open first axis of an input is the batch.

    Raises BadRequest if there is no such signature, or it declares a dtype that the formats do not carry.
    """
    served = {name: entry for name, entry in graph.signature_def.items() if not name.startswith("__")}
    if DEFAULT not in served:
        named = f"the signatures {', '.join(sorted(served))}, and {DEFAULT} is not among them"
        raise BadRequest(
            f"{folder} has {named if served else 'no signature, which would say what it takes and gives'}",
            fix=f"save it with tf.saved_model.save(MODEL, FOLDER, signatures={{{DEFAULT!r}: FUNCTION}})",
        )
    with whole_file(folder, "SavedModel", _COPY_AGAIN):
        return _declared_signature(graph, served[DEFAULT], folder, requested)


def _declared_signature(
    graph: MetaGraphDef, entry: SignatureDef, folder: Path, requested: Sequence[TensorSpec]
) -> Signature:
    if not entry.inputs or not entry.outputs:
        raise BadRequest(f"{folder} takes or gives nothing: there is nothing to serve", fix=_COPY_AGAIN)
    requested_by_name = {spec.name: spec for spec in requested}
    order = _input_order(graph, entry)
    names = sorted(entry.inputs, key=lambda name: (order.get(name, len(order)), _natural_key(name)))
    # Outputs are checked first: --input mends inputs, but only saving again mends outputs.
    outputs = tuple(_spec(folder, name, entry.outputs[name], None) for name in sorted(entry.outputs, key=_natural_key))
    return Signature(
        tuple(_spec(folder, name, entry.inputs[name], requested_by_name.get(name), batch_axis=BATCH) for name in names),
        outputs,
    )


def _spec(
    folder: Path, name: str, tensor: TensorInfo, requested: TensorSpec | None, batch_axis: str | None = None
) -> TensorSpec:
    dtype = _dtype(folder, name, tensor)
    if not tensor.HasField("tensor_shape") or tensor.tensor_shape.unknown_rank:
        if requested is None:
            raise BadRequest(
                f"{folder} says no shape of {name}",
                fix=f"name it, as in --input {name}={dtype}[batch,224,224,3]"
                if batch_axis
                else "save it with tf.ensure_shape around that output",
            )
        return TensorSpec(name, dtype, requested.shape)
    axes = (
        dim.size if dim.size >= 0 else (batch_axis if batch_axis and at == 0 else f"{name}_{at}")
        for at, dim in enumerate(tensor.tensor_shape.dim)
    )
    return TensorSpec(name, dtype, tuple(axes))


def _check_dtypes(graph: MetaGraphDef, folder: Path, *, strings: bool) -> None:
    if DEFAULT in graph.signature_def:
        entry = graph.signature_def[DEFAULT]
        for tensors in (entry.outputs, entry.inputs):
            for name in sorted(tensors, key=_natural_key):
                if _dtype(folder, name, tensors[name]) == STRINGS and not strings:
                    raise BadRequest(
                        f"{folder}: {name} is text, and no copy can be made: the other formats do not carry it",
                        fix=f"serve it as it is: transload serve {folder}; "
                        "or save a signature that takes and gives numbers or booleans",
                    )


def _dtype(folder: Path, name: str, tensor: TensorInfo) -> str:
    """Return the dtype of an input or output. Raises BadRequest where the formats do not carry it."""
    dtype = _DTYPES.get(tensor.dtype, f"TensorFlow's dtype {tensor.dtype}")
    if tensor.HasField("composite_tensor") or tensor.HasField("coo_sparse"):
        raise BadRequest(f"{folder}: {name} is a ragged or sparse tensor, and the formats carry dense ones alone",
                         fix="save a signature of dense tensors: x.to_tensor(), tf.sparse.to_dense(x)")  # fmt: skip
    try:
        return dtype if dtype == STRINGS else served_dtype(dtype)
    except ValueError as error:
        raise BadRequest(f"{folder}: {name} is {dtype}, which the formats do not carry",
                         fix="save a signature that takes and gives numbers or booleans") from error  # fmt: skip


def _natural_key(name: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts numbers in names as numbers."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name))


def _input_order(graph: MetaGraphDef, served: SignatureDef) -> dict[str, int]:
    """Return the inputs' positions in the function that the signature's wrapper calls.

    The wrapper takes them sorted by name, and passes them on in the model's order.
    """
    main = {node.name: node for node in graph.graph_def.node}
    library = {function.signature.name: function for function in graph.graph_def.library.function}
    producer = next(iter(served.outputs.values())).name.partition(b":")[0]
    node = main.get(producer)
    inner = next((library[name] for name in called_names(node) if name in library), None) if node is not None else None
    if node is None or inner is None:
        return {}
    calls = [candidate for candidate in inner.node_def if any(name in library for name in called_names(candidate))]
    arguments = [argument.name for argument in inner.signature.input_arg]
    if len(calls) != 1:
        return {}
    passed = [text.partition(b":")[0] for text in calls[0].input if text in arguments]
    # The wrapper's arguments stand for the node's inputs, which are the placeholders of the signature.
    placeholders = [text.partition(b":")[0] for text in node.input]
    tensors = {tensor.name.partition(b":")[0]: name for name, tensor in served.inputs.items()}
    tensor_of = {argument: tensors.get(tensor) for argument, tensor in zip(arguments, placeholders, strict=False)}
    return {name: at for at, argument in enumerate(passed) if (name := tensor_of.get(argument)) is not None}


def _check_variables(graph: MetaGraphDef, folder: Path) -> None:
    """Raise BadRequest if the model has variables, but no index of them or no file of data."""
    has_any = any(node.op in (b"VarHandleOp", b"VariableV2", b"Variable") for node in graph.graph_def.node)
    variables = folder / "variables"
    if has_any and not ((variables / "variables.index").is_file() and any(variables.glob("variables.data-*-of-*"))):
        raise BadRequest(f"{folder} lacks its variables", fix="copy the whole folder")


@dataclass(frozen=True, slots=True)
class _CodeUnit:
    """A node of the main graph, or a function of the library with its nodes."""

    nodes: tuple[NodeDef, ...]
    calls: tuple[_Key, ...]  # the units that run whenever this one does
    location: str


def _check_operators(graph: MetaGraphDef, folder: Path, allowed: frozenset[str] = ALLOWED) -> None:
    """Raise BadRequest for the first operator that is not allowed where it stands."""
    units = _code_units(graph.graph_def)
    saver = graph.saver_def
    restoring = _reached(units, [("", saver.restore_op_name.partition(b":")[0])])
    saving = _reached(units, [("", saver.save_tensor_name.partition(b":")[0])]) | restoring
    served = _reached(units, _roots(graph, units))
    for key, unit in units.items():
        more = frozenset[str]() if key in served else RESTORING if key in restoring else SAVING if key in saving else ()
        for node in unit.nodes:
            operator = node.op.decode(errors="replace")
            if operator in allowed:
                continue
            if operator in more and (operator not in RESTORING or _reads_passed_file(node, key, graph)):
                continue
            raise BadRequest(
                f"{folder} holds the operator {operator} ({unit.location}{node.name.decode(errors='replace')}), "
                f"which {effect_of(operator)}",
                fix=TRUST,
            )


def _code_units(graph: GraphDef) -> dict[_Key, _CodeUnit]:
    units = {
        ("", node.name): _CodeUnit(
            (node,),
            (
                *(("", text.lstrip(b"^").partition(b":")[0]) for text in node.input),
                *(("f", name) for name in called_names(node)),
            ),
            "",
        )
        for node in graph.node
    }
    for function in graph.library.function:
        name = function.signature.name
        calls = tuple(("f", called) for node in function.node_def for called in called_names(node))
        key = ("f", name)
        nodes = (*units[key].nodes, *function.node_def) if key in units else tuple(function.node_def)
        units[key] = _CodeUnit(nodes, calls, f"{name.decode(errors='replace')}: ")
    return units


def _roots(graph: MetaGraphDef, units: Mapping[_Key, _CodeUnit]) -> Iterator[_Key]:
    """Yield the entry points beside saving and restoring.

    These are all signatures, what collections name (a loader runs some), the functions that Python can call (loading
    runs some), gradients, and every unit that no other unit calls.
    """
    for signature in graph.signature_def.values():
        for tensor in (*signature.outputs.values(), *signature.inputs.values()):
            yield from (("", name.partition(b":")[0]) for name in _names_of(tensor))
    for collection in graph.collection_def.values():
        yield from (("", name.lstrip(b"^").partition(b":")[0]) for name in collection.node_list.value)
    for name in graph.object_graph_def.concrete_functions:
        yield "f", name.encode()
    for gradient in graph.graph_def.library.gradient:
        yield "f", gradient.gradient_func
    called = {name for unit in units.values() for name in unit.calls}
    saver = graph.saver_def
    own = {("", name.partition(b":")[0]) for name in (saver.save_tensor_name, saver.restore_op_name)}
    yield from (key for key in units if key not in called and key not in own)


def _names_of(tensor: TensorInfo) -> Iterator[bytes]:
    """Yield the names of the graph's tensors that an input or output stands for: several, where it is sparse or made of
    parts."""
    pending = [tensor]
    while pending:
        part = pending.pop()
        sparse = part.coo_sparse
        yield from (part.name, sparse.values_tensor_name, sparse.indices_tensor_name, sparse.dense_shape_tensor_name)
        pending += part.composite_tensor.components


def _reached(units: Mapping[_Key, _CodeUnit], roots: Iterable[_Key]) -> frozenset[_Key]:
    reached: set[_Key] = set()
    pending = list(roots)
    while pending:
        key = pending.pop()
        if key not in reached and key in units:
            reached.add(key)
            pending += units[key].calls
    return frozenset(reached)


def _reads_passed_file(node: NodeDef, key: _Key, graph: MetaGraphDef) -> bool:
    """Return whether a node reads the file that the loader passes to the model.

    The file is passed to the main graph itself, or as the first argument of the function that restores.
    """
    saver = graph.saver_def
    passed = saver.filename_tensor_name.partition(b":")[0]
    file = node.input[0].partition(b":")[0] if node.input else b""
    if not key[0]:
        return bool(file == passed)
    restoring = saver.restore_op_name.partition(b":")[0]
    caller = next((candidate for candidate in graph.graph_def.node if candidate.name == restoring), None)
    function = next(candidate for candidate in graph.graph_def.library.function if candidate.signature.name == key[1])
    return (
        caller is not None
        and key[1] in set(called_names(caller))
        and [text.partition(b":")[0] for text in caller.input][:1] == [passed]
        and [argument.name for argument in function.signature.input_arg][:1] == [file]
    )

"""A SavedModel that nobody vouches for: what it would do when it is loaded or run, and its signature.

A SavedModel is a program of TensorFlow's operators, and there are operators that read files, write files and run
Python. So every operator in the graph and in the library of functions is held against a list of those that only compute
(allowed_operators.py). What restores the variables reads a file: it is let through where nothing else calls it, and
where the file is the one that it is handed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...models.errors import BadRequest
from ...models.signature import BATCH, Axis, Signature, TensorSpec, served_dtype
from ...models.tensorflow_names import DEFAULT
from ..to_saved_model.allowed_operators import ALLOWED, RESTORING, SAVING, TRUST, what_it_does
from ..to_saved_model.saved_model_proto import calls_of, message_class

_AGAIN = "copy it again, or save it again with tf.saved_model.save"
_MOST_PARSED_BYTES = 1 << 31  # protobuf's own limit
_FILE = "saved_model.pb"
# tensorflow/core/framework/types.proto
_DTYPES = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "text", 9: "int64", 10: "bool",
    14: "bfloat16", 17: "uint16", 19: "float16", 22: "uint32", 23: "uint64",
}  # fmt: skip


def read_saved_model(folder: Path, *, trust: bool = False) -> Any:
    """The graph that is served, of a SavedModel that was held against what is not taken; `trust` leaves the operators
    unchecked.

    Raises BadRequest where it is no whole SavedModel, leads out of its folder, or holds an operator that may do more
    than compute.
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # no stubs are installed

    for path in folder.rglob("*"):
        if path.is_symlink():
            raise BadRequest(f"{path} is a link, and may lead anywhere", fix="copy the SavedModel with its files")
        if path.parent == folder and path.name.startswith("saved_model.") and path.name != _FILE:
            raise BadRequest(f"{path} would be read in place of {_FILE}", fix="leave one of the two away")
    file = folder / _FILE
    if not file.is_file() or not file.stat().st_size:
        raise BadRequest(f"{folder} holds no SavedModel: its {_FILE} is missing or empty", fix=_AGAIN)
    if file.stat().st_size >= _MOST_PARSED_BYTES:
        raise BadRequest(f"{file} is larger than such a file can be (2 GB)", fix=_AGAIN)
    try:
        model = message_class("SavedModel").FromString(file.read_bytes())
    except DecodeError as error:
        raise BadRequest(f"{file} is no whole SavedModel: it cannot be decoded", fix=_AGAIN) from error
    graphs = [graph for graph in model.meta_graphs if b"serve" in graph.meta_info_def.tags]
    if not graphs:
        raise BadRequest(f"{folder} holds no graph that is tagged serve", fix="save it with tf.saved_model.save")
    if not trust:
        for graph in model.meta_graphs:
            _check_operators(graph, folder)
    _check_variables(graphs[0], folder)
    return graphs[0]


def signature_of_saved_model(graph: Any, folder: Path, asked: Sequence[TensorSpec] = ()) -> Signature:
    """Inputs and outputs of `serving_default`. `asked` gives the shape of an input that says none.

    Inputs stand in the order in which the model's own function takes them; outputs, of which TensorFlow keeps no order,
    by their names (output_2 before output_10). An axis without a size is the batch as the first of an input.

    Raises BadRequest where there is no such signature, or it says what the formats do not carry.
    """
    served = {name: each for name, each in graph.signature_def.items() if not name.startswith("__")}
    if DEFAULT not in served:
        named = f"the signatures {', '.join(sorted(served))}, and {DEFAULT} is not among them"
        raise BadRequest(
            f"{folder} has {named if served else 'no signature, which would say what it takes and gives'}",
            fix=f"save it with tf.saved_model.save(MODEL, FOLDER, signatures={{{DEFAULT!r}: FUNCTION}})",
        )
    found = served[DEFAULT]
    given = {spec.name: spec for spec in asked}
    order = _input_order(graph, found)
    names = sorted(found.inputs, key=lambda name: (order.get(name, len(order)), _natural(name)))
    if not names or not found.outputs:
        raise BadRequest(f"{folder} takes or gives nothing: there is nothing to serve", fix=_AGAIN)
    # Outputs first: what --input mends comes after what only saving again does.
    outputs = tuple(_spec(folder, name, found.outputs[name], None) for name in sorted(found.outputs, key=_natural))
    return Signature(
        tuple(_spec(folder, name, found.inputs[name], given.get(name), first=BATCH) for name in names), outputs
    )


def _spec(folder: Path, name: str, tensor: Any, given: TensorSpec | None, first: str | None = None) -> TensorSpec:
    dtype = _DTYPES.get(tensor.dtype, f"TensorFlow's dtype {tensor.dtype}")
    try:
        served_dtype(dtype)
    except ValueError as error:
        raise BadRequest(f"{folder}: {name} is {dtype}, which the formats do not carry",
                         fix="save a signature that takes and gives numbers or booleans") from error  # fmt: skip
    if not tensor.HasField("tensor_shape") or tensor.tensor_shape.unknown_rank:
        if given is None:
            raise BadRequest(
                f"{folder} says no shape of {name}",
                fix=f"name it, as in --input {name}={dtype}[batch,224,224,3]"
                if first
                else "save it with tf.ensure_shape around that output",
            )
        return TensorSpec(name, dtype, given.shape)
    sizes: list[Axis] = [dim.size for dim in tensor.tensor_shape.dim]
    axes = tuple(
        size if isinstance(size, int) and size >= 0 else (first if first and at == 0 else f"{name}_{at}")
        for at, size in enumerate(sizes)
    )
    return TensorSpec(name, dtype, axes)


def _natural(name: str) -> tuple[Any, ...]:
    """A key that sorts numbers in names as numbers."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name))


def _input_order(graph: Any, served: Any) -> dict[str, int]:
    """Places of the inputs in the function that the signature calls. The signature's own function takes them sorted,
    and hands them on in the model's order."""
    main = {node.name: node for node in graph.graph_def.node}
    library = {function.signature.name: function for function in graph.graph_def.library.function}
    made_by = next(iter(served.outputs.values())).name.partition(b":")[0]
    node = main.get(made_by)
    wrapper = next((library[name] for name in calls_of(node) if name in library), None) if node is not None else None
    if node is None or wrapper is None:
        return {}
    calls = [each for each in wrapper.node_def if any(name in library for name in calls_of(each))]
    arguments = [argument.name for argument in wrapper.signature.input_arg]
    if len(calls) != 1:
        return {}
    handed = [text.partition(b":")[0] for text in calls[0].input if text in arguments]
    # The wrapper's arguments stand for the node's inputs, which are the placeholders of the signature.
    placeholders = [text.partition(b":")[0] for text in node.input]
    tensors = {tensor.name.partition(b":")[0]: name for name, tensor in served.inputs.items()}
    named = {argument: tensors.get(tensor) for argument, tensor in zip(arguments, placeholders, strict=False)}
    return {name: at for at, argument in enumerate(handed) if (name := named.get(argument)) is not None}


def _check_variables(graph: Any, folder: Path) -> None:
    """The variables are there, where the model has any: an index, and each file of data that it may speak of."""
    has_any = any(node.op in (b"VarHandleOp", b"VariableV2", b"Variable") for node in graph.graph_def.node)
    variables = folder / "variables"
    if has_any and not ((variables / "variables.index").is_file() and any(variables.glob("variables.data-*-of-*"))):
        raise BadRequest(f"{folder} lacks its variables", fix="copy the whole folder")


@dataclass(frozen=True, slots=True)
class _Place:
    """A node of the main graph, or a function of the library with its nodes."""

    nodes: tuple[Any, ...]
    leads_to: tuple[tuple[str, bytes], ...]  # what else runs where this does
    where: str


def _check_operators(graph: Any, folder: Path) -> None:
    """Hold every operator against the list. Raises BadRequest with the first that is not on it."""
    places = _places(graph.graph_def)
    saver = graph.saver_def
    restoring = _reached(places, [("", saver.restore_op_name.partition(b":")[0])])
    saving = _reached(places, [("", saver.save_tensor_name.partition(b":")[0])]) | restoring
    served = _reached(places, _roots(graph, places))
    for key, place in places.items():
        extra = (
            frozenset[str]() if key in served else RESTORING if key in restoring else SAVING if key in saving else ()
        )
        for node in place.nodes:
            operator = node.op.decode(errors="replace")
            if operator in ALLOWED:
                continue
            if operator in extra and (operator not in RESTORING or _reads_what_it_is_handed(node, key, graph)):
                continue
            raise BadRequest(
                f"{folder} holds the operator {operator} ({place.where}{node.name.decode(errors='replace')}), "
                f"which {what_it_does(operator)}",
                fix=TRUST,
            )


def _places(graph: Any) -> dict[tuple[str, bytes], _Place]:
    found = {
        ("", node.name): _Place(
            (node,),
            (
                *(("", text.lstrip(b"^").partition(b":")[0]) for text in node.input),
                *(("f", name) for name in calls_of(node)),
            ),
            "",
        )
        for node in graph.node
    }
    for function in graph.library.function:
        name = function.signature.name
        calls = tuple(("f", called) for node in function.node_def for called in calls_of(node))
        key = ("f", name)
        nodes = (*found[key].nodes, *function.node_def) if key in found else tuple(function.node_def)
        found[key] = _Place(nodes, calls, f"{name.decode(errors='replace')}: ")
    return found


def _roots(graph: Any, places: Mapping[tuple[str, bytes], _Place]) -> Iterator[tuple[str, bytes]]:
    """What runs beside saving and restoring: all signatures, what runs when the model is loaded, all functions that
    Python can call, and whatever in the main graph no other signature counts among."""
    for signature in graph.signature_def.values():
        for tensor in signature.outputs.values():
            yield "", tensor.name.partition(b":")[0]
    for name in graph.object_graph_def.concrete_functions:
        yield "f", name.encode()
    for gradient in graph.graph_def.library.gradient:
        yield "f", gradient.gradient_func
    called = {each for place in places.values() for each in place.leads_to}
    saver = graph.saver_def
    own = {("", each.partition(b":")[0]) for each in (saver.save_tensor_name, saver.restore_op_name)}
    yield from (key for key in places if key not in called and key not in own)


def _reached(
    places: Mapping[tuple[str, bytes], _Place], roots: Iterable[tuple[str, bytes]]
) -> frozenset[tuple[str, bytes]]:
    found: set[tuple[str, bytes]] = set()
    todo = list(roots)
    while todo:
        key = todo.pop()
        if key not in found and key in places:
            found.add(key)
            todo += places[key].leads_to
    return frozenset(found)


def _reads_what_it_is_handed(node: Any, key: tuple[str, bytes], graph: Any) -> bool:
    """Whether the file that a node reads is the one that the loader hands to the model: in the main graph itself, or as
    the first argument of the function that is called to restore."""
    saver = graph.saver_def
    handed = saver.filename_tensor_name.partition(b":")[0]
    file = node.input[0].partition(b":")[0] if node.input else b""
    if not key[0]:
        return bool(file == handed)
    caller = next(
        (each for each in graph.graph_def.node if each.name == saver.restore_op_name.partition(b":")[0]), None
    )
    function = next(each for each in graph.graph_def.library.function if each.signature.name == key[1])
    return (
        caller is not None
        and key[1] in set(calls_of(caller))
        and [text.partition(b":")[0] for text in caller.input][:1] == [handed]
        and [argument.name for argument in function.signature.input_arg][:1] == [file]
    )

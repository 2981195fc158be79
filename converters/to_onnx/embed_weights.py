"""An ONNX file and the weights beside it made one file, without holding them: protobuf would copy them three times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import onnx

_LENGTH_DELIMITED = 2  # protobuf's wire type of bytes and of messages
_END = 1 << 29  # field numbers end there
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9  # of ModelProto, GraphProto, TensorProto: onnx.proto

_Piece: TypeAlias = "bytes | memoryview"  # the latter of a file that is mapped


def join(path: Path, most_bytes: int) -> None:
    """Take what onnx_ir has written to `<path>.data` into the model at `path`, and delete it, unless it is larger than
    `most_bytes`. The bytes are those that protobuf itself would write: fields by their numbers, lengths before them."""
    import onnx
    from onnx.external_data_helper import load_external_data_for_tensor

    beside = path.with_name(f"{path.name}.data")
    if not beside.exists() or beside.stat().st_size > most_bytes:
        return
    model = onnx.load(path, load_external_data=False)
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for tensor in _initializers_inside(nodes):
            if tensor.data_location == tensor.EXTERNAL:
                load_external_data_for_tensor(tensor, str(path.parent))
                _forget_place(tensor)
    data = np.memmap(beside, mode="r").data if beside.stat().st_size else memoryview(b"")
    graph: list[_Piece] = [
        _fields(model.graph, 1, _INITIALIZER),
        *(piece for each in model.graph.initializer for piece in _field(_INITIALIZER, _tensor(each, data))),
        _fields(model.graph, _INITIALIZER + 1, _END),
    ]
    whole = path.with_name(f"{path.name}.whole")
    parts = [_fields(model, 1, _GRAPH), *_field(_GRAPH, graph), _fields(model, _GRAPH + 1, _END)]
    with whole.open("wb") as file:
        file.writelines(parts)
    whole.replace(path)
    beside.unlink()


def _initializers_inside(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    """Of the graphs inside nodes, which are few and small: the branches of an If, the body of a Loop."""
    for node in nodes:
        for attribute in node.attribute:
            for graph in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                yield from graph.initializer
                yield from _initializers_inside(graph.node)


def _forget_place(tensor: onnx.TensorProto) -> None:
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")


def _tensor(tensor: onnx.TensorProto, data: memoryview) -> list[_Piece]:
    """A tensor with its numbers in it."""
    if tensor.data_location != tensor.EXTERNAL:
        return [tensor.SerializeToString()]
    place = {each.key: each.value for each in tensor.external_data}
    start, size = int(place["offset"]), int(place["length"])
    _forget_place(tensor)
    raw = _field(_RAW_DATA, [data[start : start + size]])
    return [_fields(tensor, 1, _RAW_DATA), *raw, _fields(tensor, _RAW_DATA + 1, _END)]


def _fields(message: Any, start: int, end: int) -> bytes:
    """The fields of a message whose numbers are from `start` to below `end`, as protobuf writes them."""
    part = type(message)()
    part.CopyFrom(message)
    for field, _ in message.ListFields():
        if not start <= field.number < end:
            part.ClearField(field.name)
    return bytes(part.SerializeToString())


def _field(number: int, pieces: Sequence[_Piece]) -> Iterator[_Piece]:
    """A field that holds these pieces one behind the other."""
    yield _varint(number << 3 | _LENGTH_DELIMITED) + _varint(sum(len(piece) for piece in pieces))
    yield from pieces


def _varint(number: int) -> bytes:
    """Seven bits in a byte, the lowest first; all but the last with the eighth set."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])

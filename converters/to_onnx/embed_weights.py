"""Embedding of an ONNX file's external weights, without holding them in memory: protobuf would copy them three times.

The bytes are those that protobuf itself would write: fields in the order of their numbers, each with its length first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from ..embedded_metadata import varint
from ..lazy_import import onnx
from .finish_model import graphs_inside

_LENGTH_DELIMITED = 2  # protobuf's wire type of bytes and of messages
_FIELD_LIMIT = 1 << 29  # protobuf's bound of field numbers
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9  # fields of ModelProto, GraphProto, TensorProto in onnx.proto

_Bytes: TypeAlias = "bytes | memoryview"  # a memoryview of a mapped file


def embed_weights(path: Path, max_bytes: int) -> None:
    """Move the weights that onnx_ir wrote to `<path>.data` into the model at `path`, unless they exceed `max_bytes`."""
    from onnx.external_data_helper import load_external_data_for_tensor

    beside = path.with_name(f"{path.name}.data")
    if not beside.exists() or beside.stat().st_size > max_bytes:
        return
    model = onnx.load(path, load_external_data=False)
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for tensor in (tensor for graph in graphs_inside(nodes) for tensor in graph.initializer):  # few and small
            if tensor.data_location == tensor.EXTERNAL:
                load_external_data_for_tensor(tensor, str(path.parent))
                _clear_location(tensor)
    data = np.memmap(beside, mode="r").data if beside.stat().st_size else memoryview(b"")
    graph: list[_Bytes] = [
        _fields(model.graph, 1, _INITIALIZER),
        *(
            chunk
            for tensor in model.graph.initializer
            for chunk in _field(_INITIALIZER, _serialized_tensor(tensor, data))
        ),
        _fields(model.graph, _INITIALIZER + 1, _FIELD_LIMIT),
    ]
    target = path.with_name(f"{path.name}.whole")
    parts = [_fields(model, 1, _GRAPH), *_field(_GRAPH, graph), _fields(model, _GRAPH + 1, _FIELD_LIMIT)]
    with target.open("wb") as file:
        file.writelines(parts)
    target.replace(path)
    beside.unlink()


def _clear_location(tensor: onnx.TensorProto) -> None:
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")


def _serialized_tensor(tensor: onnx.TensorProto, data: memoryview) -> list[_Bytes]:
    """Return the serialised tensor with its data embedded."""
    if tensor.data_location != tensor.EXTERNAL:
        return [tensor.SerializeToString()]
    location = {entry.key: entry.value for entry in tensor.external_data}
    start, size = int(location["offset"]), int(location["length"])
    _clear_location(tensor)
    raw = _field(_RAW_DATA, [data[start : start + size]])
    return [_fields(tensor, 1, _RAW_DATA), *raw, _fields(tensor, _RAW_DATA + 1, _FIELD_LIMIT)]


def _fields(message: onnx.ModelProto | onnx.GraphProto | onnx.TensorProto, start: int, end: int) -> bytes:
    """Serialise the fields of a message with numbers from `start` to below `end`."""
    part = type(message)()
    part.CopyFrom(message)
    for field, _ in message.ListFields():
        if not start <= field.number < end:
            part.ClearField(field.name)
    return bytes(part.SerializeToString())


def _field(number: int, chunks: Sequence[_Bytes]) -> Iterator[_Bytes]:
    """Yield a field that holds the concatenated chunks."""
    yield varint(number << 3 | _LENGTH_DELIMITED) + varint(sum(len(chunk) for chunk in chunks))
    yield from chunks

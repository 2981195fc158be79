"""What a .tflite file says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ....models.errors import BadRequest
from ...conversion_records import StoredWeights
from ...lazy_import import tflite
from ...to_tflite.flatbuffer import count_operators, inputs_and_outputs, model_of
from ..describe_file import COPY_AGAIN, most_operators, plain_text, summed_bytes, text_of
from ..file_content import whole_file
from ..reader_records import FileDescription

_MAGIC, _MAGIC_AT = b"TFL3", 4


def describe_tflite(path: Path) -> FileDescription:
    """Describe a file. Raises BadRequest."""
    from ai_edge_litert.interpreter import Interpreter

    with path.open("rb") as opened:
        head = opened.read(_MAGIC_AT + len(_MAGIC))
    if head[_MAGIC_AT:] != _MAGIC:
        raise BadRequest(f"{path} is no TFLite file", fix=COPY_AGAIN)
    with whole_file(path, "TFLite file", COPY_AGAIN):
        Interpreter(model_path=str(path), num_threads=1)  # verifies the file, and runs nothing
        model = model_of(np.memmap(path, mode="r"))
        graph = model.Subgraphs(0)
        names = {number: name.lower() for name, number in vars(tflite.TensorType).items() if isinstance(number, int)}
        inputs, outputs = inputs_and_outputs(model)

        def text(name: str, index: int) -> str:
            tensor = graph.Tensors(index)
            signature, sizes = tensor.ShapeSignatureAsNumpy(), tensor.ShapeAsNumpy()
            sizes = signature if tensor.ShapeSignatureLength() else sizes if tensor.ShapeLength() else ()
            axes = ",".join("?" if size < 0 else str(size) for size in sizes)
            return plain_text(f"{name}={names[tensor.Type()]}[{axes}]")

        return FileDescription(
            producer=plain_text((model.Description() or b"").decode(errors="replace")),
            versions=(f"schema {model.Version()}",),
            inputs=tuple(text(tensor.name, tensor.index) for tensor in inputs),
            outputs=tuple(text(tensor.name, tensor.index) for tensor in outputs),
            operators=most_operators(count_operators(path)),
            weights=_tflite_weights(model, names),
            metadata=_tflite_metadata(model),
        )


def _tflite_weights(model: tflite.Model, names: Mapping[int, str]) -> tuple[StoredWeights, ...]:
    held: dict[int, tuple[str, int]] = {}  # by the buffer: several tensors may share one
    for graph in map(model.Subgraphs, range(model.SubgraphsLength())):
        for tensor in map(graph.Tensors, range(graph.TensorsLength())):
            buffer = model.Buffers(tensor.Buffer())
            if count := buffer.DataLength() or buffer.Size():
                held[tensor.Buffer()] = (names[tensor.Type()], int(count))
    return summed_bytes(held.values())


def _tflite_metadata(model: tflite.Model) -> dict[str, str]:
    metadata = {}
    for entry in map(model.Metadata, range(model.MetadataLength())):
        content = model.Buffers(entry.Buffer()).DataAsNumpy()
        data = content.tobytes() if isinstance(content, np.ndarray) else b""
        metadata[plain_text((entry.Name() or b"").decode(errors="replace"))] = text_of(data)
    return metadata

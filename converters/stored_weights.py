"""Count a file's weights by the dtype in which they are stored: TFLite's tables, ONNX initializers. Worker only.

Weights are the stored floats, and the stored integers that stand for floats. Scales, zero points, and the integers of
the model itself (sizes, indices, tables) are none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from ..models.artifact import Artifact
from ..models.extensible_table import load_entry
from .conversion_records import StoredPrecision, StoredWeights
from .lazy_import import onnx, tflite
from .to_tflite.flatbuffer import model_of

_Tensor = tuple[str, int]  # dtype and bytes
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_HALVES = {"INT4": "int4", "UINT4": "uint4"}  # two elements a byte


def stored_precision(artifact: Artifact) -> StoredPrecision | None:
    """Count the weights in an artifact's file; None for a format whose files are not read here."""
    entry = artifact.target.format.spec.stored_precision
    precision: StoredPrecision | None = load_entry(entry)(artifact.path) if entry else None
    return precision


def holds_signed_bytes(path: Path) -> bool:
    """Return whether an ONNX file holds int8 tensors of two axes or more: weights, and no zero points."""
    model = onnx.load(path, load_external_data=False)
    constants = chain.from_iterable(map(_constants, [*_graphs(model.graph), *model.functions]))
    return any(tensor.data_type == onnx.TensorProto.INT8 and len(tensor.dims) > 1 for _, tensor in constants)


def _summary(tensors: Iterable[_Tensor], computed: Iterable[str]) -> StoredPrecision:
    counts: dict[str, list[int]] = {}
    for dtype, size in tensors:
        counts.setdefault(dtype, []).append(size)
    rows = (StoredWeights(dtype=dtype, tensors=len(sizes), bytes=sum(sizes)) for dtype, sizes in counts.items())
    return StoredPrecision(
        weights=tuple(sorted(rows, key=lambda row: (-row.bytes, row.dtype))), computed=tuple(sorted(set(computed)))
    )


def tflite_precision(path: Path) -> StoredPrecision:
    """Count the weights in a TFLite file."""
    model = model_of(np.memmap(path, mode="r"))
    names = {number: name.lower() for name, number in vars(tflite.TensorType).items() if isinstance(number, int)}
    tensors: dict[int, _Tensor] = {}  # by the buffer: several tensors may share one
    computed: set[str] = set()
    for graph in map(model.Subgraphs, range(model.SubgraphsLength())):
        for tensor in map(graph.Tensors, range(graph.TensorsLength())):
            dtype, quantization = names[tensor.Type()], tensor.Quantization()
            if dtype not in _FLOATS and (quantization is None or not quantization.ScaleLength()):
                continue
            buffer = model.Buffers(tensor.Buffer())
            size = buffer.DataLength() or buffer.Size()
            if size:
                tensors[tensor.Buffer()] = (dtype, int(size))
            elif dtype not in ("float32", "float64"):
                computed.add(dtype)
    return _summary(tensors.values(), computed)


def onnx_precision(path: Path) -> StoredPrecision:
    """Count the weights in an ONNX file."""
    model = onnx.load(path, load_external_data=False)
    graphs = [*_graphs(model.graph), *model.functions]
    nodes = [node for graph in graphs for node in graph.node]
    parameters = {name for node in nodes if node.op_type in _QUANTISERS for name in node.input[1:]}
    quantised = {name for node in nodes if _is_quantised(node) for name in node.input}
    tensors: list[_Tensor] = []
    for name, tensor in chain.from_iterable(map(_constants, graphs)):
        dtype = onnx.TensorProto.DataType.Name(tensor.data_type).lower()
        dtype = {"float": "float32", "double": "float64"}.get(dtype, dtype)
        if name not in parameters and (dtype in _FLOATS or name in quantised):
            bits = (
                4 if dtype in _HALVES.values() else 8 * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
            )
            tensors.append((dtype, math.ceil(math.prod(tensor.dims) * bits / 8)))
    return _summary(tensors, chain.from_iterable(map(_narrow_results, nodes)))


_QUANTISERS = ("QuantizeLinear", "DequantizeLinear")


def _is_quantised(node: onnx.NodeProto) -> bool:
    """Return whether integers that a node reads stand for floats."""
    return node.op_type == "DequantizeLinear" or node.op_type.startswith("QLinear") or node.op_type.endswith("Integer")


def _narrow_results(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the dtype of a node's result if the node narrows its input."""
    if node.op_type in ("QuantizeLinear", "DynamicQuantizeLinear"):
        yield "uint8"  # or int8, which is the same precision
    if node.op_type == "Cast":
        to = next(attribute.i for attribute in node.attribute if attribute.name == "to")
        yield from (name.lower() for name in ("FLOAT16", "BFLOAT16") if onnx.TensorProto.DataType.Value(name) == to)


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and those inside its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node:
                    yield from _graphs(inner)


def _constants(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """Yield the initializers of a graph, and the tensors of its Constant nodes, with their names."""
    for tensor in getattr(graph, "initializer", ()):
        yield tensor.name, tensor
    for node in graph.node:
        if node.op_type == "Constant":
            yield from ((node.output[0], attribute.t) for attribute in node.attribute if attribute.name == "value")

"""Reading and rewriting a TFLite file by the schema that LiteRT brings: operators, names, order, repeated weights.

A file is never unpacked as a whole to be read, which would copy its weights. A signature lists its names in an order of
its own; the order here is the main graph's, which is the model's.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from ...models.signature import Array
from ...models.tensorflow_names import default_signature, plain_names
from ..lazy_import import tflite

FLEX_PREFIX = "Flex"  # of custom operators that TensorFlow's Flex delegate runs, as "FlexErf"
_MIN_SHARED_BYTES = 1024  # smaller buffers are not worth sharing
_GROWTH_BYTES = 1 << 16  # enough for operators and names that are added
_EXTENDED_CODE = 127  # stands in the byte-sized code of an operator whose code is larger

Flat: TypeAlias = "bytes | bytearray | Array"  # a file, in memory or mapped


@dataclass(frozen=True, slots=True)
class TfliteOperator:
    """An operator of a subgraph. `name` as in TFLite's schema; tensors by their index in the subgraph."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NamedTensor:
    """An input or output: its name, and the index and name of its tensor in the main graph."""

    name: str
    index: int
    tensor: str


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A subgraph of a file, read in place."""

    tables: tflite.SubGraph
    inputs: tuple[int, ...]  # tensors, by their index
    outputs: tuple[int, ...]
    operator_names: tuple[str, ...]  # by the index of the model's operator codes

    def operators(self) -> Iterator[TfliteOperator]:
        """Yield the operators in the file's order."""
        for operator in map(self.tables.Operators, range(self.tables.OperatorsLength())):
            inputs, outputs = _integers(operator.InputsAsNumpy()), _integers(operator.OutputsAsNumpy())
            yield TfliteOperator(self.operator_names[operator.OpcodeIndex()], inputs, outputs)

    def shape(self, tensor: int) -> tuple[int, ...]:
        """Return the sizes of a tensor, -1 for an unknown size."""
        table = self.tables.Tensors(tensor)
        return _integers(table.ShapeSignatureAsNumpy() if table.ShapeSignatureLength() else table.ShapeAsNumpy())

    def is_calibrated(self, tensor: int) -> bool:
        """Return whether calibration noted one range of a tensor."""
        range_ = self.tables.Tensors(tensor).Quantization()
        return range_ is not None and range_.MinLength() == range_.MaxLength() == 1

    def width(self, tensor: int) -> float:
        """Return the width of a tensor's calibrated range, which is made to include 0."""
        range_ = self.tables.Tensors(tensor).Quantization()
        return float(max(range_.Max(0), 0.0) - min(range_.Min(0), 0.0)) if self.is_calibrated(tensor) else 0.0

    def largest_magnitude(self, tensor: int) -> float:
        """Return the largest absolute number that calibration saw in a tensor."""
        range_ = self.tables.Tensors(tensor).Quantization()
        if range_ is None:
            return 0.0
        ends = [*map(range_.Min, range(range_.MinLength())), *map(range_.Max, range(range_.MaxLength()))]
        return max(map(abs, ends), default=0.0)


def _integers(vector: object) -> tuple[int, ...]:
    """Return the numbers of a vector; flatbuffers gives the number 0 for one that is missing."""
    return tuple(int(number) for number in vector) if isinstance(vector, np.ndarray) else ()


def model_of(flat: Flat) -> tflite.Model:
    """Open a file; nothing of it is read yet."""
    return tflite.Model.GetRootAs(flat, 0)


def subgraphs(flat: Flat) -> Iterator[Subgraph]:
    """Yield the subgraphs of a file; the main graph is the first."""
    model = model_of(flat)
    builtin_names = {number: name for name, number in vars(tflite.BuiltinOperator).items() if isinstance(number, int)}
    codes = [model.OperatorCodes(index) for index in range(model.OperatorCodesLength())]
    # Older files keep the number in a field of one byte.
    names = tuple(builtin_names[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())] for code in codes)
    for tables in map(model.Subgraphs, range(model.SubgraphsLength())):
        yield Subgraph(tables, _integers(tables.InputsAsNumpy()), _integers(tables.OutputsAsNumpy()), names)


def count_operators(path: Path) -> Counter[str]:
    """Count the operators of a TFLite file by the names of TFLite's schema."""
    return Counter(operator.name for graph in subgraphs(np.memmap(path, mode="r")) for operator in graph.operators())


def main_operators(flat: Flat) -> list[TfliteOperator]:
    """Return the operators of a file's main graph, in its order."""
    return list(next(subgraphs(flat)).operators())


def float_operators(path: Path) -> list[str]:
    """Return the names of the operators that compute in float; quantising and dequantising do not count."""
    floats = (tflite.TensorType.FLOAT32, tflite.TensorType.FLOAT16)
    names = {
        operator.name
        for graph in subgraphs(np.memmap(path, mode="r"))
        for operator in graph.operators()
        if any(graph.tables.Tensors(output).Type() in floats for output in operator.outputs)
    }
    return sorted(names - {"QUANTIZE", "DEQUANTIZE"})


def quantising_operators(flat: Flat) -> list[str]:
    """Return the operators with float inputs and integer weights, by the names of TFLite's schema.

    LiteRT quantises their inputs while the model runs, by the range of each call.
    """
    narrow = {tflite.TensorType.INT8, tflite.TensorType.UINT8, tflite.TensorType.INT4}
    quantising = set()
    for graph in subgraphs(flat):
        for operator in graph.operators():
            types = [graph.tables.Tensors(tensor).Type() for tensor in operator.inputs if tensor >= 0]
            if types and types[0] == tflite.TensorType.FLOAT32 and not narrow.isdisjoint(types[1:]):
                quantising.add(operator.name)
    return sorted(quantising)


def custom_names(model: tflite.Model) -> list[str]:
    """Return the names of a file's custom operators, sorted."""
    codes = [model.OperatorCodes(at).CustomCode() for at in range(model.OperatorCodesLength())]
    return sorted({code.decode(errors="replace") for code in codes if code})


def flex_names(model: tflite.Model) -> tuple[str, ...]:
    """Return the names of a file's Flex operators, sorted, as "FlexErf"."""
    return tuple(name for name in custom_names(model) if name.startswith(FLEX_PREFIX))


def signatures(model: tflite.Model) -> list[str]:
    """Return the names of the signatures in a file, in its order."""
    return [model.SignatureDefs(at).SignatureKey().decode() for at in range(model.SignatureDefsLength())]


def inputs_and_outputs(model: tflite.Model) -> tuple[list[NamedTensor], list[NamedTensor]]:
    """Return the inputs and the outputs of the main graph, in its order."""
    names = signatures(model)
    served = default_signature(names)
    graph = model.Subgraphs(0)
    inputs, outputs = (None, None) if served is None else _entries(model.SignatureDefs(names.index(served)))
    return (
        _named_tensors(graph, _integers(graph.InputsAsNumpy()), inputs),
        _named_tensors(graph, _integers(graph.OutputsAsNumpy()), outputs),
    )


def _entries(signature: tflite.SignatureDef) -> tuple[list[tflite.TensorMap], list[tflite.TensorMap]]:
    """Return what a signature says of the inputs and of the outputs, in an order of its own."""
    return (
        [signature.Inputs(at) for at in range(signature.InputsLength())],
        [signature.Outputs(at) for at in range(signature.OutputsLength())],
    )


def _named_tensors(
    graph: tflite.SubGraph, order: Sequence[int], entries: list[tflite.TensorMap] | None
) -> list[NamedTensor]:
    """Name one side of the main graph. One tensor may have several entries in the signature, or a repeated one."""
    if entries is None:
        tensors = [graph.Tensors(index).Name().decode() for index in order]
        return list(map(NamedTensor, plain_names(tensors), order, tensors))
    return [
        NamedTensor(entry.Name().decode(), entry.TensorIndex(), graph.Tensors(entry.TensorIndex()).Name().decode())
        for entry in sorted(entries, key=lambda entry: order.index(entry.TensorIndex()))
    ]


def put_in_order(path: Path, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Put the main graph's inputs and outputs into the order of these names, in a file with one signature.

    TensorFlow's converter sorts them by name. A caller that addresses inputs by index expects the model's own order.
    """
    mapped = np.memmap(path, mode="r+")
    model = model_of(mapped)
    graph = model.Subgraphs(0)
    sides = (inputs, graph.InputsAsNumpy()), (outputs, graph.OutputsAsNumpy())
    for (names, indices), entries in zip(sides, _entries(model.SignatureDefs(0)), strict=True):
        by_name = {entry.Name().decode(): entry.TensorIndex() for entry in entries}
        ordered = [by_name[name] for name in names]
        if sorted(ordered) == sorted(int(index) for index in indices):
            indices[:] = ordered
    mapped.flush()


def repeated_bytes(flat: Flat) -> int:
    """Return how many bytes a file would save if it kept equal weights once."""
    model = model_of(flat)
    buffers = [buffer for at in range(model.BuffersLength()) if (buffer := model.Buffers(at)).DataLength()]
    lengths = Counter(buffer.DataLength() for buffer in buffers)
    twins = [buffer for buffer in buffers if (size := buffer.DataLength()) >= _MIN_SHARED_BYTES and lengths[size] > 1]
    distinct = {hashlib.sha256(buffer.DataAsNumpy()).digest(): buffer.DataLength() for buffer in twins}
    return int(sum(buffer.DataLength() for buffer in twins)) - int(sum(distinct.values()))


def packed(unpacked: tflite.ModelT, about_bytes: int = 1 << 20) -> bytes:
    """Pack an unpacked model into a file. A result larger than `about_bytes` is copied once more on the way."""
    import flatbuffers

    builder = flatbuffers.Builder(about_bytes)
    builder.Finish(unpacked.Pack(builder), b"TFL3")
    return bytes(memoryview(builder.Bytes)[builder.Head() :])


def rewritten(flat: bytes, rewrite: Callable[[tflite.ModelT, tflite.SubGraphT], bool]) -> bytes:
    """Return the file after `rewrite` of each unpacked subgraph; the file itself if none was changed."""
    unpacked = tflite.ModelT.InitFromObj(model_of(flat))
    changed = [rewrite(unpacked, graph) for graph in unpacked.subgraphs]
    return packed(unpacked, len(flat) + _GROWTH_BYTES) if any(changed) else flat


def with_unique_names(flat: bytes) -> bytes:
    """Return the file with unique names for its tensors, for a tool that needs them; unchanged if they are unique."""
    tables = [graph.tables for graph in subgraphs(flat)]
    names = [graph.Tensors(at).Name() or b"" for graph in tables for at in range(graph.TensorsLength())]
    if all(names) and len(set(names)) == len(names):
        return flat
    counts: Counter[bytes] = Counter(names)

    def rename(model: tflite.ModelT, graph: tflite.SubGraphT) -> bool:
        for index, tensor in enumerate(graph.tensors):
            name = tensor.name or b""
            if not name or counts[name] > 1:
                tensor.name = name + f"/{model.subgraphs.index(graph)}.{index}".encode()
        return True

    return rewritten(flat, rename)


class GraphEditor:
    """Adds tensors and operators to a subgraph of an unpacked model."""

    def __init__(self, model: tflite.ModelT, graph: tflite.SubGraphT) -> None:
        self.model, self.graph = model, graph

    def add_tensor(self, tensor: tflite.TensorT, prefix: bytes) -> int:
        """Add a tensor under a new name that begins so; return its index."""
        index = len(self.graph.tensors)
        tensor.name = prefix + str(index).encode()
        self.graph.tensors.append(tensor)
        return index

    def add_int32_vector(self, length: int, prefix: bytes, numbers: Sequence[int] | None = None) -> int:
        """Add an int32 vector, of constant numbers if any are given; return its index."""
        tensor = tflite.TensorT()
        tensor.type, tensor.shape, tensor.hasRank = tflite.TensorType.INT32, [length], True
        if numbers is not None:
            buffer = tflite.BufferT()
            buffer.data = np.asarray(numbers, np.int32).view(np.uint8)
            tensor.buffer = len(self.model.buffers)
            self.model.buffers.append(buffer)
        return self.add_tensor(tensor, prefix)

    def insert(self, position: int, inputs: Sequence[int], output: int, builtin: int) -> tflite.OperatorT:
        """Insert a builtin operator before the one at this position."""
        operator = tflite.OperatorT()
        operator.opcodeIndex = self._operator_code(builtin)
        operator.inputs, operator.outputs = list(inputs), [output]
        self.graph.operators.insert(position, operator)
        return operator

    def builtin_of(self, operator: tflite.OperatorT) -> int:
        """Return the number of a builtin operator, which older files keep in a field of one byte."""
        code = self.model.operatorCodes[operator.opcodeIndex]
        return int(max(code.builtinCode, code.deprecatedBuiltinCode))

    def _operator_code(self, builtin: int) -> int:
        """Return the index of the model's code for a builtin operator; add the code if it is missing."""
        codes = self.model.operatorCodes
        for index, code in enumerate(codes):
            if builtin == max(code.builtinCode, code.deprecatedBuiltinCode):
                return index
        code = tflite.OperatorCodeT()
        code.builtinCode, code.deprecatedBuiltinCode = builtin, min(builtin, _EXTENDED_CODE)
        codes.append(code)
        return len(codes) - 1

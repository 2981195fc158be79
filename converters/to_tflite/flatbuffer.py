"""Reading and reordering a TFLite file: its operators, the order of its inputs and outputs, and repeated weights.

Uses the schema that TensorFlow brings. A file is never unpacked as a whole, which would copy its weights.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ...models.signature import Array
from ..patches import private_tensorflow

if TYPE_CHECKING:
    from tensorflow.lite.python.schema_py_generated import SubGraph

_MIN_SHARED_BYTES = 1024  # smaller buffers are not worth sharing

Flat: TypeAlias = "bytes | bytearray | Array"  # a file, in memory or mapped


@dataclass(frozen=True, slots=True)
class TfliteOperator:
    """An operator of a subgraph. `name` as in TFLite's schema; tensors by their index in the subgraph."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A subgraph of a file, read in place."""

    tables: SubGraph
    operator_names: tuple[str, ...]  # by the index of the model's operator codes

    def operators(self) -> Iterator[TfliteOperator]:
        """Yield the operators in the file's order."""
        for index in range(self.tables.OperatorsLength()):
            operator = self.tables.Operators(index)
            inputs, outputs = (
                tuple(int(tensor) for tensor in tensors) if count else ()
                for count, tensors in (
                    (operator.InputsLength(), operator.InputsAsNumpy()),
                    (operator.OutputsLength(), operator.OutputsAsNumpy()),
                )
            )
            yield TfliteOperator(self.operator_names[operator.OpcodeIndex()], inputs, outputs)

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


def subgraphs(flat: Flat) -> Iterator[Subgraph]:
    """Yield the subgraphs of a file; the main graph is the first."""
    model = private_tensorflow.schema_py_generated.Model.GetRootAs(flat, 0)
    builtin_names = {
        number: name
        for name, number in vars(private_tensorflow.schema_py_generated.BuiltinOperator).items()
        if isinstance(number, int)
    }
    codes = [model.OperatorCodes(index) for index in range(model.OperatorCodesLength())]
    names = tuple(builtin_names[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())] for code in codes)
    for index in range(model.SubgraphsLength()):
        yield Subgraph(model.Subgraphs(index), names)


def count_operators(path: Path) -> Counter[str]:
    """Count the operators of a TFLite file by the names of TFLite's schema."""
    return Counter(operator.name for graph in subgraphs(np.memmap(path, mode="r")) for operator in graph.operators())


def main_operators(flat: Flat) -> list[TfliteOperator]:
    """Return the operators of a file's main graph, in its order."""
    return list(next(subgraphs(flat)).operators())


def float_operators(path: Path) -> list[str]:
    """Return the names of the operators that compute in float; quantising and dequantising do not count."""
    floats = (
        private_tensorflow.schema_py_generated.TensorType.FLOAT32,
        private_tensorflow.schema_py_generated.TensorType.FLOAT16,
    )
    return sorted(
        {
            operator.name
            for graph in subgraphs(np.memmap(path, mode="r"))
            for operator in graph.operators()
            if any(graph.tables.Tensors(output).Type() in floats for output in operator.outputs)
        }
        - {"QUANTIZE", "DEQUANTIZE"}
    )


def put_in_order(path: Path, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Put the main graph's inputs and outputs into the order of these names, in a file with one signature.

    TensorFlow's converter sorts them by name. A caller that addresses inputs by index expects the model's own order.
    """
    mapped = np.memmap(path, mode="r+")
    model = private_tensorflow.schema_py_generated.Model.GetRootAs(mapped, 0)
    graph, signature = model.Subgraphs(0), model.SignatureDefs(0)
    for order, entries, indices in (
        (inputs, [signature.Inputs(at) for at in range(signature.InputsLength())], graph.InputsAsNumpy()),
        (outputs, [signature.Outputs(at) for at in range(signature.OutputsLength())], graph.OutputsAsNumpy()),
    ):
        by_name = {entry.Name().decode(): entry.TensorIndex() for entry in entries}
        ordered = [by_name[name] for name in order]
        if sorted(ordered) == sorted(int(index) for index in indices):
            indices[:] = ordered
    mapped.flush()


def repeated_bytes(flat: Flat) -> int:
    """Return how many bytes a file would save if it kept equal weights once."""
    model = private_tensorflow.schema_py_generated.Model.GetRootAs(flat, 0)
    buffers = [buffer for at in range(model.BuffersLength()) if (buffer := model.Buffers(at)).DataLength()]
    lengths = Counter(buffer.DataLength() for buffer in buffers)
    twins = [buffer for buffer in buffers if (size := buffer.DataLength()) >= _MIN_SHARED_BYTES and lengths[size] > 1]
    distinct = {hashlib.sha256(buffer.DataAsNumpy()).digest(): buffer.DataLength() for buffer in twins}
    return int(sum(buffer.DataLength() for buffer in twins)) - int(sum(distinct.values()))

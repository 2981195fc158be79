"""What a TFLite file says: its operators, the order of its inputs and outputs, and which of its operators lose their
answers in 8 bits. By the schema that TensorFlow brings; a file is never unpacked as a whole, which would copy weights.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ...models.signature import Array

# 256 levels over a wider range are steps of 32 and more. Masks are such: the lowest float, or -10000.
WIDEST = 4096.0
_ROOTS = ("RSQRT", "SQRT")
_OF_STATISTICS = ("ADD", "MEAN", "SUM", "SQUARED_DIFFERENCE", "SQUARE", "MUL", "MAXIMUM")
_LEAST_REPEATED = 1024  # bytes of a buffer that is worth being kept once
_SQUARES = ("SQUARED_DIFFERENCE", "SQUARE", "MUL")


_MOVED = ("TRANSPOSE", "RESHAPE", "SQUEEZE", "EXPAND_DIMS")
# XNNPACK adds 8 bits whose step is 2^-10 to 2^8 of the sum's, and ends with the interpreter at others (its qs8-vadd
# operator; TensorFlow 2.21). A step of it is kept to each side.
_ADDS = frozenset({"ADD", "SUB"})
_STEPS = (2.0**-9, 2.0**7)
_OF_NOTHING = (0.0, 1.0)
# Whose inputs and outputs the quantiser gives one scale, also where the operator itself is left in float.
_OF_ONE_SCALE = frozenset({
    *_MOVED, "AVERAGE_POOL_2D", "BATCH_TO_SPACE_ND", "BROADCAST_TO", "CONCATENATION", "DEPTH_TO_SPACE",
    "DYNAMIC_UPDATE_SLICE", "GATHER", "GATHER_ND", "MAXIMUM", "MAX_POOL_2D", "MINIMUM", "MIRROR_PAD", "PACK", "PAD",
    "PADV2", "REDUCE_MAX", "REDUCE_MIN", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "REVERSE_V2", "SCATTER_ND",
    "SELECT", "SELECT_V2", "SLICE", "SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH", "SPLIT", "SPLIT_V", "STRIDED_SLICE", "TILE",
    "UNPACK",
})  # fmt: skip
_PASSED_ON = (*_MOVED, "SELECT", "SELECT_V2")  # rows without a token are set to 0 behind a softmax

Range: TypeAlias = "tuple[float, float]"  # the smallest number and the largest
Flat: TypeAlias = "bytes | bytearray | Array"  # a file, in memory or mapped


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of a subgraph; tensors by their numbers there. `name` as TFLite's schema has it."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def operators(path: Path) -> Counter[str]:
    """How often each operator occurs in a TFLite file, by the names of TFLite's schema."""
    return Counter(each.name for graph in _graphs(np.memmap(path, mode="r")) for each in _operators_of(graph))


def main_operators(flat: Flat) -> list[Operator]:
    """The operators of a file's main graph, in its order."""
    return list(_operators_of(next(_graphs(flat))))


def float_operators(path: Path) -> list[str]:
    """The operators that compute in float, those that only quantise and dequantise aside."""
    from tensorflow.lite.python.schema_py_generated import TensorType

    floats = (TensorType.FLOAT32, TensorType.FLOAT16)
    return sorted(
        {
            each.name
            for graph in _graphs(np.memmap(path, mode="r"))
            for each in _operators_of(graph)
            if any(graph.tables.Tensors(at).Type() in floats for at in each.outputs)
        }
        - {"QUANTIZE", "DEQUANTIZE"}
    )


def put_in_order(path: Path, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Put the main graph's inputs and outputs into the order of these names, in a file with one signature. Its
    converter sorts them; who asks for inputs by their numbers wants the model's own order."""
    from tensorflow.lite.python.schema_py_generated import Model

    written = np.memmap(path, mode="r+")
    model = Model.GetRootAs(written, 0)
    graph, signature = model.Subgraphs(0), model.SignatureDefs(0)
    for order, names, numbers in (
        (inputs, [signature.Inputs(at) for at in range(signature.InputsLength())], graph.InputsAsNumpy()),
        (outputs, [signature.Outputs(at) for at in range(signature.OutputsLength())], graph.OutputsAsNumpy()),
    ):
        by_name = {each.Name().decode(): each.TensorIndex() for each in names}
        wanted = [by_name[name] for name in order]
        if sorted(wanted) == sorted(int(each) for each in numbers):
            numbers[:] = wanted
    written.flush()


def repeated_bytes(flat: Flat) -> int:
    """How many bytes less a file would have if it kept equal weights once."""
    from tensorflow.lite.python.schema_py_generated import Model

    model = Model.GetRootAs(flat, 0)
    buffers = [buffer for at in range(model.BuffersLength()) if (buffer := model.Buffers(at)).DataLength()]
    lengths = Counter(buffer.DataLength() for buffer in buffers)
    twins = [each for each in buffers if each.DataLength() >= _LEAST_REPEATED and lengths[each.DataLength()] > 1]
    kept = {hashlib.sha256(each.DataAsNumpy()).digest(): each.DataLength() for each in twins}
    return int(sum(each.DataLength() for each in twins)) - int(sum(kept.values()))


def calibrated_tensors(calibrated: bytes) -> list[int]:
    """The tensors of the main graph for which calibration noted one range."""
    graph = next(_graphs(calibrated))
    return [at for at in range(graph.tables.TensorsLength()) if graph.is_calibrated(at)]


def with_ranges(calibrated: bytes, ranges: Mapping[int, tuple[float, float]]) -> bytes:
    """The file with other ranges of tensors of the main graph, which must have been calibrated."""
    written = bytearray(calibrated)
    tables = next(_graphs(written)).tables
    for at, (low, high) in ranges.items():
        seen = tables.Tensors(at).Quantization()
        seen.MinAsNumpy()[0], seen.MaxAsNumpy()[0] = low, high
    return bytes(written)


def known_ranges(calibrated: Flat, seen: Mapping[int, Range]) -> dict[int, Range]:
    """The ranges that calibration saw of the main graph's tensors, where more than that is known, as that has it.

    What was 0 throughout has steps as others have: XNNPACK has none of 1e-8. A probability goes to 1, if not in these
    samples: over one token it is 1. And the right side of a product is laid around 0: XNNPACK takes the zero of its
    8 bits for 0 (in TensorFlow 2.21; its answers are 11 dB then).
    """
    every = main_operators(calibrated)
    makers = {at: operator for operator in every for at in operator.outputs}
    found = {at: ends if any(ends) else _OF_NOTHING for at, ends in seen.items()}
    probabilities: set[int] = set()
    for operator in every:
        if operator.name == "SOFTMAX" or (operator.name in _PASSED_ON and probabilities.intersection(operator.inputs)):
            probabilities.update(operator.outputs)
    for at in probabilities.intersection(found):
        found[at] = min(found[at][0], 0.0), max(found[at][1], 1.0)
    for operator in every:
        at = operator.inputs[1] if operator.name == "BATCH_MATMUL" else -1
        while at in found:
            step = max(map(abs, found[at])) / 127
            found[at] = (-128 * step, 127 * step) if step else found[at]
            maker = makers.get(at)
            at = maker.inputs[0] if maker and maker.name in _MOVED else -1
    return found


def better_in_float(calibrated: bytes) -> list[str]:
    """Of a file that was calibrated, the operators that 8 bits would ruin, by the names of what they make.

    Whatever reads or makes numbers beyond WIDEST; a sum of what is nothing beside it; a division, and what it divides
    by, of which 8 bits may make 0; the variance that a normalisation divides by the root of, whose square spans twice
    the digits that 8 bits have; and what is worked out of sizes alone, as places between pixels are.
    """
    return [
        name
        for graph in _graphs(calibrated)
        for operator in _ruined(graph)
        for name in (graph.tables.Tensors(at).Name().decode() for at in operator.outputs)
    ]


def _ruined(graph: _Graph) -> Iterator[Operator]:
    """What is ruined by itself, and what would be given the scale of such a thing: scores of a few units that of the
    mask which is chosen in place of some of them, 1e36 a step."""
    every = list(_operators_of(graph))
    makers = {at: operator for operator in every for at in operator.outputs}
    waiting, found = list(_ruined_alone(graph, every, makers)), set[Operator]()
    while waiting:
        operator = waiting.pop()
        if operator not in found:
            found.add(operator)
            sources = operator.inputs if operator.name in _OF_ONE_SCALE else _divisor(operator)
            waiting += [makers[at] for at in sources if at in makers and graph.is_calibrated(at)]
    return (operator for operator in every if operator in found)


def _ruined_alone(graph: _Graph, every: Sequence[Operator], makers: Mapping[int, Operator]) -> Iterator[Operator]:
    statistics: set[int] = set()
    for operator in every:
        if operator.name in _ROOTS:
            statistics.update(_variance(operator, makers))
    of_values = {int(at) for at in graph.tables.InputsAsNumpy()} if graph.tables.InputsLength() else set()
    for operator in every:
        if operator.name != "SHAPE" and not of_values.isdisjoint(operator.inputs):
            of_values.update(operator.outputs)
        wide = any(at >= 0 and graph.widest(at) > WIDEST for at in (*operator.inputs, *operator.outputs))
        unlike = operator.name in _ADDS and not _are_alike(graph, operator)
        divides = any(map(graph.is_calibrated, _divisor(operator)))
        if (
            wide
            or unlike
            or divides
            or not statistics.isdisjoint(operator.outputs)
            or of_values.isdisjoint(operator.outputs)
        ):
            yield operator


def _divisor(operator: Operator) -> tuple[int, ...]:
    return operator.inputs[1:] if operator.name == "DIV" else ()


def _are_alike(graph: _Graph, operator: Operator) -> bool:
    """Whether the steps of an addition's inputs go together with its output's. Constants have fitting ones."""
    whole = graph.width(operator.outputs[0])
    parts = [graph.width(at) for at in operator.inputs if graph.is_calibrated(at)]
    return all(whole * _STEPS[0] <= part <= whole * _STEPS[1] for part in parts)


def _variance(root: Operator, makers: Mapping[int, Operator]) -> Iterator[int]:
    """What a root is taken of, back to the squares, by tensors."""
    todo = [root]
    while todo:
        operator = todo.pop()
        yield from operator.outputs
        if operator.name not in _SQUARES:
            found = [makers[at] for at in operator.inputs if at in makers]
            todo += [each for each in found if each.name in _OF_STATISTICS]


@dataclass(frozen=True, slots=True)
class _Graph:
    tables: Any  # the schema's SubGraph
    names: tuple[str, ...]  # of the model's operator codes

    def is_calibrated(self, at: int) -> bool:
        """Whether one range was noted of a tensor."""
        seen = self.tables.Tensors(at).Quantization()
        return seen is not None and seen.MinLength() == seen.MaxLength() == 1

    def width(self, at: int) -> float:
        """From the smallest number that calibration saw in a tensor to the largest, 0 among them."""
        seen = self.tables.Tensors(at).Quantization()
        return float(max(seen.Max(0), 0.0) - min(seen.Min(0), 0.0)) if self.is_calibrated(at) else 0.0

    def widest(self, at: int) -> float:
        """The largest size of a number that calibration saw in a tensor."""
        seen = self.tables.Tensors(at).Quantization()
        ends = (
            [] if seen is None else [*map(seen.Min, range(seen.MinLength())), *map(seen.Max, range(seen.MaxLength()))]
        )
        return max(map(abs, ends), default=0.0)


def _graphs(flat: Flat) -> Iterator[_Graph]:
    from tensorflow.lite.python import schema_py_generated as schema

    model = schema.Model.GetRootAs(flat, 0)
    known = {number: name for name, number in vars(schema.BuiltinOperator).items() if isinstance(number, int)}
    codes = [model.OperatorCodes(at) for at in range(model.OperatorCodesLength())]
    names = tuple(known[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())] for code in codes)
    for at in range(model.SubgraphsLength()):
        yield _Graph(model.Subgraphs(at), names)


def _operators_of(graph: _Graph) -> Iterator[Operator]:
    for at in range(graph.tables.OperatorsLength()):
        each = graph.tables.Operators(at)
        inputs, outputs = (
            tuple(int(number) for number in numbers) if count else ()
            for count, numbers in (
                (each.InputsLength(), each.InputsAsNumpy()),
                (each.OutputsLength(), each.OutputsAsNumpy()),
            )
        )
        yield Operator(graph.names[each.OpcodeIndex()], inputs, outputs)

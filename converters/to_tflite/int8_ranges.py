"""Calibrated ranges of a TFLite file, and the operators that int8 would ruin, which stay in float."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from .flatbuffer import Flat, Subgraph, TfliteOperator, main_operators, subgraphs

# 256 levels over a wider range are steps of 32 and more. Masks have such ranges: the lowest float, or -10000.
WIDEST = 4096.0
_ROOTS = ("RSQRT", "SQRT")
_STATISTICS = ("ADD", "MEAN", "SUM", "SQUARED_DIFFERENCE", "SQUARE", "MUL", "MAXIMUM")
_SQUARES = ("SQUARED_DIFFERENCE", "SQUARE", "MUL")
_MOVES = ("TRANSPOSE", "RESHAPE", "SQUEEZE", "EXPAND_DIMS")
# XNNPACK adds int8 inputs whose step is 2^-10 to 2^8 times the sum's, and aborts the interpreter at others (its
# qs8-vadd operator; TensorFlow 2.21). These limits keep a factor of 2 to each side.
_ADDITIONS = frozenset({"ADD", "SUB"})
_STEP_RATIOS = (2.0**-9, 2.0**7)
_RANGE_OF_ZEROS = (0.0, 1.0)
# The quantiser gives the inputs and outputs of these one scale, also where the operator itself is left in float.
_ONE_SCALE = frozenset({
    *_MOVES, "AVERAGE_POOL_2D", "BATCH_TO_SPACE_ND", "BROADCAST_TO", "CONCATENATION", "DEPTH_TO_SPACE",
    "DYNAMIC_UPDATE_SLICE", "GATHER", "GATHER_ND", "MAXIMUM", "MAX_POOL_2D", "MINIMUM", "MIRROR_PAD", "PACK", "PAD",
    "PADV2", "REDUCE_MAX", "REDUCE_MIN", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "REVERSE_V2", "SCATTER_ND",
    "SELECT", "SELECT_V2", "SLICE", "SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH", "SPLIT", "SPLIT_V", "STRIDED_SLICE", "TILE",
    "UNPACK",
})  # fmt: skip
_KEEP_PROBABILITIES = (*_MOVES, "SELECT", "SELECT_V2")  # a select behind a softmax sets rows without a token to 0

Range: TypeAlias = "tuple[float, float]"  # the smallest number and the largest


def calibrated_tensors(calibrated: bytes) -> list[int]:
    """Return the tensors of the main graph for which calibration noted one range."""
    graph = next(subgraphs(calibrated))
    return [tensor for tensor in range(graph.tables.TensorsLength()) if graph.is_calibrated(tensor)]


def with_ranges(calibrated: bytes, ranges: Mapping[int, Range]) -> bytes:
    """Return the file with other ranges for tensors of the main graph, which must have been calibrated."""
    changed = bytearray(calibrated)
    tables = next(subgraphs(changed)).tables
    for tensor, (low, high) in ranges.items():
        quantization = tables.Tensors(tensor).Quantization()
        quantization.MinAsNumpy()[0], quantization.MaxAsNumpy()[0] = low, high
    return bytes(changed)


def known_ranges(calibrated: Flat, observed: Mapping[int, Range]) -> dict[int, Range]:
    """Return the observed ranges of the main graph's tensors, widened where more is known about a tensor.

    A tensor that was 0 throughout gets the range 0 to 1: XNNPACK has no steps of 1e-8. A probability's range ends at 1,
    also where these samples stay below: over one token it is 1. The right operand of a matrix product gets a symmetric
    range: XNNPACK takes the zero point of its int8 for 0 (in TensorFlow 2.21; its answers are 11 dB then).
    """
    operators = main_operators(calibrated)
    producers = {output: operator for operator in operators for output in operator.outputs}
    ranges = {tensor: ends if any(ends) else _RANGE_OF_ZEROS for tensor, ends in observed.items()}
    probabilities: set[int] = set()
    for operator in operators:
        keeps = operator.name in _KEEP_PROBABILITIES and probabilities.intersection(operator.inputs)
        if operator.name == "SOFTMAX" or keeps:
            probabilities.update(operator.outputs)
    for tensor in probabilities.intersection(ranges):
        ranges[tensor] = min(ranges[tensor][0], 0.0), max(ranges[tensor][1], 1.0)
    for operator in operators:
        tensor = operator.inputs[1] if operator.name == "BATCH_MATMUL" else -1
        while tensor in ranges:
            step = max(map(abs, ranges[tensor])) / 127
            ranges[tensor] = (-128 * step, 127 * step) if step else ranges[tensor]
            producer = producers.get(tensor)
            tensor = producer.inputs[0] if producer and producer.name in _MOVES else -1
    return ranges


def better_in_float(calibrated: bytes) -> list[str]:
    """Return the operators of a calibrated file that int8 would ruin, by the names of their outputs.

    - An operator that reads or writes numbers beyond WIDEST.
    - A sum with an input that is negligible beside it.
    - A division, and the operator that computes its divisor, which int8 may round to 0.
    - The variance whose root a normalisation divides by: its square spans twice the digits that int8 has.
    - An operator that depends on sizes alone, as coordinates between pixels do.
    """
    return [
        graph.tables.Tensors(output).Name().decode()
        for graph in subgraphs(calibrated)
        for operator in _ruined_operators(graph)
        for output in operator.outputs
    ]


def _ruined_operators(graph: Subgraph) -> Iterator[TfliteOperator]:
    """Yield the operators that int8 ruins by themselves or by the scale that they share with such an operator.

    Scores of a few units would get the scale of the mask that replaces some of them: 1e36 a step.
    """
    operators = list(graph.operators())
    producers = {output: operator for operator in operators for output in operator.outputs}
    pending, ruined = list(_ruined_alone(graph, operators, producers)), set[TfliteOperator]()
    while pending:
        operator = pending.pop()
        if operator not in ruined:
            ruined.add(operator)
            sources = operator.inputs if operator.name in _ONE_SCALE else _divisor(operator)
            pending += [producers[tensor] for tensor in sources if tensor in producers and graph.is_calibrated(tensor)]
    return (operator for operator in operators if operator in ruined)


def _ruined_alone(
    graph: Subgraph, operators: Sequence[TfliteOperator], producers: Mapping[int, TfliteOperator]
) -> Iterator[TfliteOperator]:
    roots = [operator for operator in operators if operator.name in _ROOTS]
    statistics = {tensor for root in roots for tensor in _variance(root, producers)}
    from_inputs = set(graph.inputs)
    for operator in operators:
        if operator.name != "SHAPE" and not from_inputs.isdisjoint(operator.inputs):
            from_inputs.update(operator.outputs)
        tensors = (*operator.inputs, *operator.outputs)
        if (
            any(tensor >= 0 and graph.largest_magnitude(tensor) > WIDEST for tensor in tensors)
            or (operator.name in _ADDITIONS and not _has_similar_steps(graph, operator))
            or any(map(graph.is_calibrated, _divisor(operator)))
            or not statistics.isdisjoint(operator.outputs)
            or from_inputs.isdisjoint(operator.outputs)
        ):
            yield operator


def _divisor(operator: TfliteOperator) -> tuple[int, ...]:
    return operator.inputs[1:] if operator.name == "DIV" else ()


def _has_similar_steps(graph: Subgraph, operator: TfliteOperator) -> bool:
    """Return whether XNNPACK can add these inputs' steps to the output's. The steps of constants always fit."""
    total = graph.width(operator.outputs[0])
    parts = [graph.width(tensor) for tensor in operator.inputs if graph.is_calibrated(tensor)]
    return all(total * _STEP_RATIOS[0] <= part <= total * _STEP_RATIOS[1] for part in parts)


def _variance(root: TfliteOperator, producers: Mapping[int, TfliteOperator]) -> Iterator[int]:
    """Yield the tensors that a root is computed from, back to the squares."""
    pending = [root]
    while pending:
        operator = pending.pop()
        yield from operator.outputs
        if operator.name not in _SQUARES:
            sources = [producers[tensor] for tensor in operator.inputs if tensor in producers]
            pending += [source for source in sources if source.name in _STATISTICS]

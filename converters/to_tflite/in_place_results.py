"""A TFLite file without results that XNNPACK lays where what they are made of still lies.

XNNPACK gives the result of an elementwise operator the place of an input that is as large and that nothing else reads.
It decides so when it plans its memory: before the first call, and whenever a tensor outgrows its place. An input that
is stretched along an axis is as large as the result where that axis is 1, and where another is 0. If memory is planned
at such sizes, and everything fits the next time, the result goes on lying on its input, which is smaller now: what is
written first is read again, and what follows the input is written over. In x - mean(x) over atoms the mean of a batch
of 4 grew at one atom, and the answer for two was wrong; a mixture of experts ended its process where one expert had no
token while the other had more than before.

XNNPACK plans anew in that case since 2026-05-06; LiteRT 2.3 has that, TensorFlow up to 2.21 has not.

It takes two sizes, one that grows where the other becomes 1 or 0, or sizes that show as the model runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .lost_copies import is_prepared_as_it_runs, operator_code
from .tflite_signature import model_of, packed

_ADDED = 1 << 16  # bytes that are enough for what is added


def without_shared_places(flat: bytes, may_be_empty: bool = False) -> bytes:
    """The file with an operator more for each result of XNNPACK's that its consumer stretches: one of TFLite's own,
    which keeps the result out of XNNPACK's memory, and which costs nothing since it asks for its shape.

    `may_be_empty`: whether an axis of the inputs may have the size 0. One that shows as the model runs always may.
    """
    from ai_edge_litert.schema_py_generated import ModelT

    model = model_of(flat)
    graphs = [model.Subgraphs(at) for at in range(model.SubgraphsLength())]
    found = [list(_stretched(model, graph)) for graph in graphs]
    if not any(found):
        return flat
    if not is_prepared_as_it_runs(flat):
        found = [[each for each in some if may_be_empty or not each.at_nothing] for some in found]
        if not any(found) or _unknown_sizes(graphs[0]) < 2:
            return flat
    unpacked = ModelT.InitFromObj(model)
    for graph, some in zip(unpacked.subgraphs, found, strict=True):
        for each in some:
            _ask_shape(unpacked, graph, each.at)
    return packed(unpacked, len(flat) + _ADDED)


@dataclass(frozen=True, slots=True)
class _Stretched:
    """A tensor that one operator alone reads, along an axis more often than it has it."""

    at: int
    at_nothing: bool  # it is as large as the operator's result only where both are empty


def _unknown_sizes(graph: Any) -> int:
    return sum(size < 0 for at in graph.InputsAsNumpy() for size in _shape(graph, at)) if graph.InputsLength() else 0


def _shape(graph: Any, at: int) -> tuple[int, ...]:
    """Sizes of a tensor, -1 where one is not known."""
    tensor = graph.Tensors(at)
    sizes = tensor.ShapeSignatureAsNumpy() if tensor.ShapeSignatureLength() else tensor.ShapeAsNumpy()
    return tuple(int(size) for size in sizes) if isinstance(sizes, np.ndarray) else ()


def _stretched(model: Any, graph: Any) -> Iterator[_Stretched]:
    from ai_edge_litert.schema_py_generated import BuiltinOperator

    taken = {  # those of two inputs that XNNPACK takes
        BuiltinOperator.ADD,
        BuiltinOperator.DIV,
        BuiltinOperator.MAXIMUM,
        BuiltinOperator.MINIMUM,
        BuiltinOperator.MUL,
        BuiltinOperator.SQUARED_DIFFERENCE,
        BuiltinOperator.SUB,
    }
    codes = [model.OperatorCodes(at) for at in range(model.OperatorCodesLength())]
    kinds = [max(code.BuiltinCode(), code.DeprecatedBuiltinCode()) for code in codes]  # one of them is a byte
    operators = [graph.Operators(at) for at in range(graph.OperatorsLength())]
    made = {each.Outputs(at) for each in operators for at in range(each.OutputsLength())}
    readers = Counter(each.Inputs(at) for each in operators for at in range(each.InputsLength()))
    readers.update(graph.Outputs(at) for at in range(graph.OutputsLength()))
    for operator in operators:
        if kinds[operator.OpcodeIndex()] in taken:
            whole = _shape(graph, operator.Outputs(0))
            for at in map(operator.Inputs, range(operator.InputsLength())):
                along = _stretched_along(_shape(graph, at), whole)
                if at in made and readers[at] == 1 and -1 in whole and along:
                    yield _Stretched(at, max(along) > 1)


def _stretched_along(shape: Sequence[int], whole: Sequence[int]) -> list[int]:
    """The sizes, -1 where one is not known, to which an operator stretches a tensor where that has 1. Two sizes that
    are not known are taken for one."""
    aligned = [*[1] * len(whole), *shape][len(shape) :]
    return [size for own, size in zip(aligned, whole, strict=True) if own == 1 != size]


def _ask_shape(model: Any, graph: Any, at: int) -> None:
    """Put an operator behind what makes a tensor."""
    from ai_edge_litert.schema_py_generated import (
        BuiltinOperator,
        BuiltinOptions,
        OperatorT,
        ShapeOptionsT,
        TensorT,
        TensorType,
    )

    shape, asks = TensorT(), OperatorT()
    shape.type, shape.shape, shape.hasRank = TensorType.INT32, [len(graph.tensors[at].shape)], True
    shape.name = f"shape/{len(graph.tensors)}".encode()
    asks.opcodeIndex, asks.inputs, asks.outputs = (
        operator_code(model, BuiltinOperator.SHAPE),
        [at],
        [len(graph.tensors)],
    )
    asks.builtinOptionsType, asks.builtinOptions = BuiltinOptions.ShapeOptions, ShapeOptionsT()
    asks.builtinOptions.outType = TensorType.INT32
    graph.tensors.append(shape)
    place = next(place for place, each in enumerate(graph.operators) if at in each.outputs)
    graph.operators.insert(place + 1, asks)

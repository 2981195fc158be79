"""A TFLite file without results that XNNPACK lays where what they are made of still lies.

XNNPACK gives the result of an elementwise operator the place of an input that is as large and that nothing else reads.
It decides so when it plans its memory: before the first call, and whenever a tensor outgrows its place. An input that
is stretched along an axis is as large as the result where that axis is 1. If memory is planned at such sizes, and
everything fits the next time, the result goes on lying on its input, which is smaller now: what is written first is
read again. In x - mean(x) over atoms the mean of a batch of 4 grew at one atom, and the answer for two was wrong.

XNNPACK plans anew in that case since 2026-05-06; LiteRT 2.3 has that, TensorFlow up to 2.21 has not.

It takes two sizes, one that grows where the other becomes 1, or sizes that show as the model runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .tflite_copies import is_prepared_as_it_runs, operator_code
from .tflite_signature import model_of, packed

_ADDED = 1 << 16  # bytes that are enough for what is added


def without_shared_places(flat: bytes) -> bytes:
    """The file with an operator more for each result of XNNPACK's that its consumer stretches: one of TFLite's own,
    which keeps the result out of XNNPACK's memory, and which costs nothing since it asks for its shape."""
    from ai_edge_litert.schema_py_generated import ModelT

    model = model_of(flat)
    graphs = [model.Subgraphs(at) for at in range(model.SubgraphsLength())]
    found = [list(_stretched(model, graph)) for graph in graphs]
    if not any(found) or not (_unknown_sizes(graphs[0]) > 1 or is_prepared_as_it_runs(flat)):
        return flat
    unpacked = ModelT.InitFromObj(model)
    for graph, tensors in zip(unpacked.subgraphs, found, strict=True):
        for at in tensors:
            _ask_shape(unpacked, graph, at)
    return packed(unpacked, len(flat) + _ADDED)


def _unknown_sizes(graph: Any) -> int:
    return sum(size < 0 for at in graph.InputsAsNumpy() for size in _shape(graph, at)) if graph.InputsLength() else 0


def _shape(graph: Any, at: int) -> tuple[int, ...]:
    """Sizes of a tensor, -1 where one is not known."""
    tensor = graph.Tensors(at)
    sizes = tensor.ShapeSignatureAsNumpy() if tensor.ShapeSignatureLength() else tensor.ShapeAsNumpy()
    return tuple(int(size) for size in sizes) if isinstance(sizes, np.ndarray) else ()


def _stretched(model: Any, graph: Any) -> Iterator[int]:
    """The tensors that one operator reads, along an axis more often than they have it, or not."""
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
                if at in made and readers[at] == 1 and _may_be_stretched(_shape(graph, at), whole):
                    yield at


def _may_be_stretched(shape: Sequence[int], whole: Sequence[int]) -> bool:
    """Whether a tensor is as large as what is made of it at some sizes, and smaller at others. Two sizes that are not
    known are taken for one."""
    aligned = [*[1] * len(whole), *shape][len(shape) :]
    along = [size for own, size in zip(aligned, whole, strict=True) if own == 1]
    return -1 in along and max(along) <= 1


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

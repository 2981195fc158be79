"""Rewriting of a TFLite file so that XNNPACK does not overwrite an input that it still reads.

XNNPACK computes an elementwise operator in place if an input is as large as the result and nothing else reads it. It
decides so when it plans its memory: before the first call, and whenever a tensor outgrows its buffer. A broadcast input
is as large as the result where the broadcast axis is 1, and where another axis is 0. If memory is planned at such sizes
and everything fits the next time, the result stays on its input, which is smaller now: results overwrite numbers that
are still to be read, and the memory behind the input. In x - mean(x) over atoms the mean of a batch of 4 grew at one
atom, and the answer for two was wrong. A mixture of experts ended its process where one expert had no token while the
other had more than before.

XNNPACK plans anew in that case since 2026-05-06; LiteRT 2.3 has that change, TensorFlow up to 2.21 has not.

It needs two open sizes, one that grows while the other becomes 1 or 0, or dynamic tensors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .lost_copies import has_dynamic_tensors, operator_code
from .tflite_signature import model_of, packed

if TYPE_CHECKING:
    from ai_edge_litert.schema_py_generated import Model, ModelT, SubGraph, SubGraphT

_GROWTH_BYTES = 1 << 16  # enough for the added operators
# The operators of two inputs that XNNPACK runs.
_RUN_BY_XNNPACK = ("ADD", "DIV", "MAXIMUM", "MINIMUM", "MUL", "SQUARED_DIFFERENCE", "SUB")


def without_shared_places(flat: bytes, may_be_empty: bool = False) -> bytes:
    """Return the file with a SHAPE behind each result that its consumer broadcasts.

    That second reader is TFLite's, so the result stays out of XNNPACK's memory; a SHAPE costs nothing.
    `may_be_empty`: whether an axis of the inputs may have the size 0. An axis of a dynamic tensor always may.
    """
    from ai_edge_litert.schema_py_generated import ModelT

    model = model_of(flat)
    graphs = [model.Subgraphs(at) for at in range(model.SubgraphsLength())]
    stretched = [list(_stretched_tensors(model, graph)) for graph in graphs]
    if not any(stretched):
        return flat
    if not has_dynamic_tensors(flat):
        stretched = [[tensor for tensor in tensors if may_be_empty or not tensor.if_empty] for tensors in stretched]
        if not any(stretched) or _unknown_sizes(graphs[0]) < 2:
            return flat
    unpacked = ModelT.InitFromObj(model)
    for graph, tensors in zip(unpacked.subgraphs, stretched, strict=True):
        for tensor in tensors:
            _add_shape_reader(unpacked, graph, tensor.index)
    return packed(unpacked, len(flat) + _GROWTH_BYTES)


@dataclass(frozen=True, slots=True)
class _StretchedTensor:
    """A tensor with one reader, which broadcasts it."""

    index: int
    if_empty: bool  # the tensor is as large as the operator's result only where both are empty


def _unknown_sizes(graph: SubGraph) -> int:
    return sum(size < 0 for at in graph.InputsAsNumpy() for size in _shape(graph, at)) if graph.InputsLength() else 0


def _shape(graph: SubGraph, at: int) -> tuple[int, ...]:
    """Return the sizes of a tensor, -1 for an unknown size."""
    tensor = graph.Tensors(at)
    sizes = tensor.ShapeSignatureAsNumpy() if tensor.ShapeSignatureLength() else tensor.ShapeAsNumpy()
    return tuple(int(size) for size in sizes) if isinstance(sizes, np.ndarray) else ()


def _stretched_tensors(model: Model, graph: SubGraph) -> Iterator[_StretchedTensor]:
    from ai_edge_litert.schema_py_generated import BuiltinOperator

    run_by_xnnpack = {getattr(BuiltinOperator, name) for name in _RUN_BY_XNNPACK}
    codes = [model.OperatorCodes(at) for at in range(model.OperatorCodesLength())]
    kinds = [max(code.BuiltinCode(), code.DeprecatedBuiltinCode()) for code in codes]  # the second is a byte
    operators = [graph.Operators(at) for at in range(graph.OperatorsLength())]
    produced = {operator.Outputs(at) for operator in operators for at in range(operator.OutputsLength())}
    readers = Counter(operator.Inputs(at) for operator in operators for at in range(operator.InputsLength()))
    readers.update(graph.Outputs(at) for at in range(graph.OutputsLength()))
    for operator in operators:
        if kinds[operator.OpcodeIndex()] in run_by_xnnpack:
            result_shape = _shape(graph, operator.Outputs(0))
            for tensor in map(operator.Inputs, range(operator.InputsLength())):
                sizes = _stretched_sizes(_shape(graph, tensor), result_shape)
                if tensor in produced and readers[tensor] == 1 and -1 in result_shape and sizes:
                    yield _StretchedTensor(tensor, max(sizes) > 1)


def _stretched_sizes(shape: Sequence[int], result: Sequence[int]) -> list[int]:
    """Return the sizes to which a tensor's axes of size 1 are broadcast, -1 for an unknown size.

    Two unknown sizes count as equal.
    """
    aligned = [*[1] * len(result), *shape][len(shape) :]
    return [size for own, size in zip(aligned, result, strict=True) if own == 1 != size]


def _add_shape_reader(model: ModelT, graph: SubGraphT, at: int) -> None:
    """Insert a SHAPE of a tensor behind the operator that computes it."""
    from ai_edge_litert import schema_py_generated as schema

    shape_tensor, operator, int32 = schema.TensorT(), schema.OperatorT(), schema.TensorType.INT32
    shape_tensor.type, shape_tensor.shape, shape_tensor.hasRank = int32, [len(graph.tensors[at].shape)], True
    shape_tensor.name = f"shape/{len(graph.tensors)}".encode()
    operator.opcodeIndex = operator_code(model, schema.BuiltinOperator.SHAPE)
    operator.inputs, operator.outputs = [at], [len(graph.tensors)]
    operator.builtinOptionsType, operator.builtinOptions = schema.BuiltinOptions.ShapeOptions, schema.ShapeOptionsT()
    operator.builtinOptions.outType = int32
    graph.tensors.append(shape_tensor)
    position = next(position for position, candidate in enumerate(graph.operators) if at in candidate.outputs)
    graph.operators.insert(position + 1, operator)

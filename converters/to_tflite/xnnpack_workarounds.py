"""Rewriting of a TFLite file so that XNNPACK loses no copies, and overwrites no input that it still reads.

Lost copies

XNNPACK (in LiteRT 2.3 and TensorFlow 2.21) copies a tensor that an operator only reshapes: for a RESHAPE to a constant
shape, and before a FULLY_CONNECTED that does not keep its input's axes. A CONCATENATION copies each input. A copy whose
source and target have the same address is switched off, and stays off until the input's shape changes.

All parts of a file that XNNPACK runs share one memory. With dynamic tensors TFLite prepares the rest of the graph in
the midst of a call, and moves its own tensors. XNNPACK's memory then grows and may come to lie where the input of an
earlier part was. That part's copies are set up again, from the input's old address to the copy's new one. If these are
equal, the part reads stale data from the second call on. It happened to one interpreter in 600 for a mixture of
experts, to one in 40 for dense layers between choices of rows, and to every one for a decoder that joined a rotated
part to its keys, at batch 2 after batch 1.

Results in place of inputs

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

import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ..lazy_import import tflite
from .flatbuffer import GraphEditor, Subgraph, main_operators, model_of, rewritten, subgraphs

_VERSION_WITH_KEEP_DIMS = 5  # the first version of FULLY_CONNECTED with the option
_ROWS_PREFIX = b"rows/"  # begins the names of tensors of reshapes
_BITS_PREFIX = b"bits/"  # begins the names of int32 tensors that hold the bits of floats
# The operators of two inputs that XNNPACK runs.
_RUN_BY_XNNPACK = ("ADD", "DIV", "MAXIMUM", "MINIMUM", "MUL", "SQUARED_DIFFERENCE", "SUB")


def without_lost_copies(flat: bytes) -> bytes:
    """Return the file without the reshapes and concatenations whose copies XNNPACK may lose.

    TFLite itself then reshapes, in place, and floats are concatenated by their bits, as integers, which XNNPACK leaves
    alone. A file without dynamic tensors is returned as it is: accelerators need constant shapes.
    """
    return rewritten(flat, lambda *graph: _CopyRemover(*graph).rewrite()) if has_dynamic_tensors(flat) else flat


def with_floats_joined(flat: bytes) -> bytes:
    """Undo the concatenation of bits by `without_lost_copies`: ONNX has no operator that reads bits."""
    return rewritten(flat, lambda *graph: _CopyRemover(*graph).join_floats()) if _BITS_PREFIX in flat else flat


def has_dynamic_tensors(flat: bytes) -> bool:
    """Return whether TFLite learns the sizes of some tensors only in a call, as behind a loop or a branch."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    if model_of(flat).SubgraphsLength() > 1:
        return True
    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_content=flat, experimental_op_resolver_type=plain)
    try:
        interpreter.allocate_tensors()
        for operator in main_operators(flat):
            for at in operator.outputs:
                interpreter.tensor(at)()
    except (RuntimeError, ValueError):  # sizes of 1 are refused, Flex is needed, or a tensor has no memory yet
        return True
    return False


class _CopyRemover(GraphEditor):
    """Rewriter of one subgraph of an unpacked model."""

    def __init__(self, model: tflite.ModelT, graph: tflite.SubGraphT) -> None:
        super().__init__(model, graph)
        self._shape_tensors: dict[tuple[int, ...], int] = {}  # tensor indices by the shape that they hold

    def rewrite(self) -> bool:
        """Replace the copies that may be lost; return whether there were any."""
        changed = False
        for operator in list(self.graph.operators):
            builtin = self.builtin_of(operator)
            if builtin == tflite.BuiltinOperator.RESHAPE and self._is_copied(operator):
                source, target = operator.inputs
                operator.inputs = [source, self._shape_tensor(self._constant_numbers(target))]
            elif builtin == tflite.BuiltinOperator.FULLY_CONNECTED and not operator.builtinOptions.keepNumDims:
                self._flatten(operator)
                operator.builtinOptions.keepNumDims = True
                code = self.model.operatorCodes[operator.opcodeIndex]
                code.version = max(code.version, _VERSION_WITH_KEEP_DIMS)
            elif builtin == tflite.BuiltinOperator.CONCATENATION and self._is_joined(operator):
                self._join_bits(operator)
            else:
                continue
            changed = True
        return changed

    def join_floats(self) -> bool:
        """Turn concatenations of bits back into ones of floats; return whether there were any."""
        bitcasts = self._operators_of(tflite.BuiltinOperator.BITCAST)
        to_bits = {bitcast.outputs[0]: bitcast for bitcast in bitcasts}
        from_bits = {bitcast.inputs[0]: bitcast for bitcast in bitcasts}
        changed = False
        for operator in self._operators_of(tflite.BuiltinOperator.CONCATENATION):
            (output,) = operator.outputs
            if not self.graph.tensors[output].name.startswith(_BITS_PREFIX):
                continue
            self.graph.operators.remove(back := from_bits[output])
            operator.outputs = back.outputs
            for at in {*operator.inputs} & to_bits.keys():
                self.graph.operators.remove(to_bits[at])
            for at in {*operator.inputs} - to_bits.keys():
                self.graph.tensors[at].type = tflite.TensorType.FLOAT32
            operator.inputs = [to_bits[at].inputs[0] if at in to_bits else at for at in operator.inputs]
            changed = True
        return changed

    def _operators_of(self, builtin: int) -> list[tflite.OperatorT]:
        return [operator for operator in self.graph.operators if self.builtin_of(operator) == builtin]

    def _is_copied(self, reshape: tflite.OperatorT) -> bool:
        source, target = (self.graph.tensors[at] for at in reshape.inputs)
        copied_types = (getattr(tflite.TensorType, name) for name in ("FLOAT32", "FLOAT16", "INT8", "UINT8"))
        return source.type in copied_types and self.model.buffers[target.buffer].data is not None

    def _is_joined(self, concatenation: tflite.OperatorT) -> bool:
        floats = all(self.graph.tensors[at].type == tflite.TensorType.FLOAT32 for at in concatenation.inputs)
        return floats and concatenation.builtinOptions.fusedActivationFunction == tflite.ActivationFunctionType.NONE

    def _join_bits(self, concatenation: tflite.OperatorT) -> None:
        position, bitcast = self.graph.operators.index, tflite.BuiltinOperator.BITCAST
        bits_of = {at: self._bits_tensor(at) for at in concatenation.inputs}
        for at, bits_index in bits_of.items():
            if self.model.buffers[self.graph.tensors[at].buffer].data is None:
                self.insert(position(concatenation), [at], bits_index, bitcast)
        concatenation.inputs = [bits_of[at] for at in concatenation.inputs]
        (output,) = concatenation.outputs
        concatenation.outputs = [self._bits_tensor(output)]
        self.insert(position(concatenation) + 1, concatenation.outputs, output, bitcast)

    def _bits_tensor(self, at: int) -> int:
        """Add an int32 tensor for the bits of a float32 tensor; it shares a constant's data. Return its index."""
        tensor = copy.copy(self.graph.tensors[at])
        tensor.type = tflite.TensorType.INT32
        return self.add_tensor(tensor, _BITS_PREFIX)

    def _constant_numbers(self, at: int) -> list[int]:
        data = self.model.buffers[self.graph.tensors[at].buffer].data
        return list(np.asarray(data, np.uint8).view(np.int32).tolist())

    def _flatten(self, dense: tflite.OperatorT) -> None:
        """Reshape a dense layer's input to two axes, as the layer itself does unless it keeps the axes."""
        source, weights = (self.graph.tensors[at] for at in dense.inputs[:2])
        width = int(weights.shape[1])
        if len(source.shape) == 2 and source.shape[1] == width:
            return
        rows = copy.copy(source)
        rows.shape, rows.shapeSignature, rows.buffer = [prod(source.shape) // width, width], [-1, width], 0
        rows_index = self.add_tensor(rows, _ROWS_PREFIX)
        inputs = [dense.inputs[0], self._shape_tensor([-1, width])]
        self.insert(self.graph.operators.index(dense), inputs, rows_index, tflite.BuiltinOperator.RESHAPE)
        dense.inputs = [rows_index, *dense.inputs[1:]]

    def _shape_tensor(self, numbers: Sequence[int]) -> int:
        """Return the index of a shape tensor that is no constant, so that XNNPACK leaves a reshape to it alone.

        A reshape computes it from a constant, which TFLite does before the model runs.
        """
        key = tuple(numbers)
        if key not in self._shape_tensors:
            self._shape_tensors[key] = self.add_int32_vector(len(key), _ROWS_PREFIX)
            length = self.add_int32_vector(1, _ROWS_PREFIX, [len(key)])
            inputs = [self.add_int32_vector(len(key), _ROWS_PREFIX, key), length]
            self.insert(0, inputs, self._shape_tensors[key], tflite.BuiltinOperator.RESHAPE)
        return self._shape_tensors[key]


def without_shared_places(flat: bytes, may_be_empty: bool = False) -> bytes:
    """Return the file with a SHAPE behind each result that its consumer broadcasts.

    That second reader is TFLite's, so the result stays out of XNNPACK's memory; a SHAPE costs nothing.
    `may_be_empty`: whether an axis of the inputs may have the size 0. An axis of a dynamic tensor always may.
    """
    graphs = list(subgraphs(flat))
    stretched = [list(_stretched_tensors(graph)) for graph in graphs]
    if not any(stretched):
        return flat
    if not has_dynamic_tensors(flat):
        stretched = [[tensor for tensor in tensors if may_be_empty or not tensor.if_empty] for tensors in stretched]
        unknown_sizes = sum(size < 0 for tensor in graphs[0].inputs for size in graphs[0].shape(tensor))
        if not any(stretched) or unknown_sizes < 2:
            return flat

    def add_readers(model: tflite.ModelT, graph: tflite.SubGraphT) -> bool:
        for tensor in stretched[model.subgraphs.index(graph)]:
            _add_shape_reader(GraphEditor(model, graph), tensor.index)
        return True

    return rewritten(flat, add_readers)


@dataclass(frozen=True, slots=True)
class _StretchedTensor:
    """A tensor with one reader, which broadcasts it."""

    index: int
    if_empty: bool  # the tensor is as large as the operator's result only where both are empty


def _stretched_tensors(graph: Subgraph) -> Iterator[_StretchedTensor]:
    operators = list(graph.operators())
    produced = {tensor for operator in operators for tensor in operator.outputs}
    readers = Counter(tensor for operator in operators for tensor in operator.inputs)
    readers.update(graph.outputs)
    for operator in operators:
        if operator.name in _RUN_BY_XNNPACK:
            result_shape = graph.shape(operator.outputs[0])
            for tensor in operator.inputs:
                sizes = _stretched_sizes(graph.shape(tensor), result_shape)
                if tensor in produced and readers[tensor] == 1 and -1 in result_shape and sizes:
                    yield _StretchedTensor(tensor, max(sizes) > 1)


def _stretched_sizes(shape: Sequence[int], result: Sequence[int]) -> list[int]:
    """Return the sizes to which a tensor's axes of size 1 are broadcast, -1 for an unknown size.

    Two unknown sizes count as equal.
    """
    aligned = [*[1] * len(result), *shape][len(shape) :]
    return [size for own, size in zip(aligned, result, strict=True) if own == 1 != size]


def _add_shape_reader(editor: GraphEditor, at: int) -> None:
    """Insert a SHAPE of a tensor behind the operator that computes it."""
    graph = editor.graph
    sizes = editor.add_int32_vector(len(graph.tensors[at].shape), b"shape/")
    position = next(position for position, candidate in enumerate(graph.operators) if at in candidate.outputs)
    reader = editor.insert(position + 1, [at], sizes, tflite.BuiltinOperator.SHAPE)
    reader.builtinOptionsType, reader.builtinOptions = tflite.BuiltinOptions.ShapeOptions, tflite.ShapeOptionsT()
    reader.builtinOptions.outType = tflite.TensorType.INT32

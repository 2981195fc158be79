"""Rewriting of a TFLite file so that XNNPACK loses no copies.

XNNPACK (in LiteRT 2.3 and TensorFlow 2.21) copies a tensor that an operator only reshapes: for a RESHAPE to a constant
shape, and before a FULLY_CONNECTED that does not keep its input's axes. A CONCATENATION copies each input. A copy whose
source and target have the same address is switched off, and stays off until the input's shape changes.

All parts of a file that XNNPACK runs share one memory. With dynamic tensors TFLite prepares the rest of the graph in
the midst of a call, and moves its own tensors. XNNPACK's memory then grows and may come to lie where the input of an
earlier part was. That part's copies are set up again, from the input's old address to the copy's new one. If these are
equal, the part reads stale data from the second call on. It happened to one interpreter in 600 for a mixture of
experts, to one in 40 for dense layers between choices of rows, and to every one for a decoder that joined a rotated
part to its keys, at batch 2 after batch 1.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from .flatbuffer import main_operators
from .tflite_signature import model_of, packed

if TYPE_CHECKING:
    from ai_edge_litert.schema_py_generated import ModelT, OperatorCodeT, OperatorT, SubGraphT, TensorT

_VERSION_WITH_KEEP_DIMS = 5  # the first version of FULLY_CONNECTED with the option
_BITS_PREFIX = b"bits/"  # begins the names of int32 tensors that hold the bits of floats
_EXTENDED_CODE = 127  # stands in the byte-sized code of an operator whose code is larger
_GROWTH_BYTES = 1 << 16  # enough for the added operators


def without_lost_copies(flat: bytes) -> bytes:
    """Return the file without the reshapes and concatenations whose copies XNNPACK may lose.

    TFLite itself then reshapes, in place, and floats are concatenated by their bits, as integers, which XNNPACK leaves
    alone. A file without dynamic tensors is returned as it is: accelerators need constant shapes.
    """
    from ai_edge_litert.schema_py_generated import ModelT

    if not has_dynamic_tensors(flat):
        return flat
    unpacked = ModelT.InitFromObj(model_of(flat))
    changed = [_CopyRemover(unpacked, graph).rewrite() for graph in unpacked.subgraphs]
    return packed(unpacked, len(flat) + _GROWTH_BYTES) if any(changed) else flat


def with_floats_joined(flat: bytes) -> bytes:
    """Undo the concatenation of bits by `without_lost_copies`: ONNX has no operator that reads bits."""
    from ai_edge_litert.schema_py_generated import ModelT

    if _BITS_PREFIX not in flat:
        return flat
    unpacked = ModelT.InitFromObj(model_of(flat))
    changed = [_CopyRemover(unpacked, graph).join_floats() for graph in unpacked.subgraphs]
    return packed(unpacked, len(flat) + _GROWTH_BYTES) if any(changed) else flat


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


class _CopyRemover:
    """Rewriter of one subgraph of an unpacked model."""

    def __init__(self, model: ModelT, graph: SubGraphT) -> None:
        self._model, self._graph = model, graph
        self._shape_tensors: dict[tuple[int, ...], int] = {}  # tensor indices by the shape that they hold

    def rewrite(self) -> bool:
        """Replace the copies that may be lost; return whether there were any."""
        from ai_edge_litert.schema_py_generated import BuiltinOperator

        changed = False
        for operator in list(self._graph.operators):
            code = self._model.operatorCodes[operator.opcodeIndex]
            builtin = builtin_of(code)
            if builtin == BuiltinOperator.RESHAPE and self._is_copied(operator):
                source, target = operator.inputs
                operator.inputs = [source, self._shape_tensor(self._constant_numbers(target))]
                changed = True
            elif builtin == BuiltinOperator.FULLY_CONNECTED and not operator.builtinOptions.keepNumDims:
                self._flatten(operator)
                operator.builtinOptions.keepNumDims = True
                code.version = max(code.version, _VERSION_WITH_KEEP_DIMS)
                changed = True
            elif builtin == BuiltinOperator.CONCATENATION and self._is_joined(operator):
                self._join_bits(operator)
                changed = True
        return changed

    def join_floats(self) -> bool:
        """Turn concatenations of bits back into ones of floats; return whether there were any."""
        from ai_edge_litert.schema_py_generated import BuiltinOperator, TensorType

        to_bits = {bitcast.outputs[0]: bitcast for bitcast in self._operators_of(BuiltinOperator.BITCAST)}
        from_bits = {bitcast.inputs[0]: bitcast for bitcast in self._operators_of(BuiltinOperator.BITCAST)}
        changed = False
        for operator in self._operators_of(BuiltinOperator.CONCATENATION):
            (output,) = operator.outputs
            if not self._graph.tensors[output].name.startswith(_BITS_PREFIX):
                continue
            self._graph.operators.remove(back := from_bits[output])
            operator.outputs = back.outputs
            for at in {*operator.inputs} & to_bits.keys():
                self._graph.operators.remove(to_bits[at])
            for at in {*operator.inputs} - to_bits.keys():
                self._graph.tensors[at].type = TensorType.FLOAT32
            operator.inputs = [to_bits[at].inputs[0] if at in to_bits else at for at in operator.inputs]
            changed = True
        return changed

    def _operators_of(self, builtin: int) -> list[OperatorT]:
        codes = self._model.operatorCodes
        return [operator for operator in self._graph.operators if builtin_of(codes[operator.opcodeIndex]) == builtin]

    def _is_copied(self, reshape: OperatorT) -> bool:
        from ai_edge_litert.schema_py_generated import TensorType

        source, target = (self._graph.tensors[at] for at in reshape.inputs)
        copied_types = {TensorType.FLOAT32, TensorType.FLOAT16, TensorType.INT8, TensorType.UINT8}
        return source.type in copied_types and self._model.buffers[target.buffer].data is not None

    def _is_joined(self, concatenation: OperatorT) -> bool:
        from ai_edge_litert.schema_py_generated import ActivationFunctionType, TensorType

        floats = all(self._graph.tensors[at].type == TensorType.FLOAT32 for at in concatenation.inputs)
        return floats and concatenation.builtinOptions.fusedActivationFunction == ActivationFunctionType.NONE

    def _join_bits(self, concatenation: OperatorT) -> None:
        from ai_edge_litert.schema_py_generated import BuiltinOperator

        bits_of = {at: self._bits_tensor(at) for at in concatenation.inputs}
        for at, bits_index in bits_of.items():
            if self._model.buffers[self._graph.tensors[at].buffer].data is None:
                self._insert(self._position(concatenation), [at], bits_index, BuiltinOperator.BITCAST)
        concatenation.inputs = [bits_of[at] for at in concatenation.inputs]
        (output,) = concatenation.outputs
        concatenation.outputs = [self._bits_tensor(output)]
        self._insert(self._position(concatenation) + 1, concatenation.outputs, output, BuiltinOperator.BITCAST)

    def _bits_tensor(self, at: int) -> int:
        """Add an int32 tensor for the bits of a float32 tensor; it shares a constant's data. Return its index."""
        from ai_edge_litert.schema_py_generated import TensorType

        tensor = copy.copy(self._graph.tensors[at])
        tensor.type = TensorType.INT32
        return self._add_tensor(tensor, _BITS_PREFIX)

    def _position(self, operator: OperatorT) -> int:
        return next(index for index, candidate in enumerate(self._graph.operators) if candidate is operator)

    def _constant_numbers(self, at: int) -> list[int]:
        data = self._model.buffers[self._graph.tensors[at].buffer].data
        return list(np.asarray(data, np.uint8).view(np.int32).tolist())

    def _flatten(self, dense: OperatorT) -> None:
        """Reshape a dense layer's input to two axes, as the layer itself does unless it keeps the axes."""
        source, weights = (self._graph.tensors[at] for at in dense.inputs[:2])
        width = int(weights.shape[1])
        if len(source.shape) == 2 and source.shape[1] == width:
            return
        rows = copy.copy(source)
        rows.shape, rows.shapeSignature, rows.buffer = [prod(source.shape) // width, width], [-1, width], 0
        rows_index = self._add_tensor(rows)
        self._insert(self._position(dense), [dense.inputs[0], self._shape_tensor([-1, width])], rows_index)
        dense.inputs = [rows_index, *dense.inputs[1:]]

    def _shape_tensor(self, numbers: Sequence[int]) -> int:
        """Return the index of a shape tensor that is no constant, so that XNNPACK leaves a reshape to it alone.

        A reshape computes it from a constant, which TFLite does before the model runs.
        """
        key = tuple(numbers)
        if key not in self._shape_tensors:
            self._shape_tensors[key] = self._int32_vector(len(key))
            length = self._int32_vector(1, [len(key)])
            self._insert(0, [self._int32_vector(len(key), key), length], self._shape_tensors[key])
        return self._shape_tensors[key]

    def _int32_vector(self, length: int, numbers: Sequence[int] | None = None) -> int:
        from ai_edge_litert.schema_py_generated import BufferT, TensorT, TensorType

        tensor = TensorT()
        tensor.type, tensor.shape, tensor.hasRank = TensorType.INT32, [length], True
        if numbers is not None:
            buffer = BufferT()
            buffer.data = np.asarray(numbers, np.int32).view(np.uint8)
            tensor.buffer = len(self._model.buffers)
            self._model.buffers.append(buffer)
        return self._add_tensor(tensor)

    def _add_tensor(self, tensor: TensorT, name: bytes = b"rows/") -> int:
        index = len(self._graph.tensors)
        tensor.name = name + str(index).encode()
        self._graph.tensors.append(tensor)
        return index

    def _insert(self, position: int, inputs: Sequence[int], output: int, builtin: int | None = None) -> None:
        """Insert an operator, by default a RESHAPE, before the one at this position."""
        from ai_edge_litert.schema_py_generated import BuiltinOperator, OperatorT

        operator = OperatorT()
        operator.opcodeIndex = operator_code(self._model, BuiltinOperator.RESHAPE if builtin is None else builtin)
        operator.inputs, operator.outputs = list(inputs), [output]
        self._graph.operators.insert(position, operator)


def operator_code(model: ModelT, builtin: int) -> int:
    """Return the index of an unpacked model's code for a builtin operator; add the code if it is missing."""
    from ai_edge_litert.schema_py_generated import OperatorCodeT

    builtins = [builtin_of(code) for code in model.operatorCodes]
    if builtin not in builtins:
        code = OperatorCodeT()
        code.builtinCode, code.deprecatedBuiltinCode = builtin, min(builtin, _EXTENDED_CODE)
        model.operatorCodes.append(code)
        return len(builtins)
    return builtins.index(builtin)


def builtin_of(code: OperatorCodeT) -> int:
    """Return the number of a builtin operator, which older files keep in a field of one byte."""
    return int(max(code.builtinCode, code.deprecatedBuiltinCode))

"""A TFLite file without the copies that XNNPACK may lose.

XNNPACK (in LiteRT 2.3 and TensorFlow 2.21) copies what an operator only reshapes: for a RESHAPE to a constant shape,
and before a FULLY_CONNECTED that does not keep its input's axes. A CONCATENATION is a copy of each input. Where a
copy's source and target are one place it is switched off, and nothing switches it on again until the input's shape is
another.

All that XNNPACK runs of a file works in one memory. Where sizes show only as the model runs, TFLite prepares the rest
of the graph in the midst of a call, and moves its own tensors. XNNPACK's memory then grows, may come to lie where the
input of an earlier part was, and that part's copies are set up again: from where the input was to where the copy now
goes. Where these are one place, that part reads from the second call on what others left there. One interpreter in 600
of a mixture of experts answered so, and one in 40 of dense layers between choices of rows; every one of a decoder that
joined a rotated part to its keys, at batch 2 after batch 1.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from .flatbuffer import main_operators
from .tflite_signature import model_of, packed

_KEEPS_AXES = 5  # the version of FULLY_CONNECTED that can
_BITS = b"bits/"  # what the names of tensors begin with that hold those of floats
_BYTE = 127  # what a code that is no byte is called where only a byte is read
_ADDED = 1 << 16  # bytes that are enough for what is added


def without_lost_copies(flat: bytes) -> bytes:
    """The file with reshapes that TFLite does, in place, for those that XNNPACK would copy by and may lose, and with
    floats joined by their bits, as integers, which XNNPACK leaves alone. Where all sizes follow from the inputs', the
    file as it is: accelerators need constant shapes."""
    from ai_edge_litert.schema_py_generated import ModelT

    if not is_prepared_as_it_runs(flat):
        return flat
    unpacked = ModelT.InitFromObj(model_of(flat))
    changed = [_Graph(unpacked, graph).rewrite() for graph in unpacked.subgraphs]
    return packed(unpacked, len(flat) + _ADDED) if any(changed) else flat


def with_floats_joined(flat: bytes) -> bytes:
    """The file with floats joined as floats where `without_lost_copies` joined their bits, which ONNX has not."""
    from ai_edge_litert.schema_py_generated import ModelT

    if _BITS not in flat:
        return flat
    unpacked = ModelT.InitFromObj(model_of(flat))
    changed = [_Graph(unpacked, graph).join_floats() for graph in unpacked.subgraphs]
    return packed(unpacked, len(flat) + _ADDED) if any(changed) else flat


def is_prepared_as_it_runs(flat: bytes) -> bool:
    """Whether TFLite learns the sizes of some tensors only in a call, as it does of all behind a loop or a branch."""
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
    except (RuntimeError, ValueError):  # it takes no sizes of 1, or needs Flex; a tensor has no memory yet
        return True
    return False


class _Graph:
    """A subgraph of a model, unpacked, whose operators are rewritten."""

    def __init__(self, model: Any, graph: Any) -> None:
        self._model, self._graph = model, graph
        self._shapes: dict[tuple[int, ...], int] = {}  # tensors that hold shapes, by their numbers

    def rewrite(self) -> bool:
        """Whether there was anything to do."""
        from ai_edge_litert.schema_py_generated import BuiltinOperator

        found = False
        for operator in list(self._graph.operators):
            code = self._model.operatorCodes[operator.opcodeIndex]
            kind = _kind(code)
            if kind == BuiltinOperator.RESHAPE and self._is_copied(operator):
                source, target = operator.inputs
                operator.inputs = [source, self._shape(self._numbers(target))]
                found = True
            elif kind == BuiltinOperator.FULLY_CONNECTED and not operator.builtinOptions.keepNumDims:
                self._flatten(operator)
                operator.builtinOptions.keepNumDims = True
                code.version = max(code.version, _KEEPS_AXES)
                found = True
            elif kind == BuiltinOperator.CONCATENATION and self._is_joined(operator):
                self._by_bits(operator)
                found = True
        return found

    def join_floats(self) -> bool:
        """Whether there was anything to do."""
        from ai_edge_litert.schema_py_generated import BuiltinOperator, TensorType

        taken = {each.outputs[0]: each for each in self._of(BuiltinOperator.BITCAST)}
        given = {each.inputs[0]: each for each in self._of(BuiltinOperator.BITCAST)}
        found = False
        for operator in self._of(BuiltinOperator.CONCATENATION):
            (output,) = operator.outputs
            if not self._graph.tensors[output].name.startswith(_BITS):
                continue
            self._graph.operators.remove(back := given[output])
            operator.outputs = back.outputs
            for at in {*operator.inputs} & taken.keys():
                self._graph.operators.remove(taken[at])
            for at in {*operator.inputs} - taken.keys():
                self._graph.tensors[at].type = TensorType.FLOAT32
            operator.inputs = [taken[at].inputs[0] if at in taken else at for at in operator.inputs]
            found = True
        return found

    def _of(self, kind: int) -> list[Any]:
        """The operators of a kind."""
        codes = self._model.operatorCodes
        return [each for each in self._graph.operators if _kind(codes[each.opcodeIndex]) == kind]

    def _is_copied(self, reshape: Any) -> bool:
        from ai_edge_litert.schema_py_generated import TensorType

        source, target = (self._graph.tensors[at] for at in reshape.inputs)
        taken = {TensorType.FLOAT32, TensorType.FLOAT16, TensorType.INT8, TensorType.UINT8}
        return source.type in taken and self._model.buffers[target.buffer].data is not None

    def _is_joined(self, concatenation: Any) -> bool:
        from ai_edge_litert.schema_py_generated import ActivationFunctionType, TensorType

        floats = all(self._graph.tensors[at].type == TensorType.FLOAT32 for at in concatenation.inputs)
        return floats and concatenation.builtinOptions.fusedActivationFunction == ActivationFunctionType.NONE

    def _by_bits(self, concatenation: Any) -> None:
        from ai_edge_litert.schema_py_generated import BuiltinOperator

        bits = {at: self._bits(at) for at in concatenation.inputs}
        for at, made in bits.items():
            if self._model.buffers[self._graph.tensors[at].buffer].data is None:
                self._put(self._place(concatenation), [at], made, BuiltinOperator.BITCAST)
        concatenation.inputs = [bits[at] for at in concatenation.inputs]
        (output,) = concatenation.outputs
        concatenation.outputs = [self._bits(output)]
        self._put(self._place(concatenation) + 1, concatenation.outputs, output, BuiltinOperator.BITCAST)

    def _bits(self, at: int) -> int:
        """An int32 tensor for the bits of a float32; of a constant with its data."""
        from ai_edge_litert.schema_py_generated import TensorType

        made = copy.copy(self._graph.tensors[at])
        made.type = TensorType.INT32
        return self._tensor(made, _BITS)

    def _place(self, operator: Any) -> int:
        return next(place for place, each in enumerate(self._graph.operators) if each is operator)

    def _numbers(self, at: int) -> list[int]:
        data = self._model.buffers[self._graph.tensors[at].buffer].data
        return list(np.asarray(data, np.uint8).view(np.int32).tolist())

    def _flatten(self, dense: Any) -> None:
        """Rows of two axes for a dense layer, which makes them of what it is given unless it keeps the axes."""
        source, weights = (self._graph.tensors[at] for at in dense.inputs[:2])
        width = int(weights.shape[1])
        if len(source.shape) == 2 and source.shape[1] == width:
            return
        rows = copy.copy(source)
        rows.shape, rows.shapeSignature, rows.buffer = [prod(source.shape) // width, width], [-1, width], 0
        at = self._tensor(rows)
        self._put(self._place(dense), [dense.inputs[0], self._shape([-1, width])], at)
        dense.inputs = [at, *dense.inputs[1:]]

    def _shape(self, numbers: Sequence[int]) -> int:
        """A vector that is no constant, so that XNNPACK leaves a reshape to it alone: made of one, which TFLite does
        before the model runs."""
        key = tuple(numbers)
        if key not in self._shapes:
            self._shapes[key] = self._vector(len(key))
            length = self._vector(1, [len(key)])
            self._put(0, [self._vector(len(key), key), length], self._shapes[key])
        return self._shapes[key]

    def _vector(self, length: int, numbers: Sequence[int] | None = None) -> int:
        from ai_edge_litert.schema_py_generated import BufferT, TensorT, TensorType

        made = TensorT()
        made.type, made.shape, made.hasRank = TensorType.INT32, [length], True
        if numbers is not None:
            buffer = BufferT()
            buffer.data = np.asarray(numbers, np.int32).view(np.uint8)
            made.buffer = len(self._model.buffers)
            self._model.buffers.append(buffer)
        return self._tensor(made)

    def _tensor(self, made: Any, name: bytes = b"rows/") -> int:
        at = len(self._graph.tensors)
        made.name = name + str(at).encode()
        self._graph.tensors.append(made)
        return at

    def _put(self, place: int, inputs: Sequence[int], output: int, kind: int | None = None) -> None:
        """An operator, a reshape unless told, before the one at a place."""
        from ai_edge_litert.schema_py_generated import BuiltinOperator, OperatorT

        made = OperatorT()
        made.opcodeIndex = operator_code(self._model, BuiltinOperator.RESHAPE if kind is None else kind)
        made.inputs, made.outputs = list(inputs), [output]
        self._graph.operators.insert(place, made)


def operator_code(model: Any, kind: int) -> int:
    """The number that an unpacked model has for an operator, which it is given where it has none."""
    from ai_edge_litert.schema_py_generated import OperatorCodeT

    kinds = [_kind(code) for code in model.operatorCodes]
    if kind not in kinds:
        made = OperatorCodeT()
        made.builtinCode, made.deprecatedBuiltinCode = kind, min(kind, _BYTE)
        model.operatorCodes.append(made)
        return len(kinds)
    return kinds.index(kind)


def _kind(code: Any) -> int:
    return int(max(code.builtinCode, code.deprecatedBuiltinCode))  # one of them is a byte

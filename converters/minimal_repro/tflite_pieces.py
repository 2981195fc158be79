"""Pieces of a TFLite file: some operators of its main graph as a file, with the inputs that they have in the graph.

Used to find the smallest piece at which a converter fails (pipeline/minimal_repro/search.py). Worker only.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...models.artifact import Artifact
from ...models.formats import Format
from ...models.signature import DTYPES, Array, TensorSpec
from ..to_saved_model.saved_model_from_onnx import SIGNATURE
from ..to_tflite.flatbuffer import inputs_and_outputs, main_operators, model_of, packed, with_unique_names
from .graph_pieces import GraphCutter, GraphPiece, spec_of

if TYPE_CHECKING:
    from ai_edge_litert.schema_py_generated import SignatureDefT


@dataclass(frozen=True)
class TflitePiece(GraphPiece):
    """Some operators as a TFLite file; TFLite computed `expected`."""

    form, suffix = Format.TFLITE, ".tflite"
    tensors: Mapping[str, str]  # names of the inputs' and outputs' tensors, by the signature's names
    flat: bytes

    def save(self, path: Path) -> None:
        """Write the file."""
        path.write_bytes(self.flat)

    @property
    def runs(self) -> frozenset[str]:
        """The operators as tf2onnx calls them: TFL_RELU."""
        return frozenset(f"TFL_{operator.name}" for operator in main_operators(self.flat))


class TfliteCutter(GraphCutter):
    """The main graph of a TFLite file, which can be cut into pieces; graphs of loops and branches stay unchanged."""

    def __init__(self, path: Path) -> None:
        from ai_edge_litert.schema_py_generated import ModelT

        self._flat = with_unique_names(path.read_bytes())
        self._model = ModelT.InitFromObj(model_of(self._flat))
        self._main = self._model.subgraphs[0]
        self._names = [tensor.name.decode() for tensor in self._main.tensors]
        self._index_by_name = {name: index for index, name in enumerate(self._names)}
        self.nodes = main_operators(self._flat)
        reads = [[self._names[index] for index in node.inputs if index >= 0] for node in self.nodes]
        writes = [[self._names[index] for index in node.outputs] for node in self.nodes]
        inputs, outputs = ({self._names[index] for index in side} for side in (self._main.inputs, self._main.outputs))
        super().__init__(reads, writes, outputs)
        self.operators = [(node.name, names[0]) for node, names in zip(self.nodes, writes, strict=True)]
        self._constants = set(self._names) - inputs - set(self._producers)  # constants, and state

    def record(self, feeds: Mapping[str, Array]) -> None:
        """Run the full model once by reference kernels, and keep every tensor that an array can hold."""
        import tensorflow as tf

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"\s*Warning: tf.lite.Interpreter is deprecated", UserWarning)
            interpreter = tf.lite.Interpreter(
                model_content=self._flat,
                experimental_op_resolver_type=tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
                experimental_preserve_all_tensors=True,
            )
        index_by_name = {tensor.name: tensor.index for tensor in inputs_and_outputs(model_of(self._flat))[0]}
        for name, array in feeds.items():
            interpreter.resize_tensor_input(index_by_name[name], array.shape)
        interpreter.allocate_tensors()
        for name, array in feeds.items():
            interpreter.set_tensor(index_by_name[name], array)
        interpreter.invoke()
        recorded = [*index_by_name.values(), *(self._index_by_name[name] for name in self._producers)]
        recorded = [at for at in recorded if self._dtype(at) in DTYPES]
        shapes = {row["index"]: row["shape"] for row in interpreter.get_tensor_details()}
        # TensorFlow's interpreter reads no empty tensor, as the shape of a scalar: "Invalid tensor size".
        empty = {at: np.empty(shapes[at], self._dtype(at)) for at in recorded if 0 in shapes[at]}
        self._values = {self._names[at]: empty[at] if at in empty else interpreter.get_tensor(at) for at in recorded}

    def record_in_half(self, feeds: Mapping[str, Array]) -> bool:
        """Run operator by operator, and round the floats that each one writes to float16, as GPU delegates keep them.
        Return whether all could be run."""
        import tensorflow as tf

        self.record(feeds)
        own_names = {self._names[at] for at in self._main.inputs}.intersection(self._values)
        self._values |= {name: _in_half(self._values[name]) for name in own_names}
        for at, names in enumerate(self._writes):
            if not set(names).issubset(self._values):
                return False
            if any(not self._values[name].size for name in names):
                continue  # nothing to round, and no interpreter reads an empty result
            if (piece := self.piece([at])) is not None:  # else it reads constants alone
                interpreter = tf.lite.Interpreter(model_content=piece.flat)
                answers = interpreter.get_signature_runner(SIGNATURE)(**piece.feeds)
                self._values |= {own: _in_half(answers[name]) for name, own in piece.tensors.items() if name in answers}
        return True

    def output_values(self, names: Sequence[str]) -> dict[str, str]:
        """Return the tensor of each output of the model, by its name in the signature."""
        tensors = {tensor.name: self._names[tensor.index] for tensor in inputs_and_outputs(model_of(self._flat))[1]}
        return {name: tensors[name] for name in names if name in tensors}

    def piece(self, chosen: Iterable[int]) -> TflitePiece | None:
        """Return these operators as a file; None if an input or output is no recorded tensor, or nothing goes in."""
        kept = sorted(set(chosen))
        ends = self._ends_of(kept, self._constants)
        if ends is None:
            return None
        inputs, sizes, outputs = ends
        plain = {name: re.sub(r"\W", "_", name) for name in (*inputs, *outputs)}
        names = {plain[name]: name for name in plain}
        if len(names) < len(plain):
            return None
        signature, feeds, expected = self._recorded(inputs, outputs, plain)
        flat = self._build_file(kept, inputs, outputs, sizes)
        return TflitePiece(signature, feeds, expected, len(kept), names, flat)

    def describe(self, index: int) -> tuple[str, str, None]:
        """Return an operator's name in TFLite's schema, and a description with its outputs, whose names have scopes."""
        operator = self.nodes[index].name
        return operator, f"the operator {operator} ({', '.join(self._writes[index])})", None

    @property
    def values(self) -> Mapping[str, Array]:
        """The recorded tensors; quantised ones as the numbers that they stand for."""
        return {name: self._dequantised(name, array) for name, array in self._values.items()}

    @property
    def constants(self) -> Mapping[str, Array]:
        """The constants; quantised ones as the numbers that they stand for."""
        arrays = {}
        for name in self._constants:
            tensor, dtype = self._main.tensors[index := self._index_by_name[name]], self._dtype(index)
            if (data := self._model.buffers[tensor.buffer].data) is not None and dtype in DTYPES:
                arrays[name] = self._dequantised(name, np.asarray(data).view(dtype).reshape(tensor.shape))
        return arrays

    def _dequantised(self, name: str, array: Array) -> Array:
        scheme = self._main.tensors[self._index_by_name[name]].quantization
        if array.dtype.kind not in "iu" or scheme is None or scheme.scale is None:
            return array
        axis = scheme.quantizedDimension if len(scheme.scale) > 1 else array.ndim - 1
        shape = [-1 if at == axis else 1 for at in range(array.ndim)]
        scale, zero = (np.asarray(part, np.float64).reshape(shape) for part in (scheme.scale, scheme.zeroPoint))
        return ((array - zero) * scale).astype(np.float32)

    def _dtype(self, index: int) -> str:
        from ai_edge_litert.schema_py_generated import TensorType

        type_ = self._main.tensors[index].type
        return next((name.lower() for name, number in vars(TensorType).items() if number == type_), "")

    def _spec(self, name: str, plain: str) -> TensorSpec:
        tensor, value = self._main.tensors[self._index_by_name[name]], self._values[name]
        declared = tensor.shapeSignature if tensor.shapeSignature is not None else value.shape
        return spec_of(plain, value, [None if size < 0 else int(size) for size in declared])

    def _build_file(
        self, kept: Sequence[int], inputs: Sequence[str], outputs: Sequence[str], sizes: Sequence[str]
    ) -> bytes:
        """Build the file with these operators alone. Tensors keep their indices; unread weights are removed."""
        from ai_edge_litert.schema_py_generated import BufferT

        model, main = copy.copy(self._model), copy.copy(self._main)
        main.operators = [self._main.operators[index] for index in kept]
        main.inputs, main.outputs = ([self._index_by_name[name] for name in names] for names in (inputs, outputs))
        main.tensors = list(self._main.tensors)
        model.subgraphs = [main, *self._model.subgraphs[1:]]
        read = {self._index_by_name[name] for index in kept for name in self._reads[index]}
        used = {self._main.tensors[index].buffer for index in read}
        used |= {tensor.buffer for graph in self._model.subgraphs[1:] for tensor in graph.tensors}
        model.buffers = [tensor if index in used else BufferT() for index, tensor in enumerate(self._model.buffers)]
        for name in sizes:
            tensor = copy.copy(main.tensors[self._index_by_name[name]])
            tensor.buffer, tensor.shapeSignature = len(model.buffers), None
            tensor.shape = list(self._values[name].shape)
            model.buffers.append(BufferT(np.frombuffer(self._values[name].tobytes(), np.uint8)))
            main.tensors[self._index_by_name[name]] = tensor
        model.signatureDefs = [self._signature(inputs, outputs)]
        model.metadata, model.metadataBuffer = None, None  # they describe the full model
        return packed(model)

    def _signature(self, inputs: Sequence[str], outputs: Sequence[str]) -> SignatureDefT:
        from ai_edge_litert.schema_py_generated import SignatureDefT, TensorMapT

        fed, returned = (
            [TensorMapT(re.sub(r"\W", "_", name).encode(), self._index_by_name[name]) for name in names]
            for names in (inputs, outputs)
        )
        return SignatureDefT(inputs=fed, outputs=returned, signatureKey=SIGNATURE.encode())


def _in_half(array: Array) -> Array:
    """Round floats to float16, and keep their dtype."""
    if array.dtype.kind != "f":
        return array
    with np.errstate(over="ignore"):
        return np.asarray(array.astype(np.float16).astype(array.dtype))


def open_tflite(artifact: Artifact) -> TfliteCutter:
    """Open the graph of an artifact."""
    return TfliteCutter(artifact.path)

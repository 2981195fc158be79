"""Pieces of a TFLite file: some operators of its main graph as a file of their own, fed with what they are fed in the
whole.

For finding the smallest piece that a converter fails at (pipeline/minimal_repro/search.py). Worker only.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...models.artifact import write_artifact
from ...models.formats import PAYLOAD, Format, Target
from ...models.signature import DTYPES, Array, Signature, TensorSpec
from ..to_saved_model.saved_model_from_onnx import SIGNATURE
from ..to_tflite.flatbuffer import main_operators
from ..to_tflite.tflite_signature import inputs_and_outputs, model_of, packed, with_unique_names
from .graph_pieces import Graph, spec_of


@dataclass(frozen=True)
class Piece:
    """Some operators as a file. `tensors`: what its inputs and outputs are called in it, by the signature's names;
    `expected` is what TFLite computes for `feeds` in the whole."""

    flat: bytes
    signature: Signature
    tensors: Mapping[str, str]
    feeds: Mapping[str, Array]
    expected: Mapping[str, Array]
    operators: int  # of the whole model's
    runs: frozenset[str]  # as tf2onnx calls them: TFL_RELU

    def save(self, path: Path) -> None:
        """The file."""
        path.write_bytes(self.flat)

    def write(self, folder: Path) -> None:
        """The file as an artifact, which a step can be given."""
        self.save(folder / PAYLOAD[Format.TFLITE])
        write_artifact(folder, Target(Format.TFLITE), self.signature)


class Cutter:
    """The main graph of a TFLite file, ready to be cut. Its operators are numbered in their order, in which they run;
    the graphs of loops and branches come along whole."""

    def __init__(self, path: Path) -> None:
        from ai_edge_litert.schema_py_generated import ModelT

        self._flat = with_unique_names(path.read_bytes())
        self._model = ModelT.InitFromObj(model_of(self._flat))
        self._main = self._model.subgraphs[0]
        self._names = [tensor.name.decode() for tensor in self._main.tensors]
        self._at = {name: at for at, name in enumerate(self._names)}
        self.nodes = main_operators(self._flat)
        reads = [[self._names[at] for at in node.inputs if at >= 0] for node in self.nodes]
        makes = [[self._names[at] for at in node.outputs] for node in self.nodes]
        inputs, outputs = ({self._names[at] for at in side} for side in (self._main.inputs, self._main.outputs))
        self._graph = Graph(reads, makes, outputs)
        self._kept_along = set(self._names) - inputs - set(self._graph.made)  # constants, and state
        self.values: dict[str, Array] = {}

    @property
    def operators(self) -> list[tuple[str, str]]:
        """What the operators are, and what they make."""
        return [(node.name, self._graph.makes[at][0]) for at, node in enumerate(self.nodes)]

    def record(self, feeds: Mapping[str, Array]) -> None:
        """Run the whole once, by plain kernels, and keep every tensor in it that an array holds."""
        import tensorflow as tf

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"\s*Warning: tf.lite.Interpreter is deprecated", UserWarning)
            interpreter = tf.lite.Interpreter(
                model_content=self._flat,
                experimental_op_resolver_type=tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
                experimental_preserve_all_tensors=True,
            )
        named = {each.name: each.index for each in inputs_and_outputs(model_of(self._flat))[0]}
        for name, array in feeds.items():
            interpreter.resize_tensor_input(named[name], array.shape)
        interpreter.allocate_tensors()
        for name, array in feeds.items():
            interpreter.set_tensor(named[name], array)
        interpreter.invoke()
        wanted = [*named.values(), *(self._at[name] for name in self._graph.made)]
        self.values = {self._names[at]: interpreter.get_tensor(at) for at in wanted if self._dtype(at) in DTYPES}

    def piece(self, chosen: Iterable[int]) -> Piece | None:
        """These operators as a file. None where what they read or give is no tensor that was seen, or nothing goes
        in."""
        kept = sorted(set(chosen))
        needed = [name for name in self._graph.fed(kept) if name not in self._kept_along]
        given = self._graph.given(kept)
        if not given or any(name not in self.values for name in (*needed, *given)):
            return None
        sizes = {name for name in needed if self._graph.is_sizes(name, self.values[name])}
        fed = [name for name in needed if name not in sizes]
        plain = {name: re.sub(r"\W", "_", name) for name in (*fed, *given)}
        if not fed or len(set(plain.values())) < len(plain):
            return None
        signature = Signature(*(tuple(self._spec(name, plain[name]) for name in each) for each in (fed, given)))
        return Piece(
            flat=self._assembled(kept, fed, given, sizes),
            signature=signature,
            tensors={plain[name]: name for name in (*fed, *given)},
            feeds={plain[name]: self.values[name] for name in fed},
            expected={plain[name]: self.values[name] for name in given},
            operators=len(kept),
            runs=frozenset(f"TFL_{self.nodes[at].name}" for at in kept),
        )

    def behind(self, at: int, most: int) -> list[int]:
        """An operator and those before it that it depends on, nearest first, up to `most` of them."""
        return self._graph.behind(at, most)

    def described(self, at: int) -> tuple[str, str]:
        """An operator as TFLite's schema calls it, and for a person, with what it makes, whose name has its scope."""
        operator = self.nodes[at].name
        return operator, f"the operator {operator} ({', '.join(self._graph.makes[at])})"

    def _dtype(self, at: int) -> str:
        from ai_edge_litert.schema_py_generated import TensorType

        kind = self._main.tensors[at].type
        return next((name.lower() for name, number in vars(TensorType).items() if number == kind), "")

    def _spec(self, name: str, plain: str) -> TensorSpec:
        tensor, value = self._main.tensors[self._at[name]], self.values[name]
        declared = tensor.shapeSignature if tensor.shapeSignature is not None else value.shape
        return spec_of(plain, value, [None if size < 0 else int(size) for size in declared])

    def _assembled(self, kept: Sequence[int], fed: Sequence[str], given: Sequence[str], sizes: set[str]) -> bytes:
        """The file with these operators alone. Tensors keep their numbers; weights that none of them reads go."""
        from ai_edge_litert.schema_py_generated import BufferT

        model, main = copy.copy(self._model), copy.copy(self._main)
        main.operators = [self._main.operators[at] for at in kept]
        main.inputs, main.outputs = ([self._at[name] for name in names] for names in (fed, given))
        main.tensors = list(self._main.tensors)
        model.subgraphs = [main, *self._model.subgraphs[1:]]
        read = {self._at[name] for at in kept for name in self._graph.reads[at]}
        used = {self._main.tensors[at].buffer for at in read}
        used |= {tensor.buffer for graph in self._model.subgraphs[1:] for tensor in graph.tensors}
        model.buffers = [each if at in used else BufferT() for at, each in enumerate(self._model.buffers)]
        for name in sizes:
            tensor = copy.copy(main.tensors[self._at[name]])
            tensor.buffer, tensor.shapeSignature = len(model.buffers), None
            tensor.shape = list(self.values[name].shape)
            buffer = BufferT()
            buffer.data = np.frombuffer(self.values[name].tobytes(), np.uint8)
            model.buffers.append(buffer)
            main.tensors[self._at[name]] = tensor
        model.signatureDefs = [self._signature(fed, given)]
        model.metadata, model.metadataBuffer = None, None  # of the whole
        return packed(model)

    def _signature(self, fed: Sequence[str], given: Sequence[str]) -> Any:
        from ai_edge_litert.schema_py_generated import SignatureDefT, TensorMapT

        def mapped(name: str) -> Any:
            entry = TensorMapT()
            entry.name, entry.tensorIndex = re.sub(r"\W", "_", name).encode(), self._at[name]
            return entry

        made = SignatureDefT()
        made.signatureKey = SIGNATURE.encode()
        made.inputs, made.outputs = ([mapped(name) for name in names] for names in (fed, given))
        return made

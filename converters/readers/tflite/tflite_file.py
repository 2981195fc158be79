"""Check of a TFLite file from an untrusted source, and its signature.

A TFLite file is a table of operators and weights, and no operator of LiteRT's own opens a file or runs code. LiteRT
verifies the file as a whole before anything of it is read. Custom operators are refused, except those that TensorFlow's
Flex delegate runs and that only compute. Such an operator has a name like "FlexErf". The name is a label: the delegate
runs what the operator's options say, a FlexBuffer of an operator's name and a NodeDef. Some operators of TensorFlow
read files, write files or run Python, so all three are checked against the list for SavedModels
(allowed_operators.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from ....models.errors import BadRequest
from ....models.library_messages import first_line
from ....models.probes.sizes import two_sizes
from ....models.signature import BATCH, Array, Signature, TensorSpec, served_dtype
from ....models.tensorflow_names import default_signature
from ...lazy_import import tflite
from ...to_tflite.flatbuffer import (
    FLEX_PREFIX,
    NamedTensor,
    custom_names,
    flex_names,
    inputs_and_outputs,
    model_of,
    signatures,
)
from ..allowed_operators import ALLOWED, TRUST, effect_of
from ..file_content import whole_file
from ..output_axes import followed_axes
from ..saved_model.saved_model_proto import called_names, message_class

_MAKE_AGAIN = "copy it again, or convert it again"
_MAGIC, _MAGIC_AT = b"TFL3", 4
_MAX_BYTES = 1 << 31  # flatbuffers count in 32 bits, with a sign


class TfliteFile:
    """A checked TFLite file. `flex`: the names of its operators that TensorFlow's Flex delegate runs.

    Raises BadRequest if it is no complete TFLite file or needs custom operators. TensorFlow's operators that may do
    more than compute are refused unless `trust` is given.
    """

    def __init__(self, path: Path, *, trust: bool = False) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self.path = path
        with path.open("rb") as file:
            head = file.read(_MAGIC_AT + len(_MAGIC))
        if head[_MAGIC_AT:] != _MAGIC:
            raise BadRequest(f"{path} is no TFLite file", fix=_MAKE_AGAIN)
        if path.stat().st_size >= _MAX_BYTES:
            raise BadRequest(f"{path} is larger than a TFLite file can be (2 GB)", fix=_MAKE_AGAIN)
        try:
            self._interpreter = Interpreter(model_path=str(path), num_threads=1)  # verifies the file
        except (ValueError, RuntimeError, UnicodeDecodeError) as error:
            raise BadRequest(f"{path} is no whole TFLite file: {first_line(error)}", fix=_MAKE_AGAIN) from error
        with self._map_broken():
            self._check_tables(trust=trust)

    def _map_broken(self) -> AbstractContextManager[None]:
        """Map errors of reading the tables, which LiteRT verifies one by one and not against each other."""
        return whole_file(self.path, "TFLite file", _MAKE_AGAIN)

    def _check_tables(self, *, trust: bool) -> None:
        self._model = model_of(self.path.read_bytes())
        _check_buffers(self._model, self.path)
        self.flex = flex_names(self._model)
        if custom := [name for name in custom_names(self._model) if name not in self.flex]:
            raise BadRequest(
                f"{self.path} needs the custom operator {', '.join(custom)}, which LiteRT does not have",
                fix="name the model that it was made from",
            )
        if not trust:
            _check_flex(self._model, self.path)

    def inputs(self) -> tuple[TensorSpec, ...]:
        """Return the declared inputs; an open first axis is the batch.

        Raises BadRequest if none of several signatures is the default, or an input has a dtype that numpy lacks.
        """
        with self._map_broken():
            self._check_signatures()
            tensors, _ = inputs_and_outputs(self._model)
            if not tensors:
                raise BadRequest(f"{self.path} takes no inputs: there is nothing to serve", fix=_MAKE_AGAIN)
            details = {row["index"]: row for row in self._interpreter.get_input_details()}
            return tuple(self._input(tensor, details[tensor.index]) for tensor in tensors)

    def _check_signatures(self) -> None:
        names = signatures(self._model)
        served = default_signature(names)
        if names and served is None:
            raise BadRequest(
                f"{self.path} has the signatures {', '.join(names)}, and serving_default is not among them",
                fix="convert it again with the one that is to be served, as signature_keys=[NAME]",
            )
        if served is not None and self._model.SignatureDefs(names.index(served)).SubgraphIndex():
            raise BadRequest(f"{self.path} has its signature {served} on another graph than its first",
                             fix="convert it again with that signature alone")  # fmt: skip

    def _input(self, tensor: NamedTensor, detail: Mapping[str, Any]) -> TensorSpec:
        shape = (
            int(size) if size >= 0 else (BATCH if at == 0 else f"{tensor.name}_{at}")
            for at, size in enumerate(detail["shape_signature"])
        )
        return TensorSpec(tensor.name, self._dtype(tensor.name, detail), tuple(shape))

    def _dtype(self, name: str, detail: Mapping[str, Any]) -> str:
        dtype = np.dtype(detail["dtype"]).name
        try:
            return served_dtype(dtype)
        except ValueError as error:
            raise BadRequest(
                f"{self.path}: {name} is {dtype}, which the formats do not carry",
                fix="convert a model that takes and gives numbers or booleans",
            ) from error

    def signature(self, inputs: Sequence[TensorSpec]) -> Signature:
        """Return the signature with the outputs of two calls in which every dynamic axis has another size.

        The declared output shapes are wrong in some files. An axis whose size changes with an input's axis gets that
        axis's name; any other that changes gets its own. Sizes stay within the axes' bounds.

        Raises BadRequest if LiteRT cannot run the file.
        """
        sizes, other_sizes = two_sizes(inputs)
        first = self._shapes(inputs, sizes)
        second = self._shapes(inputs, other_sizes) if other_sizes else first
        followed = followed_axes(sizes, other_sizes, first, second)
        _, tensors = inputs_and_outputs(self._model)
        details = {row["index"]: row for row in self._interpreter.get_output_details()}
        outputs = [
            TensorSpec(
                tensor.name,
                self._dtype(tensor.name, details[tensor.index]),
                tuple(
                    size if size == other else axes.get(at, f"{tensor.name}_{at}")
                    for at, (size, other) in enumerate(zip(first_shape, second_shape, strict=True))
                ),
            )
            for tensor, first_shape, second_shape, axes in zip(tensors, first, second, followed, strict=True)
        ]
        return Signature(tuple(inputs), tuple(outputs))

    def _shapes(self, inputs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> list[tuple[int, ...]]:
        """Return the shapes of the outputs for inputs of ones, or zeros for integers.

        LiteRT's FLOOR_DIV refuses a divisor of 0, and an integer may be an index.
        """
        feeds = {
            spec.name: np.full(
                [axis if isinstance(axis, int) else sizes[axis] for axis in spec.shape],
                1 if np.issubdtype(spec.dtype, np.floating) else 0,
                spec.dtype,
            )
            for spec in inputs
        }
        try:
            return self.shapes_of(feeds)
        except (ValueError, RuntimeError) as error:
            shapes = ", ".join(f"{name}={size}" for name, size in sizes.items())
            raise BadRequest(
                f"{self.path} cannot be run{f' at {shapes}' if shapes else ''}: {first_line(error)}",
                fix="give the axes that it says are dynamic a size with --input, or convert it again",
            ) from error

    def shapes_of(self, feeds: Mapping[str, Array]) -> list[tuple[int, ...]]:
        """Return the shapes of a call's outputs. Raises what LiteRT raises."""
        inputs, outputs = inputs_and_outputs(self._model)
        values = {tensor.index: feeds[tensor.name] for tensor in inputs}
        for index, value in values.items():
            self._interpreter.resize_tensor_input(index, value.shape)
        self._interpreter.allocate_tensors()
        for index, value in values.items():
            self._interpreter.set_tensor(index, value)
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(tensor.index).shape for tensor in outputs]


def _check_buffers(model: tflite.Model, path: Path) -> None:
    """Raise BadRequest if weights are said to lie behind the end of the file. LiteRT looks at those that it uses."""
    for buffer in map(model.Buffers, range(model.BuffersLength())):
        # schema.fbs: an offset above 1 counts from the beginning of the file.
        if buffer.Offset() > 1 and buffer.Offset() + buffer.Size() > path.stat().st_size:
            raise BadRequest(f"{path} keeps weights behind its own end", fix=_MAKE_AGAIN)


def _check_flex(model: tflite.Model, path: Path) -> None:
    """Raise BadRequest if a Flex operator may do more than compute, or does not say what it runs."""
    for label, operator in _flex_operators(model):
        for name in (label.removeprefix(FLEX_PREFIX), *_names_in_options(label, operator, path)):
            if name not in ALLOWED:
                runs = "" if label == FLEX_PREFIX + name else f" runs {name}, which"
                raise BadRequest(f"{path} holds the operator {label}, which{runs} {effect_of(name)}", fix=TRUST)


def _flex_operators(model: tflite.Model) -> Iterator[tuple[str, tflite.Operator]]:
    """Yield the Flex operators of every subgraph with their labels."""
    for graph in map(model.Subgraphs, range(model.SubgraphsLength())):
        for operator in map(graph.Operators, range(graph.OperatorsLength())):
            name = (model.OperatorCodes(operator.OpcodeIndex()).CustomCode() or b"").decode(errors="replace")
            if name.startswith(FLEX_PREFIX):
                yield name, operator


def _names_in_options(label: str, operator: tflite.Operator, path: Path) -> Iterator[str]:
    """Yield the names in an operator's options: the operator twice, and the functions in its attributes."""
    from flatbuffers import flexbuffers

    try:
        if operator.LargeCustomOptionsSize():
            raise ValueError("they lie outside of the table")
        options = flexbuffers.GetRoot(bytes(operator.CustomOptionsAsNumpy())).AsVector
        if not (options[0].IsString and options[1].IsString):
            raise ValueError("they are no texts")
        node = message_class("Node").FromString(bytes(options[1].AsStringBytes))
        called = [options[0].AsString, *(function.decode() for function in called_names(node))]
    except Exception as error:  # a FlexBuffer is not verified: reading a broken one may raise anything
        raise BadRequest(f"{path} has options of {label} that cannot be read: {error}", fix=TRUST) from error
    yield from called

"""A TFLite file that nobody vouches for: held against what cannot be run, and its signature.

A TFLite file is a table of operators and weights, and no operator of LiteRT's own opens a file or runs code. LiteRT
verifies the file as a whole before anything of it is read; operators that others would have to bring are refused, but
for those of TensorFlow that compute and no more (flex.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...models.errors import BadRequest
from ...models.foreign_errors import first_line
from ...models.probes.sizes import two_sizes
from ...models.signature import BATCH, Array, Axis, Signature, TensorSpec, served_dtype
from ...models.tensorflow_names import default_signature
from ..to_tflite.flex_operators import check_flex, custom_names, flex_names
from ..to_tflite.tflite_signature import Named, inputs_and_outputs, model_of, signature_names

_AGAIN = "copy it again, or convert it again"
_MAGIC, _MAGIC_AT = b"TFL3", 4
_MOST_BYTES = 1 << 31  # flatbuffers count in 32 bits, with a sign


class TfliteFile:
    """A file that was held against what is not taken. `flex`: those of its operators that TensorFlow's delegate brings.

    Raises BadRequest where it is no whole TFLite file, needs operators of somebody else, or of TensorFlow's such as may
    do more than compute, unless `trust` is given.
    """

    def __init__(self, path: Path, *, trust: bool = False) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self.path = path
        with path.open("rb") as file:
            head = file.read(_MAGIC_AT + len(_MAGIC))
        if head[_MAGIC_AT:] != _MAGIC:
            raise BadRequest(f"{path} is no TFLite file", fix=_AGAIN)
        if path.stat().st_size >= _MOST_BYTES:
            raise BadRequest(f"{path} is larger than a TFLite file can be (2 GB)", fix=_AGAIN)
        try:
            self._interpreter = Interpreter(model_path=str(path), num_threads=1)  # verifies the file
        except (ValueError, RuntimeError, UnicodeDecodeError) as error:
            raise BadRequest(f"{path} is no whole TFLite file: {first_line(error)}", fix=_AGAIN) from error
        self._model = model_of(path.read_bytes())
        self.flex = flex_names(self._model)
        if custom := [name for name in custom_names(self._model) if name not in self.flex]:
            raise BadRequest(
                f"{self.path} needs the custom operator {', '.join(custom)}, which LiteRT does not have",
                fix="name the model that it was made from",
            )
        if not trust:
            check_flex(self._model, path)

    def inputs(self) -> tuple[TensorSpec, ...]:
        """As the file declares them; an axis of any size is the batch as the first of an input.

        Raises BadRequest where it has several signatures and none is the default, or takes nothing that numpy knows.
        """
        self._check_signatures()
        named, _ = inputs_and_outputs(self._model)
        if not named:
            raise BadRequest(f"{self.path} takes no inputs: there is nothing to serve", fix=_AGAIN)
        details = {row["index"]: row for row in self._interpreter.get_input_details()}
        return tuple(self._input(each, details[each.at]) for each in named)

    def _check_signatures(self) -> None:
        names = signature_names(self._model)
        served = default_signature(names)
        if names and served is None:
            raise BadRequest(
                f"{self.path} has the signatures {', '.join(names)}, and serving_default is not among them",
                fix="convert it again with the one that is to be served, as signature_keys=[NAME]",
            )
        if served is not None and self._model.SignatureDefs(names.index(served)).SubgraphIndex():
            raise BadRequest(f"{self.path} has its signature {served} on another graph than its first",
                             fix="convert it again with that signature alone")  # fmt: skip

    def _input(self, named: Named, detail: Mapping[str, Any]) -> TensorSpec:
        axes: list[Axis] = [int(size) for size in detail["shape_signature"]]
        shape = tuple(
            size if isinstance(size, int) and size >= 0 else (BATCH if at == 0 else f"{named.name}_{at}")
            for at, size in enumerate(axes)
        )
        return TensorSpec(named.name, self._dtype(named.name, detail), shape)

    def _dtype(self, name: str, detail: Mapping[str, Any]) -> str:
        found = np.dtype(detail["dtype"]).name
        try:
            return served_dtype(found)
        except ValueError as error:
            raise BadRequest(
                f"{self.path}: {name} is {found}, which the formats do not carry",
                fix="convert a model that takes and gives numbers or booleans",
            ) from error

    def signature(self, inputs: Sequence[TensorSpec]) -> Signature:
        """With outputs as they come out of two calls in which every dynamic axis has another size, within its bounds:
        files declare them, and are wrong at times. An axis that changes with an input's has its name, any other that
        changes one of its own.

        Raises BadRequest where LiteRT cannot run the file.
        """
        sizes, others = two_sizes(inputs)
        first = self._shapes(inputs, sizes)
        second = self._shapes(inputs, others) if others else first
        known = {(sizes[axis], others[axis]): axis for axis in sizes}
        _, named = inputs_and_outputs(self._model)
        details = {row["index"]: row for row in self._interpreter.get_output_details()}
        outputs = [
            TensorSpec(
                each.name,
                self._dtype(each.name, details[each.at]),
                tuple(
                    size if size == other else known.get((size, other), f"{each.name}_{at}")
                    for at, (size, other) in enumerate(zip(one, two, strict=True))
                ),
            )
            for each, one, two in zip(named, first, second, strict=True)
        ]
        return Signature(tuple(inputs), tuple(outputs))

    def _shapes(self, inputs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> list[tuple[int, ...]]:
        """The shapes of the outputs of a call on ones, or zeros for integers: LiteRT's FLOOR_DIV takes no divisor that
        is 0, and an integer may be an index."""
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
        """The shapes of the outputs of a call. Raises what LiteRT raises."""
        given, made = inputs_and_outputs(self._model)
        values = {each.at: feeds[each.name] for each in given}
        for number, value in values.items():
            self._interpreter.resize_tensor_input(number, value.shape)
        self._interpreter.allocate_tensors()
        for number, value in values.items():
            self._interpreter.set_tensor(number, value)
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(each.at).shape for each in made]

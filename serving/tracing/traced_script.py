"""A TorchScript file whose operators and values are seen while it answers.

The file's own names are lost: the interpreter calls operators by kind alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ...models.artifact import Artifact
from ...models.signature import Array
from .operator_trace import OperatorCall, tensors_in
from .traced_model import TracedModel, array_of
from .watched_numbers import numbers_of


class _LoadedScript(TracedModel):
    """The module of a TorchScript artifact, not frozen: freezing folds operators into others."""

    def __init__(self, artifact: Artifact) -> None:
        import torch

        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # TorchScript is deprecated as a whole, and still served
            module = torch.jit.load(artifact.path, map_location="cpu").eval()  # type: ignore[no-untyped-call]

        def answer(*tensors: Any) -> Any:  # a ScriptModule takes no hooks
            return module(*tensors)

        self.signature, self._model, self._weights = artifact.signature, answer, {}


class ScriptRecorder:
    """The operators of a TorchScript artifact in the order in which one call ran them, with their values."""

    def __init__(self, artifact: Artifact) -> None:
        self._script = _LoadedScript(artifact)
        self.operators: Sequence[tuple[str, str]] = ()
        self.reads: Sequence[Sequence[str]] = ()
        self.writes: Sequence[Sequence[str]] = ()
        self.values: Mapping[str, Array] = {}
        self.numbers: Sequence[Sequence[float]] = ()
        self.constants: dict[str, Array] = {}
        self._outputs: Mapping[str, str] = {}

    def record(self, feeds: Mapping[str, Array]) -> None:
        """Answer once, and keep every value that an array can hold."""
        names = dict(enumerate(spec.name for spec in self._script.signature.inputs))
        values: dict[str, Array] = dict(feeds)

        def listen(call: OperatorCall, results: Sequence[Array | None]) -> None:
            for number, array in zip(call.writes, results, strict=True):
                names[number] = f"{call.operator}_{number}"
                if array is not None:
                    values[names[number]] = array.copy()

        traced = self._script.run(feeds, listen)
        self.operators = [
            (f"aten::{call.operator}", names[call.writes[0]] if call.writes else "") for call in traced.calls
        ]
        self.numbers = [numbers_of(call) for call in traced.calls]
        self.constants, reads = {}, []
        for call in traced.calls:
            tensors = [item for item in tensors_in((call.arguments, call.keywords)) if traced.number_of(item) is None]
            arrays = {f"weight_{id(tensor)}": array_of(tensor) for tensor in tensors}
            self.constants |= {name: array for name, array in arrays.items() if array is not None}
            reads.append([*(names[number] for number in call.reads), *arrays])
        self.reads = reads
        self.writes = [[names[number] for number in call.writes] for call in traced.calls]
        self.values = values
        self._outputs = {name: names[number] for name, number in traced.numbers.items()}

    def record_until_failure(self, feeds: Mapping[str, Array]) -> None:
        """Return None: no operator of a call that fails is known."""

    def output_values(self, names: Sequence[str]) -> dict[str, str]:
        """Return the value of each output of the model that is no weight."""
        return {name: self._outputs[name] for name in names if name in self._outputs}

    def describe(self, index: int) -> tuple[str, str, None]:
        """Return an operator's kind, and a description with the value that it writes."""
        kind, name = self.operators[index]
        return kind, f"the operator {kind} ({name})", None

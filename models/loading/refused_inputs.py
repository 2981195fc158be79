"""Search for inputs that a module takes where it raised on random ones, for the fix in the error. Worker only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..probes.accepted_sizes import find_sizes, suggest_one_name
from ..probes.accepted_values import ChosenValues, find_refused, find_values, replace_values, suggest_values
from ..probes.random_inputs import sample_tensors
from ..probes.sizes import example_sizes, other_axes
from ..probes.stress_values import free_integers
from ..signature import ANY_SIZE, TensorSpec, batch_axis, bounds_of
from .call_convention import Call

if TYPE_CHECKING:
    import torch

_BATCH = 2
_MANY = 64  # samples, in which each integer of a small range comes


def suggest_inputs(model: torch.nn.Module, inputs: Sequence[TensorSpec], call: Call) -> str | None:
    """Say which values or sizes a module takes, if any that were tried have an answer; else None.
    Integers are tried first: an index out of range raises at every size."""
    trial = _InputTrial(model, inputs, call)
    refused = find_refused([spec.name for spec in free_integers(inputs)], trial.accepts_values)
    if refused:
        tables = {len(weight) for weight in model.parameters() if weight.ndim == 2}  # an embedding is one of them
        ranges = find_values(refused, trial.accepts_values, tables)
        return suggest_values(inputs, ranges) if ranges else None
    own = {axis: size for axis, size in trial.sizes.items() if axis in other_axes(inputs)}
    options = find_sizes(inputs, own, trial.accepts_sizes) if own else None
    if options is None and (hint := suggest_one_name(inputs, own, trial.accepts_sizes)):
        return hint
    batch = batch_axis(inputs)
    if options is None and batch is not None:
        options = find_sizes(inputs, {batch: trial.sizes[batch]}, trial.accepts_sizes)
    return f"give the sizes that it takes, as in {options}" if options else None


class _InputTrial:
    def __init__(self, model: torch.nn.Module, inputs: Sequence[TensorSpec], call: Call) -> None:
        self._model, self._inputs, self._call = model, inputs, call
        self.sizes = example_sizes(inputs, _BATCH)

    def accepts_sizes(self, sizes: Mapping[str, int]) -> bool:
        """Return whether there is an answer at these sizes of some axes."""
        return self._answers(sizes, {})

    def accepts_values(self, values: ChosenValues) -> bool:
        """Return whether there is an answer to these integers."""
        batch = batch_axis(self._inputs)
        many = bounds_of(self._inputs).get(batch or "", ANY_SIZE).nearest(_MANY)
        return self._answers({} if batch is None else {batch: many}, values)

    def _answers(self, sizes: Mapping[str, int], values: ChosenValues) -> bool:
        import torch

        arrays = replace_values(sample_tensors(self._inputs, {**self.sizes, **sizes}), values)
        try:
            with torch.no_grad():
                self._call.run(self._model, [torch.from_numpy(arrays[name]) for name in self._call.inputs])
        except Exception:  # noqa: BLE001  (any error is a refusal)
            return False
        return True

"""Search for inputs that a module takes where it raised on those that it was called with. Worker only.

Ids, ranges and sizes that have an answer are found by asking the module, and used; the user is told. What changes the
meaning of an input (two axes are one, an axis is fixed) is a fix in the error, and theirs to decide.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..library_messages import first_line
from ..probes.accepted_sizes import describe_bounds, find_bounds, suggest_one_name, suggest_one_size
from ..probes.accepted_values import ChosenValues, describe_values, find_refused, find_values, replace_values
from ..probes.random_inputs import drawing_at_random, has_user_samples, sample_tensors
from ..probes.sizes import (
    bounds_within,
    count_elements,
    example_sizes,
    most_elements,
    other_axes,
    stride_of,
    with_bounds,
)
from ..probes.stress_values import free_integers
from ..signature import ANY_SIZE, Bounds, TensorSpec, batch_axis, bounds_of
from .call_convention import Call
from .infer_signature import Inferred, infer_signature
from .value_operators import OperatorSequence, call_until_values_taken, trace_operators

if TYPE_CHECKING:
    import torch

_MOST_CHANGES = 4  # of the inputs that a user named, to what the model takes
_BATCH = 2
_MANY = 64  # samples, in which each integer of a small range comes
_SLOW_S = 0.02  # of a call of _BATCH samples: one of _MANY is then ended as soon as its values are taken


@dataclass(frozen=True)
class AcceptedInputs:
    """Inputs with values or bounds at which a module answers, and what the user is told of them."""

    specs: tuple[TensorSpec, ...]
    notes: tuple[str, ...] = ()


def infer_accepted(
    model: torch.nn.Module,
    inputs: Sequence[TensorSpec],
    call: Call,
    refusal: type[Exception],
    calling: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> tuple[Inferred, tuple[str, ...]]:
    """Infer the signature of a module; where a call raises `refusal`, with values and sizes that it takes, if any are
    found. Returns what infer_signature does, and a sentence for each change of the inputs. `calling`: the context of
    each attempt. Raises `refusal` where nothing that was tried has an answer."""
    notes: list[str] = []
    while True:
        failure: Exception | None = None
        try:
            with calling():
                inferred = infer_signature(model, tuple(inputs), call)
        except refusal as error:
            failure = error
        search = find_accepted if failure else _find_unasked
        if len(notes) >= _MOST_CHANGES or (accepted := search(model, inputs, call)) is None:
            break
        inputs = accepted.specs
        notes += accepted.notes
    if failure is not None:
        raise failure
    return inferred, tuple(notes)


def _find_unasked(model: torch.nn.Module, inputs: Sequence[TensorSpec], call: Call) -> AcceptedInputs | None:
    """Return inputs for a module that answered a few small calls: with values that many samples have an answer to, as
    a few may miss the ends of a table, or with a step. None where it takes the inputs as they are."""
    trial = _InputTrial(model, inputs, call)
    if not has_user_samples(inputs) and count_elements(inputs, trial.sizes_of_many()) <= most_elements(inputs):
        accepted = _with_values(trial, inputs, table_rows(model))
        if accepted is not None:
            return accepted
    return find_step(model, inputs, call)


def fix_of_refusal(model: torch.nn.Module, inputs: Sequence[TensorSpec], call: Call) -> str | None:
    """Return the fix for a module that raises at whatever was tried: other axes, or the samples at fault; else None."""
    fix = suggest_inputs(model, inputs, call)
    return fix or (_compare_with_tables(model, inputs) if has_user_samples(inputs) else None)


def find_accepted(model: torch.nn.Module, inputs: Sequence[TensorSpec], call: Call) -> AcceptedInputs | None:
    """Return inputs that a module takes, with other values or sizes than `inputs`; None if none that were tried have an
    answer. Values are tried first: an index out of range raises at every size. The user's own samples have the values
    that they have."""
    trial = _InputTrial(model, inputs, call)
    if not has_user_samples(inputs) and (accepted := _with_values(trial, inputs, table_rows(model))):
        return accepted
    own = {axis: size for axis, size in trial.sizes.items() if axis in other_axes(inputs)}
    bounds = find_bounds(inputs, own, trial.accepts_sizes) if own else None
    batch = batch_axis(inputs)
    if not bounds and batch is not None and not suggest_one_name(inputs, own, trial.accepts_sizes):
        bounds = find_bounds(inputs, {batch: trial.sizes[batch]}, trial.accepts_sizes)
    return _with_bounds(inputs, bounds) if bounds else None


def find_step(model: torch.nn.Module, inputs: Sequence[TensorSpec], call: Call) -> AcceptedInputs | None:
    """Return inputs with a step for axes of which a module takes the multiples of the lower end, and no size between.
    None where it takes others. Examples and probes hold multiples alone where bounds begin at 5 or more."""
    trial = _InputTrial(model, inputs, call)
    limits = {axis: bounds_within(inputs, axis) for axis in other_axes(inputs)}
    own = {axis: trial.sizes[axis] for axis, bounds in limits.items() if stride_of(bounds) > bounds.step}
    between = {axis: limits[axis].nearest(size + limits[axis].step) for axis, size in own.items()}
    if not between or trial.accepts_sizes(between) or not trial.accepts_sizes({}):
        return None
    bounds = find_bounds(inputs, own, trial.accepts_sizes)
    stepped = {axis: in_steps for axis, in_steps in (bounds or {}).items() if in_steps.step > limits[axis].step}
    return _with_bounds(inputs, stepped) if stepped else None


def suggest_inputs(model: torch.nn.Module, inputs: Sequence[TensorSpec], call: Call) -> str | None:
    """Say which axes are one, or at which size they are fixed, if a module then answers; else None."""
    trial = _InputTrial(model, inputs, call)
    own = {axis: size for axis, size in trial.sizes.items() if axis in other_axes(inputs)}
    hint = suggest_one_name(inputs, own, trial.accepts_sizes)
    return hint or suggest_one_size(inputs, own, trial.accepts_sizes)


def refusal_of_random(model: torch.nn.Module, inputs: Sequence[TensorSpec], call: Call) -> str | None:
    """Return a module's error at random samples, in which every small integer comes; None where it answers."""
    trial = _InputTrial(model, inputs, call)
    with drawing_at_random():
        return trial.refusal(example_sizes(inputs, _MANY), {})


def _compare_with_tables(model: torch.nn.Module, inputs: Sequence[TensorSpec]) -> str:
    """Return the fix for the user's own samples at which a module raises: which ids they hold, and its tables."""
    samples = sample_tensors(inputs, example_sizes(inputs, _MANY))
    numbers = [(name, array) for name, array in samples.items() if array.size and array.dtype.kind in "iuf"]
    held = ", ".join(f"{name} holds {array.min():g} to {array.max():g}" for name, array in numbers)
    tables = ", ".join(map(str, sorted(table_rows(model))))
    rows = f", and its tables have {tables} rows" if tables else ""
    return f"hold the samples against what forward takes: {held}{rows}"


def table_rows(model: torch.nn.Module) -> set[int]:
    """Return how many rows the tables of a module have: its embeddings, else whatever weight may be one."""
    import torch

    tables = {
        part.num_embeddings for part in model.modules() if isinstance(part, torch.nn.Embedding | torch.nn.EmbeddingBag)
    }
    return tables or {len(weight) for weight in model.parameters() if weight.ndim == 2}


def _with_values(trial: _InputTrial, inputs: Sequence[TensorSpec], tables: Collection[int]) -> AcceptedInputs | None:
    floats = [spec for spec in inputs if np.dtype(spec.dtype).kind == "f" and spec.values is None]
    for specs, integers in ((free_integers(inputs), True), (floats, False)):
        refused = find_refused([spec.name for spec in specs], trial.accepts_values)
        if ranges := find_values(refused, trial.accepts_values, tables, integers=integers):
            changed = tuple(replace(spec, values=ranges.get(spec.name, spec.values)) for spec in inputs)
            notes = (describe_values(spec, ranges[spec.name], tables) for spec in inputs if spec.name in ranges)
            return AcceptedInputs(changed, tuple(notes))
    return None


def _with_bounds(inputs: Sequence[TensorSpec], bounds: Mapping[str, Bounds]) -> AcceptedInputs:
    changed = with_bounds(inputs, {**bounds_of(inputs), **bounds})
    return AcceptedInputs(changed, (describe_bounds(bounds),))


class _InputTrial:
    def __init__(self, model: torch.nn.Module, inputs: Sequence[TensorSpec], call: Call) -> None:
        self._model, self._inputs, self._call = model, inputs, call
        self.sizes = example_sizes(inputs, _BATCH)
        self._traces: list[OperatorSequence | None] = []  # of the operators at these sizes, once it was asked for

    def accepts_sizes(self, sizes: Mapping[str, int]) -> bool:
        """Return whether there is an answer at these sizes of some axes; to ones if to no other integers."""
        integers = dict.fromkeys(spec.name for spec in free_integers(self._inputs))
        return self._answers(sizes, {}) or (bool(integers) and self._answers(sizes, integers))

    def accepts_values(self, values: ChosenValues) -> bool:
        """Return whether there is an answer to these numbers."""
        return self._answers(self.sizes_of_many(), values)

    def sizes_of_many(self) -> dict[str, int]:
        """Return the sizes of a call of as many samples as it takes for small integers to come."""
        batch = batch_axis(self._inputs)
        many = bounds_of(self._inputs).get(batch or "", ANY_SIZE).nearest(_MANY)
        return self.sizes if batch is None else {**self.sizes, batch: many}

    def _answers(self, sizes: Mapping[str, int], values: ChosenValues) -> bool:
        return self.refusal({**self.sizes, **sizes}, values) is None

    def refusal(self, sizes: Mapping[str, int], values: ChosenValues) -> str | None:
        """Return the module's error at these sizes and numbers, None where it answers or would."""
        if (is_large := sizes == self.sizes_of_many() != self.sizes) and not self._traces:
            self._traces.append(trace_operators(self._model, self._call_of(self.sizes, {})))
        trace = self._traces[0] if is_large else None
        call = self._call_of(sizes, values)
        try:
            call_until_values_taken(call, trace) if trace and trace.seconds > _SLOW_S else call()
        except Exception as error:  # noqa: BLE001  (any error is a refusal)
            return first_line(error)
        return None

    def _call_of(self, sizes: Mapping[str, int], values: ChosenValues) -> Callable[[], None]:
        import torch

        arrays = replace_values(sample_tensors(self._inputs, sizes), values)

        def call() -> None:
            with torch.no_grad():
                self._call.run(self._model, [torch.from_numpy(arrays[name]) for name in self._call.inputs])

        return call

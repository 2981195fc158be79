"""A metric that is a function of the user's: FILE.py:FUNCTION, called with all outputs and the labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ....models.errors import BadRequest
from ....models.job import Facts, Job
from ....models.job_records import CodeOptions
from ....models.probes.evidence import Answers
from ....models.signature import Array
from ....models.sources import CodeRef
from ..answer_shards import RecordedSeries
from ..recorded_answers import ANSWERS, read_record, split_by_sample
from ..sessions import read_test_set
from .corpus_intervals import replicate
from .metric_kinds import MetricChoice, MetricKind
from .task_metric import PairedAnswers, PairedResult, PairedScores, metric_row

Function = Callable[[Mapping[str, Array], Array], Any]
_RESAMPLES = 499  # of a function's value, which is slow to take beside a sum's
_FORM = "def NAME(outputs: dict of arrays, labels: array) -> one number, or one score a sample"


@dataclass(frozen=True, kw_only=True)
class FunctionFacts(Facts):
    """What a user's metric says of itself."""

    name: str
    unit: str = ""
    higher_is_better: bool = True


def describe_function(job: Job) -> Mapping[str, Any]:
    """Load a user's metric and return its name, unit and direction: CodeOptions -> FunctionFacts.
    Raises BadRequest where there is no such function, or its `unit` or `higher_is_better` is of another type."""
    ref = CodeOptions.from_json(job.options).code_ref
    function = load_function(ref)
    unit, higher = getattr(function, "unit", ""), getattr(function, "higher_is_better", True)
    if not isinstance(unit, str) or not isinstance(higher, bool):
        raise BadRequest(
            f"{ref.text} has the unit {unit!r} and higher_is_better {higher!r}",
            fix=f'write {ref.name}.unit = "mm" and {ref.name}.higher_is_better = False, or leave them out',
        )
    return FunctionFacts(name=ref.name, unit=unit, higher_is_better=higher).to_json()


def check_function(job: Job) -> Mapping[str, Any]:
    """Call a user's metric once with the reference's answers: CodeOptions, inputs {data, reference} -> Facts.
    Raises BadRequest where it raises, or does not return what a metric returns."""
    record = read_record(job.inputs["reference"])
    labels = read_test_set(job, record.signature.inputs).labels
    calls = RecordedSeries(job.inputs["reference"] / ANSWERS)
    ref = CodeOptions.from_json(job.options).code_ref
    pairs = PairedFunction(MetricKind(ref.name), load_function(ref))
    if labels is not None:
        answers = _joined([split_by_sample(call, batched=record.signature.batch is not None) for call in calls])
        pairs.call(answers, np.asarray(labels))
    return Facts().to_json()


def load_function(ref: CodeRef) -> Function:
    """Load the function that `ref` names. Raises BadRequest where it is none."""
    from ....models.loading.user_code import load_object

    function = load_object(ref)
    if not callable(function):
        raise BadRequest(f"{ref.text} is a {type(function).__name__}, and no function", fix=f"write {_FORM}")
    loaded: Function = function
    return loaded


@dataclass
class PairedFunction:
    """All outputs of both sides, for a function that sees them as a whole."""

    kind: MetricKind
    function: Function
    sides: tuple[list[Answers], list[Answers]] = field(default_factory=lambda: ([], []))
    labels: list[Array] = field(default_factory=list)

    def add(self, reference: Answers, candidate: Answers, labels: Array) -> None:
        """Keep one call of both sides."""
        self.sides[0].append(reference)
        self.sides[1].append(candidate)
        self.labels.append(labels)

    def result(self, allowed_loss: float | None) -> PairedResult:
        """Return what the function says of both sides, with the interval of the difference."""
        labels = np.concatenate(self.labels)
        sides = [_joined(calls) for calls in self.sides]
        values = [self.call(side, labels) for side in sides]
        if all(value.ndim for value in values):
            scores = PairedScores(self.kind, lambda answers, _: answers["score"])
            scores.add({"score": values[0]}, {"score": values[1]}, labels)
            return scores.result(allowed_loss)
        counts = len(labels), len(labels)
        reference, candidate = (
            replicate(partial(self._of_weights, side, labels), *counts, resamples=_RESAMPLES) for side in sides
        )
        return PairedResult(metric_row(self.kind, (reference, candidate), allowed_loss), reference, candidate)

    def _of_weights(self, side: Answers, labels: Array, weights: Array) -> Array:
        draws = (np.repeat(np.arange(len(labels)), row) for row in weights.astype(np.int64))
        return np.array([self._value(side, labels, rows) for rows in draws])

    def _value(self, side: Answers, labels: Array, rows: Array) -> float:
        return float(self.call({name: array[rows] for name, array in side.items()}, labels[rows]))

    def call(self, outputs: Answers, labels: Array) -> Array:
        """Call the function. Raises BadRequest where it raises, or returns neither a number nor a score a sample."""
        try:
            value = np.asarray(self.function(dict(outputs), labels), dtype=np.float64)
        except Exception as error:
            names = ", ".join(outputs)
            raise BadRequest(
                f"the metric {self.kind.name} raised {type(error).__name__}: {error}",
                fix=f"it is called as {_FORM}; the model's outputs are {names}",
            ) from error
        if value.ndim > 1 or (value.ndim and len(value) != len(labels)):
            raise BadRequest(
                f"the metric {self.kind.name} gave the shape {list(value.shape)} for {len(labels)} samples",
                fix=f"write {_FORM}",
            )
        return value


def _joined(calls: list[Answers]) -> dict[str, Array]:
    """Put calls together along axis 0. Raises BadRequest where their other axes differ."""
    try:
        return {name: np.concatenate([call[name] for call in calls]) for name in calls[0]}
    except ValueError as error:
        raise BadRequest(
            "a metric of your own needs outputs of one shape a sample, and these differ between calls",
            fix="give samples of one size",
        ) from error


@dataclass(frozen=True)
class FunctionMetric:
    """A user's function as the task's metric."""

    kind: MetricKind
    ref: CodeRef

    def open(self, labels: Array, reference: Iterable[Answers]) -> PairedAnswers:  # noqa: ARG002  (a function reads them itself)
        """Load the function. Raises BadRequest where it cannot be."""
        return PairedFunction(self.kind, load_function(self.ref))


def function_metric(choice: MetricChoice) -> FunctionMetric:
    """Return the metric of a choice that names a function."""
    if choice.ref is None:
        raise ValueError(f"{choice.name} names no function")
    return FunctionMetric(choice.kind, CodeRef(choice.ref, choice.root))

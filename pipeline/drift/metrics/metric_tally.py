"""A probe's metric, call by call: a metric that cannot be had leaves a complaint, and stops nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ....models.errors import BadRequest
from ....models.probes.evidence import Answers
from ....models.signature import Array
from .task_metric import PairedAnswers, PairedResult, TaskMetric


@dataclass
class MetricTally:
    """Both sides' answers of one probe as far as a metric needs them, or the sentence that says why there is none."""

    labels: Array | None = None
    pairs: PairedAnswers | None = None
    complaint: str | None = None

    @staticmethod
    def begin(metric: TaskMetric | None, labels: Array | None, reference: Iterable[Answers]) -> MetricTally:
        """Begin with all labels and the reference's answers, samples along axis 0."""
        if metric is None or labels is None:
            return MetricTally()
        try:
            return MetricTally(labels, metric.open(labels, reference))
        except BadRequest as error:
            return MetricTally(complaint=error.what)

    def add(self, sides: Sequence[Answers], rows: Array) -> None:
        """Add one call: the reference and the candidate; `rows` are its samples among the labels."""
        if self.pairs is None or self.labels is None:
            return
        reference, candidate = sides
        try:
            self.pairs.add(reference, candidate, self.labels[rows])
        except BadRequest as error:
            self.pairs, self.complaint = None, error.what

    def result(self, allowed_loss: float | None) -> tuple[PairedResult | None, str | None]:
        """Return the metric of both sides, or why there is none."""
        if self.pairs is None:
            return None, self.complaint
        try:
            return self.pairs.result(allowed_loss), None
        except BadRequest as error:
            return None, error.what

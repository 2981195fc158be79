"""The metrics that `--metric` knows, each put together from its rows and its value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from ....models.array_file import pieces
from ....models.data_checks.class_labels import LabelRange, as_classes
from ....models.errors import BadRequest
from ....models.probes.evidence import Answers
from ....models.signature import Array
from . import class_metrics, ranking_metrics, value_metrics
from .class_answers import NAME_ANOTHER, ClassForm, find_form, read_answers
from .metric_kinds import MetricChoice, MetricKind, places_of
from .task_metric import PairedAnswers, PairedRankings, PairedScores, PairedSums

_OF_VALUES = ("mae", "rmse", "r2", "cosine")


@dataclass(frozen=True)
class NamedMetric:
    """One of the metrics that `--metric` knows, over one output."""

    kind: MetricKind
    output: str

    def open(self, labels: Array, reference: Iterable[Answers]) -> PairedAnswers:
        """Find out how the output is read, by all labels and the reference's answers."""
        calls = (call[self.output] for call in reference)
        if self.kind.name in _OF_VALUES:
            return self._of_values(labels)
        classes = LabelRange.of(labels)
        if classes is None:
            raise self._no_classes()
        form = find_form(classes, calls)
        read = partial(self._rows_of_classes, form)
        name = self.kind.name
        if name in _RANKINGS:
            return PairedRankings(self.kind, partial(read, ranking_metrics.ranking_rows), _RANKINGS[name])
        work = _class_rows(name)
        values = {"f1": class_metrics.f1_of(form), **_VALUES}
        if name in values:
            return PairedSums(self.kind, partial(read, work), values[name])
        if not form.bits and not classes.shape and classes.least >= 0:
            return PairedScores(self.kind, lambda answers, own: read(work, answers, own)[:, 0])
        return PairedSums(self.kind, partial(read, work), class_metrics.ratio)

    def _classes(self, labels: Array) -> Array:
        classes = as_classes(labels)
        if classes is None:
            raise self._no_classes()
        return classes

    def _no_classes(self) -> BadRequest:
        return BadRequest(f"{self.kind.name} needs labels that are whole numbers", fix=NAME_ANOTHER)

    def _rows_of_classes(self, form: ClassForm, work: class_metrics.Rows, answers: Answers, labels: Array) -> Array:
        return work(form, read_answers(form, answers[self.output], self._classes(labels)))

    def _of_values(self, labels: Array) -> PairedAnswers:
        def rows(work: Callable[[Array, Array], Array], answers: Answers, own: Array) -> Array:
            return work(*value_metrics.as_values(answers[self.output], own))

        if self.kind.name in ("mae", "cosine"):
            work = value_metrics.absolute_errors if self.kind.name == "mae" else value_metrics.cosines
            return PairedScores(self.kind, partial(rows, work))
        if self.kind.name == "rmse":
            return PairedSums(self.kind, partial(rows, value_metrics.squared_errors), value_metrics.rmse)
        sums = (np.asarray(piece, np.float64).reshape(len(piece), -1).sum(axis=0) for piece in pieces(labels))
        centre = sum(sums) / len(labels)
        return PairedSums(self.kind, partial(rows, partial(value_metrics.r2_rows, centre=centre)), value_metrics.r2)


_RANKINGS: Mapping[str, Callable[[Array, Array], Array]] = {
    "auroc": ranking_metrics.auroc,
    "map": ranking_metrics.mean_average_precision,
}


_VALUES: Mapping[str, class_metrics.Values] = {
    "miou": class_metrics.miou,
    "ece": class_metrics.ece,
    "perplexity": class_metrics.perplexity,
}


def _class_rows(name: str) -> class_metrics.Rows:
    rows: Mapping[str, class_metrics.Rows] = {
        "accuracy": class_metrics.hits,
        "f1": class_metrics.class_counts,
        "miou": class_metrics.class_counts,
        "ece": class_metrics.confidence_gaps,
        "perplexity": class_metrics.surprise,
    }
    return rows[name] if name in rows else partial(class_metrics.hits_among, places_of(name))


def named_metric(choice: MetricChoice) -> NamedMetric:
    """Return the metric of a choice that names an output."""
    if choice.output is None:
        raise ValueError(f"{choice.name} names no output")
    return NamedMetric(choice.kind, choice.output)

"""The metric of a check's options: the one that was chosen, else the recipe's own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ....models.probes.evidence import Answers
from ....models.recipe import Metric
from ....models.signature import Array
from ....models.sources import CodeRef
from ..drift_records import CheckOptions
from .function_metric import function_metric
from .metric_kinds import MetricKind
from .named_metric import named_metric
from .task_metric import PairedAnswers, PairedScores, TaskMetric


@dataclass(frozen=True)
class RecipeMetric:
    """A recipe's own metric: one score a sample."""

    metric: Metric

    def open(self, labels: Array, reference: Iterable[Answers]) -> PairedAnswers:  # noqa: ARG002  (its scores read them)
        """Begin with no scores."""
        metric = self.metric
        kind = MetricKind(metric.name, metric.unit or "", metric.higher_is_better)
        return PairedScores(kind, metric.score, is_unit_known=metric.unit is not None)


def metric_of(options: CheckOptions) -> TaskMetric | None:
    """Return the metric that the options name: a chosen one, or the recipe's; None where they name neither."""
    if options.metric is not None:
        return named_metric(options.metric) if options.metric.ref is None else function_metric(options.metric)
    return _recipe_metric(options)


def _recipe_metric(options: CheckOptions) -> TaskMetric | None:
    from ....models.loading.code_refs import load_named
    from ....models.recipe import Recipe

    if not options.ref:
        return None
    loaded: object = load_named(CodeRef(options.ref, options.root))
    return RecipeMetric(loaded.metric) if isinstance(loaded, Recipe) else None

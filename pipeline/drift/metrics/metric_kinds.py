"""The metrics that `--metric` knows: name, unit and direction. It imports no numbers' library: the CLI reads it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ....models.errors import BadRequest
from ....models.job import JsonRecord
from ....models.sources import CodeRef

SHARE = "share"  # a part of 1: read in per cent, differences in percentage points
_RECALL = re.compile(r"recall@([1-9]\d{0,5})")


@dataclass(frozen=True)
class MetricKind:
    """A metric's name, unit and direction. An empty unit is that of the labels, or none."""

    name: str
    unit: str = ""
    higher_is_better: bool = True
    span: tuple[float, float] | None = None  # that its values lie in; None: 0 to 1 of a share, else without ends

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest value that it can have; infinite where it has none."""
        if self.span is not None:
            return self.span
        if self.unit == SHARE:
            return 0.0, 1.0
        return -math.inf, math.inf


KINDS: Mapping[str, MetricKind] = {
    kind.name: kind
    for kind in (
        MetricKind("accuracy", SHARE),
        MetricKind("top5", SHARE),
        MetricKind("f1", span=(0.0, 1.0)),
        MetricKind("auroc", span=(0.0, 1.0)),
        MetricKind("ece", SHARE, higher_is_better=False),
        MetricKind("mae", higher_is_better=False, span=(0.0, math.inf)),
        MetricKind("rmse", higher_is_better=False, span=(0.0, math.inf)),
        MetricKind("r2", span=(-math.inf, 1.0)),
        MetricKind("cosine", span=(-1.0, 1.0)),
        MetricKind("recall@k", SHARE),
        MetricKind("miou", SHARE),
        MetricKind("map", SHARE),
        MetricKind("perplexity", higher_is_better=False, span=(1.0, math.inf)),
    )
}
NAMES = f"{', '.join(KINDS)} (with a number for k), or FILE.py:FUNCTION"


@dataclass(frozen=True, kw_only=True)
class MetricChoice(JsonRecord):
    """A metric for one model and its labels: one of KINDS over one output, or a function of the user's over all."""

    name: str
    output: str | None = None  # None: a function sees all outputs
    unit: str = ""
    higher_is_better: bool = True
    ref: str | None = None  # the place of the function
    requested: bool = True  # by name; else it was chosen by the shapes of outputs and labels
    root: str | None = None

    @property
    def kind(self) -> MetricKind:
        """The metric's name, unit and direction."""
        return MetricKind(self.name, self.unit, self.higher_is_better)

    @property
    def reads(self) -> tuple[str, ...]:
        """The folders that a user's function is made from."""
        return CodeRef(self.ref, self.root).reads if self.ref else ()


def is_function(text: str) -> bool:
    """Return whether a metric's name is the place of a user's function, FILE.py:FUNCTION."""
    return text.endswith(".py") or ".py:" in text


def kind_of_metric(text: str) -> MetricKind:
    """Return the metric of that name. Raises BadRequest with the names that are known."""
    if _RECALL.fullmatch(text):
        return replace(KINDS["recall@k"], name=text)
    if text not in KINDS or text == "recall@k":
        raise BadRequest(f"unknown metric {text!r}", fix=f"use one of {NAMES}")
    return KINDS[text]


def recipe_kind(name: str, unit: str, *, higher_is_better: bool) -> MetricKind:
    """Return the kind of a recipe's metric: one of KINDS where it is called and meant so, else what the recipe says."""
    known = KINDS.get(name)
    is_known = known is not None and known.higher_is_better == higher_is_better and unit in ("", known.unit)
    return known if known is not None and is_known else MetricKind(name, unit, higher_is_better)


def places_of(name: str) -> int:
    """Return k of a metric that looks at the k largest scores: 5 of top5, 10 of recall@10."""
    match = _RECALL.fullmatch(name)
    return int(match[1]) if match else 5

"""The calls of one probe with the reference's answers, and what comparing a copy with them gave."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...models.dataset import Dataset
from ...models.probes.evidence import Series
from ...models.probes.probe_set import Probe, describe_values
from ...models.signature import Array, TensorSpec
from .metrics.task_metric import PairedResult, TaskMetric
from .numbers.error_profile import ErrorProfile
from .rounding_ties import Marks
from .rules import Judgement

WHOLE_SET, SAMPLES = "whole test set", "samples"
_COPIED = ("runtime", "batch", "samples", "max_abs", "sqnr_db", "non_finite", "tolerance", "derivation", "verdict")


@dataclass(frozen=True)
class ProbeCalls:
    """The calls of one probe, or of the whole test set, with the reference's answer to each."""

    probe: Probe
    where: str  # how a sentence begins that speaks of them
    data: Dataset
    rows: Sequence[Array]  # of `data`, call by call
    answers: Series
    metric: TaskMetric | None = None  # the task's metric, where it is taken
    lowered_db: float | None = None  # a floor below the usual one
    tie_marks: Sequence[Marks] = ()  # call by call: integers that rounding decides
    errors: ErrorProfile | None = None  # collects the errors of the test set

    @property
    def samples(self) -> int:
        """How many different samples they see."""
        seen = np.zeros(len(self.data), bool)
        for rows in self.rows:
            seen[rows] = True
        return int(np.count_nonzero(seen))

    @property
    def integers(self) -> int:
        """How many of the probe's integers an input holds at least, in all of these calls."""
        return self.samples * min(int(self.data.inputs[name][0].size) for name in self.probe.reach)


@dataclass(frozen=True)
class CheckResult:
    """A probe's row (a result.DriftRow without `artifact`), and the verdict with its sentence."""

    probe: Probe
    row: Mapping[str, Any]
    judgement: Judgement
    task: PairedResult | None = None  # the task's metric, where it was taken

    @property
    def verdict(self) -> str:
        """Pass, fail or inconclusive, in small letters."""
        return self.judgement.verdict

    @property
    def answered(self) -> bool:
        """Whether every call had an answer, right or wrong."""
        return self.row["max_abs"] is not None or self.row.get("mismatch") is not None


def describe_calls(
    probe: Probe, usual: Collection[int] | None, own: Mapping[str, int], specs: Sequence[TensorSpec]
) -> str:
    """Say how a sentence begins: it speaks of the batch where only that is special, else of sizes, and of values.
    `usual`: the batches, None of a model that has none; `own`: the sizes of the samples."""
    sizes = probe.sizes or (own if usual is None else {})
    where = f"at batch {probe.batch}" if usual is not None and not probe.sizes else ""
    if sizes:
        is_usual = usual is None or (probe.batch in usual and probe.batch != 1 < max(usual))
        batch = "" if is_usual else f"batch {probe.batch}, "
        where = f"at {batch}{', '.join(f'{axis}={size}' for axis, size in sizes.items())}"
    if values := describe_values(probe, specs):
        where = f"{where}, {values}" if probe.sizes else values
    return where


def probe_rows(
    results: Sequence[CheckResult], specs: Sequence[TensorSpec], *, whole_set_first: bool
) -> Iterator[dict[str, Any]]:
    """Yield a row for each result."""
    for at, result in enumerate(results):
        values = describe_values(result.probe, specs).removeprefix("with ") or SAMPLES
        yield {
            **{name: result.row[name] for name in _COPIED},
            "sizes": dict(result.probe.sizes),
            "values": WHOLE_SET if whole_set_first and at == 0 else values,
            "reason": result.judgement.reason,
        }

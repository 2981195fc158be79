"""How often the verdict on a metric is right, over fresh draws from models whose true metric is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transload.pipeline.compare.change_records import Change
from transload.pipeline.compare.compare_limits import CompareLimits
from transload.pipeline.compare.judge import difference
from transload.pipeline.compare.release_metric import judge_loss
from transload.pipeline.drift.metrics.equivalence import detectable_loss
from transload.pipeline.drift.metrics.outcomes import SampleScores, paired_gain, value_interval

Scores = NDArray[np.float64]
RIGHT, ERROR, SPREAD = (
    0.9,
    3.0,
    0.3,
)  # of a model: the share of right answers, the mean error, that of two models' errors
CHANGED = 0.06  # share of the samples that two equal models answer differently


@dataclass(frozen=True)
class Case:
    """A kind of comparison: of shares or of errors, on the same samples or on others."""

    is_share: bool
    is_paired: bool
    samples: int

    @property
    def name(self) -> str:
        """As in "accuracy, paired, 1000 samples"."""
        metric, form = "accuracy" if self.is_share else "error", "paired" if self.is_paired else "unpaired"
        return f"{metric}, {form}, {self.samples} samples"

    def draw(self, random: np.random.Generator, loss: float) -> tuple[Scores, Scores]:
        """Draw both models' scores, shape (samples,): the new one's true metric is worse by `loss`."""
        if self.is_share:
            return self._draw_shares(random, loss)
        old = random.exponential(ERROR, self.samples)
        if not self.is_paired:
            return old, random.exponential(ERROR, self.samples) * (1 + loss / ERROR)
        return old, np.abs(old * (1 + loss / ERROR) + random.normal(0, SPREAD, self.samples) * np.minimum(1, old))

    def _draw_shares(self, random: np.random.Generator, loss: float) -> tuple[Scores, Scores]:
        old = (random.random(self.samples) < RIGHT).astype(np.float64)
        if not self.is_paired:
            return old, (random.random(self.samples) < RIGHT - loss).astype(np.float64)
        lost, won = (CHANGED / 2 + loss) / RIGHT, CHANGED / 2 / (1 - RIGHT)
        kept = random.random(self.samples)
        return old, np.where(old == 1, kept >= lost, kept < won).astype(np.float64)

    def judge(self, old: Scores, new: Scores, limit: float | None) -> tuple[Change, float | None]:
        """Return the verdict and the smallest loss that these samples can show. `limit`: None for the default."""
        was, now = SampleScores(old), SampleScores(new)
        if self.is_paired:
            gain = paired_gain(was, now)
        else:
            gain = difference((was.value, value_interval(was)), (now.value, value_interval(now)))[1]
        unit = "share" if self.is_share else ""
        rule = CompareLimits(metric_loss=limit).loss_limit(was.value, unit, higher_is_better=self.is_share)[0]
        facts = {
            "ci95": gain, "delta": now.value - was.value, "unit": unit, "higher_is_better": self.is_share,
            "reference": was.value, "candidate": now.value,
        }  # fmt: skip
        verdict = judge_loss(now.value - was.value, gain, rule, higher_is_better=self.is_share)
        return verdict, detectable_loss(self.samples, facts, rule)


CASES = tuple(
    Case(share, paired, count) for share in (True, False) for paired in (True, False) for count in (300, 2000)
)


def rate_verdicts(case: Case, draws: int, seed: int = 0) -> dict[str, Any]:
    """Return how often equal models are called worse, and how often a loss of twice the smallest that the test set
    shows, as the first draw of equal models told it, is called worse."""
    random = np.random.default_rng(seed)
    equal = [case.judge(*case.draw(random, 0.0), None) for _ in range(draws)]
    smallest = next(loss for _, loss in equal if loss is not None)
    loss = min(2 * smallest, 0.85 if case.is_share else np.inf)
    lossy = [case.judge(*case.draw(random, loss), None)[0] for _ in range(draws)]
    return {
        "case": case.name,
        "draws": draws,
        "smallest_loss": smallest,
        "equal_called_worse": sum(verdict is Change.WORSE for verdict, _ in equal) / draws,
        "equal_inconclusive": sum(verdict is Change.INCONCLUSIVE for verdict, _ in equal) / draws,
        "twice_called_worse": sum(verdict is Change.WORSE for verdict in lossy) / draws,
        "twice_called_no_worse": sum(verdict in (Change.SAME, Change.BETTER) for verdict in lossy) / draws,
    }


def keeps_promise(row: dict[str, Any]) -> bool:
    """Return whether at most 1 % of equal models are called worse, and at least 95 % of clear losses are found."""
    return row["equal_called_worse"] <= 0.01 and row["twice_called_worse"] >= 0.95

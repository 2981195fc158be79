"""Verdicts by the default rules. No pydantic: workers judge too.

docs/design/drift.md gives the reasons for each number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ...models.errors import TransloadError
from ...models.formats import Precision
from .metrics.equivalence import judge_loss
from .noise_floor import UNSTEADY_DB, Limit
from .numbers.numeric import Drift

PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"  # the values of result.Verdict

# Signal to noise that a precision must reach where it is judged by numbers alone. An fp32 copy differs by the order of
# its sums (133-137 dB for digits-cnn). The others are floors that only something broken falls through: one rounding of
# normal values costs 74 dB in fp16 and 39 dB in int8.
LEAST_SQNR_DB: Mapping[Precision, float] = {
    Precision.FP32: 60.0,
    Precision.FP16: 40.0,
    Precision.INT8_DYNAMIC: 10.0,
    Precision.INT8: 10.0,
}
BLANK_DB = 60.0  # at most, of blank samples: a TFLite GroupNorm of blank rows lies 35 dB below what it rounds
SMALL_DB = 40.0  # that the small values of an fp32 copy may lie below its floor, where large ones hide them
_ALIKE = "the reference's outputs do not vary over the samples: no evidence"
# That a column beside larger ones must reach in a reduced precision: below 0 dB it holds more noise than signal.
COLUMN_DB: Mapping[Precision, float] = {Precision.FP16: 20.0, Precision.INT8_DYNAMIC: 0.0, Precision.INT8: 0.0}
MOST_MISMATCHES = 0.1  # share of an integer output that a reduced precision may change where no metric judges it


@dataclass(frozen=True, slots=True)
class Rule:
    """Limits of a comparison."""

    precision: Precision
    sqnr_db: float  # at least, where numbers judge
    allowed_loss: float | None = None  # of the metric, absolute; None: no metric judges
    # Of outputs and columns whose noise floor is known: the limits of an fp32 copy, before `sqnr_db`.
    limits: Mapping[str, Limit] = field(default_factory=dict)

    @staticmethod
    def of(precision: str, sqnr_db: float | None = None, allowed_loss: float | None = None) -> Rule:
        """Return the default rule of a precision, with other limits where they are given."""
        kind = Precision(precision)
        return Rule(kind, LEAST_SQNR_DB[kind] if sqnr_db is None else sqnr_db, allowed_loss)

    @property
    def by_metric(self) -> bool:
        """Whether the task's metric judges, and not the numbers: an fp32 copy is always held to its numbers."""
        return self.precision is not Precision.FP32 and self.allowed_loss is not None

    def limit_db(self, output: str | None) -> float:
        """Return the least agreement of an output, in dB."""
        limit = self._limit(output)
        return self.sqnr_db if limit is None else limit.sqnr_db

    def derivation(self, output: str | None) -> str | None:
        """Return how the limit of an output came about; None where it is no limit of this model's own."""
        limit = self._limit(output)
        return None if limit is None else limit.derivation

    def _limit(self, output: str | None) -> Limit | None:
        return self.limits.get(output or "") if self.precision is Precision.FP32 else None

    def tightest(self, drift: Drift) -> str | None:
        """Return the output that lies nearest to its limit, or furthest below; None where none has any noise."""
        return min(drift.by_output, key=lambda name: drift.by_output[name] - self.limit_db(name), default=None)

    def broken_column(self, drift: Drift) -> str | None:
        """Return the column furthest below its limit; None where all hold theirs."""
        limits = {name: self.column_limit_db(name) for name in drift.columns}
        gaps = {name: drift.columns[name] - limit_db for name, limit_db in limits.items() if limit_db is not None}
        worst = min(gaps, key=lambda name: gaps[name], default=None)
        return worst if worst is not None and gaps[worst] < 0 else None

    def column_limit_db(self, column: str) -> float | None:
        """Return the least agreement of a column, in dB; None where its noise floor is unknown, or too low for a limit:
        the model multiplies what is rounded in it."""
        limit = self.limits.get(column)
        if limit is None or limit.floor_db < UNSTEADY_DB:
            return None
        return COLUMN_DB.get(self.precision, limit.sqnr_db)

    def tolerance_of(self, output: str | None) -> Mapping[str, float | None]:
        """result.Tolerance: null where it does not apply."""
        if self.by_metric:
            return {"sqnr_db": None, "metric_loss": self.allowed_loss}
        return {"sqnr_db": self.limit_db(output), "metric_loss": None}


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, its sentence (None for a plain pass), and the tolerance that was applied."""

    verdict: str
    reason: str | None
    tolerance: Mapping[str, float | None]  # result.Tolerance
    derivation: str | None = None  # how the tolerance came about; None for one that holds for every model
    sqnr_db: float | None = None  # of the column that decided; None where whole outputs did


def judge(drift: Drift, rule: Rule, metric: Mapping[str, Any] | None = None) -> Judgement:
    """Judge one comparison by its rule.
    An fp32 copy has a signal to noise of at least `sqnr_db`, of small values alone SMALL_DB less, and equal integers.
    Of a reduced precision with a metric the 95 % interval of the loss lies within `allowed_loss` (pass), beyond it
    (fail), or spans it (inconclusive). Without a metric there is a floor of signal to noise. In all cases the same
    elements are finite, and a reference that does not vary is no evidence."""
    rule = rule if metric is not None else replace(rule, allowed_loss=None)
    tightest = rule.tightest(drift)
    judgement = partial(
        Judgement,
        tolerance=rule.tolerance_of(tightest),
        derivation=None if drift.mismatches else rule.derivation(tightest),
    )
    if drift.non_finite:
        return judgement(FAIL, _non_finite(drift), derivation=None)
    if rule.by_metric and metric is not None:
        verdict, reason = judge_loss(metric, rule.allowed_loss or 0.0)
    else:
        verdict, reason = _by_numbers(drift, rule)
        if verdict != FAIL and (column := rule.broken_column(drift)):
            return _judge_column(drift, rule, column)
    if verdict == PASS and not drift.varies:
        return judgement(INCONCLUSIVE, f"{_ALIKE}; give samples to which they do: --data FILE.npz")
    return judgement(verdict, reason)


def judge_silence(error: TransloadError, *, is_remote: bool) -> tuple[str, str]:
    """Return the sentence and the verdict on a call that got no answer.
    A foreign server fails, stops or refuses for reasons of its own, which say nothing of the model behind it."""
    if is_remote:
        return f"could not be asked: {error.what}; {error.fix}", INCONCLUSIVE
    return error.what, FAIL


def _judge_column(drift: Drift, rule: Rule, column: str) -> Judgement:
    limit_db, noise_db = rule.column_limit_db(column), drift.columns[column]
    reason = f"output {column} agrees to {noise_db:.1f} dB, below {limit_db:.3g} dB: larger columns beside it hide that"
    tolerance = {"sqnr_db": limit_db, "metric_loss": None}
    return Judgement(FAIL, reason, tolerance, rule.derivation(column), sqnr_db=noise_db)


def _non_finite(drift: Drift) -> str:
    where = f", first in output {drift.least_finite}" if drift.least_finite else ""
    reason = f"{drift.non_finite} of {drift.elements} elements are NaN or infinite on one side only{where}"
    if not drift.undefined:
        return reason
    whose = "all of them" if drift.undefined == drift.non_finite else f"{drift.undefined} of them"
    return f"{reason}, {whose} in the model itself: guard what makes them, as a division by what may be 0 does"


def _by_numbers(drift: Drift, rule: Rule) -> tuple[str, str | None]:
    share = drift.mismatches / drift.exact_elements if drift.exact_elements else 0.0
    if share > (0.0 if rule.precision is Precision.FP32 else MOST_MISMATCHES):
        return FAIL, f"{drift.mismatches} of {drift.exact_elements} integers differ"
    only_exact = drift.exact_elements == drift.elements
    tightest = rule.tightest(drift)
    if tightest is not None and drift.by_output[tightest] < rule.limit_db(tightest) and not only_exact:
        agreement = f"agrees to {drift.by_output[tightest]:.1f} dB, below {rule.limit_db(tightest):.3g} dB"
        return FAIL, f"output {tightest} {agreement}"
    least_db = min(rule.limit_db(drift.smallest), LEAST_SQNR_DB[Precision.FP32]) - SMALL_DB
    if rule.precision is Precision.FP32 and drift.small_db is not None and drift.small_db < least_db:
        small = f"agrees to {drift.small_db:.1f} dB in its small values, below {least_db:g} dB"
        return FAIL, f"output {drift.smallest} {small}: large ones beside them hide that"
    return (PASS, None) if only_exact else _steady_enough(drift, rule)


def _steady_enough(drift: Drift, rule: Rule) -> tuple[str, str | None]:
    """Return inconclusive where the model multiplies its own rounding so much that a wrong copy could look like it."""
    for output, noise_db in drift.by_output.items():
        limit = rule.limits.get(output) if rule.precision is Precision.FP32 else None
        if limit is not None and limit.floor_db < UNSTEADY_DB and noise_db < LEAST_SQNR_DB[Precision.FP32]:
            return INCONCLUSIVE, (
                f"output {output} agrees to {noise_db:.1f} dB, and {limit.derivation}: it multiplies what is rounded, "
                "so these numbers do not tell a right copy from a wrong one"
            )
    return PASS, None

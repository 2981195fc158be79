"""Which rows tell the same fact: a cause is counted once, however many rules and figures show it.

How far a copy departs from its source is one fact for each runtime. What follows from that, or from the source being
bad itself, is told there: the metric of the copy, its status, the figures beside the baseline.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .gate import WORST_FIRST
from .release_limits import SOURCE
from .schema import GateRow, Verdict

_DEPARTURES = ("drift", "metric_loss", "sqnr_db", "no_worse metric drift", "no_worse drift")
_SCORES = ("metric_min", "metric_max", "no_worse metric")  # of the source, and of each copy
_STATUSES = ("status", "verified", "no_worse status")
_ORDER = ("not made", "answers", *_DEPARTURES, *_SCORES, *_STATUSES)  # who tells it, of rows that are equally bad
_TOLD_BY = {
    **dict.fromkeys(_DEPARTURES, _DEPARTURES),
    **dict.fromkeys(_SCORES, (*_DEPARTURES, *_SCORES)),
    **dict.fromkeys((*_STATUSES, "batch"), ("answers", *_DEPARTURES, *_STATUSES)),
    **dict.fromkeys(("no_worse presence", "no_worse drift"), ("answers", *_DEPARTURES)),
}


@dataclass(frozen=True, slots=True)
class FactClaim:
    """What a row says of an artifact.
    `rule`: that of the gate, "batch" of one comparison, "not made" or "status" of a target, "any" of them all."""

    rule: str
    artifact: str
    runtime: str | None
    verdict: Verdict
    model: str = ""  # its name, where a command does several models


def told_elsewhere(claims: Iterable[FactClaim]) -> dict[FactClaim, FactClaim]:
    """Return the claims that repeat another one, which is as bad or worse, with the one that counts."""
    tellers: dict[FactClaim, FactClaim] = {}
    ranked = sorted((claim for claim in claims if claim.verdict is not Verdict.PASS), key=_rank)
    for at, claim in enumerate(ranked):
        if teller := next((other for other in ranked[:at] if _tells(other, claim)), None):
            tellers[claim] = tellers.get(teller, teller)
    return tellers


def _rank(claim: FactClaim) -> tuple[int, int, bool]:
    order = _ORDER.index(claim.rule) if claim.rule in _ORDER else len(_ORDER)
    return WORST_FIRST.index(claim.verdict), order, claim.artifact != SOURCE


def _tells(other: FactClaim, claim: FactClaim) -> bool:
    if other.model != claim.model:
        return False
    if other.artifact != claim.artifact:  # a copy that keeps its tolerance is as good as its source
        return other.artifact == SOURCE and other.rule == claim.rule and claim.rule in _SCORES
    is_cause = claim.rule == "any" or other.rule == "not made" or other.rule in _TOLD_BY.get(claim.rule, ())
    return is_cause and other != claim and (not claim.runtime or other.runtime in (claim.runtime, None))


def own_facts(gate: Iterable[GateRow]) -> list[GateRow]:
    """Return the rules that are not kept, without those that repeat another one."""
    claims = {row: FactClaim(row.rule, row.artifact, row.runtime, row.verdict) for row in gate}
    repeats = told_elsewhere(claims.values())
    return [row for row, claim in claims.items() if row.verdict is not Verdict.PASS and claim not in repeats]

"""Elements of integer outputs that rounding decides: the larger of two nearly equal scores, a number at a border.

A right copy rounds in another order, and may answer either way there. They are found by rounding at random: every
operator of the model in float64 gets noise of a few units in float32's last place (Monte Carlo arithmetic: D. S.
Parker, "Monte Carlo Arithmetic", UCLA CSD-970002, 1997). An element that then changes is settled by no float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from ...models.errors import TransloadError
from ...models.probes.evidence import Answers
from ...models.signature import Array
from ...serving.session import WideningSession

UNSETTLED = "unsettled.npz"  # one series for each probe, as the answers to it
UNSETTLED_SET = "unsettled_set"  # of the whole test set, in shards
ROUNDING_NOISE = 2.0**-21  # of each result, standard deviation: float32 rounds to 2^-24, a kernel sums many of these
_MOST_PAIRS = 8  # of trials with opposite noise: one of the two parts a pair of equal scores; none is made in vain

Marks = Mapping[str, Array]  # bool, by output: whether rounding decides an element


def has_integers(answers: Answers) -> bool:
    """Return whether any output is exact, so that rounding can turn it over."""
    return any(array.dtype.kind in "iub" for array in answers.values())


def find_unsettled(session: WideningSession, feeds: Mapping[str, Array], answers: Answers) -> dict[str, Array]:
    """Mark the elements of integer outputs that rounding decides, beside the `answers` of float32 to the same feeds.

    The session answers in float64 from then on. An output whose shape depends on rounding is compared as it is.
    """
    marks = {name: np.zeros(array.shape, bool) for name, array in answers.items() if array.dtype.kind in "iub"}
    ragged: set[str] = set()
    for seed in range(_MOST_PAIRS):
        before = _count(marks)
        for noise in (0.0, ROUNDING_NOISE, -ROUNDING_NOISE)[seed > 0 :]:  # without noise once
            session.widen(noise, seed)
            with suppress(TransloadError):  # noise makes a size or an index impossible
                ragged |= _mark(marks, session.run(feeds), answers)
        if _count(marks) == before:
            break
    return {name: np.zeros_like(unsettled) if name in ragged else unsettled for name, unsettled in marks.items()}


def _mark(marks: Marks, trial: Answers, answers: Answers) -> set[str]:
    """Mark the elements of a trial that differ; return the outputs that have another shape in it."""
    alike = {name for name, unsettled in marks.items() if trial[name].shape == unsettled.shape}
    for name in alike:
        np.logical_or(marks[name], trial[name] != answers[name], out=marks[name])
    return set(marks) - alike


def _count(marks: Marks) -> int:
    return sum(int(np.count_nonzero(unsettled)) for unsettled in marks.values())


def settle(candidate: Answers, reference: Answers, marks: Marks) -> tuple[dict[str, Array], int]:
    """Return the candidate's answers with the reference's where rounding decides, and how many elements differed."""
    settled, ties = dict(candidate), 0
    for name, unsettled in marks.items():
        if candidate[name].shape == unsettled.shape:
            turned = unsettled & (candidate[name] != reference[name])
            settled[name] = np.where(turned, reference[name], candidate[name])
            ties += int(np.count_nonzero(turned))
    return settled, ties

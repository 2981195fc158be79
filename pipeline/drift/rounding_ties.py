"""Elements of outputs that rounding decides: integers that it turns over, and floats that it multiplies.

A right copy rounds in another order. Of two nearly equal scores it may take either, and a normalisation of nearly equal
numbers answers what was rounded in them. Both are found by rounding at random: every operator of the model in float64
gets noise of a few units in float32's last place (Monte Carlo arithmetic: D. S. Parker, "Monte Carlo Arithmetic", UCLA
CSD-970002, 1997). An integer that then changes is settled by no float32, and a float no better than it then spreads.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from ...models.errors import TransloadError
from ...models.probes.evidence import Answers
from ...models.signature import Array
from ...serving.session import WideningSession

TIES = "ties.npz"  # which answers are ties: one series for each probe, as the answers to it
TIES_SET = "ties_set"  # a folder: which answers to the whole test set are ties, in shards
ROUNDING_NOISE = 2.0**-21  # of each result, standard deviation: float32 rounds to 2^-24, a kernel sums many of these
# Pairs of trials with opposite noise where the first turns any integer over: one of the two parts two equal scores, and
# the middle one of three stays where it is once in 3^8 times.
_MOST_PAIRS = 8
_SPREAD_PAIRS = 4  # that the spread of floats is estimated from
_MOST_SPREADS = 4.0  # of a float from the reference: right copies of norms came to 2.1, wrong ones to 7 and more
_LEAST_SPREAD = 2.0**-14  # of an output's root mean square: a smaller spread leaves the usual limits room enough
# That a change may come to of the answers' root mean square, and times the median change, where all change about alike.
_EVEN_SPREAD, _MOST_EVEN = 2.0**-9, 16.0

Marks = Mapping[str, Array]  # by output: of integers whether rounding decides them; how far it spreads floats, else 0


def has_integers(answers: Answers) -> bool:
    """Return whether any output is exact, so that rounding can turn it over."""
    return any(array.dtype.kind in "iub" for array in answers.values())


def no_marks(answers: Answers) -> dict[str, Array]:
    """Return the marks of answers that rounding decides nowhere."""
    return {name: np.zeros(array.shape, bool) for name, array in answers.items()}


def find_ties(
    session: WideningSession, feeds: Mapping[str, Array], answers: Answers, *, is_undefined: bool = False
) -> dict[str, Array]:
    """Mark the elements of outputs that rounding decides, beside the `answers` of float32 to the same feeds.

    The session answers in float64 from then on. An output whose shape depends on rounding is compared as it is. Of
    floats alone one trial is made where it agrees with the answers, but to NaN and infinities (`is_undefined`).
    """
    trials = _Trials(answers)
    if not (has_integers(answers) or is_undefined):
        session.widen(ROUNDING_NOISE)
        with suppress(TransloadError):
            gaps = trials.gaps(session.run(feeds), answers)
            if _is_even(gaps, answers) or not _spreads(gaps, answers):
                return no_marks(answers)
    for seed in range(_MOST_PAIRS):
        for noise in (0.0, ROUNDING_NOISE, -ROUNDING_NOISE)[seed > 0 :]:  # without noise once
            session.widen(noise, seed)
            with suppress(TransloadError):  # noise makes a size or an index impossible
                trials.add(session.run(feeds))
        if not trials.turned and (seed + 1 >= _SPREAD_PAIRS or not _spreads(trials.spread, answers)):
            break
    return trials.marks


@dataclass
class _Trials:
    """What trials in float64 differ in: the first has no noise."""

    answers: Answers  # of float32
    changed: dict[str, Array] = field(default_factory=dict)  # of integers
    squares: dict[str, Array] = field(default_factory=dict)  # sums, of floats
    first: Answers | None = None
    count: int = 0  # of the trials after it
    ragged: set[str] = field(default_factory=set)  # outputs that have another shape in a trial

    def add(self, trial: Answers) -> None:
        """Add a trial."""
        self.ragged |= {name for name, array in self.answers.items() if trial[name].shape != array.shape}
        for name, array in self.answers.items():
            if array.dtype.kind in "iub" and name not in self.ragged:
                self.changed[name] = self.changed.get(name, False) | (trial[name] != array)
        if self.first is None:
            self.first = trial
            return
        self.count += 1
        for name, gap in self.gaps(trial, self.first).items():
            with np.errstate(over="ignore"):
                self.squares[name] = self.squares.get(name, 0.0) + np.square(gap)

    def gaps(self, trial: Answers, answers: Answers) -> dict[str, Array]:
        """Return how far the floats of a trial lie from others; 0 where either is not finite."""
        floats = {name: array for name, array in answers.items() if self.answers[name].dtype.kind == "f"}
        alike = {name: array for name, array in floats.items() if trial[name].shape == array.shape}
        with np.errstate(invalid="ignore", over="ignore"):
            gaps = {name: trial[name].astype(np.float64) - array for name, array in alike.items()}
        return {name: np.nan_to_num(gap, nan=0.0, posinf=0.0, neginf=0.0) for name, gap in gaps.items()}

    @property
    def turned(self) -> int:
        """How many integers changed."""
        return sum(int(np.count_nonzero(changed)) for name, changed in self.changed.items() if name not in self.ragged)

    @property
    def spread(self) -> dict[str, Array]:
        """The root mean square of what noise changes in each float."""
        return {name: np.sqrt(squares / self.count) for name, squares in self.squares.items()}

    @property
    def marks(self) -> dict[str, Array]:
        """What rounding decides in each output, by all trials so far."""
        large = _spreads(self.spread, self.answers)
        marks = {**no_marks(self.answers), **self.changed, **large}
        return {name: np.zeros(marks[name].shape, bool) if name in self.ragged else marks[name] for name in marks}


def _spreads(spread: Mapping[str, Array], answers: Answers) -> dict[str, Array]:
    """Return the spread of outputs of which it decides an element, 0 where it decides none."""
    large: dict[str, Array] = {}
    for name, sizes in spread.items():
        finite = answers[name][np.isfinite(answers[name])].astype(np.float64)
        least = _LEAST_SPREAD * np.sqrt(np.mean(np.square(finite))) if finite.size else np.inf
        if (np.abs(sizes) > least).any():
            large[name] = np.where(sizes > least, sizes, 0).astype(np.float32)
    return large


def _is_even(gaps: Mapping[str, Array], answers: Answers) -> bool:
    """Return whether noise changes all elements of every output about alike, and little: the floor has room for it."""
    for name, gap in gaps.items():
        finite = answers[name][np.isfinite(answers[name])].astype(np.float64)
        size = np.sqrt(np.mean(np.square(finite))) if finite.size else 0.0
        most = min(_MOST_EVEN * np.median(np.abs(gap)), _EVEN_SPREAD * size) if gap.size else 0.0
        if (np.abs(gap) > most).any():
            return False
    return True


def settle(candidate: Answers, reference: Answers, marks: Marks) -> tuple[dict[str, Array], int]:
    """Return the candidate's answers with the reference's where rounding decides, and how many elements differed.
    Floats that differ by more than rounding spreads them stay as they are."""
    settled, ties = dict(candidate), 0
    for name, tie_marks in marks.items():
        if candidate[name].shape != tie_marks.shape:
            continue
        turned = (tie_marks > 0) & (candidate[name] != reference[name])
        if tie_marks.dtype != bool:
            with np.errstate(invalid="ignore"):
                turned &= np.abs(candidate[name] - reference[name]) <= _MOST_SPREADS * tie_marks
        settled[name] = np.where(turned, reference[name], candidate[name])
        ties += int(np.count_nonzero(turned))
    return settled, ties

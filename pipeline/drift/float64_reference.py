"""Compare the reference's answers with its own in float64, and mark what rounding decides."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...models.dataset import Dataset
from ...models.errors import TransloadError
from ...models.probes.evidence import Answers, Series
from ...models.probes.feeds import make_feeds
from ...models.probes.probe_set import Probe, ProbeKey
from ...models.signature import Array
from ...serving.session import WideningSession
from .answer_shards import RecordedSeries, write_series
from .noise_floor import OutputNoise, measure_noise, noise_calls, worst_noise
from .numbers.column_drift import column_axes
from .recorded_answers import ANSWERS, write_calls
from .rounding_ties import (
    ROUNDING_NOISE,
    TIES,
    TIES_SET,
    Marks,
    find_ties,
    has_integers,
    no_marks,
    settle,
)

_FLOATS_S = 2.0  # that answers without integers are asked for what rounding decides in them


@dataclass
class Float64Reference:
    """A reference's session that answers in float64 from now on, and the samples that it is asked."""

    session: WideningSession
    data_of: Callable[[Probe], Dataset]  # the rows that calls of a probe are made of
    usual: Probe  # whose samples stand for all that are asked as they are
    indices: Collection[str] = ()  # inputs of integers that choose rows of tables: no number is computed from these
    marks: dict[ProbeKey, list[Marks]] = field(default_factory=dict)  # what rounding decides, by `measure`
    left_s: float = _FLOATS_S
    _first: Answers = field(default_factory=dict)  # to the first call of the usual samples

    def measure(self, series: Mapping[ProbeKey, Series]) -> tuple[OutputNoise, ...]:
        """Measure how well the first answers to each probe agree with float64.

        Of the samples one call is asked, for it takes a convolution four times as long; its noise counts for other
        batches and sizes. Empty where the model has no float64.
        """
        try:
            self.session.widen()
            # The first call takes seconds more than those whose time is limited.
            self._first = self._ask(self.usual, next(self.usual.rows(self.data_of(self.usual))))
            # The usual samples first: others of a slow model are not asked within the time.
            keys = sorted(series, key=lambda key: key != self.usual.key)
            marks = {key: [*self._marks_of(Probe.of_key(key), series[key])] for key in keys}
            self.marks = {key: marks[key] for key in series}
            self.session.widen()
            return tuple(self._noise_of(Probe.of_key(key), answers) for key, answers in series.items())
        except TransloadError as error:
            print(f"no answers in float64: {error.what}")  # for the step's log
            return ()

    def _noise_of(self, probe: Probe, series: Series) -> OutputNoise:
        if probe.is_undefined or self._is_like_usual(probe):
            return {}
        calls = zip(noise_calls(probe, self.data_of(probe)), series, self.marks[probe.key], strict=False)
        return worst_noise(self._noise_of_call(probe, *call) for call in calls)

    def _noise_of_call(self, probe: Probe, rows: Array, answers: Answers, marks: Marks) -> OutputNoise:
        trial = self._ask_rounding(probe, rows) if probe.is_blank or probe.is_stress else None
        if trial is None or not _has_shapes(trial, answers):
            trial = self._first if probe == self.usual else self._ask(probe, rows)
            trial, _ = settle(trial, answers, marks)
        axes = column_axes(self.session.signature)
        return measure_noise(answers, trial, axes) if _has_shapes(trial, answers) else {}

    def _is_like_usual(self, probe: Probe) -> bool:
        """Return whether the noise of the usual samples counts for a probe."""
        is_resized = bool(probe.sizes) and not (probe.is_blank or probe.is_stress)
        is_own = bool(probe.fills or probe.source) and not is_resized
        return probe != self.usual and not is_own and all(name in self.indices for name in probe.reach)

    def _ask_rounding(self, probe: Probe, rows: Array) -> Answers | None:
        """Ask where every operator rounds at random: sorting may return rows of equal scores in any order.
        None where noise makes a size or an index impossible; leaves noise off after it."""
        self.session.widen(ROUNDING_NOISE)
        try:
            return self._ask(probe, rows)
        except TransloadError:
            return None
        finally:
            self.session.widen()

    def write_ties(self, folder: Path, rows_of_set: Sequence[Array] | None) -> None:
        """Write what rounding decides in the answers to each probe, and in the recorded ones to the whole test set."""
        write_calls(folder / TIES, list(self.marks.values()))
        if rows_of_set is not None:
            self.left_s = _FLOATS_S
            marks = self._marks_of(self.usual, RecordedSeries(folder / ANSWERS), rows_of_set)
            write_series(folder / TIES_SET, marks)

    def _marks_of(self, probe: Probe, answers: Series, rows: Iterable[Array] | None = None) -> Iterator[Answers]:
        """Mark what rounding decides in the answers to calls of these rows, else of the probe's own, call by call."""
        data, signature = self.data_of(probe), self.session.signature
        rows = probe.rows(data, len(answers) * probe.batch) if rows is None else rows
        feeds = (make_feeds(data, chosen, signature, probe.sizes) for chosen in rows)
        return (self._mark(probe, fed, call) for fed, call in zip(feeds, answers, strict=True))

    def _mark(self, probe: Probe, fed: Mapping[str, Array], answers: Answers) -> Marks:
        """Mark what rounding decides in a call: without integers for some seconds, and of no finite stress, whose limit
        is that of its own noise. Of NaN and infinities, what they are turned into decides, however far it lies."""
        start, is_floats = time.monotonic(), not has_integers(answers)
        is_limited = probe.is_blank or (probe.is_stress and not probe.is_undefined)
        if is_floats and (is_limited or self.left_s <= 0):
            return no_marks(answers)
        marks = find_ties(self.session, fed, answers, is_undefined=probe.is_undefined)
        if probe.is_undefined:
            marks = {name: tie_marks > 0 for name, tie_marks in marks.items()}
        self.left_s -= time.monotonic() - start if is_floats else 0
        return marks

    def _ask(self, probe: Probe, rows: Array) -> Answers:
        return self.session.run(make_feeds(self.data_of(probe), rows, self.session.signature, probe.sizes))


def _has_shapes(answers: Answers, second: Answers) -> bool:
    return all(answers[name].shape == array.shape for name, array in second.items())

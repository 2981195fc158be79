"""The probes that a reference is asked: what it refuses, or what tells nothing, no copy is asked."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from ...models.array_file import write_arrays
from ...models.dataset import Dataset
from ...models.errors import BadRequest, TransloadError
from ...models.probes.accepted_sizes import suggest_sizes
from ...models.probes.accepted_values import EXAMPLE, find_refused, find_values, suggest_values
from ...models.probes.evidence import Answers, Series, contradiction, is_filled
from ...models.probes.extreme_sizes import FAR_SAMPLES, Room, far_batches, far_sizes_of
from ...models.probes.feeds import CallRows, make_feeds, samples_per_call, sizes_in
from ...models.probes.fill_probes import find_blank_fills, find_mask_fills, find_stress
from ...models.probes.integer_range import IntegerRangeSearch
from ...models.probes.masks import Fill, blank_inputs, mask_inputs, stress_inputs
from ...models.probes.probe_set import BATCH_SAMPLES, PROBE_SAMPLES, SIZE_SAMPLES, Probe, ProbeKey
from ...models.probes.sizes import bounds_within, empty_axes, other_sizes, resized_axes
from ...models.probes.stress_values import (
    IntegerRange,
    free_integers,
    with_float32_integers,
    with_other_last_bits,
)
from ...models.probes.threshold_rows import ThresholdRows
from ...models.signature import Array
from ...serving.session import Session
from .answer_shards import write_series
from .drift_records import AnswerOptions
from .metrics.sample_digests import SAMPLES, digest_samples
from .noise_floor import (
    Cause,
    OutputNoise,
    measure_batch_split,
    measure_noise,
    measure_steadiness,
    noise_calls,
    worst_noise,
)
from .numbers.column_drift import column_axes
from .numbers.numeric import combine, compare
from .recorded_answers import ANSWERS, DRAWN, varies
from .rounding_ties import Marks, settle
from .sessions import SampleTrial

_ENOUGH = 1000  # numbers in every output: the mean of so many squared errors hardly varies between calls
_SCORED, _SCORED_S = (32, 256), 5.0  # samples that a metric scores in a conversion: the least, the most, and the time
_ROWS_S = 3.0  # that rows of another source may take
_LEAST_CALLS = 2  # of a batch: a copy may keep something from one to the next


@dataclass
class ReferenceProbing:
    """The probes that one session was asked, with its answers."""

    session: Session
    data: Dataset
    series: dict[ProbeKey, Series] = field(default_factory=dict)
    refused: dict[str, dict[int, str]] = field(default_factory=dict)
    constant: dict[str, list[int]] = field(default_factory=dict)
    noise: dict[Cause, OutputNoise] = field(default_factory=dict)
    # How well answers to stress agree where the inputs have other last bits.
    steadiness: dict[ProbeKey, OutputNoise] = field(default_factory=dict)
    sources: dict[str, Dataset] = field(default_factory=dict)  # rows other than the samples, by the name of their kind
    near: ThresholdRows = field(default_factory=ThresholdRows)  # of the model's own constants
    batches: tuple[int, ...] = ()  # the usual ones
    call_s: float = math.inf  # of a call at the largest of them
    nudged: Answers | None = None  # to the first samples with other last bits

    def ask_batches(self, batches: Sequence[int]) -> None:
        """Ask at each batch size, all other axes as the data has them."""
        self.batches = tuple(batches)
        for batch in batches:
            probe = Probe(batch)
            start = time.monotonic()
            try:
                self.series[probe.key] = self._ask_until_enough(probe)
            except TransloadError as error:
                raise self._no_answer(probe, error) from error
            if batch == self._largest:
                self.call_s = (time.monotonic() - start) / len(self.series[probe.key])

    def _ask_until_enough(self, probe: Probe) -> list[Answers]:
        """Ask some samples: fewer at a smaller batch whose answers vary, and where they hold many numbers."""
        is_largest, calls = probe.batch == self._largest, list[Answers]()
        samples, wanted = (PROBE_SAMPLES, 4 * _ENOUGH) if is_largest else (SIZE_SAMPLES, 2 * _ENOUGH)
        for answers in self._answers(probe, probe.rows(self.data, samples), self.data):
            calls.append(answers)
            has_some = not is_largest and len(calls) * probe.batch >= BATCH_SAMPLES and self._varies(calls)
            has_enough = min(sum(call[name].size for call in calls) for name in answers) >= wanted
            if len(calls) >= _LEAST_CALLS and (has_some or has_enough):
                break
        return calls

    def _no_answer(self, probe: Probe, error: TransloadError) -> BadRequest:
        signature = self.session.signature
        own = sizes_in(self.data, signature)
        sizes = {signature.batch or "": probe.batch, **own}
        at = ", ".join(f"{axis}={size}" for axis, size in sizes.items() if axis)
        where = f" at {at}" if at else ""
        trial = SampleTrial(self.session, self.data)
        accepts = partial(trial.accepts_values, probe)
        if names := find_refused([spec.name for spec in free_integers(signature.inputs)], accepts):
            where = f"{where} to these integers of {' and '.join(names)}, but to ones"
        if names or not own:
            first = names[0] if names else signature.inputs[0].name
            ranges = find_values(names, accepts, trial.tables) or {first: EXAMPLE}
            fix = f"{suggest_values(signature.inputs, ranges)}, or give samples of yours: --data FILE.npz"
        else:
            fix = suggest_sizes(signature.inputs, own, partial(trial.accepts_sizes, probe.batch))
        return BadRequest(f"the model itself does not answer{where}: {error.what}", fix=fix)

    def record_set(self, out: Path, options: AnswerOptions) -> int | None:
        """Write the answers to the whole test set with the digests of its samples, or to drawn samples, as the options
        say. Return the samples of a call, as many as the model takes; None where the whole set was not asked."""
        signature = self.session.signature
        if not options.probes_only:
            most = samples_per_call(self.data, options.chunk)
            chunk = bounds_within(signature.inputs, signature.batch).nearest(most)
            write_series(out / ANSWERS, self._answers(Probe(chunk), self.rows_of_set(chunk), self.data))
            write_arrays(out / SAMPLES, digest_samples(self.data))
            return chunk
        if options.scores:
            write_series(out / ANSWERS, self.ask_drawn(out / DRAWN, options.chunk))
        return None

    def ask_drawn(self, file: Path, chunk: int) -> Iterator[Answers]:
        """Ask samples drawn at random, for some seconds, and keep their rows in `file`."""
        most = int(_SCORED_S / max(self.call_s / self._largest, 1e-9))
        count = min(len(self.data), max(_SCORED[0], min(_SCORED[1], most)))
        drawn = np.random.default_rng(0).choice(len(self.data), count, replace=False)
        write_arrays(file, {"rows": drawn})
        bounds = bounds_within(self.session.signature.inputs, self.session.signature.batch)
        chunk = bounds.nearest(min(count, samples_per_call(self.data, chunk)))
        return self._answers(Probe(chunk), (drawn[rows] for rows in CallRows(count, chunk, bounds)), self.data)

    def takes(self, rows: Sequence[int]) -> bool:
        """Return whether these samples get answers, all of finite numbers."""
        with suppress(TransloadError):
            calls = list(self._answers(self.usual, [np.resize(rows, self._largest)] if rows else [], self.data))
            floats = [array for call in calls for array in call.values() if array.dtype.kind == "f"]
            return bool(rows) and all(np.isfinite(array).all() for array in floats)
        return False

    def rows_of_set(self, chunk: int) -> Sequence[Array]:
        """Return the rows of each call of the whole test set."""
        signature = self.session.signature
        return CallRows(len(self.data), chunk, bounds_within(signature.inputs, signature.batch))

    def ask_last_bits(self) -> None:
        """Ask the first samples once more, with the last bits of their floats changed."""
        if not any(array.dtype.kind == "f" for array in self.data.inputs.values()):
            return
        nudged = with_other_last_bits(self.data.rows(0, self._largest))
        with suppress(TransloadError):  # numbers that are just within the limits of the model
            (self.nudged,) = self._answers(self.usual, [next(self.usual.rows(self.data))], nudged)

    def check_repeats(self) -> None:
        """Compare the reference with itself, at the largest batch: a model that draws numbers draws most of them there.
        Threads may round differently; more is another answer. Where those to other last bits agree, they tell it."""
        probe = self.usual
        if self.nudged is not None and self._agrees(self.nudged):
            return
        if not self._agrees(self._ask(probe, [next(probe.rows(self.data))])[0]):
            raise BadRequest(
                "the reference gives two answers to the same inputs: it draws random numbers, or keeps something "
                "between two calls",
                fix="make it again from the model in eval mode, drawing nothing; what it keeps (a buffer, a variable) "
                "can be an input and an output of it",
            )

    def _agrees(self, again: Answers) -> bool:
        """Return whether these are the first answers to the usual samples, but for rounding."""
        drift = combine({name: compare(again[name], array) for name, array in self.series[self.usual.key][0].items()})
        return not (drift.non_finite or drift.mismatches or (drift.sqnr_db is not None and drift.sqnr_db < 60))

    def measure_last_bits(self, marks: Mapping[ProbeKey, Sequence[Marks]]) -> None:
        """Measure how well the answers agree where inputs differ in their last bits, and where a batch is split, but
        for what rounding decides (`marks`)."""
        key, single, axes = self.usual.key, Probe(1).key, column_axes(self.session.signature)
        if single in self.series and key != single and self.session.signature.batch is not None:
            self.noise[Cause.BATCH_SPLIT] = measure_batch_split(self.series[key], self.series[single], axes)
        if self.nudged is not None:
            answers, _ = settle(self.nudged, first := self.series[key][0], marks[key][0] if marks else {})
            self.noise[Cause.LAST_BITS] = measure_noise(answers, first, axes)

    @property
    def usual(self) -> Probe:
        """The probe that asks the samples as they are, at the largest of the usual batches."""
        return Probe(self._largest)

    @property
    def telling(self) -> Probe:
        """The samples at the smallest usual batch of several whose answers hold numbers enough to measure noise by."""
        batches = sorted(batch for batch in self.batches if batch > 1)
        return next((probe for probe in map(Probe, batches) if self._has_enough(probe)), self.usual)

    def _one_tells(self, stress: Fill | Probe) -> bool:
        """Return whether the answer to one sample with this stress holds numbers enough to measure noise by."""
        return not stress.is_paired and Probe(1).key in self.series and self._has_enough(Probe(1))

    def _has_enough(self, probe: Probe) -> bool:
        return all(array.size >= _ENOUGH for array in self.series[probe.key][0].values())

    def ask_sizes(self) -> None:
        """Ask with each axis other than the batch at another size than the data has, and at its least.
        Where it may be empty, ask with a batch of 0. An axis that is empty in the data has nothing to fill it with."""
        signature = self.session.signature
        batch = self._largest
        own = sizes_in(self.data, signature)
        for axis, size in own.items():
            if size == 0:
                continue
            bounds = bounds_within(signature.inputs, axis)
            tried: dict[int, bool] = {size: True}
            for other in other_sizes(size, bounds):
                tried[other] = self._ask_size(batch, axis, other, own)
                if tried[other]:
                    break
            if bounds.low not in tried:
                self._ask_size(batch, axis, bounds.low, own)
        if signature.batch in empty_axes(signature.inputs):
            self._ask_size(batch, signature.batch, 0, own)

    def ask_far_sizes(self) -> None:
        """Ask large batches, and every other axis at the ends of its bounds and between, as far as there is room."""
        signature = self.session.signature
        own = sizes_in(self.data, signature)
        room = Room(signature.inputs, {**own, signature.batch or "": self._largest}, self.call_s)
        for alternatives in far_batches(signature.inputs, self.batches):
            any(self._ask_far_batch(room, size) for size in alternatives)
        for axis in (axis for axis, size in own.items() if size):
            for alternatives in far_sizes_of(signature.inputs, axis, own[axis]):
                any(self._ask_far_size(room, axis, size, own) for size in alternatives)

    def _ask_far_batch(self, room: Room, size: int) -> bool:
        """Ask one call of so many samples; return whether there is an answer."""
        probe = Probe(size)
        if probe.key in self.series or not room.has({self.session.signature.batch or "": size}):
            return probe.key in self.series
        try:
            answers = self._ask(probe, [next(probe.rows(self.data))])
        except TransloadError as error:
            print(f"the model itself does not answer at batch {size}: {error.what}")  # for the step's log
            return False
        if self._varies(answers) and all(map(is_filled, answers)):
            self.series[probe.key] = answers
        return True

    def _ask_far_size(self, room: Room, axis: str, size: int, own: Mapping[str, int]) -> bool:
        """Ask with `axis` at `size` where there is room; return whether that is done, or was before."""
        if size == own[axis] or any(dict(sizes).get(axis) == size for _, sizes, *_ in self.series):
            return True
        if size in self.refused.get(axis, ()):
            return False
        has_room = room.has({self.session.signature.batch or "": self._few, axis: size})
        return has_room and self._ask_size(self._few, axis, size, own, FAR_SAMPLES)

    def _ask_size(self, batch: int, axis: str, size: int, own: Mapping[str, int], samples: int | None = None) -> bool:
        """Ask with `axis` at `size`; return whether there is an answer that tells something."""
        outputs = self.session.signature.outputs
        reason = ""
        for sizes in resized_axes(axis, size, own):
            probe = Probe(batch, sizes)
            if probe.key in self.series:
                return True
            try:
                answers = self._ask(probe, probe.rows(self.data, samples))
            except TransloadError as error:
                reason = reason or error.what
                continue
            misfit = contradiction(outputs, answers)
            if misfit and not contradiction(outputs, self.series[Probe(batch).key]):
                reason = reason or misfit
                continue
            if probe.is_empty or (self._varies(answers) and all(map(is_filled, answers))):
                self.series[probe.key] = answers
                return True
            self.constant.setdefault(axis, []).append(size)
            return False
        if samples is None or bounds_within(self.session.signature.inputs, axis).high is not None:
            self.refused.setdefault(axis, {})[size] = reason
        print(f"the model itself does not answer at {axis}={size}: {reason}")  # for the step's log
        return False

    def ask_fills(self) -> None:
        """Ask with masks that hide all or nothing, and with blank samples; few of them, for there are several fills."""
        inputs = self.session.signature.inputs
        few, usual = self._few, self.series[Probe(self._few).key]
        answered = find_mask_fills(mask_inputs(inputs), few, usual, self._with_values)
        batch = self._stress_batch(Fill.BLANK)
        answered += find_blank_fills(blank_inputs(inputs), batch, usual, self._with_values)
        self.series |= {probe.key: answers for probe, answers in answered}

    def ask_full_masks(self) -> None:
        """Ask the largest size of each axis with masks of ones: random ones hide the same places in every call."""
        fills = dict.fromkeys((spec.name for spec in mask_inputs(self.session.signature.inputs)), Fill.ALL)
        for axis in sizes_in(self.data, self.session.signature) if fills else ():
            largest = max(dict(sizes).get(axis, 0) for _, sizes, *_ in self.series)
            sampled = Probe(self._few, {axis: largest})
            if sampled.key in self.series:
                probe = replace(sampled, fills=fills)
                with suppress(TransloadError):
                    self.series[probe.key] = [*self._with_values(probe)]

    def ask_rows(self, source: str, rows: Dataset) -> None:
        """Ask rows other than the samples, for some seconds, and keep them with the answers."""
        probe = replace(self.usual, source=source)
        until, calls = time.monotonic() + _ROWS_S, []
        with suppress(TransloadError):  # what is declared may be more than the model takes
            for answers in self._answers(probe, probe.rows(rows), rows):
                calls.append(answers)
                if time.monotonic() > until:
                    break
        if not calls:
            print(f"the model itself does not answer with {source}")  # for the step's log
            return
        self.sources[source], self.series[probe.key] = rows, calls
        with suppress(TransloadError):
            axes, nudged = column_axes(self.session.signature), with_other_last_bits(rows)
            pairs = zip(self._answers(probe, noise_calls(probe, rows), nudged), calls, strict=False)
            self.steadiness[probe.key] = worst_noise(measure_noise(call, own, axes) for call, own in pairs)

    def data_of(self, probe: Probe) -> Dataset:
        """Return the rows that the calls of a probe are made of."""
        return probe.of(self.sources.get(probe.source, self.data))

    def ask_combination(self, probe: Probe) -> None:
        """Ask a probe whose changes the model has answered one by one."""
        data = self.data_of(probe)
        try:
            answers = [*self._answers(probe, probe.rows(data, FAR_SAMPLES), data)]
        except TransloadError as error:
            print(f"the model itself does not answer {probe}: {error.what}")  # for the step's log
            return
        outputs = self.session.signature.outputs
        misfit = contradiction(outputs, answers) and not contradiction(outputs, self.series[self.usual.key])
        if not misfit and all(map(is_filled, answers)) and (not probe.as_sampled or self._varies(answers)):
            self.series[probe.key] = answers

    def ask_stress(self) -> None:
        """Ask with floats that no sample holds, one call of each kind, and with their last bits changed."""
        floats, usual = stress_inputs(self.session.signature.inputs), self.series[Probe(self._few).key]
        for probe, answers in find_stress(floats, self._stress_batch, usual, self._with_stress):
            self.series[probe.key] = answers
            with suppress(TransloadError):
                nudged = [*self._with_stress(probe, nudge=True)]
                self.steadiness[probe.key] = measure_steadiness(nudged, answers)

    def _stress_batch(self, fill: Fill) -> int:
        """Return the batch of a kind of stress: a single sample where that tells enough, for there are many kinds."""
        return 1 if self._one_tells(fill) else self._few

    def _with_stress(self, probe: Probe, *, nudge: bool = False) -> Iterator[Answers]:
        data = self.data_of(probe)
        rows = [*probe.rows(data)]
        calls = 1 if self._one_tells(probe) else len(rows)
        return self._answers(probe, rows[:calls], with_other_last_bits(data) if nudge else data)

    def ask_integers(self, tries: int) -> dict[str, IntegerRange]:
        """Ask with other integers than random samples hold; return how large they may be, by input."""
        inputs, batch, usual = self.session.signature.inputs, self.telling.batch, self.series[self.telling.key]
        tables = SampleTrial(self.session, self.data).tables
        search = IntegerRangeSearch(inputs, batch, usual, self._with_values, tries=tries, tables=tables)
        widest = search.find_widest()
        self.series |= {probe.key: answers for probe, answers in search.levels}
        return widest

    def _with_values(self, probe: Probe, rounded: Sequence[str] = ()) -> Iterator[Answers]:
        data = with_float32_integers(self.data_of(probe), rounded)
        return self._answers(probe, probe.rows(data), data)

    @property
    def _few(self) -> int:
        """The smallest of the usual batches that holds several samples, where there is one."""
        return min((batch for batch in self.batches if batch > 1), default=self._largest)

    @property
    def _largest(self) -> int:
        """The largest of the usual batches."""
        return max(self.batches)

    def _varies(self, calls: Sequence[Answers]) -> bool:
        return varies(calls, batched=self.session.signature.batch is not None)

    def _ask(self, probe: Probe, rows: Iterable[Array]) -> list[Answers]:
        return [*self._answers(probe, rows, self.data)]

    def _answers(self, probe: Probe, rows: Iterable[Array], data: Dataset) -> Iterator[Answers]:
        session = self.session
        return (session.run(make_feeds(data, chosen, session.signature, probe.sizes)) for chosen in rows)

"""How large the integers may be that a model is asked with: nothing tells it, so the model is asked.

A table of ten rows raises an error for the tenth index, or answers to it from the end (`x[-1]`). Arithmetic takes
everything. A length or a number of steps fills the memory, or takes all day. So integers are widened step by step, each
input upwards and below zero by itself. That goes on while the model answers as it does to the samples, in the time and
the memory that it takes for them. Where an error stopped it, the last integer that has an answer is searched for: a
table of 100 rows is asked up to 99. A model that makes floats of them first is not asked with larger ones than float32
holds: to it they are large floats, which no sample of floats holds either.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from ..errors import TransloadError
from ..signature import TensorSpec
from .evidence import Answers, Series, unlike
from .probe_set import FIRST_BITS, Probe
from .stress_values import FLOAT_BITS, SAMPLED, IntegerRange, describe_ranges, dtype_range, free_integers

STEPS = (FIRST_BITS, 6, 10, 15, 20, 26, 31, 36, 44, 53, 62)  # bits; what has 32 and 64 bits ends beside one
MOST_TRIES, _MOST_S = 60, 120.0  # one try more may begin while both last
_SLOWER, _NOTICED_S = 4.0, 0.2  # times the usual, and beyond it, in seconds: the integers count steps
_EXACT_BITS = 20  # the end of a table of more rows is left at a power of two
_MORE_BYTES = 128 << 20  # that one call may need beyond all before it: the next integers are up to 64 times as large

_SIDES = ("below", "above")
Ranges: TypeAlias = Mapping[str, IntegerRange]
_RangesKey: TypeAlias = tuple[tuple[str, IntegerRange], ...]
_End: TypeAlias = tuple[str, str]  # an input, and "above" or "below"
# Calls the model with a probe's integers, those of the named inputs rounded as float32 does. Each call is made when its
# answer is wanted, and raises TransloadError where there is none.
AskIntegers: TypeAlias = Callable[[Probe, Sequence[str]], Iterable[Answers]]


def peak_bytes() -> int:
    """Return the most memory that this process has held at once; 0 where the system does not say."""
    try:
        peak = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(peak[1]) * 1024 if peak else 0


class IntegerRangeSearch:
    """Search for the integers that one model answers to.
    `usual` are its answers to the samples at the same batch. `tables`: how many rows its weights have, which are tried
    first where an index ends. `levels` are then the probes on the way to the widest
    range, with the model's answers."""

    def __init__(
        self,
        inputs: Sequence[TensorSpec],
        batch: int,
        usual: Series,
        ask: AskIntegers,
        *,
        tries: int = MOST_TRIES,
        tables: Iterable[int] = (),
        clock: Callable[[], float] = time.monotonic,
        peak: Callable[[], int] = peak_bytes,
    ) -> None:
        self._limits = {spec.name: dtype_range(spec.dtype) for spec in free_integers(inputs)}
        self._batch, self._usual, self._ask, self._tries = batch, usual, ask, tries
        self._clock, self._until = clock, clock() + _MOST_S
        self._peak, self._held = peak, peak()
        self._call_s: float | None = None
        self._answered: dict[_RangesKey, Series | None] = {}
        self._stopped: dict[_End, int] = {}
        self._errors: set[_RangesKey] = set()
        self._ended_by_error: set[tuple[_End, int]] = set()
        self._tables = sorted(set(tables))
        self.levels: list[tuple[Probe, Series]] = []

    def find_widest(self) -> dict[str, IntegerRange]:
        """Return how far each input goes, all of them at once, and fill `levels`."""
        own: Ranges = dict.fromkeys(self._limits, SAMPLED)
        rising = [(name, side) for name in own for side in _SIDES]
        for bits in STEPS:
            before = own
            own, rising = self._raise(own, rising, bits)
            if _most_bits(before) <= FLOAT_BITS < _most_bits(own):
                own, rising = self._without_floats(before, own, rising)
            self._keep_level(before, own)
        before, own = own, self._refine_values(self._refine(own))
        self._keep_level(before, own)
        return dict(own)

    def _raise(self, own: Ranges, rising: list[_End], bits: int) -> tuple[Ranges, list[_End]]:
        """Raise all ends at once; where that is refused, those that rise alone."""
        if self._has_answer(own, trial := self._widen(own, rising, bits)):
            return trial, rising
        alone = [end for end in rising if self._has_answer(own, self._widen(own, [end], bits))]
        stopped = [end for end in rising if end not in alone]
        self._stopped |= dict.fromkeys(stopped, bits)
        self._ended_by_error |= {(end, bits) for end in stopped if self._is_error(self._widen(own, [end], bits))}
        if len(alone) < len(rising) and self._has_answer(own, trial := self._widen(own, alone, bits)):
            return trial, alone
        return own, []

    def _refine(self, own: Ranges) -> Ranges:
        """Raise each end that was refused to the end of a table, else to the last bit that has an answer."""
        for end, refused in self._stopped.items():
            low, high = _bits(own, end), refused
            rows = max((rows for rows in self._tables if 2**low < rows < 2 ** min(refused, _EXACT_BITS)), default=0)
            if rows and (end, refused) in self._ended_by_error and end[1] == "above":
                is_end = not self._has_first_answer(_with_end(own, end, rows))
                if is_end and self._has_answer(own, trial := _with_end(own, end, rows - 1)):
                    own, low = trial, high
            while high - low > 1:
                middle = (low + high) // 2
                if self._has_answer(own, trial := self._widen(own, [end], middle)):
                    own, low = trial, middle
                else:
                    high = middle
                    self._ended_by_error |= {(end, middle)} if self._is_error(trial) else set()
        return own

    def _refine_values(self, own: Ranges) -> Ranges:
        """Raise each end that an error stopped to the last integer that has an answer."""
        for end in (end for end in self._stopped if own[end[0]].most is None or end[1] == "below"):
            bits = _bits(own, end)
            if bits < _EXACT_BITS and (end, bits + 1) in self._ended_by_error:
                last = self._last_answered(own, end, 2**bits - 1, 2 ** (bits + 1) - 1)
                trial = _with_end(own, end, last)
                own = trial if last > SAMPLED.ends[1] and self._has_answer(own, trial) else own
        return own

    def _last_answered(self, own: Ranges, end: _End, low: int, high: int) -> int:
        """Return the last integer with an answer, of which `low` has one and `high` has none."""
        for rows in self._tables:
            for value in (rows - 1, rows):
                if low < value < high:
                    low, high = (value, high) if self._has_first_answer(_with_end(own, end, value)) else (low, value)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._has_first_answer(_with_end(own, end, middle)) else (low, middle)
        return low

    def _is_error(self, trial: Ranges) -> bool:
        return tuple(trial.items()) in self._errors

    def _has_first_answer(self, trial: Ranges) -> bool:
        """Return whether the first call, which holds the ends, has an answer; False where no try is left."""
        if not self._may_try():
            return False
        try:
            next(iter(self._ask(Probe(self._batch, reach=trial), ())))
        except TransloadError:
            return False
        return True

    def _widen(self, own: Ranges, ends: Sequence[_End], bits: int) -> Ranges:
        """Set each of `ends` to so many bits, or to the end of its dtype."""
        wider = dict(own)
        for end in ends:
            name, side = end
            most = min(bits, _bits(self._limits, end))
            wider[name] = wider[name]._replace(**{side: max(_bits(own, end), most)})
        return wider

    def _keep_level(self, before: Ranges, own: Ranges) -> None:
        answers = self._answered.get(tuple(own.items()))
        if own != before and answers is not None:
            self.levels.append((Probe(self._batch, reach=dict(own)), answers))

    def _has_answer(self, own: Ranges, trial: Ranges) -> bool:
        """Return whether `trial` has an answer like the usual ones; `own`, which changes nothing, has."""
        if trial == own:
            return True
        key = tuple(trial.items())
        if key not in self._answered:
            self._answered[key] = self._answer(Probe(self._batch, reach=trial)) if self._may_try() else None
        return self._answered[key] is not None

    def _without_floats(self, before: Ranges, own: Ranges, rising: list[_End]) -> tuple[Ranges, list[_End]]:
        """Set the inputs that the model makes floats of back to `before`, and let them rise no more."""
        floats = [name for name in own if own[name].bits > FLOAT_BITS and self._makes_floats(own, name)]
        trial = {**own, **{name: before[name] for name in floats}}
        rising = [end for end in rising if end[0] not in floats]
        return (trial if self._has_answer(before, trial) else before), rising

    def _makes_floats(self, own: Ranges, name: str) -> bool:
        """Return whether rounding an input's integers to float32 changes no answer; True where no try is left."""
        if not self._may_try():
            return True
        wanted = self._answered[tuple(own.items())] or ()
        try:
            calls = [*self._ask(Probe(self._batch, reach=own), [name])]
        except TransloadError:
            return False
        pairs = [(call[output], want[output]) for call, want in zip(calls, wanted, strict=True) for output in want]
        return all(np.array_equal(call, want, equal_nan=want.dtype.kind == "f") for call, want in pairs)

    def _may_try(self) -> bool:
        self._tries -= 1
        return self._tries >= 0 and self._clock() < self._until

    def _answer(self, probe: Probe) -> Series | None:
        integers = describe_ranges(probe.reach)
        try:
            answers = self._affordable_answers(probe)
            if not answers and not self._takes_memory and self._may_try():
                answers = self._affordable_answers(probe)  # the machine may have been busy
        except TransloadError as error:
            self._held = self._peak()
            self._errors.add(tuple(probe.reach.items()))
            print(f"the model itself does not answer with {integers}: {error.what}")  # for the step's log
            return None
        if not answers:
            self._tries = 0
            print(f"not tried beyond {integers}: a call takes far longer than usual, or far more memory")
            return None
        if reason := unlike(self._usual, answers):
            print(f"not tried with {integers}: {reason}")
        return None if reason else answers

    def _affordable_answers(self, probe: Probe) -> list[Answers]:
        """Ask the model; return nothing where a call is slow or takes memory, and make no call after it."""
        answers: list[Answers] = []
        start = self._clock()
        for answer in self._ask(probe, ()):
            answers.append(answer)
            now = self._clock()
            is_slow = self._call_s is not None and now - start > _SLOWER * self._call_s + _NOTICED_S
            if self._takes_memory or is_slow:
                return []
            self._call_s = now - start if self._call_s is None else self._call_s
            start, self._held = now, self._peak()
        return answers

    @property
    def _takes_memory(self) -> bool:
        return self._peak() - self._held > _MORE_BYTES


def _most_bits(ranges: Ranges) -> int:
    return max((integer_range.bits for integer_range in ranges.values()), default=0)


def _with_end(own: Ranges, end: _End, value: int) -> Ranges:
    """Set one end to an integer, given without its sign."""
    name, side = end
    bits = {side: value.bit_length()}
    exact = {"most": value} if side == "above" else {"least": -value}
    return {**own, name: own[name]._replace(**bits, **exact)}


def _bits(ranges: Ranges, end: _End) -> int:
    name, side = end
    return int(getattr(ranges[name], side))

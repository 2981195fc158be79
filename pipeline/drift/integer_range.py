"""How large the integers may be that a model is asked with: nothing tells it, so the model is asked.

A table of ten rows raises an error for the tenth index, or answers to it from the end (`x[-1]`); arithmetic takes
everything; what is a length or a number of steps fills the memory, or takes all day. So integers are widened step by
step, each input upwards and below zero by itself, while the model answers as it does to the samples, in the time and
the memory that it takes for them. A model that makes floats of them first is not asked with larger ones than float32
holds: to it they are large floats, which no sample of floats holds either.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from ...models.errors import TransloadError
from ...models.probes.stress_values import FLOAT_BITS, SAMPLED, Reach, free_integers, widest
from ...models.signature import TensorSpec
from .integer_probes import reach_told
from .probe_evidence import unlike
from .recorded_answers import FIRST_BITS, Answers, Probe, Series

STEPS = (FIRST_BITS, 6, 10, 15, 20, 26, 31, 36, 44, 53, 62)  # bits; what has 32 and 64 bits ends beside one
MOST_TRIES, _MOST_S = 60, 120.0  # one try more may begin while both last
_SLOWER, _NOTICED_S = 4.0, 0.2  # times the usual, and beyond it, in seconds: the integers count steps
_MORE_BYTES = 128 << 20  # that one call may need beyond all before it: the next integers are up to 64 times as large

Reaches = Mapping[str, Reach]
_Way = tuple[str, str]  # an input, and "above" or "below"


class Ask(Protocol):
    """How the model is asked."""

    def __call__(self, probe: Probe, rounded: Sequence[str] = ()) -> Iterable[Answers]:
        """Each call is made when its answer is asked for. `rounded`: inputs whose integers are such as float32 holds.
        Raises TransloadError where it has no answer."""


def peak_bytes() -> int:
    """The most memory that this process has held at once; 0 where the system does not say."""
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


class Search:
    """What one model answers to. `usual`: its answers to the samples at the same batch."""

    def __init__(
        self,
        inputs: Sequence[TensorSpec],
        batch: int,
        usual: Series,
        ask: Ask,
        *,
        tries: int = MOST_TRIES,
        clock: Callable[[], float] = time.monotonic,
        peak: Callable[[], int] = peak_bytes,
    ) -> None:
        self._ends = {spec.name: widest(spec.dtype) for spec in free_integers(inputs)}
        self._batch, self._usual, self._ask, self._tries = batch, usual, ask, tries
        self._clock, self._until = clock, clock() + _MOST_S
        self._peak, self._held = peak, peak()
        self._call_s: float | None = None
        self._asked: dict[tuple[tuple[str, Reach], ...], Series | None] = {}
        self._stopped: dict[_Way, int] = {}
        self.levels: list[tuple[Probe, Series]] = []

    def widest(self) -> dict[str, Reach]:
        """How far each input goes, all of them at once. `levels` are then the probes on the way there, and what the
        model answered."""
        own: Reaches = dict.fromkeys(self._ends, SAMPLED)
        rising = [(name, side) for name in own for side in Reach._fields]
        for bits in STEPS:
            before = own
            own, rising = self._raised(own, rising, bits)
            if _most_bits(before) <= FLOAT_BITS < _most_bits(own):
                own, rising = self._without_floats(before, own, rising)
            self._keep(before, own)
        before, own = own, self._refined(own)
        self._keep(before, own)
        return dict(own)

    def _raised(self, own: Reaches, rising: list[_Way], bits: int) -> tuple[Reaches, list[_Way]]:
        """All that rise at once; where that is refused, those that rise alone."""
        if self._answers(own, trial := self._wider(own, rising, bits)):
            return trial, rising
        alone = [way for way in rising if self._answers(own, self._wider(own, [way], bits))]
        self._stopped |= {way: bits for way in rising if way not in alone}
        if len(alone) < len(rising) and self._answers(own, trial := self._wider(own, alone, bits)):
            return trial, alone
        return own, []

    def _refined(self, own: Reaches) -> Reaches:
        """Each that was refused, up to the last bit that it has an answer to."""
        for way, refused in self._stopped.items():
            low, high = _bits(own, way), refused
            while high - low > 1:
                middle = (low + high) // 2
                if self._answers(own, trial := self._wider(own, [way], middle)):
                    own, low = trial, middle
                else:
                    high = middle
        return own

    def _wider(self, own: Reaches, ways: Sequence[_Way], bits: int) -> Reaches:
        """`own` with each of `ways` at so many bits, or at the end of its dtype."""
        found = dict(own)
        for way in ways:
            name, side = way
            most = min(bits, _bits(self._ends, way))
            found[name] = found[name]._replace(**{side: max(_bits(own, way), most)})
        return found

    def _keep(self, before: Reaches, own: Reaches) -> None:
        answers = self._asked.get(tuple(own.items()))
        if own != before and answers is not None:
            self.levels.append((Probe(self._batch, reach=dict(own)), answers))

    def _answers(self, own: Reaches, trial: Reaches) -> bool:
        """Whether there is an answer like the usual ones; to `own`, where nothing changes, there is."""
        if trial == own:
            return True
        key = tuple(trial.items())
        if key not in self._asked:
            self._asked[key] = self._answer(Probe(self._batch, reach=trial)) if self._may_try() else None
        return self._asked[key] is not None

    def _without_floats(self, before: Reaches, own: Reaches, rising: list[_Way]) -> tuple[Reaches, list[_Way]]:
        """`own`, but what the model makes floats of as `before`, and to rise no more."""
        floats = [name for name in own if own[name].bits > FLOAT_BITS and self._makes_floats(own, name)]
        trial = {**own, **{name: before[name] for name in floats}}
        rising = [way for way in rising if way[0] not in floats]
        return (trial if self._answers(before, trial) else before), rising

    def _makes_floats(self, own: Reaches, name: str) -> bool:
        """Whether what float32 loses of the integers of an input changes no answer. Taken for true where that cannot be
        tried any more."""
        if not self._may_try():
            return True
        wanted = self._asked[tuple(own.items())] or ()
        try:
            calls = [*self._ask(Probe(self._batch, reach=own), rounded=[name])]
        except TransloadError:
            return False
        pairs = [(call[name], want[name]) for call, want in zip(calls, wanted, strict=True) for name in want]
        return all(np.array_equal(call, want, equal_nan=want.dtype.kind == "f") for call, want in pairs)

    def _may_try(self) -> bool:
        self._tries -= 1
        return self._tries >= 0 and self._clock() < self._until

    def _answer(self, probe: Probe) -> Series | None:
        said = reach_told(probe.reach)
        try:
            answers = self._affordable(probe)
            if not answers and not self._takes_memory and self._may_try():
                answers = self._affordable(probe)  # the machine may have been busy
        except TransloadError as error:
            self._held = self._peak()
            print(f"the model itself does not answer with {said}: {error.what}")  # for the step's log
            return None
        if not answers:
            self._tries = 0
            print(f"not tried beyond {said}: a call takes far longer than usual, or far more memory")
            return None
        if why := unlike(self._usual, answers):
            print(f"not tried with {said}: {why}")
        return None if why else answers

    def _affordable(self, probe: Probe) -> list[Answers]:
        """What the model answers; nothing from the call on that is slow, or that takes memory."""
        answers: list[Answers] = []
        start = self._clock()
        for answer in self._ask(probe):
            answers.append(answer)
            now = self._clock()
            if self._takes_memory or self._is_slow(now - start):
                return []
            self._call_s = now - start if self._call_s is None else self._call_s
            start, self._held = now, self._peak()
        return answers

    @property
    def _takes_memory(self) -> bool:
        return self._peak() - self._held > _MORE_BYTES

    def _is_slow(self, call_s: float) -> bool:
        return self._call_s is not None and call_s > _SLOWER * self._call_s + _NOTICED_S


def _most_bits(reaches: Reaches) -> int:
    return max((reach.bits for reach in reaches.values()), default=0)


def _bits(reaches: Reaches, way: _Way) -> int:
    name, side = way
    return int(getattr(reaches[name], side))

"""The measured side of a bench: one loaded model in a worker of its own, asked for chunks of calls.

Everything that is not the call is done before: feeds are made, the runtime is warm, the collector is off. `run` gives
arrays of the host, so that on a GPU a call ends when its answer is there.
"""

from __future__ import annotations

import gc
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any

import numpy as np
import psutil

from ....models.dataset import TEST, Dataset, read_dataset
from ....models.errors import BadRequest, SessionLost
from ....models.job import JsonRecord
from ....models.probes.feeds import make_feeds
from ....models.signature import Array, Signature, TensorSpec
from ....serving.session import BindingSession, Session
from ...drift.call_time_limit import CallTimeLimit
from ...drift.sessions import ANSWER_S, open_session

_FEEDS = 8  # different ones, taken in turn: a model that remembers its last answer gains nothing
_WINDOW_NS, _WINDOW_CALLS = 30_000_000, 3  # of the warm-up, at least
_STILL_WINDOWS, _FASTER = 3, 0.02  # warm: so many windows in turn were not faster than the fastest before by so much
_MOST_WARM_NS = 2_000_000_000
_ANSWERS = 4096  # numbers of the answer to the first feed, for a look whether the models agree
_AGREEMENT = 1e-3  # of the largest number, within which a model's later answers to a feed agree with its first
_TIMER_READS = 2000

Clock = Callable[[], int]  # nanoseconds; never goes back


class MeasuredSession:
    """A session and feeds for it. Methods take and return JSON values.
    `signature`: that of the model whose data it is, which says how calls are put together; else the session's own.
    `load_s`: what opening the session took, with the modules that it needs. `answer_s`: the time for a first answer,
    see CallTimeLimit."""

    def __init__(
        self,
        session: Session,
        data: Dataset,
        clock_ns: Clock = perf_counter_ns,
        *,
        signature: Signature | None = None,
        load_s: float = 0.0,
        answer_s: float | None = None,
    ) -> None:
        if not len(data):
            raise BadRequest("there are no samples to measure with", fix="give a test set with at least one")
        self._session = session
        self._data = data
        self._signature = signature or session.signature
        self._clock_ns = clock_ns
        self.load_s = load_s
        self._answer_s = answer_s
        self._bound: dict[int, list[Callable[[], Sequence[Array]]]] = {}
        self._expected: dict[int, list[Sequence[Array]]] = {}
        self._last: Sequence[Array] = ()
        self._turn = 0  # goes on from chunk to chunk, so that chunks of one call see different feeds, too

    def device(self) -> str:
        """Where the arithmetic really runs."""
        return self._session.device

    def prepare(self, batch: int) -> dict[str, Any]:
        """Make feeds of `batch` samples and warm up, until calls get no faster or for 2 s.
        Returns {load_s, first_call_s, warm_up_s, windows (see `_window_medians`), call_s (median of the last window),
        timer_s (what reading the clock twice costs), resident_bytes, answers (see `_first_answer`)}."""
        feeds = measured_feeds(self._data, batch, self._signature)
        start = self._clock_ns()
        CallTimeLimit(self._answer_s).run(self._session, feeds[0])  # through all checks, so that its errors are ours
        first_call_ns = self._clock_ns() - start
        self._bound[batch] = [self._bind(feed) for feed in feeds]
        windows = self._warm_up(batch)
        self._expected[batch] = [call() for call in self._bound[batch]]
        gc.collect()
        gc.freeze()  # what the framework holds is not garbage; no later collection need look at it
        return {
            "load_s": self.load_s,
            "first_call_s": first_call_ns / 1e9,
            "warm_up_s": (first_call_ns + sum(map(sum, windows))) / 1e9,
            "windows": _window_medians([[first_call_ns], *windows]),
            "call_s": median(windows[-1]) / 1e9,
            "timer_s": _timer_ns(self._clock_ns) / 1e9,
            "resident_bytes": psutil.Process().memory_info().rss,
            "answers": self._first_answer(batch),
        }

    def _first_answer(self, batch: int) -> dict[str, Any]:
        """{outputs, shapes}: the answer to the first feed, in order of outputs; the first 4096 numbers of each."""
        arrays = [np.asarray(array) for array in self._expected[batch][0]]
        return {
            "outputs": [np.ravel(array)[:_ANSWERS].astype(np.float64).tolist() for array in arrays],
            "shapes": [list(array.shape) for array in arrays],
        }

    def chunk(self, batch: int, calls: int) -> dict[str, Any]:
        """{samples_s}: the seconds of each of `calls` calls, in order, with the collector off.
        Raises SessionLost where the last answer is not the one that the model gave to the same feed before."""
        was_on = gc.isenabled()
        gc.disable()
        try:
            spent = self._timed(batch, calls)
        finally:
            if was_on:
                gc.enable()
        self._check_answer(batch)
        return {"samples_s": [ns / 1e9 for ns in spent]}

    def close(self) -> None:
        """Let go of the session."""
        self._session.close()

    def _timed(self, batch: int, calls: int) -> list[int]:
        bound, now = self._bound[batch], self._clock_ns
        spent = [0] * calls
        for at in range(calls):
            call = bound[(self._turn + at) % len(bound)]
            start = now()
            answer = call()
            spent[at] = now() - start
        self._turn += calls
        self._last = answer
        return spent

    def _bind(self, feeds: Mapping[str, Array]) -> Callable[[], Sequence[Array]]:
        """Return the call on these feeds: the runtime's own where a session offers it."""
        if isinstance(self._session, BindingSession):
            return self._session.bind(feeds)
        return lambda: [*self._session.run(feeds).values()]

    def _warm_up(self, batch: int) -> list[list[int]]:
        """Call until calls get no faster; return the nanoseconds of each window."""
        windows: list[list[int]] = []
        fastest, still, total = math.inf, 0, 0
        while still < _STILL_WINDOWS and total < _MOST_WARM_NS:
            window: list[int] = []
            while sum(window) < _WINDOW_NS or len(window) < _WINDOW_CALLS:
                window.extend(self._timed(batch, 1))
            windows.append(window)
            total += sum(window)
            still = 0 if median(window) < (1 - _FASTER) * fastest else still + 1
            fastest = min(fastest, median(window))
        return windows

    def _check_answer(self, batch: int) -> None:
        """Hold the last answer against the first one to the same feed: a fast wrong answer is none."""
        at = (self._turn - 1) % len(self._bound[batch])
        check_same_answer(self._session.signature.outputs, self._last, self._expected[batch][at])


@dataclass(frozen=True, kw_only=True)
class SubjectOptions(JsonRecord):
    """A runtime over an artifact or a source, and the data folder that feeds it."""

    runtime: str
    folder: str
    feeds: str
    device: str = "cpu"
    threads: int = 1
    services: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None  # its name on a server
    served: Signature | None = None  # of a model that is served elsewhere, and has no artifact here
    signature: Signature | None = None  # see MeasuredSession
    answer_s: float | None = None  # see MeasuredSession
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the runtime, beside `threads`


def open_subject(**document: Any) -> MeasuredSession:
    """Open a subject by SubjectOptions as JSON. Raises BadRequest, ToolMissing or SessionLost as the runtime does."""
    options = SubjectOptions.from_json(document)
    start = perf_counter_ns()
    session = open_subject_session(options)
    load_s = (perf_counter_ns() - start) / 1e9
    signature = options.signature or session.signature
    data = read_samples(options, signature)
    return MeasuredSession(session, data, signature=signature, load_s=load_s, answer_s=options.answer_s)


def open_subject_session(options: SubjectOptions, *, answer_s: float = ANSWER_S) -> Session:
    """Open the session of a subject. `answer_s` is how long a server may take for one call.
    Raises as the runtime does."""
    return open_session(
        options.runtime,
        Path(options.folder),
        device=options.device,
        threads=options.threads,
        services=options.services,
        model=options.model,
        signature=options.served,
        settings=options.settings,
        answer_s=answer_s,
    )


def read_samples(options: SubjectOptions, signature: Signature) -> Dataset:
    """Read the test set that feeds a subject. Raises BadRequest where it does not fit the signature."""
    return read_dataset(Path(options.feeds) / TEST, signature.inputs)


def measured_feeds(data: Dataset, batch: int, signature: Signature) -> list[dict[str, Array]]:
    """Return up to eight different feeds of `batch` samples each. Raises BadRequest."""
    if batch < 1:
        raise BadRequest(f"a batch holds 1 sample or more, got {batch}", fix="use --batch 1,8")
    samples = len(data)
    count = max(1, min(_FEEDS, samples // batch))
    rows = (np.arange(at * batch, (at + 1) * batch) % samples for at in range(count))
    return [make_feeds(data, row, signature) for row in rows]


def check_same_answer(specs: Sequence[TensorSpec], last: Sequence[Array], expected: Sequence[Array]) -> None:
    """Compare two answers to one feed. Raises SessionLost where they differ."""
    for spec, later, first in zip(specs, last, expected, strict=True):
        answer, wanted = np.asarray(later), np.asarray(first)
        room = _AGREEMENT * float(np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0.0)) if _is_float(wanted) else 0
        if answer.shape != wanted.shape or not np.allclose(answer, wanted, rtol=0, atol=room, equal_nan=True):
            raise SessionLost(
                f"its answers change: {spec.name} of one feed differs from call to call",
                fix="validate it (transload validate)",
            )


def _window_medians(windows: Sequence[Sequence[int]]) -> list[tuple[float, float]]:
    """Return (seconds from the first call to the end of the window, its median call in seconds) of each window, given
    in nanoseconds of calls. There are at most 68: windows last 30 ms or more, the warm-up ends after 2 s."""
    ends = itertools.accumulate(map(sum, windows))
    return [(end / 1e9, median(window) / 1e9) for end, window in zip(ends, windows, strict=True)]


def _is_float(array: Array) -> bool:
    return bool(np.issubdtype(array.dtype, np.floating))


def _timer_ns(clock_ns: Clock) -> float:
    """Measure a call that takes no time: the median over 2000 reads."""
    spent = []
    for _ in range(_TIMER_READS):
        start = clock_ns()
        spent.append(clock_ns() - start)
    return median(spent)

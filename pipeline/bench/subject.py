"""The measured side of a bench: one loaded model in a worker of its own, asked for chunks of calls.

Everything that is not the call is done before: feeds are made, the runtime is warm, the collector is off. `run` gives
arrays of the host, so that on a GPU a call ends when its answer is there.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any

import numpy as np

from ...models.dataset import Dataset, read_dataset
from ...models.errors import BadRequest
from ...models.job import JsonRecord
from ...models.probes.feeds import make_feeds
from ...models.signature import Array, Signature
from ...serving.session import Session
from ..drift.sessions import open_session

_FEEDS = 8  # different ones, taken in turn: a model that remembers its last answer gains nothing
_WARM_CALLS = 5  # at least
_WARM_NS = 200_000_000  # or until so much time has gone ...
_MOST_WARM_CALLS = 50  # ... or so many calls
_TIMER_READS = 2000

Clock = Callable[[], int]  # nanoseconds; never goes back


class MeasuredSession:
    """A session and feeds for it. Methods take and return JSON values.
    `signature`: that of the model whose data it is, which says how calls are put together; else the session's own."""

    def __init__(
        self,
        session: Session,
        data: Dataset,
        clock_ns: Clock = perf_counter_ns,
        signature: Signature | None = None,
    ) -> None:
        if not len(data):
            raise BadRequest("there are no samples to measure with", fix="give a test set with at least one")
        self._session = session
        self._data = data
        self._signature = signature or session.signature
        self._clock_ns = clock_ns
        self._feeds: dict[int, list[dict[str, Array]]] = {}
        self._turn = 0  # goes on from chunk to chunk, so that chunks of one call see different feeds, too

    def device(self) -> str:
        """Where the arithmetic really runs."""
        return self._session.device

    def prepare(self, batch: int) -> dict[str, Any]:
        """Make feeds of `batch` samples and warm up: at least 5 calls, up to 0.2 s or 50 calls.
        Returns {first_call_s, call_s (median of the later half), calls, timer_s (what reading the clock twice
        costs)}."""
        self._feeds[batch] = self._make_feeds(batch)
        spent: list[int] = []
        while len(spent) < _WARM_CALLS or (sum(spent) < _WARM_NS and len(spent) < _MOST_WARM_CALLS):
            spent.extend(self._timed(batch, 1))
        gc.collect()
        gc.freeze()  # what the framework holds is not garbage; no later collection need look at it
        return {
            "first_call_s": spent[0] / 1e9,
            "call_s": median(spent[len(spent) // 2 :]) / 1e9,
            "calls": len(spent),
            "timer_s": _timer_ns(self._clock_ns) / 1e9,
        }

    def chunk(self, batch: int, calls: int) -> dict[str, Any]:
        """{samples_s}: the seconds of each of `calls` calls, in order, with the collector off."""
        was_on = gc.isenabled()
        gc.disable()
        try:
            return {"samples_s": [ns / 1e9 for ns in self._timed(batch, calls)]}
        finally:
            if was_on:
                gc.enable()

    def close(self) -> None:
        """Let go of the session."""
        self._session.close()

    def _timed(self, batch: int, calls: int) -> list[int]:
        feeds, run, now = self._feeds[batch], self._session.run, self._clock_ns
        spent = [0] * calls
        for at in range(calls):
            feed = feeds[(self._turn + at) % len(feeds)]
            start = now()
            run(feed)
            spent[at] = now() - start
        self._turn += calls
        return spent

    def _make_feeds(self, batch: int) -> list[dict[str, Array]]:
        if batch < 1:
            raise BadRequest(f"a batch holds 1 sample or more, got {batch}", fix="use --batch 1,8")
        samples = len(self._data)
        count = max(1, min(_FEEDS, samples // batch))
        rows = (np.arange(at * batch, (at + 1) * batch) % samples for at in range(count))
        return [make_feeds(self._data, row, self._signature) for row in rows]


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


def open_subject(**document: Any) -> MeasuredSession:
    """Open a subject by SubjectOptions as JSON. Raises BadRequest, ToolMissing or SessionLost as the runtime does."""
    options = SubjectOptions.from_json(document)
    session = open_session(
        options.runtime,
        Path(options.folder),
        device=options.device,
        threads=options.threads,
        services=options.services,
        model=options.model,
        signature=options.served,
    )
    signature = options.signature or session.signature
    data = read_dataset(Path(options.feeds) / "test.npz", signature.inputs)
    return MeasuredSession(session, data, signature=signature)


def _timer_ns(clock_ns: Clock) -> float:
    """Measure a call that takes no time: the median over 2000 reads."""
    spent = []
    for _ in range(_TIMER_READS):
        start = clock_ns()
        spent.append(clock_ns() - start)
    return median(spent)

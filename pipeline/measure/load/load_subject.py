"""The worker's side of a load measurement: connections to a runtime, and the requests over them.

It holds a session in process, or opens as many as there are connections to a server. The requests are written to a
file in the worker's folder, which the parent reads.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ....models.array_file import write_arrays
from ....models.dataset import Dataset
from ....models.job import JsonRecord
from ....models.signature import Array, Signature
from ....serving.noop_session import NoopSession
from ....serving.runtimes.runtime_table import RUNTIMES
from ....serving.session import BindingSession, Session
from ...result.load_cases import LoadCase, LoadEngine, LoadScenario
from ..bench.subject import SubjectOptions, check_same_answer, measured_feeds, open_subject_session, read_samples
from .arrivals import constant_arrivals, poisson_arrivals
from .load_records import LoadRecords
from .load_runner import run_at_once, run_closed, run_open

OPEN_CONNECTIONS = 32  # of an open loop: as many requests may be under way
OFFLINE_CONNECTIONS = 8
_OFFLINE_TRIAL = 0.1  # of the seconds, to know how many requests are to be there at once
_LEAST_ANSWER_S = 10.0  # how long one answer may take


@dataclass(frozen=True, kw_only=True)
class LoadOrder(JsonRecord):
    """One measurement. `services` and `model`: the server that is asked; `noop`: nothing is computed."""

    scenario: str
    batch: int  # samples of a request
    seconds: float
    seed: int
    file: str  # for the requests, in the worker's folder
    engine: str = LoadEngine.TRANSLOAD.value
    concurrency: int | None = None
    rate_per_s: float | None = None
    bound_s: float | None = None
    services: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None
    noop: bool = False

    @property
    def case(self) -> LoadCase:
        """The scenario with its numbers."""
        return LoadCase(LoadScenario(self.scenario), self.concurrency, self.rate_per_s, self.bound_s)


@dataclass(frozen=True, kw_only=True)
class LoadFacts(JsonRecord):
    """What a measurement says beside its requests. The last two are LoadGen's own words."""

    device: str
    connections: int
    samples: int  # of a request as the file has it
    retries: int = 0
    early_stopping_s: float | None = None
    valid: bool | None = None


class Connection:
    """A session with feeds that were bound before. One caller at a time."""

    def __init__(self, session: Session, feeds: Sequence[Mapping[str, Array]], turn: int) -> None:
        self.session = session
        self._calls = [_bind(session, feed) for feed in feeds]
        self._turn = turn  # so that connections do not all send the same feed at once
        self._last: tuple[int, Sequence[Array]] | None = None

    def ask(self, number: int) -> None:
        """Send a request and wait for its answer."""
        at = (self._turn + number) % len(self._calls)
        self._last = at, self._calls[at]()

    def answers(self) -> list[Sequence[Array]]:
        """Return the answer to each feed."""
        return [call() for call in self._calls]

    def check(self, expected: Sequence[Sequence[Array]]) -> None:
        """Compare the last answer with that to the same feed without load. Raises SessionLost where it differs."""
        if self._last is not None:
            at, answer = self._last
            check_same_answer(self.session.signature.outputs, answer, expected[at])


def _bind(session: Session, feeds: Mapping[str, Array]) -> Callable[[], Sequence[Array]]:
    """Return the call on these feeds: the runtime's own where a session offers it."""
    if isinstance(session, BindingSession):
        return session.bind(feeds)
    return lambda: [*session.run(feeds).values()]


class LoadSubject:
    """A model in a runtime that load is put on. `session`: that of a runtime in process, else None.
    `signature`: that of the model whose data it is."""

    def __init__(self, options: SubjectOptions, session: Session | None, data: Dataset, signature: Signature) -> None:
        self._options, self._session = options, session
        self._data, self._signature = data, signature

    def measure(self, **document: Any) -> dict[str, Any]:
        """Put load on the model by a LoadOrder as JSON; return LoadFacts as JSON.
        Raises BadRequest, ToolMissing and SessionLost as the runtime does."""
        order = LoadOrder.from_json(document)
        feeds = measured_feeds(self._data, order.batch, self._signature)
        with self._connected(order, feeds) as connections:
            expected = connections[0].answers()
            for connection in connections:  # each has met the server once before it is timed
                connection.ask(0)
            facts = _measure(order, connections, feeds)
            for connection in connections:
                connection.check(expected)
        return facts.to_json()

    def close(self) -> None:
        """Let go of the session."""
        if self._session is not None:
            self._session.close()

    @contextmanager
    def _connected(self, order: LoadOrder, feeds: Sequence[Mapping[str, Array]]) -> Iterator[list[Connection]]:
        with ExitStack() as stack:
            sessions: list[Session] = []
            if self._session is not None:
                sessions = [NoopSession(self._session.signature) if order.noop else self._session]
            else:
                for _ in range(connections_of(order.case)):
                    sessions.append(self._open(order))
                    stack.callback(sessions[-1].close)
            yield [Connection(session, feeds, turn) for turn, session in enumerate(sessions)]

    def _open(self, order: LoadOrder) -> Session:
        served = replace(self._options, services=order.services, model=order.model)
        return open_subject_session(served, answer_s=max(_LEAST_ANSWER_S, order.seconds))


def connections_of(case: LoadCase) -> int:
    """Return how many connections to a server a case takes."""
    if case.scenario is LoadScenario.CLOSED:
        return case.concurrency or 1
    if case.scenario is LoadScenario.OFFLINE:
        return OFFLINE_CONNECTIONS
    return OPEN_CONNECTIONS if case.scenario.is_open else 1


def _measure(order: LoadOrder, connections: Sequence[Connection], feeds: Sequence[object]) -> LoadFacts:
    device, retries = connections[0].session.device, _retries(connections)
    words: dict[str, Any] = {}
    with _collector_off():
        if order.engine == LoadEngine.LOADGEN:
            from .loadgen_engine import run_loadgen

            records, words = run_loadgen([connection.ask for connection in connections], order, len(feeds), Path.cwd())
        else:
            records = run(order, connections)
    write_arrays(Path.cwd() / order.file, records.to_arrays())
    retries = _retries(connections) - retries
    is_by_sample = order.engine == LoadEngine.LOADGEN and order.case.scenario is LoadScenario.OFFLINE
    samples = 1 if is_by_sample else order.batch
    return LoadFacts(device=device, connections=len(connections), samples=samples, retries=retries, **words)


def run(order: LoadOrder, connections: Sequence[Connection]) -> LoadRecords:
    """Send the requests of an order with the engine of our own."""
    asks = [connection.ask for connection in connections]
    case = order.case
    if case.scenario is LoadScenario.OFFLINE:
        trial = run_closed(asks, _OFFLINE_TRIAL * order.seconds)
        count = len(trial) * (order.seconds / max(float(trial.done_s.max()), 1e-9))
        return run_at_once(asks, max(1, round(count)), 2 * order.seconds)
    if case.rate_per_s is None:
        return run_closed(asks, order.seconds)
    if case.scenario is LoadScenario.CONSTANT:
        return run_open(asks, constant_arrivals(case.rate_per_s, order.seconds))
    return run_open(asks, poisson_arrivals(case.rate_per_s, order.seconds, np.random.default_rng(order.seed)))


@contextmanager
def _collector_off() -> Iterator[None]:
    """Keep the garbage collector from counting as latency."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _retries(connections: Sequence[Connection]) -> int:
    """Return how many requests the clients have sent twice so far; those behind gRPC send none twice."""
    return sum(getattr(connection.session, "retries", 0) for connection in connections)


def open_load_subject(**document: Any) -> LoadSubject:
    """Open a subject by SubjectOptions as JSON, whose services each order names. Raises as the runtime does."""
    options = SubjectOptions.from_json(document)
    session = None
    if not RUNTIMES[options.runtime].served:
        session = open_subject_session(options)
    signature = options.signature or (session.signature if session else options.served)
    if signature is None:
        raise ValueError(options)  # of a served model the caller says it
    return LoadSubject(options, session, read_samples(options, signature), signature)

"""One version of a model: a session, and TF Serving's rules for a request to it; no wire format is known here.

The words of the errors are TF Serving's own, so that clients which read them go on working
(tensorflow/serving: servables/tensorflow/predict_util.cc; tensorflow/cc/saved_model/util.cc).
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from ....models.errors import TransloadError
from ....models.signature import Array, Signature
from ...checked_session import FeedCheck
from ...runtimes.tuning_space import Value
from ...session import Session
from ..metrics import Metrics
from ..serving_error import Code, ServingError, invalid, restarting
from .batch_queue import BatchQueue, QueuedRequest, batching_obstacle, largest_batch
from .batching_parameters import BatchingParameters
from .body_decoders import DECODERS, SIGNATURE
from .channel_link import ChannelLink
from .session_channel import ChannelSession

MOST_WAITING = 64  # predictions, the one that runs among them; later ones are refused at once
_LONGEST_WAIT_S = 3600.0
_LARGE_BYTES = 1 << 20  # of a request's inputs, for which a runtime may take memory that it keeps
_LONG_BODY_BYTES = 1 << 18  # is decoded in the model's process: 5 ms of JSON, for which a listener stands still
_QUICK_S = 0.005  # a model that is faster runs on the event loop: handing it to a thread costs 0.1 ms


Outcome: TypeAlias = Mapping[str, Array] | Exception


@dataclass(frozen=True)
class OpenedSession:
    """A session that may live in a process of its own, and what it runs in."""

    session: Session
    runtime: str
    lost: threading.Event = field(default_factory=threading.Event)  # set when that process has ended
    end_reason: Callable[[], str] = lambda: "its process ended"
    channel: ChannelSession | None = None  # the session, where it lives in a process of its own
    resident_bytes: Callable[[], int] = lambda: 0  # the memory of that process
    settings: Mapping[str, Value] = field(default_factory=dict)  # of the runtime; empty: the defaults
    tuned_batch: int | None = None  # of most throughput within a latency bound; None: no search has said it
    other_sessions: Mapping[str, Session] = field(default_factory=dict)  # of its further signatures, by their names


@dataclass(frozen=True, slots=True)
class Deadline:
    """How long a client waits for an answer: until `end` of time.monotonic, and while `is_waiting`."""

    end: float = math.inf
    is_waiting: Callable[[], bool] = lambda: True

    @property
    def remaining_s(self) -> float:
        """Seconds until the deadline, at most an hour."""
        return min(self.end - time.monotonic(), _LONGEST_WAIT_S)


NO_DEADLINE = Deadline()


class ServedVersion:
    """One session, one call at a time: of one request, or of a batch of them after `start_batches`.
    A session is not thread-safe, and a second one would hold the weights twice; so there is one lock. Parsing and
    encoding lie outside of it. On two cores a pool of sessions gained nothing (docs/design/serving.md)."""

    def __init__(
        self, name: str, number: int, opened: OpenedSession, metrics: Metrics, signature_name: str = SIGNATURE
    ) -> None:
        self.name, self.number, self.signature_name = name, number, signature_name
        self.signatures: dict[str, ServedVersion] = {signature_name: self}  # the same version by its other signatures
        for other, session in opened.other_sessions.items():
            channel = session if isinstance(session, ChannelSession) else None
            part = replace(opened, session=session, channel=channel, other_sessions={})
            self.signatures[other] = ServedVersion(name, number, part, metrics, other)
        self.runtime, self.settings, self.tuned_batch = opened.runtime, opened.settings, opened.tuned_batch
        self.signature: Signature = opened.session.signature
        self.device = opened.session.device
        self._last_s = math.inf  # what the last answer took, with the wait for the lock. The first may be slow.
        self._opened = opened
        self._session = opened.session
        self._metrics = metrics
        self._check = FeedCheck(self.signature.inputs)
        self._lock = threading.Lock()
        self._waiting = 0  # predictions, the one that runs among them
        self._waiting_lock = threading.Lock()  # threading.BoundedSemaphore is written in Python, and costs 2 us
        self._inputs = [spec.name for spec in self.signature.inputs]
        self._outputs = [spec.name for spec in self.signature.outputs]
        self._sample_axis = _sample_axis(self.signature)
        self.last_large_at = -math.inf  # of time.monotonic: the last large request
        self.loaded_bytes = 0  # of its process after a first answer: see VersionKeeper
        self._batches: BatchQueue | None = None
        self._link: ChannelLink | None = None  # of the event loop

    def start_batches(self, parameters: BatchingParameters) -> str:
        """Gather requests into batches from now on, of the tuned size where the parameters name none; return why not
        where the signature does not allow it, else an empty text."""
        obstacle = batching_obstacle(self.signature, parameters)
        if not obstacle:
            rows = largest_batch(self.signature, parameters)
            self._batches = BatchQueue(self.name, self._run, parameters.prefer(self.tuned_batch), rows)
        return obstacle

    @property
    def waiting(self) -> int:
        """The predictions that wait, the one that runs among them."""
        return self._waiting

    @property
    def full_batch(self) -> int | None:
        """The rows at which a batch is full; None where requests are not gathered."""
        return self._batches.full_rows if self._batches else None

    @property
    def resident_bytes(self) -> int:
        """The memory of the session's own process, 0 where it has none."""
        return self._opened.resident_bytes()

    @property
    def output_names(self) -> Sequence[str]:
        """The outputs in the signature's order."""
        return self._outputs

    @property
    def is_quick(self) -> bool:
        """Whether an answer takes so short that the event loop may wait for it."""
        return self._opened.channel is None and self._batches is None and self._last_s <= _QUICK_S

    @property
    def takes_submissions(self) -> bool:
        """Whether an event loop may `submit` requests."""
        return self._opened.channel is not None and self._batches is None

    def check_inputs(self, names: Collection[str]) -> None:
        """Hold the names of a request's inputs against the signature. Raises ServingError INVALID_ARGUMENT."""
        if len(names) == len(self._inputs) and all(name in names for name in self._inputs):
            return
        names, wanted = sorted(names), sorted(self._inputs)
        if len(names) != len(wanted):
            extra, missing = sorted({*names} - {*wanted}), sorted({*wanted} - {*names})
            raise invalid(
                f"input size does not match signature: {len(names)}!={len(wanted)} "
                f"len({{{','.join(names)}}}) != len({{{','.join(wanted)}}}). "
                f"Sent extra: {{{','.join(extra)}}}. Missing but required: {{{','.join(missing)}}}."
            )
        for name in wanted:
            if name not in names:
                raise invalid(
                    f"Signature input alias: {name}(feed name: {feed_name(name)}) not found in request and no default "
                    f"value provided. Inputs expected to be in the request {{{','.join(names)}}}, or default input "
                    "alias set: "
                )

    def outputs(self, filtered: Sequence[str]) -> list[str]:
        """Return the names to answer with: those of the request's filter in its order, or all.
        Raises ServingError INVALID_ARGUMENT."""
        if not filtered:
            return self._outputs
        for at, name in enumerate(filtered):
            if name not in self._outputs:
                expected = ",".join(sorted(self._outputs))
                raise invalid(
                    f"output tensor alias not found in signature: {name} "
                    f"Outputs expected to be in the set {{{expected}}}."
                )
            if name in filtered[:at]:
                raise invalid(f"duplicate output tensor alias: {name}")
        return list(filtered)

    def count_samples(self, feeds: Mapping[str, Array]) -> int:
        """Return how many samples a request has: the size of the first input's batch, 1 where there is none."""
        axis, value = self._sample_axis, feeds.get(self._inputs[0])
        return 1 if axis is None or value is None or axis >= value.ndim else value.shape[axis]

    def decode(self, decoder: str, body: bytes, **options: Any) -> tuple[Mapping[str, Array], Any]:
        """Return what a decoder of body_decoders.py reads in a request. A long body is read in the model's own process,
        where it has one. Raises ServingError and TransloadError."""
        channel = self._opened.channel
        if channel is None or len(body) < _LONG_BODY_BYTES:
            return DECODERS[decoder](self.signature, body, **options)
        self.last_large_at = time.monotonic() + channel.timeout_s  # its process may be large as long as that takes
        try:
            values, rest = channel.decode(decoder, body, options)
        except TransloadError as error:
            if self._opened.lost.is_set():
                raise restarting(self.name) from error
            raise
        finally:
            self.last_large_at = time.monotonic()
        return dict(zip(self._inputs, values, strict=True)), rest

    def predict(
        self, feeds: Mapping[str, Array], deadline: Deadline = NO_DEADLINE, started: Callable[[], None] = lambda: None
    ) -> Mapping[str, Array]:
        """Return the outputs of the session. Feeds that do not fit the signature are refused before the lock is taken.
        `started` is called when the wait for the session is over.
        Raises what the session raises, and ServingError RESOURCE_EXHAUSTED where too many predictions wait,
        DEADLINE_EXCEEDED and CANCELLED where nobody waits for the answer any more, UNAVAILABLE where the process of
        the model has ended."""
        start = time.perf_counter()
        values = self._check(feeds)
        self._enter(values)
        try:
            if self._batches is not None:
                return self._run_in_batch(self._batches, values, deadline, started)
            if not self._lock.acquire(blocking=False) and not self._lock.acquire(timeout=max(deadline.remaining_s, 0)):
                raise self.too_late()
            try:
                return self._run_alone(feeds, deadline, started)
            finally:
                self._lock.release()
        finally:
            self._leave()
            self._last_s = time.perf_counter() - start

    def submit(self, feeds: Mapping[str, Array], receiver: Callable[[Outcome, float], None]) -> None:
        """Ask the session in its process, and go on. For one event loop, in whose thread `receiver` is called with the
        outputs or the error, and with the seconds that the process took. Raises as `predict` before it waits."""
        channel = self._opened.channel
        if channel is None:
            raise ValueError(self.name)  # see takes_submissions
        values = self._check(feeds)
        if self._opened.lost.is_set():
            raise restarting(self.name)
        if self._link is None:
            try:
                self._link = ChannelLink(channel, asyncio.get_running_loop())
            except OSError as error:
                raise restarting(self.name) from error
        self._enter(values)
        self._link.send(values, partial(self._receive, receiver))

    def _receive(
        self, receiver: Callable[[Outcome, float], None], answers: Sequence[Array] | TransloadError, seconds: float
    ) -> None:
        self._leave()
        if isinstance(answers, TransloadError):
            receiver(restarting(self.name) if self._opened.lost.is_set() else answers, seconds)
            return
        self._metrics.add_run(self.name, self.runtime, seconds)
        receiver(dict(zip(self._outputs, answers, strict=True)), seconds)

    def _enter(self, values: Sequence[Array]) -> None:
        """Count a prediction that waits. Raises ServingError RESOURCE_EXHAUSTED where there are too many."""
        if sum([value.nbytes for value in values]) >= _LARGE_BYTES:
            self.last_large_at = time.monotonic()
        with self._waiting_lock:
            if self._waiting == MOST_WAITING:
                raise ServingError(Code.RESOURCE_EXHAUSTED, f"{MOST_WAITING} requests wait for the model {self.name}")
            self._waiting += 1

    def _leave(self) -> None:
        with self._waiting_lock:
            self._waiting -= 1

    def _run_alone(
        self, feeds: Mapping[str, Array], deadline: Deadline, started: Callable[[], None]
    ) -> Mapping[str, Array]:
        if deadline is not NO_DEADLINE and not deadline.is_waiting():
            raise ServingError(Code.CANCELLED, "the client has cancelled the request")
        started()
        answers = self._run(feeds)
        if deadline is not NO_DEADLINE and deadline.remaining_s < 0:
            raise self.too_late()
        return answers

    def _run_in_batch(
        self, batches: BatchQueue, values: Sequence[Array], deadline: Deadline, started: Callable[[], None]
    ) -> Mapping[str, Array]:
        feeds = dict(zip(self._inputs, values, strict=True))
        request = QueuedRequest(feeds, len(values[0]), deadline.is_waiting, started)
        batches.put(request)
        if not request.wait(max(deadline.remaining_s, 0)):
            batches.withdraw(request)
            raise self.too_late()
        return request.answers

    def _run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        if self._opened.lost.is_set():
            raise restarting(self.name)
        start = time.perf_counter()
        try:
            answers = self._session.run(feeds)
        except Exception as error:
            if self._opened.lost.is_set():
                raise restarting(self.name) from error
            raise
        self._metrics.add_run(self.name, self.runtime, time.perf_counter() - start)
        return answers

    def too_late(self) -> ServingError:
        """Return the error of a request whose client waits no longer."""
        return ServingError(Code.DEADLINE_EXCEEDED, f"the model {self.name} gave no answer before the deadline")

    def close(self) -> None:
        """Close the session, after the run that is under way."""
        if self._batches is not None:
            self._batches.close()
        if self._link is not None:
            self._link.close()
        for served in self.signatures.values():
            if served is not self:
                served.close()
        with self._lock:
            self._session.close()


def _sample_axis(signature: Signature) -> int | None:
    """Return the position of the batch in the first input."""
    shape, axis = signature.inputs[0].shape, signature.batch
    return shape.index(axis) if axis in shape else None


def feed_name(name: str, signature_name: str = SIGNATURE) -> str:
    """Return TensorFlow's name for the tensor of a SavedModel's input."""
    return f"{signature_name}_{name}:0"

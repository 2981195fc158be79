"""Requests to one version, gathered into batches: one call of the model answers several requests.

Each caller waits for its answer. One thread takes requests from the queue, oldest first, and joins those of equal
sizes. While the model runs the queue fills, so that batches form under load without a wait (`timeout_s` 0), and a lone
request is not delayed. The words of the errors are TF Serving's (batching/batching_session.cc,
batching/shared_batch_scheduler.h).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from ....models.errors import SessionLost
from ....models.signature import ANY_SIZE, Array, Signature, shape_text
from ..serving_error import Code, ServingError, invalid, restarting
from .batching_parameters import BatchingParameters

Run: TypeAlias = Callable[[Mapping[str, Array]], Mapping[str, Array]]


@dataclass(eq=False, slots=True)
class QueuedRequest:
    """A request that waits for its part of a batch."""

    feeds: Mapping[str, Array]
    rows: int
    is_waiting: Callable[[], bool] = lambda: True  # whether its client still waits
    started: Callable[[], None] = lambda: None  # called when the model begins
    arrival: float = field(default_factory=time.monotonic)
    done: threading.Event = field(default_factory=threading.Event)
    answers: Mapping[str, Array] = field(default_factory=dict)
    error: BaseException | None = None

    @property
    def sizes(self) -> list[tuple[int, ...]]:
        """The shapes without the batch: those of one batch are equal."""
        return [array.shape[1:] for array in self.feeds.values()]

    def wait(self, seconds: float) -> bool:
        """Return whether the answers came in time. Raises what answering raised."""
        is_done = self.done.wait(seconds)
        if self.error is not None:
            raise self.error
        return is_done

    def end(self, answers: Mapping[str, Array]) -> None:
        """Give the answers to the thread that waits for them."""
        self.answers = answers
        self.done.set()

    def fail(self, error: BaseException) -> None:
        """Raise an error in the thread that waits for the answers."""
        self.error = error
        self.done.set()


def batching_obstacle(signature: Signature, parameters: BatchingParameters) -> str:
    """Return why requests cannot be gathered, as a clause: a tensor does not begin with the batch, or a size that is
    allowed is none of the model's. Empty: they can."""
    batch = signature.batch
    if batch is None:
        return "its inputs share no free first axis"
    for spec in (*signature.inputs, *signature.outputs):
        if spec.shape[:1] != (batch,):
            return f"{spec.name}{shape_text(spec.shape)} does not begin with {batch}, the axis of its samples"
    bounds = signature.bounds.get(batch, ANY_SIZE)
    if any(size not in bounds for size in parameters.allowed_sizes) or (
        not parameters.allowed_sizes and (bounds.low > 1 or bounds.step > 1)
    ):
        return f"it takes {batch}={bounds}, and batches may have other sizes"
    return ""


def largest_batch(signature: Signature, parameters: BatchingParameters) -> int:
    """Return the most rows of a call, where there is no obstacle: of the parameters and the signature's bounds the
    less."""
    high = signature.bounds.get(signature.batch or "", ANY_SIZE).high
    return parameters.max_rows if high is None else min(parameters.max_rows, high)


class BatchQueue:
    """The queue of one version, and the thread that answers it. `run` is asked by that thread alone.
    A request has at most `max_rows`. Requests are joined up to the parameters' `preferred_rows`; one with more rows
    is answered alone."""

    def __init__(self, name: str, run: Run, parameters: BatchingParameters, max_rows: int) -> None:
        self._name, self._run = name, run
        self._parameters, self._max_rows = parameters, max_rows
        self.full_rows = min(parameters.preferred_rows or max_rows, max_rows)
        self._waiting: deque[QueuedRequest] = deque()
        self._rows = 0  # that wait
        self._is_closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._answer, name=f"batch-{name}", daemon=True)
        self._thread.start()

    def put(self, request: QueuedRequest) -> None:
        """Let a request wait for a batch. Raises ServingError INVALID_ARGUMENT where it has more rows than a batch,
        RESOURCE_EXHAUSTED where the queue is full, UNAVAILABLE where it is closed."""
        if request.rows > self._max_rows:
            raise invalid(f"Task size {request.rows} is larger than maximum input batch size {self._max_rows}")
        with self._changed:
            if self._is_closed:
                raise restarting(self._name)
            if self._rows + request.rows > self._parameters.max_batches * self._max_rows:
                raise ServingError(
                    Code.RESOURCE_EXHAUSTED, "The batch scheduling queue to which this task was submitted is full"
                )
            self._waiting.append(request)
            self._rows += request.rows
            self._changed.notify()

    def withdraw(self, request: QueuedRequest) -> None:
        """Forget a request that nobody waits for any more; one that the model has begun is answered in vain."""
        with self._changed:
            if request in self._waiting:
                self._waiting.remove(request)
                self._rows -= request.rows

    def close(self) -> None:
        """Answer what waits, and end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def _answer(self) -> None:
        while batch := self._take():
            requests = [request for request in batch if _is_wanted(request)]
            for request in requests:
                request.started()
            if requests:
                self._answer_together(requests)

    def _take(self) -> list[QueuedRequest]:
        """Wait for requests; return the oldest and those that go with it. Empty: the queue is closed."""
        with self._changed:
            while (seconds := self._seconds_to_wait()) is None or seconds > 0:
                self._changed.wait(seconds)
            return self._take_alike()

    def _seconds_to_wait(self) -> float | None:
        """Return how long the next batch still waits for requests; None: until one comes."""
        if self._is_closed or self._rows >= self.full_rows:
            return 0.0
        if not self._waiting:  # those that waited may have been withdrawn
            return None
        return self._waiting[0].arrival + self._parameters.timeout_s - time.monotonic()

    def _take_alike(self) -> list[QueuedRequest]:
        """Take the oldest request, whatever its rows, and those after it that have its sizes, as many as fit."""
        batch: list[QueuedRequest] = []
        left: deque[QueuedRequest] = deque()
        rows = 0
        for request in self._waiting:
            if not batch or (rows + request.rows <= self.full_rows and request.sizes == batch[0].sizes):
                batch.append(request)
                rows += request.rows
            else:
                left.append(request)
        self._waiting = left
        self._rows -= rows
        return batch

    def _answer_together(self, requests: list[QueuedRequest]) -> None:
        """Answer requests by one call. Where the call fails each is asked alone: another's values may be at fault."""
        try:
            answers = self._run_batch(requests)
        except Exception as error:  # noqa: BLE001  (whoever waits gets it)
            if len(requests) > 1:
                for request in requests:
                    self._answer_together([request])
            else:
                requests[0].fail(error)
            return
        end = 0
        for request in requests:
            start, end = end, end + request.rows
            request.end({name: array[start:end] for name, array in answers.items()})

    def _run_batch(self, requests: Sequence[QueuedRequest]) -> Mapping[str, Array]:
        """Return the answers of one call. Raises SessionLost where they have other rows than it."""
        rows = sum(request.rows for request in requests)
        size = next((size for size in self._parameters.allowed_sizes if size >= rows), rows) if rows else 0
        feeds = requests[0].feeds
        if len(requests) > 1 or size > rows:
            feeds = {name: _join([request.feeds[name] for request in requests], size - rows) for name in feeds}
        answers = self._run(feeds)
        for name, array in answers.items():
            if len(array) != size:
                raise SessionLost(
                    f"the answer {name} has {len(array)} rows to a batch of {size}",
                    fix="serve this model without --batching-parameters-file",
                )
        return answers


def _is_wanted(request: QueuedRequest) -> bool:
    if request.is_waiting():
        return True
    request.fail(ServingError(Code.CANCELLED, "the client has cancelled the request"))
    return False


def _join(arrays: Sequence[Array], padding: int) -> Array:
    """Return the rows of all arrays; the first row is repeated at the end, as TF Serving pads."""
    first = next(array for array in arrays if len(array))
    return np.concatenate([*arrays, np.repeat(first[:1], padding, axis=0)])

"""Requests and replies over HTTP, as the connection and the protocols on it see them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple, TypeAlias

from ...models.signature import Array
from ..wire.tfserving_json import dumps
from .inference_statistics import Stopwatch
from .metrics import RequestRecord
from .repository.model_repository import Repository
from .repository.served_version import NO_DEADLINE, Deadline, Outcome, ServedVersion

JSON = b"application/json"
CLOSE = (b"connection", b"close")
LONG_BYTES = 1 << 16  # a longer body is parsed, and longer answers are written, in a thread
Headers: TypeAlias = Mapping[bytes, bytes]  # names in lower case; of a repeated field the last


class DispatchMode(Enum):
    """How a request is answered."""

    LOOP = auto()  # at once on the event loop, which serves nobody else meanwhile
    SUBMISSION = auto()  # on the event loop, which goes on while the model works in its process
    THREAD = auto()


@dataclass(slots=True)
class HttpRequest:
    """A request whose header has come; its body comes in parts."""

    method: str
    path: str
    headers: Headers
    is_last: bool = False  # whether the connection is closed after it
    parts: list[bytes] = field(default_factory=list)
    is_too_long: bool = False  # its body was dropped
    record: RequestRecord = field(init=False)
    ticket: tuple[bool, int] = (False, 0)  # Admission's

    def __post_init__(self) -> None:
        """Begin the record."""
        self.record = RequestRecord("REST", f"{self.method} {self.path}")


class HttpReply(NamedTuple):
    """A reply. The connection adds the length and the date."""

    body: bytes
    status: int = 200
    media_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


def refusal(text: str, status: int, headers: tuple[tuple[bytes, bytes], ...] = ()) -> HttpReply:
    """Return a reply that says why there is no answer."""
    return HttpReply(dumps({"error": text}, ()), status, headers=headers)


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a request asks of a model, and what becomes of the answers."""

    served: ServedVersion
    feeds: Mapping[str, Array]
    finish: Callable[[Mapping[str, Array]], HttpReply]
    watch: Stopwatch  # whose first step has ended
    deadline: Deadline = NO_DEADLINE

    def run(self) -> HttpReply:
        """Return the reply, when the model has answered. Raises ServingError and TransloadError."""
        with self.watch:
            answers = self.served.predict(self.feeds, self.deadline, self.watch.lap)
            self.watch.lap()
            reply = self.finish(answers)
            self.watch.lap()
        return reply

    def submit(self, receiver: Callable[[Outcome], None]) -> None:
        """Ask the model, and go on; `receiver` is called in the event loop, with what `complete` takes.
        Raises ServingError and TransloadError."""
        is_answered = False

        def receive(outcome: Outcome, seconds: float) -> None:
            nonlocal is_answered
            if not is_answered:
                is_answered = True
                self.watch.split_lap(seconds)
                receiver(outcome)

        with self.watch:
            self.served.submit(self.feeds, receive)
            if self.deadline is not NO_DEADLINE:
                wait_s = max(self.deadline.remaining_s, 0)
                asyncio.get_running_loop().call_later(wait_s, receive, self.served.too_late(), 0.0)

    def complete(self, outcome: Outcome) -> HttpReply:
        """Return the reply. Raises ServingError and TransloadError, among them that of the outcome."""
        with self.watch:
            if isinstance(outcome, Exception):
                raise outcome
            reply = self.finish(outcome)
            self.watch.lap()
        return reply


# (repository, request, its body) to the reply, or to what a model is to be asked for. It fills in the record's model,
# version, api and device. Raises ServingError and TransloadError, which become {"error": text}.
Handler: TypeAlias = Callable[[Repository, HttpRequest, bytes], HttpReply | Prediction]


class HttpProtocol(NamedTuple):
    """One protocol on the HTTP listener."""

    handle: Handler
    find_served: Callable[[Repository, str], ServedVersion | None]  # the model that a path asks for a prediction

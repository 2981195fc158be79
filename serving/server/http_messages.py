"""Requests and replies over HTTP, as the connection and the protocols on it see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ..wire.tfserving_json import dumps
from .metrics import RequestRecord
from .repository.model_repository import Repository
from .repository.served_version import ServedVersion

JSON = b"application/json"
CLOSE = (b"connection", b"close")
Headers: TypeAlias = Mapping[bytes, bytes]  # names in lower case; of a repeated field the last


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


# (repository, request, its body) to the reply. It fills in the record's model, version, api and device. Raises
# ServingError and TransloadError, which become {"error": text}.
Handler: TypeAlias = Callable[[Repository, HttpRequest, bytes], HttpReply]


class HttpProtocol(NamedTuple):
    """One protocol on the HTTP listener."""

    handle: Handler
    find_served: Callable[[Repository, str], ServedVersion | None]  # the model that a path asks for a prediction

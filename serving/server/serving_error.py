"""The statuses of refused requests, in gRPC's codes; each protocol maps them to its own."""

from __future__ import annotations

from enum import IntEnum

from ...models.errors import BadRequest, SessionTimeout, TransloadError
from ..wire.tensor_proto import TooLarge

_MOST_CHARACTERS = 600  # of a text, which may repeat the request's: gRPC sends it in a header of at most 8 KB


class Code(IntEnum):
    """gRPC's status codes, as far as the server uses them (https://grpc.io/docs/guides/status-codes/)."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class ServingError(Exception):
    """A request that gets a status and not an answer. The server goes on."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."


def invalid(text: str) -> ServingError:
    """Return the status of a fault of the request."""
    return ServingError(Code.INVALID_ARGUMENT, text)


def not_found(text: str) -> ServingError:
    """Return the status of a request for a model that is not served."""
    return ServingError(Code.NOT_FOUND, text)


def unavailable(text: str = "the server is shutting down") -> ServingError:
    """Return the error that refuses a request now; a later one may be answered."""
    return ServingError(Code.UNAVAILABLE, text)


def restarting(name: str) -> ServingError:
    """Return the error of a request for a model whose process has ended."""
    return unavailable(f"the process of the model {name} ended, and is started again")


def as_status(error: ServingError | TransloadError) -> ServingError:
    """Map an error of a session to a status: its sentence, without the advice to the operator."""
    if isinstance(error, ServingError):
        return error
    if isinstance(error, TooLarge):
        return ServingError(Code.RESOURCE_EXHAUSTED, error.what)
    if isinstance(error, BadRequest):
        return invalid(error.what)
    timeout = isinstance(error, SessionTimeout)
    return ServingError(Code.DEADLINE_EXCEEDED if timeout else Code.INTERNAL, error.what)

"""Status codes and sentences for requests that get no outputs, for both protocols."""

from __future__ import annotations

from enum import IntEnum

from ...models.errors import BadRequest, SessionTimeout, TransloadError


class Code(IntEnum):
    """gRPC's status codes, as far as the server uses them (https://grpc.io/docs/guides/status-codes/)."""

    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    FAILED_PRECONDITION = 9
    INTERNAL = 13


# As TF Serving maps them: ToHTTPStatusCode in tensorflow_serving/model_servers/http_server.cc.
HTTP = {
    Code.INVALID_ARGUMENT: 400,
    Code.DEADLINE_EXCEEDED: 504,
    Code.NOT_FOUND: 404,
    Code.FAILED_PRECONDITION: 400,
    Code.INTERNAL: 500,
}


class ServingError(Exception):
    """A request that gets a status and not an answer. The server goes on."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def invalid(text: str) -> ServingError:
    """Return the status of a fault of the request."""
    return ServingError(Code.INVALID_ARGUMENT, text)


def from_session(error: TransloadError) -> ServingError:
    """Map an error of a session to a status: its sentence, without the advice to the operator."""
    if isinstance(error, BadRequest):
        return invalid(error.what)
    timeout = isinstance(error, SessionTimeout)
    return ServingError(Code.DEADLINE_EXCEEDED if timeout else Code.INTERNAL, error.what)

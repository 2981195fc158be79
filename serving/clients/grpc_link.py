"""A gRPC channel, and its statuses as our errors, for the sessions behind gRPC."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...models.errors import BadRequest, SessionLost, SessionOverloaded, SessionTimeout
from ..checked_session import first_words
from .server_access import LACKS_CALL, TOKEN_VARIABLE, authorities, authorization, split_address

_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),  # else all channels of a process to one server are one connection
)
_REQUEST_S_FAULT = ("INVALID_ARGUMENT", "FAILED_PRECONDITION", "NOT_FOUND", "OUT_OF_RANGE", "UNIMPLEMENTED")
_NOT_ALLOWED = ("UNAUTHENTICATED", "PERMISSION_DENIED")


class GrpcLink:
    """One channel to a server, over TLS where the address begins with grpcs://."""

    def __init__(self, address: str, timeout_s: float) -> None:
        import grpc

        self.address = address
        self._timeout_s = timeout_s
        self._metadata = tuple(authorization(address).items()) or None
        place, is_tls = split_address(address)
        if is_tls:
            credentials = grpc.ssl_channel_credentials(authorities())
            self._channel = grpc.secure_channel(place, credentials, options=_OPTIONS)
        else:
            self._channel = grpc.insecure_channel(place, options=_OPTIONS)

    def ask(self, method: str, request: Any, reply_class: Any) -> tuple[Any, dict[str, str]]:
        """Call a method once; return its reply and the metadata behind it.
        Raises BadRequest where the server refuses the request, SessionTimeout, SessionLost."""
        call = self.method(method, reply_class.FromString)
        with _rpc_errors(self.address, self._timeout_s):
            reply, state = call.with_call(request, timeout=self._timeout_s, metadata=self._metadata)
            return reply, dict(state.trailing_metadata() or ())

    def method(self, method: str, read: Any) -> Any:
        """Return a callable for /PACKAGE.SERVICE/METHOD, which takes the arguments of grpc's."""
        return self._channel.unary_unary(
            method, request_serializer=lambda request: request.SerializeToString(), response_deserializer=read
        )

    def call(self, method: Any, request: Any) -> Any:
        """Call what `method` returned. Raises BadRequest, SessionTimeout and SessionLost as `ask`."""
        with _rpc_errors(self.address, self._timeout_s):
            return method(request, timeout=self._timeout_s, metadata=self._metadata)

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()


@contextmanager
def _rpc_errors(address: str, timeout_s: float) -> Iterator[None]:
    """Every status of gRPC as one of our errors: the request's fault, too late, or lost."""
    import grpc

    try:
        yield
    except grpc.RpcError as error:
        code, text = error.code().name, first_words(error.details())
        if code in _NOT_ALLOWED:
            fix = f"put the server's token into {TOKEN_VARIABLE}"
            raise BadRequest(f"{address} refuses the caller: {text}", fix=fix) from error
        if code in _REQUEST_S_FAULT:
            fix = f"check the port{LACKS_CALL}" if code == "UNIMPLEMENTED" else "check model, names and shapes"
            raise BadRequest(f"{address} refuses the request: {text}", fix=fix) from error
        if code == "DEADLINE_EXCEEDED":
            raise SessionTimeout(
                f"{address} gave no answer within {timeout_s:g} s", fix="read the server's log, or allow more time"
            ) from error
        if code == "RESOURCE_EXHAUSTED":
            raise SessionOverloaded(f"{address} refuses the request: {text}", fix="send fewer at a time") from error
        raise SessionLost(f"{address} gives no answer ({code}): {text}", fix="read the server's log") from error

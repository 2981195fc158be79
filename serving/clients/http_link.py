"""One HTTP connection that is kept, for the sessions behind HTTP."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import orjson

from ...models.errors import BadRequest, SessionLost, SessionOverloaded, SessionTimeout
from ..checked_session import first_words
from ..wire.tfserving_json import loads
from .server_access import AUTHORITIES_VARIABLE, LACKS_CALL, TOKEN_VARIABLE, authorities, authorization, split_address

# A server closes a connection that has been idle; what it then sees of the next request is nothing at all.
_STALE = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)
_JSON = {"Content-Type": "application/json"}
_NOT_ALLOWED = (401, 403)
_NOT_THERE = (404, 405)
_CHECK = "check model, names and shapes"
_TOO_MANY = 429


class Link:
    """One kept connection, over TLS where the address begins with https://. Every failure is one of our errors."""

    def __init__(self, address: str, timeout_s: float) -> None:
        self.address = address
        self.retries = 0  # requests that were sent twice, see _exchange
        self._timeout_s = timeout_s
        self._authorization = authorization(address)
        place, is_tls = split_address(address)
        host, _, port = place.rpartition(":")
        if not host or not port.isdecimal():
            raise BadRequest(f"{address!r} is no address", fix="write it as host:port")
        self._http = _connection(host.strip("[]"), int(port), timeout_s, is_tls=is_tls)

    def ask(self, method: str, path: str, body: bytes) -> tuple[Any, http.client.HTTPMessage]:
        """Send JSON; return the server's document and headers. Raises what `fetch` raises."""
        data, headers = self.fetch(method, path, body, _JSON if body else {})
        try:
            return loads(data), headers
        except BadRequest as error:
            raise SessionLost(f"{self.address} answers with no JSON", fix="check that it is TF Serving") from error

    def fetch(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[bytes, http.client.HTTPMessage]:
        """Return the body and headers of the server's answer.
        Raises BadRequest where the server refuses the request, SessionOverloaded where it has too many, SessionTimeout,
        SessionLost."""
        with http_errors(self.address, self._timeout_s):
            try:
                reply, data = self._exchange(method, path, body, headers)
            except BaseException:
                self._http.close()  # what comes late must not be taken for the next answer
                raise
        if reply.status in _NOT_ALLOWED:
            fix = f"put the server's token into {TOKEN_VARIABLE}"
            raise BadRequest(f"{self.address} refuses the caller: {_said(data)}", fix=fix)
        if reply.status == _TOO_MANY:
            raise SessionOverloaded(f"{self.address} refuses the request: {_said(data)}", fix="send fewer at a time")
        if 400 <= reply.status < 500:
            fix = f"check the model's name{LACKS_CALL}" if reply.status in _NOT_THERE else _CHECK
            raise BadRequest(f"{self.address} refuses the request: {_said(data)}", fix=fix)
        if reply.status != 200:
            raise SessionLost(f"{self.address} answers {reply.status}: {_said(data)}", fix="read the server's log")
        return data, reply.headers

    def _exchange(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        kept = self._http.sock is not None
        try:
            return self._once(method, path, body, headers)
        except _STALE:
            if not kept:
                raise
            self._http.close()
            self.retries += 1
            return self._once(method, path, body, headers)

    def _once(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        self._http.request(method, path, body, {**headers, **self._authorization})
        reply = self._http.getresponse()
        return reply, reply.read()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()


def _connection(host: str, port: int, timeout_s: float, *, is_tls: bool) -> http.client.HTTPConnection:
    if not is_tls:
        return http.client.HTTPConnection(host, port, timeout=timeout_s)
    trusted = authorities()
    try:
        context = ssl.create_default_context(cadata=trusted.decode() if trusted else None)
    except (ssl.SSLError, ValueError) as error:
        raise BadRequest(f"{AUTHORITIES_VARIABLE} holds no certificates", fix="name a file of PEM") from error
    return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)


def _said(data: bytes) -> str:
    """Return the server's own sentence."""
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        return first_words(data.decode(errors="replace"))
    return first_words(document.get("error", document) if isinstance(document, dict) else document)


@contextmanager
def http_errors(address: str, timeout_s: float) -> Iterator[None]:
    """Every failure of a socket or of HTTP as one of our errors."""
    try:
        yield
    except TimeoutError as error:
        raise SessionTimeout(
            f"{address} gave no answer within {timeout_s:g} s", fix="read the server's log, or allow more time"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, http.client.BadStatusLine) and not isinstance(error, OSError):
            raise SessionLost(f"{address} does not speak HTTP", fix="check the port") from error
        raise SessionLost(f"{address} gives no answer: {first_words(error)}", fix="read the server's log") from error

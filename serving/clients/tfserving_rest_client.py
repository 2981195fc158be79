"""A session behind TF Serving's REST API: http.client on one connection that is kept, JSON in columns."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import orjson

from ...models.errors import BadRequest, SessionLost, SessionTimeout
from ...models.signature import Array, Signature
from ..checked_session import CheckedSession, first_words
from ..runtimes.provider_check import UNKNOWN
from ..session import Session
from ..wire.tfserving_json import dumps, loads, to_array
from ..wire.tfserving_messages import DEVICE_KEY
from .replies import check_answers

NAME = "tfserving-rest"
# A server closes a connection that has been idle; what it then sees of the next request is nothing at all.
_STALE = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)


def open_session(address: str, model: str, signature: Signature, timeout_s: float = 30) -> Session:
    """Open a session over `model` at `address` ("host:port"). `timeout_s` is for each wait on the socket.
    Raises BadRequest where no such model is there, SessionLost where nobody answers."""
    link = Link(address, timeout_s)
    try:
        status, headers = link.ask("GET", f"/v1/models/{model}", b"")
        rows = status.get("model_version_status", []) if isinstance(status, dict) else []
        if not any(row.get("state") == "AVAILABLE" for row in rows):
            raise SessionLost(f"{address} has {model}, and it is not available yet", fix="wait, or read its log")
    except BaseException:
        link.close()
        raise
    return RestSession(link, model, signature, headers.get(DEVICE_KEY, UNKNOWN))


class Link:
    """One kept connection. JSON out, JSON in, and every failure as one of our errors."""

    def __init__(self, address: str, timeout_s: float) -> None:
        self.address = address
        self._timeout_s = timeout_s
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise BadRequest(f"{address!r} is no address", fix="write it as host:port")
        self._http = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=timeout_s)

    def ask(self, method: str, path: str, body: bytes) -> tuple[Any, http.client.HTTPMessage]:
        """Return the server's document and headers.
        Raises BadRequest where the server refuses the request, SessionTimeout, SessionLost."""
        with http_errors(self.address, self._timeout_s):
            try:
                reply, data = self._exchange(method, path, body)
            except BaseException:
                self._http.close()  # what comes late must not be taken for the next answer
                raise
        if 400 <= reply.status < 500:
            raise BadRequest(f"{self.address} refuses the request: {_said(data)}", fix="check model, names and shapes")
        if reply.status != 200:
            raise SessionLost(f"{self.address} answers {reply.status}: {_said(data)}", fix="read the server's log")
        try:
            return loads(data), reply.headers
        except BadRequest as error:
            raise SessionLost(f"{self.address} answers with no JSON", fix="check that it is TF Serving") from error

    def _exchange(self, method: str, path: str, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        kept = self._http.sock is not None
        try:
            return self._once(method, path, body)
        except _STALE:
            if not kept:
                raise
            self._http.close()
            return self._once(method, path, body)

    def _once(self, method: str, path: str, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        self._http.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        reply = self._http.getresponse()
        return reply, reply.read()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()


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
        raise SessionLost(f"{address} gives no answer: {first_words(error)}", fix="read the server's log") from error


class RestSession(CheckedSession):
    """One connection, one request at a time. Its device is what the embedded server says; "unknown" of any other."""

    def __init__(self, link: Link, model: str, signature: Signature, device: str) -> None:
        super().__init__(NAME, signature, device)
        self._link = link
        self._path = f"/v1/models/{model}:predict"

    def _answer(self, values: Sequence[Array]) -> list[Array]:
        named: dict[str, Array] = {}
        for spec, value in zip(self.signature.inputs, values, strict=True):
            if not value.size:
                raise BadRequest(f"input {spec} is empty, and JSON has no shape for it", fix="send one sample or more")
            named[spec.name] = value
        document, _ = self._link.ask("POST", self._path, dumps({"inputs": named}, values))
        outputs = document.get("outputs") if isinstance(document, dict) else None
        if len(self._outputs) == 1:  # TF Serving leaves a single output's name out
            outputs = {self._outputs[0]: outputs}
        if not isinstance(outputs, dict):
            raise SessionLost(f"{self._link.address} answers without outputs", fix="check that it is TF Serving")
        specs = self.signature.outputs
        outputs = {spec.name: to_array(outputs[spec.name], spec) for spec in specs if spec.name in outputs}
        check_answers(self._link.address, specs, outputs)
        return [outputs[name] for name in self._outputs]

    def _release(self) -> None:
        self._link.close()

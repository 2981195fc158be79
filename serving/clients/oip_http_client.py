"""A session behind the HTTP of the Open Inference Protocol.

Tensors are raw bytes in both directions where the server lists the extension `binary_tensor_data`, else numbers in
JSON: MLServer and most servers of a few lines take nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from urllib.parse import quote

from ...models.errors import BadRequest, SessionLost
from ...models.signature import Array, Signature
from ..checked_session import CheckedSession
from ..runtimes.provider_check import UNKNOWN
from ..session import Session
from ..wire.oip_json import LENGTH_HEADER, join_body, read_outputs, write_tensors
from ..wire.tfserving_messages import DEVICE_KEY
from .http_link import Link
from .replies import check_answers

NAME = "oip-http"
_BINARY = "binary_tensor_data"


def open_session(address: str, model: str, signature: Signature, timeout_s: float = 30) -> Session:
    """Open a session over `model` at `address` ("host:port"). `timeout_s` is for each wait on the socket.
    Raises BadRequest where no such model is there, SessionLost where nobody answers."""
    link = Link(address, timeout_s)
    path = f"/v2/models/{quote(model)}"
    try:
        _, headers = link.fetch("GET", path, b"", {})  # only a model that is loaded has metadata
        takes_binary = _BINARY in _extensions(link)
    except BaseException:
        link.close()
        raise
    return OipHttpSession(link, path, signature, headers.get(DEVICE_KEY, UNKNOWN), takes_binary=takes_binary)


def _extensions(link: Link) -> Sequence[str]:
    """Return the extensions that a server lists in its metadata; none of a server without metadata."""
    try:
        document, _ = link.ask("GET", "/v2", b"")
    except (BadRequest, SessionLost):
        return ()
    extensions = document.get("extensions") if isinstance(document, dict) else None
    return extensions if isinstance(extensions, list) else ()


class OipHttpSession(CheckedSession):
    """One connection, one request at a time. Its device is what the embedded server says; "unknown" of any other."""

    def __init__(self, link: Link, path: str, signature: Signature, device: str, *, takes_binary: bool) -> None:
        super().__init__(NAME, signature, device)
        self._link = link
        self._takes_binary = takes_binary
        self._path = f"{path}/infer"
        self._inputs = tuple(spec.name for spec in signature.inputs)

    @property
    def retries(self) -> int:
        """How many requests were sent twice, as the server had closed the idle connection."""
        return self._link.retries

    def _answer(self, values: Sequence[Array]) -> list[Array]:
        body, headers = self._request(values)
        data, reply_headers = self._link.fetch("POST", self._path, body, headers)
        try:
            outputs = read_outputs(data, reply_headers.get(LENGTH_HEADER), sys.maxsize)
        except BadRequest as error:
            where = f"the answer of {self._link.address} cannot be read: {error.what}"
            raise SessionLost(where, fix="check that it speaks the Open Inference Protocol") from error
        check_answers(self._link.address, self.signature.outputs, outputs)
        return [outputs[name].copy() for name in self._outputs]  # out of the body's memory, which is read-only

    def _request(self, values: Sequence[Array]) -> tuple[bytes, dict[str, str]]:
        """Return the body and the headers of a request."""
        rows, parts = write_tensors(
            dict(zip(self._inputs, values, strict=True)), self._inputs if self._takes_binary else ()
        )
        if not self._takes_binary:
            return join_body({"inputs": rows}, values, ())[0], {"Content-Type": "application/json"}
        body, length = join_body({"inputs": rows, "parameters": {"binary_data_output": True}}, (), parts)
        return body, {"Content-Type": "application/octet-stream", LENGTH_HEADER: str(length)}

    def _release(self) -> None:
        self._link.close()

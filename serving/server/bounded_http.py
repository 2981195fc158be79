"""uvicorn's HTTP protocol with bounds that it lacks: on the size of a header, and on how long a request may take."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as _Base
else:
    _Base = object  # uvicorn is imported when a server starts

_MOST_HEADER_BYTES = 16 << 10
_LINGER_S = 1.0  # for which a refused client may still send, so that it reads its answer
_TEXT = f"the header of a request has at most {_MOST_HEADER_BYTES} bytes".encode()
_REFUSAL = b"\r\n".join([
    b"HTTP/1.1 431 Request Header Fields Too Large", b"content-type: application/json",
    b"content-length: %d" % (len(_TEXT) + len(b'{"error":""}')), b"connection: close", b"", b'{"error":"%s"}' % _TEXT,
])  # fmt: skip


class HeaderTooLarge(ValueError):
    """Ends the parsing of a request."""


def bounded_protocol(read_timeout_s: float) -> type[asyncio.Protocol]:
    """Return a protocol for uvicorn that closes a connection whose request does not come in time.
    The whole header has to come within `read_timeout_s`, from the connection's start or from its first byte; in the
    body that long may pass between two pieces. After an answer, uvicorn's own timer runs."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class BoundedConnection(_BoundedConnection, HttpToolsProtocol):
        """One connection."""

        limit_s = read_timeout_s

    return BoundedConnection


class _BoundedConnection(_Base):
    """A connection with one timer, which is set again only when it fires: a request costs no timer of its own."""

    limit_s: float

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._due: float | None = None  # the end of the wait for the client; None while it need not send
        self._timer: asyncio.TimerHandle | None = None
        self._in_header = True
        self._raw_bytes = 0  # since the header began, as they came
        self._header_bytes = 0  # of the header's parsed fields
        self._refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the wait for a header."""
        super().connection_made(transport)
        self._due = self.loop.time() + self.limit_s
        self._timer = self.loop.call_later(self.limit_s, self._check_time)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _check_time(self) -> None:
        now = self.loop.time()
        if self._due is not None and now >= self._due:
            self.transport.close()
            return
        self._timer = self.loop.call_at(self._due or now + self.limit_s, self._check_time)

    def data_received(self, data: bytes) -> None:
        """Parse data, unless the header is refused."""
        if self._refused:
            return
        if self._in_header:
            self._raw_bytes += len(data)
        super().data_received(data)
        if self._in_header and self._raw_bytes > _MOST_HEADER_BYTES and not self._refused:
            self._refuse()

    def on_message_begin(self) -> None:
        """Start the wait for the rest of a header."""
        self._due = self.loop.time() + self.limit_s
        self._header_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count the URL."""
        self._header_bytes += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a field."""
        self._header_bytes += len(name) + len(value) + 4
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Refuse a header that is too large, else wait for the body."""
        if self._header_bytes > _MOST_HEADER_BYTES:
            raise HeaderTooLarge
        self._in_header = False
        self._due = self.loop.time() + self.limit_s
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Wait for the next piece."""
        self._due = self.loop.time() + self.limit_s
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the wait."""
        self._due = None
        self._in_header, self._raw_bytes = True, 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that the parser gave up: 431 where its header is too large, else 400."""
        if self._header_bytes > _MOST_HEADER_BYTES:
            self._refuse()
        else:
            super().send_400_response(msg)

    def _refuse(self) -> None:
        self._refused, self._due = True, None
        self.transport.write(_REFUSAL)
        self.transport.write_eof()
        self.loop.call_later(_LINGER_S, self.transport.close)

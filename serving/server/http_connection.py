"""One connection of the HTTP listener: httptools parses, the application answers, one write sends the reply.

It bounds what a client may cost: the size of a header and of a body, the time for either, and a client that does not
read. There is no ASGI server in between (docs/design/serving.md).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from email.utils import formatdate
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import unquote

from ..wire.byte_strings import size_of
from .http_messages import CLOSE, LONG_BYTES, DispatchMode, Headers, HttpReply, HttpRequest, Prediction, refusal
from .repository.served_version import Outcome
from .server_records import IDLE_TIMEOUT_S

_MOST_HEADER_BYTES = 16 << 10
_HEADER_END = b"\r\n\r\n"
_MOST_KNOWN, _MOST_KNOWN_BYTES = 256, 1 << 10  # headers that are remembered, and the length of each
_DROPPED = 8  # times the limit, that is read of a body that is too long: clients look for a reply when all is sent
_SLOW_BODY = 6  # times the limit of a pause, that a body may take, and longer by its bytes at this rate:
_LEAST_BYTES_PER_S = 16 << 10
_LINGER_S = 1.0  # for which a refused client may still send, so that it reads its reply
_LINES = {code: b"HTTP/1.1 %d \r\n" % code for code in range(200, 600)}
_LINES |= {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_LARGE_HEADER = refusal(f"the header of a request has at most {_MOST_HEADER_BYTES} bytes", 431, (CLOSE,))
_BROKEN = refusal("the request is no HTTP", 400, (CLOSE,))


class Application(Protocol):
    """What answers the requests of a connection."""

    max_body_bytes: int

    def begin(self, request: HttpRequest) -> None:
        """Count a request, whose header has come."""

    def dispatch_mode(self, request: HttpRequest) -> DispatchMode:
        """Return how a request is answered."""

    def answer(self, request: HttpRequest) -> HttpReply:
        """Return the reply. It never raises."""

    def begin_answer(self, request: HttpRequest, receiver: Callable[[Prediction, Outcome], None]) -> HttpReply | None:
        """Ask a model for what the reply needs, to be told to `receiver`; or return the reply. It never raises."""

    def end_answer(self, request: HttpRequest, prediction: Prediction, outcome: Outcome) -> HttpReply:
        """Return the reply, when the model has answered. It never raises."""

    def end(self, request: HttpRequest) -> None:
        """Count and log a request whose reply is on its way, or whose client is gone."""


class HeaderTooLarge(ValueError):
    """Ends the parsing of a request."""


class RequestHeader(NamedTuple):
    """The parsed header of a request."""

    method: str
    path: str
    fields: Headers
    is_last: bool  # whether the connection is closed after the request


# By its bytes, the header of a request that came in one piece. Clients send the same header again and again, and
# parsing it takes as long as a small model.
_known: dict[bytes, tuple[RequestHeader, int]] = {}  # with the length of the body


class HttpConnection(asyncio.Protocol):
    """A connection with one timer, which is set again only when it fires: a request costs no timer of its own."""

    def __init__(
        self, application: Application, executor: Executor, connections: set[HttpConnection], read_timeout_s: float
    ) -> None:
        import httptools

        self._application, self._executor, self._connections = application, executor, connections
        self._limit_s = read_timeout_s
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._errors = (httptools.HttpParserUpgrade, httptools.HttpParserError)
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle
        self._due: float | None = 0.0  # the end of the wait for the client; None while it need not send
        self._body_start = 0.0
        self._unsent_bytes: int | None = None  # at the last look at a client that does not read
        self._in_header = True
        self._is_between = True  # whether the last request has come as a whole, and nothing of another
        self._raw_bytes = 0  # since the header began, as they came
        self._header_bytes = 0  # of its parsed fields
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._header: RequestHeader | None = None  # the last one of what has come
        self._request: HttpRequest | None = None  # whose body comes
        self._waiting: deque[HttpRequest] = deque()  # requests that were sent before the reply to an earlier one
        self._is_busy = False  # whether a thread answers a request
        self._is_ending = False  # whether what comes is ignored: the last reply is on its way

    # The transport's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the wait for a header."""
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)
        self._due = self._loop.time() + self._limit_s
        self._timer = self._loop.call_later(self._limit_s, self._check_time)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Forget the connection; what is being answered is answered for nobody."""
        self._is_ending = True
        self._connections.discard(self)
        self._timer.cancel()
        for request in (*self._waiting, self._request):
            if request is not None:
                request.record.status = "CANCELLED"
                self._application.end(request)
        self._waiting.clear()
        self._request = None

    def data_received(self, data: bytes) -> None:
        """Parse data, unless the connection is ending."""
        if self._is_ending:
            return
        end = data.find(_HEADER_END) + len(_HEADER_END) if self._is_between else 0
        header, body_bytes = _known.get(data[:end], (None, 0))
        if header is not None and body_bytes == len(data) - end:
            self._take(header, data[end:])
            return
        self._header = None
        if self._in_header:
            self._raw_bytes += len(data)
        upgrade, error = self._errors
        try:
            self._parser.feed_data(data)
        except upgrade:  # to no protocol: the request is answered as it is, and is the last one
            return
        except error:
            if not self._is_ending:
                self._refuse(_LARGE_HEADER if self._is_header_large() else _BROKEN)
            return
        if self._in_header and self._raw_bytes > _MOST_HEADER_BYTES and not self._is_ending:
            self._refuse(_LARGE_HEADER)
        if self._is_between and end <= _MOST_KNOWN_BYTES:
            self._remember(data[:end], len(data) - end)

    def _take(self, header: RequestHeader, body: bytes) -> None:
        """Take a request whose header is known, as the parser's callbacks would."""
        self._begin(header)
        if body:
            self.on_body(body)
        self.on_message_complete()

    def _remember(self, header_bytes: bytes, body_bytes: int) -> None:
        """Remember the header that has come, if these bytes and the body make one whole request."""
        header = self._header
        if header is None:
            return
        fields = header.fields
        is_plain = header_bytes.endswith(_HEADER_END) and not {b"transfer-encoding", b"expect"} & fields.keys()
        if is_plain and int(fields.get(b"content-length", b"0")) == body_bytes:
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            _known[header_bytes] = header, body_bytes

    def pause_writing(self) -> None:
        """Take no further requests of a client that does not read."""
        self._unsent_bytes = self._transport.get_write_buffer_size()
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on."""
        self._unsent_bytes = None
        self._go_on()

    def _check_time(self) -> None:
        now = self._loop.time()
        if self._unsent_bytes is not None:
            size = self._transport.get_write_buffer_size()
            if size >= self._unsent_bytes:
                self._transport.abort()
                return
            self._unsent_bytes = size
        elif self._due is not None and now >= self._due:
            self._transport.close()
            return
        later = now + self._limit_s
        self._timer = self._loop.call_at(later if self._due is None else min(self._due, later), self._check_time)

    # The parser's side.

    def on_message_begin(self) -> None:
        """Start the wait for the rest of a header."""
        self._is_between = False
        self._due = self._loop.time() + self._limit_s
        self._url, self._headers, self._header_bytes = b"", {}, 0

    def on_url(self, url: bytes) -> None:
        """Take the URL, or a part of it."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field; of a repeated one the last counts."""
        self._header_bytes += len(name) + len(value) + 4
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """Refuse a header that is too large, else wait for the body."""
        if self._is_header_large():
            raise HeaderTooLarge
        parser, headers = self._parser, self._headers
        keeps = parser.should_keep_alive() and not parser.should_upgrade() and parser.get_http_version() != "1.0"
        self._header = RequestHeader(parser.get_method().decode("latin-1"), _path(self._url), headers, not keeps)
        self._begin(self._header)
        if b"expect" in headers and headers[b"expect"].lower() == b"100-continue" and not self._is_busy:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _begin(self, header: RequestHeader) -> None:
        """Wait for the body of a request."""
        self._in_header = False
        self._body_start = self._loop.time()
        self._due = self._body_start + self._limit_s
        self._request = HttpRequest(*header)
        self._application.begin(self._request)

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body, or drop it where the body is too long; wait for the next one."""
        request = self._request
        if request is None:
            return
        most = self._application.max_body_bytes
        request.record.bytes_in += len(body)
        longest_s = _SLOW_BODY * self._limit_s + request.record.bytes_in / _LEAST_BYTES_PER_S
        self._due = min(self._loop.time() + self._limit_s, self._body_start + longest_s)
        if request.record.bytes_in <= most:
            request.parts.append(body)
            return
        request.parts.clear()
        request.is_too_long = request.is_last = True
        if request.record.bytes_in > _DROPPED * most:
            self._request, self._due = None, None
            self._reply(request, self._application.answer(request))

    def on_message_complete(self) -> None:
        """Answer the request, after those before it."""
        self._in_header, self._raw_bytes = True, 0
        request, self._request = self._request, None
        if request is None:
            return
        self._due = None
        self._is_between = not request.is_last
        if self._is_busy or self._unsent_bytes is not None:
            self._waiting.append(request)
            self._transport.pause_reading()
        else:
            self._start(request)

    # The application's side.

    def _start(self, request: HttpRequest) -> None:
        mode = self._application.dispatch_mode(request)
        if mode is DispatchMode.LOOP:
            self._reply(request, self._application.answer(request))
        elif mode is DispatchMode.THREAD:
            self._is_busy = True
            self._transport.pause_reading()
            self._answer_in_thread(request, self._application.answer)
        else:
            self._submit(request)

    def _answer_in_thread(self, request: HttpRequest, answer: Callable[..., HttpReply], *arguments: Any) -> None:
        task = self._loop.run_in_executor(self._executor, answer, request, *arguments)
        task.add_done_callback(lambda done: self._on_answer(request, done.result()))

    def _submit(self, request: HttpRequest) -> None:
        """Have a model asked. Reading goes on: a further request waits, and pauses it."""
        self._is_busy = True
        reply = self._application.begin_answer(request, partial(self._receive, request))
        if reply is not None:
            self._is_busy = False
            self._reply(request, reply)

    def _receive(self, request: HttpRequest, prediction: Prediction, outcome: Outcome) -> None:
        if not isinstance(outcome, Exception) and sum(map(size_of, outcome.values())) > LONG_BYTES:
            self._answer_in_thread(request, self._application.end_answer, prediction, outcome)
        else:
            self._on_answer(request, self._application.end_answer(request, prediction, outcome))

    def _on_answer(self, request: HttpRequest, reply: HttpReply) -> None:
        self._is_busy = False
        self._reply(request, reply)
        self._go_on()

    def _reply(self, request: HttpRequest, reply: HttpReply) -> None:
        self._application.end(request)
        if not self._transport.is_closing() and not self._is_ending:
            self._write(reply, request)
            self._due = self._loop.time() + IDLE_TIMEOUT_S
        if request.is_last or CLOSE in reply.headers:
            self._end()

    def _go_on(self) -> None:
        """Answer the requests that wait, then read on."""
        while self._waiting and not self._is_ending and not self._is_busy and self._unsent_bytes is None:
            self._start(self._waiting.popleft())
        if not self._is_busy and self._unsent_bytes is None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _is_header_large(self) -> bool:
        return self._header_bytes + len(self._url) > _MOST_HEADER_BYTES

    def _refuse(self, reply: HttpReply) -> None:
        """Send a reply to what is no request."""
        if not self._is_busy:
            self._write(reply, None)
        self._end()

    def _write(self, reply: HttpReply, request: HttpRequest | None) -> None:
        head = _head(reply, request)
        body = b"" if request is not None and request.method == "HEAD" else reply.body
        if len(body) > LONG_BYTES:  # not copied: that would hold the loop
            self._transport.write(head)
            self._transport.write(body)
        else:
            self._transport.write(head + body)

    def _end(self) -> None:
        """Close the connection when the client has read its last reply: it may still be sending."""
        if self._is_ending or self._transport.is_closing():
            return
        self._is_ending, self._due = True, None
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()
        self._loop.call_later(_LINGER_S, self._transport.close)

    def shut_down(self) -> None:
        """Close the connection, after the reply to a request that has come."""
        if self._request is None and not self._is_busy and not self._waiting:
            self._transport.close()
        for request in (self._request, *self._waiting):
            if request is not None:
                request.is_last = True

    def abort(self) -> None:
        """Close the connection now."""
        self._transport.abort()


def _path(url: bytes) -> str:
    """Return the path of a request's target. Raises httptools' HttpParserInvalidURLError where it is none."""
    import httptools

    raw: bytes = url.partition(b"?")[0] if url.startswith(b"/") else httptools.parse_url(url).path or b"/"
    path = raw.decode("latin-1")
    return unquote(path) if "%" in path else path


_date = (0, b"")


def _date_line() -> bytes:
    """Return the field of the date, made once a second."""
    global _date
    now = int(time.time())
    if _date[0] != now:
        _date = now, f"date: {formatdate(now, usegmt=True)}\r\n".encode()
    return _date[1]


def _head(reply: HttpReply, request: HttpRequest | None) -> bytes:
    """Return the bytes of a reply that come before its body."""
    parts = [
        _LINES[reply.status], _date_line(),
        b"content-type: %b\r\ncontent-length: %d\r\n" % (reply.media_type, len(reply.body)),
    ]  # fmt: skip
    for name, value in reply.headers:
        parts += (name, b": ", value, b"\r\n")
    if request is not None and request.is_last and CLOSE not in reply.headers:
        parts.append(b"connection: close\r\n")
    parts.append(b"\r\n")
    return b"".join(parts)

"""The HTTP side of the server, for all protocols: it finds the protocol by the path, counts, logs and refuses."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from http import HTTPStatus

from ...models.errors import TransloadError
from ..endpoint_security import OPEN, EndpointSecurity
from ..wire.tfserving_messages import DEVICE_KEY
from . import metrics, oip_http, tfserving_rest
from .http_body import compress, unpack, wants_gzip
from .http_messages import (
    CLOSE,
    LONG_BYTES,
    DispatchMode,
    Headers,
    HttpProtocol,
    HttpReply,
    HttpRequest,
    Prediction,
    refusal,
)
from .repository.model_repository import Repository
from .repository.served_version import Outcome
from .serving_error import Code, ServingError, as_status, unavailable

# As TF Serving maps them: ToHTTPStatusCode in tensorflow_serving/model_servers/http_server.cc.
_STATUS = {
    Code.INVALID_ARGUMENT: 400, Code.DEADLINE_EXCEEDED: 504, Code.NOT_FOUND: 404, Code.FAILED_PRECONDITION: 400,
    Code.RESOURCE_EXHAUSTED: 429, Code.INTERNAL: 500,
    Code.UNAVAILABLE: 503, Code.CANCELLED: 499, Code.UNIMPLEMENTED: 501, Code.UNKNOWN: 500,
}  # fmt: skip
_PUBLIC = {"/", "/healthz", "/v2/health/live", "/v2/health/ready"}  # what a probe asks, which has no token
_HEALTH = {"/healthz": b"ok", "/": b"alive"}  # of the process; the latter is what KServe's client of /v1 asks
_RETRY = (b"retry-after", b"1")
_COUNTED = "/v1/"  # begins the paths whose requests TF Serving's metrics count
_DEVICE = DEVICE_KEY.encode()
_LOG = logging.getLogger(__name__)


class HttpApplication:
    """Answers the requests of all connections (http_connection.Application)."""

    def __init__(self, repository: Repository, security: EndpointSecurity = OPEN) -> None:
        self._repository, self._security = repository, security
        self.max_body_bytes = repository.max_body_bytes

    def begin(self, request: HttpRequest) -> None:
        """Count a request, whose header has come."""
        request.ticket = self._repository.admission.enter()
        if request.path.startswith(_COUNTED):
            request.record.api = ""

    def end(self, request: HttpRequest) -> None:
        """Count and log a request whose reply is on its way, or whose client is gone."""
        self._repository.admission.leave(request.ticket)
        self._repository.add_request(request.record)

    def dispatch_mode(self, request: HttpRequest) -> DispatchMode:
        """Return how a request is answered. Whatever is answered on the event loop is answered at once, or waits for
        another process."""
        if request.method != "POST" or not request.ticket[0] or request.is_too_long:
            return DispatchMode.LOOP
        if request.record.bytes_in > LONG_BYTES or b"content-encoding" in request.headers:
            return DispatchMode.THREAD
        served = _protocol(request.path).find_served(self._repository, request.path)
        if served is None:
            return DispatchMode.THREAD
        if served.takes_submissions:
            return DispatchMode.SUBMISSION
        return DispatchMode.LOOP if served.is_quick else DispatchMode.THREAD

    def answer(self, request: HttpRequest) -> HttpReply:
        """Return the reply to a request, or the one that refuses it."""
        try:
            step = self._begin(request)
            return self._finish(request, step.run() if isinstance(step, Prediction) else step)
        except Exception as error:  # noqa: BLE001  (a fault of ours is no reason to drop the connection)
            return self._refuse(request, error)

    def begin_answer(self, request: HttpRequest, receiver: Callable[[Prediction, Outcome], None]) -> HttpReply | None:
        """Ask for the prediction that a request needs; `receiver` is called with what `end_answer` takes. Return the
        reply where the request needs none, or is refused."""
        try:
            step = self._begin(request)
            if isinstance(step, HttpReply):
                return self._finish(request, step)
            step.submit(partial(receiver, step))
        except Exception as error:  # noqa: BLE001
            return self._refuse(request, error)
        return None

    def end_answer(self, request: HttpRequest, prediction: Prediction, outcome: Outcome) -> HttpReply:
        """Return the reply to a request, whose prediction has this outcome."""
        try:
            return self._finish(request, prediction.complete(outcome))
        except Exception as error:  # noqa: BLE001
            return self._refuse(request, error)

    def _begin(self, request: HttpRequest) -> HttpReply | Prediction:
        """Return the reply to a request, or the prediction that it asks for. Raises as a Handler."""
        method, path, record = request.method, request.path, request.record
        if reply := self._keep_out(request):
            return reply
        if path == metrics.PATH and method in {"GET", "HEAD"}:
            return HttpReply(self._repository.metrics.page(), media_type=metrics.MEDIA_TYPE.encode())
        body = None if request.is_too_long else unpack(request.headers, b"".join(request.parts), self.max_body_bytes)
        if body is None:
            record.status = Code.RESOURCE_EXHAUSTED.name
            return refusal(f"the body of a request has at most {self.max_body_bytes} bytes", 413, (CLOSE,))
        if not request.ticket[0]:
            raise unavailable()
        if path in _HEALTH and method in {"GET", "HEAD"}:
            return self._health(_HEALTH[path])
        return _protocol(path).handle(self._repository, request, body)

    def _keep_out(self, request: HttpRequest) -> HttpReply | None:
        """Return the reply to a web page or a client that may not ask, and to a browser that asks whether it may."""
        if fault := self._security.fault_of_page(request.headers):
            request.record.status = "PERMISSION_DENIED"
            return refusal(fault, 403)
        if request.method == "OPTIONS" and request.headers.get(b"origin") in self._security.origins:
            return HttpReply(b"", 204, headers=_preflight(request.headers))
        if request.path in _PUBLIC or self._security.allows(request.headers.get(b"authorization", b"")):
            return None
        request.record.status = "UNAUTHENTICATED"
        return refusal("the request needs the server's bearer token", 401, ((b"www-authenticate", b"Bearer"),))

    def _refuse(self, request: HttpRequest, error: Exception) -> HttpReply:
        """Return the reply that tells an error."""
        if isinstance(error, ServingError | TransloadError):
            status = as_status(error)
            request.record.status, code = status.code.name, _STATUS[status.code]
            return self._finish(request, refusal(status.text, code, (_RETRY,) if code in {429, 503} else ()))
        _LOG.error("%s", request.record.method, exc_info=error)
        request.record.status = Code.INTERNAL.name
        return self._finish(request, refusal("internal error", 500))

    def _finish(self, request: HttpRequest, reply: HttpReply) -> HttpReply:
        """Return a reply with what every reply has."""
        record, body, fields = request.record, reply.body, reply.headers
        if reply.status == HTTPStatus.OK:
            record.status = "OK"
        if wants_gzip(request.headers, body):
            body = compress(body)
            fields += ((b"content-encoding", b"gzip"), (b"vary", b"accept-encoding"))
        record.bytes_out = len(body)
        if record.device:
            fields += ((_DEVICE, record.device.encode()),)
        if (origin := request.headers.get(b"origin", b"")) in self._security.origins:
            fields += (
                (b"access-control-allow-origin", origin),
                (b"access-control-expose-headers", b"*"),
                (b"vary", b"origin"),
            )
        if not self._repository.admission.is_ready and CLOSE not in fields:
            fields += (CLOSE,)  # no request may be on its way on a connection that is closed when the server stops
        return HttpReply(body, reply.status, reply.media_type, fields)

    def _health(self, status: bytes) -> HttpReply:
        if not self._repository.admission.is_ready:
            raise unavailable()
        return HttpReply(b'{"status":"%b"}' % status)


def _preflight(headers: Headers) -> tuple[tuple[bytes, bytes], ...]:
    """Return the fields that answer what a browser asks ahead (CORS) for a page of a listed origin: the page may send
    every header field that it names."""
    fields = headers.get(b"access-control-request-headers", b"authorization, content-type")
    return (
        (b"access-control-allow-methods", b"GET, POST"), (b"access-control-allow-headers", fields),
        (b"access-control-max-age", b"600"),
    )  # fmt: skip


def _protocol(path: str) -> HttpProtocol:
    return oip_http.PROTOCOL if oip_http.is_path(path) else tfserving_rest.PROTOCOL

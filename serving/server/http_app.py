"""The HTTP side of the server, for all protocols: it finds the protocol by the path, counts, logs and refuses."""

from __future__ import annotations

import logging

from ...models.errors import TransloadError
from ..endpoint_security import OPEN, EndpointSecurity
from ..wire.tfserving_messages import DEVICE_KEY
from . import metrics, oip_http, tfserving_rest
from .http_body import compress, unpack, wants_gzip
from .http_messages import CLOSE, HttpProtocol, HttpReply, HttpRequest, refusal
from .repository.model_repository import Repository
from .serving_error import Code, ServingError, as_status, unavailable

# As TF Serving maps them: ToHTTPStatusCode in tensorflow_serving/model_servers/http_server.cc.
_STATUS = {
    Code.INVALID_ARGUMENT: 400, Code.DEADLINE_EXCEEDED: 504, Code.NOT_FOUND: 404, Code.FAILED_PRECONDITION: 400,
    Code.RESOURCE_EXHAUSTED: 429, Code.INTERNAL: 500,
    Code.UNAVAILABLE: 503, Code.CANCELLED: 499, Code.UNIMPLEMENTED: 501, Code.UNKNOWN: 500,
}  # fmt: skip
_PUBLIC = {"/healthz", "/v2/health/live", "/v2/health/ready"}  # what a probe asks, which has no token
_RETRY = (b"retry-after", b"1")
_COUNTED = "/v1/"  # begins the paths whose requests TF Serving's metrics count
_INLINE_BYTES = 1 << 16  # a longer body is parsed in a thread
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

    def is_quick(self, request: HttpRequest) -> bool:
        """Whether a request may be answered on the event loop, which then serves nobody else."""
        if request.method != "POST" or not request.ticket[0] or request.is_too_long:
            return True
        if request.record.bytes_in > _INLINE_BYTES or b"content-encoding" in request.headers:
            return False
        served = _protocol(request.path).find_served(self._repository, request.path)
        return served is not None and served.is_quick

    def answer(self, request: HttpRequest) -> HttpReply:
        """Return the reply to a request, or the one that refuses it."""
        record = request.record
        try:
            reply = self._answer(request)
        except (ServingError, TransloadError) as error:
            status = as_status(error)
            record.status, code = status.code.name, _STATUS[status.code]
            reply = refusal(status.text, code, (_RETRY,) if code in {429, 503} else ())
        except Exception:  # noqa: BLE001  (a fault of ours is no reason to drop the connection)
            _LOG.exception("%s", record.method)
            record.status = Code.INTERNAL.name
            reply = refusal("internal error", 500)
        record.bytes_out = len(reply.body)
        if record.device:
            reply = reply._replace(headers=(*reply.headers, (_DEVICE, record.device.encode())))
        if not self._repository.admission.is_ready and CLOSE not in reply.headers:
            # No request may be on its way on a connection that is closed when the server stops.
            reply = reply._replace(headers=(*reply.headers, CLOSE))
        return reply

    def _answer(self, request: HttpRequest) -> HttpReply:
        """Return the reply to a request. Raises as a Handler."""
        method, path, record = request.method, request.path, request.record
        if not (path in _PUBLIC or self._security.allows(request.headers.get(b"authorization", b""))):
            record.status = "UNAUTHENTICATED"
            return refusal("the request needs the server's bearer token", 401, ((b"www-authenticate", b"Bearer"),))
        if path == metrics.PATH and method in {"GET", "HEAD"}:
            record.status = "OK"
            return HttpReply(self._repository.metrics.page(), media_type=metrics.MEDIA_TYPE.encode())
        body = None if request.is_too_long else unpack(request.headers, b"".join(request.parts), self.max_body_bytes)
        if body is None:
            record.status = Code.RESOURCE_EXHAUSTED.name
            return refusal(f"the body of a request has at most {self.max_body_bytes} bytes", 413, (CLOSE,))
        if not request.ticket[0]:
            raise unavailable()
        if path == "/healthz" and method in {"GET", "HEAD"}:
            reply = self._health()
        else:
            reply = _protocol(path).handle(self._repository, request, body)
        record.status = "OK"
        if wants_gzip(request.headers, reply.body):
            fields = (*reply.headers, (b"content-encoding", b"gzip"), (b"vary", b"accept-encoding"))
            reply = reply._replace(body=compress(reply.body), headers=fields)
        return reply

    def _health(self) -> HttpReply:
        if not self._repository.admission.is_ready:
            raise unavailable()
        return HttpReply(b'{"status":"ok"}')


def _protocol(path: str) -> HttpProtocol:
    return oip_http.PROTOCOL if oip_http.is_path(path) else tfserving_rest.PROTOCOL

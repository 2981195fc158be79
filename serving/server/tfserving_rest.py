"""TF Serving's REST API over a repository of models, and /healthz: an ASGI application on uvicorn, in a thread."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...models.errors import BadRequest, TransloadError
from ...models.signature import Array
from ..wire.tfserving_json import dumps, is_base64, loads, to_array
from ..wire.tfserving_messages import DEVICE_KEY
from . import metrics, oip_http
from .repository import Repository
from .rest_body import compress, read_body, wants_gzip
from .served_version import SIGNATURE, ServedVersion
from .server_records import IDLE_TIMEOUT_S, READ_TIMEOUT_S
from .serving_error import Code, ServingError, as_status, invalid, unavailable
from .tfserving_grpc import signature_map

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_PATH = re.compile(r"/v1/models/([^/:]+)(?:/versions/(\d{1,18})|/labels/([^/:]+))?(:predict|/metadata|)", re.IGNORECASE)
# As TF Serving maps them: ToHTTPStatusCode in tensorflow_serving/model_servers/http_server.cc.
_HTTP = {
    Code.INVALID_ARGUMENT: 400, Code.DEADLINE_EXCEEDED: 504, Code.NOT_FOUND: 404, Code.FAILED_PRECONDITION: 400,
    Code.RESOURCE_EXHAUSTED: 429, Code.INTERNAL: 500,
    Code.UNAVAILABLE: 503, Code.CANCELLED: 499, Code.UNIMPLEMENTED: 501, Code.UNKNOWN: 500,
}  # fmt: skip
_API = "/v1/"  # begins the paths whose requests TF Serving's metrics count
_INLINE_S = 0.005  # a model that is faster runs on the event loop: handing it to a thread costs 0.1 ms
_INLINE_BYTES = 1 << 16  # so does a body that is shorter
_START_S = 20


class RestServer:
    """A uvicorn server that is answering when it is made. Raises BadRequest where the port is taken."""

    def __init__(self, repository: Repository, host: str, port: int, read_timeout_s: float = READ_TIMEOUT_S) -> None:
        import uvicorn

        from .bounded_http import bounded_protocol

        try:
            self._socket = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as error:
            raise BadRequest(f"nothing can listen on {host}:{port}", fix="name another port, or 0") from error
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            application(repository),
            loop="uvloop",
            http=bounded_protocol(read_timeout_s),
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_keep_alive=IDLE_TIMEOUT_S,
            timeout_graceful_shutdown=5,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="rest", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer what has been asked, then stop. Safe to call twice."""
        self._server.should_exit = True
        self._thread.join(_START_S)
        self._socket.close()


def application(repository: Repository) -> Starlette:
    """Build the ASGI application."""
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect
    from starlette.responses import Response
    from starlette.routing import Route

    async def handle(request: Request) -> Response:
        method, path = request.method, request.scope["path"]
        record = metrics.RequestRecord("REST", f"{method} {path}", "" if path.startswith(_API) else None)
        try:
            if path == metrics.PATH and method in {"GET", "HEAD"}:
                response = Response(repository.metrics.page(), media_type=metrics.MEDIA_TYPE)
                record.status = "OK"
            else:
                response = await _respond_or_refuse(repository, request, record)
            record.bytes_out = len(response.body)
            return response
        except ClientDisconnect:  # nobody reads the answer
            record.status = "CANCELLED"
            return _reply(repository, b"", 499)
        finally:
            repository.add_request(record)

    methods = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"]
    return Starlette(routes=[Route("/{path:path}", handle, methods=methods)])


async def _respond_or_refuse(repository: Repository, request: Request, record: metrics.RequestRecord) -> Response:
    """Return the answer to a request, or the status that refuses it."""
    try:
        with repository.admission.counted() as accepted:
            return await _respond(repository, request, record, accepted=accepted)
    except (ServingError, TransloadError) as error:
        status = as_status(error)
        record.status = status.code.name
        return _reply(repository, dumps({"error": status.text}, ()), _HTTP[status.code])


async def _respond(
    repository: Repository, request: Request, record: metrics.RequestRecord, *, accepted: bool
) -> Response:
    """Return the answer to a request, whose body is read before it is refused. Raises as `answer` does."""
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import Response

    body = await read_body(request, repository.max_body_bytes, record)
    if body is None:
        record.status = Code.RESOURCE_EXHAUSTED.name
        text = f"the body of a request has at most {repository.max_body_bytes} bytes"
        close = {"connection": "close"}  # what is left of the body is not read
        return Response(dumps({"error": text}, ()), 413, close, "application/json")
    if not accepted:
        raise unavailable()
    method, path = request.method, request.scope["path"]

    def act() -> oip_http.Reply:
        if oip_http.is_path(path):
            return oip_http.answer(repository, oip_http.HttpRequest(method, path, request.headers, body), record)
        return oip_http.Reply(answer(repository, method, path, body, record))

    is_inline = len(body) <= _INLINE_BYTES and _is_quick(repository, method, path)
    reply = act() if is_inline else await run_in_threadpool(act)
    record.status = "OK"
    if not wants_gzip(request, reply.body):
        response = _reply(repository, reply.body, device=record.device)
    else:
        response = _reply(repository, await run_in_threadpool(compress, reply.body), device=record.device)
        response.headers.update({"content-encoding": "gzip", "vary": "accept-encoding"})
    response.headers.update(reply.headers)
    return response


def _is_quick(repository: Repository, method: str, path: str) -> bool:
    """Whether the model that a request asks is so fast that it may run on the event loop."""
    match = _PATH.fullmatch(path)
    if method == "POST" and oip_http.is_path(path):
        served = oip_http.find_served(repository, path)
        return served is not None and served.last_s <= _INLINE_S
    if method != "POST" or match is None:
        return True
    try:
        return _find(repository, match).last_s <= _INLINE_S
    except ServingError:
        return True


def _reply(repository: Repository, body: bytes, code: int = 200, *, device: str = "") -> Response:
    from starlette.responses import Response

    # No request may be on its way on a connection that is closed when the server stops.
    close = {} if repository.admission.is_ready else {"connection": "close"}
    return Response(body, code, {**({DEVICE_KEY: device} if device else {}), **close}, "application/json")


def answer(repository: Repository, method: str, path: str, body: bytes, record: metrics.RequestRecord) -> bytes:
    """Return the JSON document that answers a request. Raises ServingError and TransloadError."""
    verb = "GET" if method == "HEAD" else method
    if (verb, path) == ("GET", "/healthz"):
        if not repository.admission.is_ready:
            raise unavailable()
        return b'{"status":"ok"}'
    match = _PATH.fullmatch(path)
    if match is None or (verb, match[4].lower()) not in _ACTIONS:
        raise invalid(f"Malformed request: {method} {path}")
    record.model, record.version = match[1], match[2] or match[3] or ""
    if record.api is not None:
        record.api = match[4].lower().partition(":")[2]
    return _ACTIONS[verb, match[4].lower()](repository, match, body, record)


def _version(match: re.Match[str]) -> tuple[int | None, str]:
    """Return the version and the label that a path names."""
    return None if match[2] is None else int(match[2]), match[3] or ""


def _find(repository: Repository, match: re.Match[str]) -> ServedVersion:
    return repository.find(match[1], *_version(match))


def _status(repository: Repository, match: re.Match[str], _body: bytes, record: metrics.RequestRecord) -> bytes:
    rows = []
    for status in repository.statuses(match[1], *_version(match)):
        code, text = ("OK", "") if status.failure is None else (Code.UNKNOWN.name, status.failure.what)
        state = {"error_code": code, "error_message": text}
        rows.append({"version": str(status.number), "state": status.state.name, "status": state})
    with suppress(ServingError):
        record.device = _find(repository, match).device
    return dumps({"model_version_status": rows}, ())


def _metadata(repository: Repository, match: re.Match[str], _body: bytes, record: metrics.RequestRecord) -> bytes:
    from google.protobuf.json_format import MessageToDict

    model = _find(repository, match)
    record.device = model.device
    document = MessageToDict(
        signature_map(model), preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    spec = {"name": model.name, "signature_name": "", "version": str(model.number)}
    return dumps({"model_spec": spec, "metadata": {"signature_def": document}}, ())


def _predict(repository: Repository, match: re.Match[str], body: bytes, record: metrics.RequestRecord) -> bytes:
    model = _find(repository, match)
    record.device = model.device
    in_rows, feeds = _feeds(model, loads(body))
    answers = model.predict(feeds)
    if in_rows:
        return _rows(answers)
    arrays = list(answers.values())
    return dumps({"outputs": arrays[0] if len(arrays) == 1 else dict(answers)}, arrays)


_ACTIONS = {("GET", ""): _status, ("GET", "/metadata"): _metadata, ("POST", ":predict"): _predict}


def _feeds(model: ServedVersion, document: Any) -> tuple[bool, dict[str, Array]]:
    """Whether the request came in rows, and its inputs. Raises ServingError, BadRequest."""
    if not isinstance(document, dict):
        raise invalid("JSON Value: the document Is not object")
    wanted = document.get("signature_name", "")
    if not isinstance(wanted, str):
        raise invalid("JSON Value: the document not formatted correctly. 'signature_name' key must be a string value.")
    if wanted not in ("", SIGNATURE):
        raise invalid(f'Serving signature name: "{wanted}" not found in signature def')
    if "instances" in document and "inputs" in document:
        raise invalid(
            "JSON Value: the document Not formatted correctly expecting only one of 'inputs' or 'instances' keys "
            "to exist "
        )
    if "instances" in document:
        return True, _from_rows(model, document["instances"])
    if "inputs" in document:
        return False, _from_columns(model, document["inputs"])
    raise invalid("Missing 'inputs' or 'instances' key")


def _from_rows(model: ServedVersion, rows: Any) -> dict[str, Array]:
    specs = model.signature.inputs
    if not isinstance(rows, list):
        raise invalid("JSON Value: the document Excepting 'instances' to be an list/array")
    if not rows:
        raise invalid("JSON Value: the document No values in 'instances' array")
    if not isinstance(rows[0], dict) or is_base64(rows[0]):
        if len(specs) > 1:
            raise invalid(
                "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
                "tensorinfo_map"
            )
        for at, row in enumerate(rows):
            if isinstance(row, dict) and not is_base64(row):
                raise invalid(f"Expecting value/list but got object at item {at} of input list")
        return {specs[0].name: to_array(rows, specs[0], len(rows))}
    names = {spec.name for spec in specs}
    for at, row in enumerate(rows):
        _check_row(at, row, names)
    return {spec.name: to_array([row[spec.name] for row in rows], spec, len(rows)) for spec in specs}


def _check_row(at: int, row: Any, names: set[str]) -> None:
    if not isinstance(row, dict):
        raise invalid(f"Expecting object but got list at item {at} of input list")
    for name in row:
        if name not in names:
            raise invalid(
                f"Failed to process element: {at} key: {name} of 'instances' list. Error: INVALID_ARGUMENT: "
                f"JSON object: does not have named input: {name}"
            )
    if set(row) != names:
        raise invalid(
            f"Failed to process element: {at} of 'instances' list. JSON object: keys must be equal to: "
            f"{','.join(sorted(names))}"
        )


def _from_columns(model: ServedVersion, columns: Any) -> dict[str, Array]:
    specs = model.signature.inputs
    if not isinstance(columns, dict) or is_base64(columns):
        if len(specs) > 1:
            raise invalid(
                "inputs is a plain value/list, but expecting an object as multiple input tensors required as per "
                "tensorinfo_map"
            )
        return {specs[0].name: to_array(columns, specs[0])}
    for spec in specs:
        if spec.name not in columns:
            raise invalid(f"Missing named input: {spec.name} in 'inputs' object.")
    return {spec.name: to_array(columns[spec.name], spec) for spec in specs}


def _rows(answers: Mapping[str, Array]) -> bytes:
    batch: int | None = None
    for name, value in answers.items():
        if not value.ndim:
            raise invalid(f"Tensor name: {name} has no shape information ")
        if batch not in (None, len(value)):
            raise invalid(f"Tensor name: {name} has inconsistent batch size: {len(value)} expecting: {batch}")
        batch = len(value)
    arrays = list(answers.values())
    if len(arrays) == 1:
        return dumps({"predictions": arrays[0]}, arrays)
    rows = [{name: value[at] for name, value in answers.items()} for at in range(batch or 0)]
    return dumps({"predictions": rows}, arrays)

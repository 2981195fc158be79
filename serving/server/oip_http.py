"""The Open Inference Protocol over HTTP: the paths below /v2, with Triton's extensions that its clients ask for."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from ...models.signature import Array
from ..wire.named_signature import named_signature
from ..wire.oip_json import LENGTH_HEADER, InferRequest, join_body, write_tensors
from ..wire.oip_tensors import RequestParameters, shown
from ..wire.tfserving_json import dumps, loads
from . import oip_documents as documents
from .http_messages import HttpProtocol, HttpReply, HttpRequest, Prediction
from .metrics import RequestRecord
from .repository.model_repository import Repository
from .repository.served_version import NO_DEADLINE, Deadline, ServedVersion
from .serving_error import ServingError, invalid, not_found, unavailable

_LENGTH = LENGTH_HEADER.encode()
_LOAD_S = 600.0
_MODEL = re.compile(r"/v2/models/([^/]+)(?:/versions/([^/]+))?(/ready|/config|/stats|/infer|)")
_match = lru_cache(maxsize=256)(_MODEL.fullmatch)
_REPOSITORY = re.compile(r"/v2/repository/models/([^/]+)/(load|unload)")


def is_path(path: str) -> bool:
    """Whether a path is this protocol's."""
    return path == "/v2" or path.startswith("/v2/")


def find_served(repository: Repository, path: str) -> ServedVersion | None:
    """Return the model that a path asks for an inference, None where it asks for none."""
    match = _match(path)
    if match is None or match[3] != "/infer":
        return None
    try:
        return documents.find(repository, match[1], match[2] or "")
    except ServingError:
        return None


def answer(repository: Repository, request: HttpRequest, body: bytes) -> HttpReply | Prediction:
    """Return the reply to a request, or the prediction that it asks for. Raises ServingError and TransloadError."""
    path, record = request.path, request.record
    verb = "GET" if request.method == "HEAD" else request.method
    if (verb, path) == ("GET", "/v2/models/stats"):
        return _json(documents.statistics(repository, "", ""))
    if match := _match(path):
        record.model, record.version = match[1], match[2] or ""
        if verb == "POST" and match[3] == "/infer":
            record.api = "ModelInfer"
            return _infer(repository, match, request, body)
        if verb == "GET" and match[3] != "/infer":
            return _json(_about_model(repository, match, record))
    elif verb == "POST" and (match := _REPOSITORY.fullmatch(path)):
        record.model = match[1]
        return _json(_change(repository, match[1], match[2], body))
    elif verb == "POST" and path == "/v2/repository/index":
        return _json(documents.index(repository, ready=_object(body).get("ready") is True))
    elif verb == "GET":
        return _json(_about_server(repository, path))
    raise not_found(f"there is no {request.method} {shown(path)}")


def _infer(repository: Repository, match: re.Match[str], http: HttpRequest, body: bytes) -> Prediction:
    start = time.monotonic()
    served = documents.find(repository, match[1], match[2] or "")
    http.record.device = served.device
    header_length = http.headers[_LENGTH].decode("latin-1") if _LENGTH in http.headers else None
    with repository.statistics.start(served.name, served.number) as watch:
        if len(served.signatures) > 1:
            served = documents.with_signature(served, named_signature(_head(body, header_length)))
        feeds, rest = served.decode("oip", body, header_length=header_length, most_bytes=repository.max_body_bytes)
        parameters = RequestParameters(*rest.pop("parameters"))
        documents.with_signature(served, parameters.signature_name)
        request = InferRequest(feeds=feeds, parameters=parameters, **rest)
        names = documents.check_outputs(served, list(request.outputs))
        watch.samples = served.count_samples(request.feeds)
        watch.lap()
    deadline = NO_DEADLINE if parameters.timeout_s is None else Deadline(start + parameters.timeout_s)
    return Prediction(served, request.feeds, partial(_write_answers, served, request, names), watch, deadline)


def _head(body: bytes, header_length: str | None) -> bytes:
    """Return the JSON of a request without the tensors behind it. A length that is none is refused later."""
    is_number = header_length is not None and header_length.isdecimal() and len(header_length) < 20
    return body[: int(header_length)] if header_length and is_number else body


def _write_answers(
    served: ServedVersion, request: InferRequest, names: Sequence[str], answers: Mapping[str, Array]
) -> HttpReply:
    binary = {name for name in names if request.outputs.get(name, request.binary)}
    rows, parts = write_tensors({name: answers[name] for name in names}, binary)
    about = {"id": request.id} if request.id else {}
    document = {**about, "model_name": served.name, "model_version": str(served.number), "outputs": rows}
    data, json_bytes = join_body(document, [answers[name] for name in names if name not in binary], parts)
    if json_bytes is None:
        return HttpReply(data)
    return HttpReply(data, media_type=b"application/octet-stream", headers=((_LENGTH, b"%d" % json_bytes),))


def _about_model(repository: Repository, match: re.Match[str], record: RequestRecord) -> dict[str, Any]:
    name, version = match[1], match[2] or ""
    if match[3] == "/ready":
        if not documents.is_model_ready(repository, name, version):
            documents.find(repository, name, version)
            raise unavailable(f"the model {name} is not ready")
        return {"name": name, "ready": True}
    if match[3] == "/stats":
        return documents.statistics(repository, name, version)
    served = documents.find(repository, name, version)
    record.device = served.device
    return documents.model_config(served) if match[3] else documents.model_metadata(repository, served)


def _about_server(repository: Repository, path: str) -> dict[str, Any]:
    if path == "/v2/health/live":
        return {"live": True}
    if path == "/v2/health/ready":
        if not documents.is_ready(repository):
            raise unavailable("the server is not ready")
        return {"ready": True}
    if path in {"/v2", "/v2/"}:
        return documents.server_metadata()
    if path == "/v2/models":  # KServe's list
        return {"models": [row["name"] for row in documents.index(repository, ready=True)]}
    raise not_found(f"there is no GET {shown(path)}")


def _change(repository: Repository, name: str, action: str, body: bytes) -> dict[str, Any]:
    """Load or unload a model, which may take long."""
    parameters = _object(body).get("parameters", {})
    if action == "load":
        documents.load(repository, name, list(parameters), _LOAD_S)
    else:
        documents.unload(repository, name)
    return {"name": name, action: True}


def _object(body: bytes) -> Mapping[str, Any]:
    """Return the JSON object of a body, an empty one where there is none. Raises ServingError, BadRequest."""
    document = loads(body) if body else {}
    if not isinstance(document, dict) or not isinstance(document.get("parameters", {}), dict):
        raise invalid("the request is no JSON object, or its parameters are none")
    return document


def _json(document: Any) -> HttpReply:
    return HttpReply(dumps(document, ()))


PROTOCOL = HttpProtocol(answer, find_served)

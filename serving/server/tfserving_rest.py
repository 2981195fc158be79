"""TF Serving's REST API over a repository of models."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache, partial

from ...models.signature import Array
from ..wire.byte_strings import with_texts
from ..wire.named_signature import named_signature
from ..wire.tfserving_json import dumps, dumps_arrays, write_rows
from .examples import tfserving_examples
from .http_messages import HttpProtocol, HttpReply, HttpRequest, Prediction
from .metrics import RequestRecord
from .repository.body_decoders import SIGNATURE
from .repository.model_repository import Repository
from .repository.served_version import ServedVersion
from .repository.version_keeper import ModelState
from .serving_error import Code, ServingError, invalid
from .tfserving_grpc import signature_map

_PATH = re.compile(
    r"/v1/models/([^/:]+)(?:/versions/([0-9]{1,18})|/labels/([^/:]+))?(:predict|:classify|:regress|/metadata|)",
    re.IGNORECASE,
)
_match = lru_cache(maxsize=256)(_PATH.fullmatch)


def _find_served(repository: Repository, path: str) -> ServedVersion | None:
    """Return the model that a path asks for a prediction, None where it asks for none."""
    match = _match(path)
    if match is None or not match[4].startswith(":"):
        return None
    try:
        return _find(repository, match)
    except ServingError:
        return None


def answer(repository: Repository, request: HttpRequest, body: bytes) -> HttpReply | Prediction:
    """Return the reply to a request, or the prediction that it asks for. Raises ServingError and TransloadError."""
    record = request.record
    verb = "GET" if request.method == "HEAD" else request.method
    match = _match(request.path)
    action = match[4].lower() if match else ""
    if match is None or (verb, action) not in _ACTIONS:
        raise invalid(f"Malformed request: {request.method} {request.path}")
    record.model, record.version = match[1], match[2] or match[3] or ""
    if record.api is not None:
        record.api = action.partition(":")[2]
    return _ACTIONS[verb, action](repository, match, body, record)


def _version(match: re.Match[str]) -> tuple[int | None, str]:
    """Return the version and the label that a path names."""
    return None if match[2] is None else int(match[2]), match[3] or ""


def _find(repository: Repository, match: re.Match[str]) -> ServedVersion:
    return repository.find(match[1], *_version(match))


def _status(repository: Repository, match: re.Match[str], _body: bytes, record: RequestRecord) -> HttpReply:
    rows = []
    statuses = repository.statuses(match[1], *_version(match))
    for status in statuses:
        code, text = ("OK", "") if status.failure is None else (Code.UNKNOWN.name, status.failure.what)
        state = {"error_code": code, "error_message": text}
        rows.append({"version": str(status.number), "state": status.state.name, "status": state})
    with suppress(ServingError):
        record.device = _find(repository, match).device
    is_ready = any(status.state is ModelState.AVAILABLE for status in statuses)
    return HttpReply(dumps({"model_version_status": rows, "name": match[1], "ready": is_ready}, ()))  # KServe's two


def _metadata(repository: Repository, match: re.Match[str], _body: bytes, record: RequestRecord) -> HttpReply:
    from google.protobuf.json_format import MessageToDict

    model = _find(repository, match)
    record.device = model.device
    document = MessageToDict(
        signature_map(model), preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    spec = {"name": model.name, "signature_name": "", "version": str(model.number)}
    return HttpReply(dumps({"model_spec": spec, "metadata": {"signature_def": document}}, ()))


def _predict(repository: Repository, match: re.Match[str], body: bytes, record: RequestRecord) -> Prediction:
    model = _find(repository, match)
    record.device = model.device
    with repository.statistics.start(model.name, model.number) as watch:
        model = _with_signature(model, body)
        feeds, in_rows = model.decode("rows", body, signature_name=model.signature_name)
        watch.samples = model.count_samples(feeds)
        watch.lap()
    return Prediction(model, feeds, _write_rows if in_rows else _write_columns, watch)


def _with_examples(repository: Repository, match: re.Match[str], body: bytes, record: RequestRecord) -> Prediction:
    model = _find(repository, match)
    record.device = model.device
    with repository.statistics.start(model.name, model.number) as watch:
        model, api = _with_signature(model, body), match[4][1:].capitalize()
        most_bytes = repository.max_body_bytes
        feeds, count = model.decode("examples", body, signature_name=model.signature_name, most_bytes=most_bytes)
        tfserving_examples.check_answers(model, api, count)
        watch.samples = count
        watch.lap()
    answer_json = partial(tfserving_examples.answer_json, model, api, count)
    return Prediction(model, feeds, lambda answers: HttpReply(answer_json(answers)), watch)


_ACTIONS: dict[tuple[str, str], Callable[[Repository, re.Match[str], bytes, RequestRecord], HttpReply | Prediction]] = {
    ("GET", ""): _status,
    ("GET", "/metadata"): _metadata,
    ("POST", ":predict"): _predict,
    ("POST", ":classify"): _with_examples,
    ("POST", ":regress"): _with_examples,
}


PROTOCOL = HttpProtocol(answer, _find_served)


def _with_signature(model: ServedVersion, body: bytes) -> ServedVersion:
    """Return the model as the signature that a request names. Raises ServingError."""
    wanted = named_signature(body) if len(model.signatures) > 1 else ""
    if (chosen := model.signatures.get(wanted or SIGNATURE)) is None:
        raise invalid(f'Serving signature name: "{wanted}" not found in signature def')
    return chosen


def _write_columns(answers: Mapping[str, Array]) -> HttpReply:
    answers = with_texts(answers)
    arrays = list(answers.values())
    return HttpReply(dumps_arrays({"outputs": arrays[0] if len(arrays) == 1 else dict(answers)}, arrays))


def _write_rows(answers: Mapping[str, Array]) -> HttpReply:
    batch: int | None = None
    for name, value in answers.items():
        if not value.ndim:
            raise invalid(f"Tensor name: {name} has no shape information ")
        if batch not in (None, len(value)):
            raise invalid(f"Tensor name: {name} has inconsistent batch size: {len(value)} expecting: {batch}")
        batch = len(value)
    answers = with_texts(answers)
    arrays = list(answers.values())
    if len(arrays) == 1:
        return HttpReply(dumps_arrays({"predictions": arrays[0]}, arrays))
    names = list(answers)
    rows = write_rows(arrays, lambda part: [dict(zip(names, row, strict=True)) for row in zip(*part, strict=True)])
    return HttpReply(b'{"predictions":%b}' % rows)

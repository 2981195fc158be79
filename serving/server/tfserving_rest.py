"""TF Serving's REST API over a repository of models."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from ...models.signature import Array
from ..wire.tfserving_json import dumps, is_base64, loads, to_array
from .examples import tfserving_examples
from .http_messages import HttpProtocol, HttpReply, HttpRequest, Prediction
from .metrics import RequestRecord
from .repository.model_repository import Repository
from .repository.served_version import SIGNATURE, ServedVersion
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
        document = loads(body)
        model = _with_signature(model, document)
        in_rows, feeds = _feeds(model, document)
        watch.samples = model.count_samples(feeds)
        watch.lap()
    return Prediction(model, feeds, _write_rows if in_rows else _write_columns, watch)


def _with_examples(repository: Repository, match: re.Match[str], body: bytes, record: RequestRecord) -> Prediction:
    model = _find(repository, match)
    record.device = model.device
    with repository.statistics.start(model.name, model.number) as watch:
        api = match[4][1:].capitalize()
        examples = tfserving_examples.read_json(model, api, body, repository.max_body_bytes)
        watch.samples = examples.count
        watch.lap()
    return Prediction(examples.model, examples.feeds, lambda answers: HttpReply(examples.to_json(answers)), watch)


_ACTIONS: dict[tuple[str, str], Callable[[Repository, re.Match[str], bytes, RequestRecord], HttpReply | Prediction]] = {
    ("GET", ""): _status,
    ("GET", "/metadata"): _metadata,
    ("POST", ":predict"): _predict,
    ("POST", ":classify"): _with_examples,
    ("POST", ":regress"): _with_examples,
}


PROTOCOL = HttpProtocol(answer, _find_served)


def _with_signature(model: ServedVersion, document: Any) -> ServedVersion:
    """Return the model as the signature that a request names. Raises ServingError."""
    if not isinstance(document, dict):
        raise invalid("JSON Value: the document Is not object")
    wanted = document.get("signature_name", "")
    if not isinstance(wanted, str):
        raise invalid("JSON Value: the document not formatted correctly. 'signature_name' key must be a string value.")
    if (chosen := model.signatures.get(wanted or SIGNATURE)) is None:
        raise invalid(f'Serving signature name: "{wanted}" not found in signature def')
    return chosen


def _feeds(model: ServedVersion, document: Mapping[str, Any]) -> tuple[bool, dict[str, Array]]:
    """Whether the request came in rows, and its inputs. Raises ServingError, BadRequest."""
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


def _write_columns(answers: Mapping[str, Array]) -> HttpReply:
    arrays = list(answers.values())
    return HttpReply(dumps({"outputs": arrays[0] if len(arrays) == 1 else dict(answers)}, arrays))


def _write_rows(answers: Mapping[str, Array]) -> HttpReply:
    batch: int | None = None
    for name, value in answers.items():
        if not value.ndim:
            raise invalid(f"Tensor name: {name} has no shape information ")
        if batch not in (None, len(value)):
            raise invalid(f"Tensor name: {name} has inconsistent batch size: {len(value)} expecting: {batch}")
        batch = len(value)
    arrays = list(answers.values())
    if len(arrays) == 1:
        return HttpReply(dumps({"predictions": arrays[0]}, arrays))
    rows = [{name: value[at] for name, value in answers.items()} for at in range(batch or 0)]
    return HttpReply(dumps({"predictions": rows}, arrays))

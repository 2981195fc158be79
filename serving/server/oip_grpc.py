"""The Open Inference Protocol over gRPC: GRPCInferenceService, with Triton's extensions that its clients ask for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeAlias

from ..wire.known_messages import KnownMessages, infer_places
from ..wire.oip_messages import Message, messages
from ..wire.oip_tensors import add_tensor, parse_request, read_parameters, read_tensors, shown
from ..wire.tfserving_messages import DEVICE_KEY
from . import oip_documents as documents
from .grpc_services import deadline_of, parse_message
from .metrics import RequestRecord
from .repository.model_repository import Repository
from .serving_error import invalid

_KNOWN: KnownMessages[Message] = KnownMessages(infer_places)
_Answer: TypeAlias = Callable[[Repository, Message, Any], Mapping[str, Any]]


def infer(repository: Repository, data: bytes, context: Any, record: RequestRecord) -> bytes:
    """Return the ModelInferResponse to the bytes of a ModelInferRequest. Raises ServingError and TransloadError."""
    request, feeds = _KNOWN.read(data) or (None, None)
    if request is None:
        request, raw = parse_request(data)
    record.model, record.version = request.model_name, request.model_version
    served = documents.find(repository, request.model_name, request.model_version)
    with repository.statistics.start(served.name, served.number) as watch:
        deadline = deadline_of(context)
        if request.parameters:
            values = {name: _value_of(parameter) for name, parameter in request.parameters.items()}
            parameters = read_parameters(values)
            served = documents.with_signature(served, parameters.signature_name)
            if parameters.timeout_s is not None:
                deadline = replace(deadline, end=min(deadline.end, time.monotonic() + parameters.timeout_s))
        for row in request.outputs:
            if "classification" in row.parameters:
                raise invalid(f"output {shown(row.name)}: classification is not served")
        names = documents.check_outputs(served, [row.name for row in request.outputs])
        if feeds is None:
            feeds = read_tensors(request.inputs, raw, repository.max_body_bytes)
            request.ClearField("inputs")
            request.ClearField("raw_input_contents")
            _KNOWN.add(data, request, feeds)
        watch.samples = served.count_samples(feeds)
        watch.lap()
        answers = served.predict(feeds, deadline, watch.lap)
        watch.lap()
        reply = messages().ModelInferResponse.FromString(_head_of(served.name, served.number))
        if request.id:
            reply.id = request.id
        outputs, raw = reply.outputs, reply.raw_output_contents
        for name in names:
            add_tensor(name, answers[name], outputs, raw)
        reply_bytes: bytes = reply.SerializeToString()
        watch.lap()
    return reply_bytes


def _value_of(parameter: Message) -> Any:
    return next((value for _, value in parameter.ListFields()), None)


@lru_cache(maxsize=1024)
def _head_of(name: str, number: int) -> bytes:
    """Return the bytes of a ModelInferResponse that names a version and has no outputs."""
    reply = messages().ModelInferResponse(model_name=name, model_version=str(number))
    data: bytes = reply.SerializeToString()
    return data


def methods() -> dict[str, Callable[[Repository, bytes, Any, RequestRecord], bytes]]:
    """Return what answers each method of the service."""
    return {"ModelInfer": infer, **{name: _method(name, answer) for name, answer in _DOCUMENTS.items()}}


def _method(name: str, answer: _Answer) -> Callable[[Repository, bytes, Any, RequestRecord], bytes]:
    """Return a method that answers with a document."""

    def act(repository: Repository, data: bytes, context: Any, record: RequestRecord) -> bytes:
        from google.protobuf.json_format import ParseDict

        request = parse_message(getattr(messages(), f"{name}Request").FromString, data, f"{name}Request")
        record.model = getattr(request, "name", "") or getattr(request, "model_name", "")
        record.version = getattr(request, "version", "")
        reply = ParseDict(answer(repository, request, context), getattr(messages(), f"{name}Response")())
        reply_bytes: bytes = reply.SerializeToString()
        return reply_bytes

    return act


def _model_ready(repository: Repository, request: Message, _context: Any) -> Mapping[str, Any]:
    return {"ready": documents.is_model_ready(repository, request.name, request.version)}


def _model_metadata(repository: Repository, request: Message, context: Any) -> Mapping[str, Any]:
    served = documents.find(repository, request.name, request.version)
    context.set_trailing_metadata(((DEVICE_KEY, served.device),))
    return documents.model_metadata(repository, served)


def _load(repository: Repository, request: Message, context: Any) -> Mapping[str, Any]:
    name = request.model_name or request.repository_name  # KServe's message has the model's name there
    documents.load(repository, name, list(request.parameters), deadline_of(context).remaining_s)
    return {"model_name": name, "isLoaded": True}


def _unload(repository: Repository, request: Message, _context: Any) -> Mapping[str, Any]:
    name = request.model_name or request.repository_name
    documents.unload(repository, name)
    return {"model_name": name, "isUnloaded": True}


_DOCUMENTS: dict[str, _Answer] = {
    "ServerLive": lambda *_: {"live": True},
    "ServerReady": lambda repository, *_: {"ready": documents.is_ready(repository)},
    "ServerMetadata": lambda *_: documents.server_metadata(),
    "ModelReady": _model_ready,
    "ModelMetadata": _model_metadata,
    "ModelConfig": lambda repository, request, _: {
        "config": documents.model_config(documents.find(repository, request.name, request.version))
    },
    "ModelStatistics": lambda repository, request, _: documents.statistics(repository, request.name, request.version),
    "RepositoryIndex": lambda repository, request, _: {"models": documents.index(repository, ready=request.ready)},
    "RepositoryModelLoad": _load,
    "RepositoryModelUnload": _unload,
}

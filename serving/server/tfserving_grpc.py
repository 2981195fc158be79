"""The gRPC listener, and TF Serving's API on it over a repository of models: PredictionService (Predict, Classify,
Regress, MultiInference, GetModelMetadata) and ModelService (GetModelStatus, HandleReloadConfigRequest), in the official
messages."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias

from ...models.errors import TransloadError
from ...models.signature import TensorSpec
from ..endpoint_security import OPEN, EndpointSecurity
from ..wire import oip_messages
from ..wire.known_messages import KnownMessages, predict_places
from ..wire.tensor_proto import BY_DTYPE, decode_all, output_parts, parse
from ..wire.tfserving_messages import DEVICE_KEY, Message, stock
from . import oip_grpc
from .examples import tfserving_examples
from .grpc_services import (
    HandlerThreads,
    add_health,
    add_reflection,
    deadline_of,
    parse_message,
    tell_health,
    token_check,
)
from .listener_address import address_of, cannot_listen, prepare_socket
from .metrics import RequestRecord
from .repository.body_decoders import SIGNATURE
from .repository.model_config import configs_of
from .repository.model_repository import Repository
from .repository.served_version import MOST_WAITING, ServedVersion, feed_name
from .server_records import IDLE_TIMEOUT_S, READ_TIMEOUT_S
from .serving_error import Code, ServingError, as_status, invalid, unavailable

_WORKERS = MOST_WAITING + 8  # started as they are needed; all but a few may wait for the model
_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),  # else a second server on the port starts, and takes half of the requests
    ("grpc.max_connection_idle_ms", 1000 * IDLE_TIMEOUT_S),
    ("grpc.absolute_max_metadata_size", 16 << 10),
    # A ping detects a client whose connection broke without being closed.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # And clients may ping: by default one that does so every 5 s is cut off with too_many_pings.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
)
_FIELD = "signature_def"
_parse_predict = partial(parse, message="PredictRequest")
_KNOWN: KnownMessages[Message] = KnownMessages(predict_places)


class GrpcServer:
    """A grpc.Server that is answering when it is made. Raises BadRequest where the port is taken."""

    def __init__(
        self,
        repository: Repository,
        host: str,
        port: int,
        read_timeout_s: float = READ_TIMEOUT_S,
        security: EndpointSecurity = OPEN,
    ) -> None:
        import grpc

        options = (
            *_OPTIONS,
            ("grpc.max_receive_message_length", repository.max_body_bytes),
            ("grpc.server_handshake_timeout_ms", int(1000 * read_timeout_s)),
        )
        self._server = grpc.server(
            HandlerThreads(_WORKERS),
            options=options,
            interceptors=() if security.token is None else (token_check(security),),
        )
        self._services = services = _methods()
        for service, methods in services.items():
            handlers = {name: _handler(grpc, repository, f"/{service}/{name}", act) for name, act in methods.items()}
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        self._health = add_health(self._server, services)
        add_reflection(self._server, services)
        try:
            prepare_socket(host, "grpc")
            address = address_of(host, port, "grpc")
            self.port: int = (
                self._server.add_insecure_port(address)
                if security.context is None
                else self._server.add_secure_port(address, security.credentials())
            )
        except RuntimeError as error:
            raise cannot_listen(host, port) from error
        self._server.start()

    def turn_unready(self) -> None:
        """Say NOT_SERVING to who asks for the health, or watches it."""
        self._health.enter_graceful_shutdown()

    def tell_ready(self, *, is_ready: bool) -> None:
        """Say to who asks for the health, or watches it, whether all models answer."""
        tell_health(self._health, self._services, is_ready=is_ready)

    def stop(self, grace_s: float) -> threading.Event:
        """Turn unready, and take no more requests. The event is set when those under way are answered, or cut off after
        `grace_s`."""
        self.turn_unready()
        stopped: threading.Event = self._server.stop(grace_s)
        return stopped


_Act: TypeAlias = Callable[[Repository, bytes, Any, RequestRecord], bytes]


def _methods() -> dict[str, dict[str, _Act]]:
    """Return what answers each method of each service."""
    return {
        "tensorflow.serving.PredictionService": {"Predict": predict, "GetModelMetadata": metadata, **_EXAMPLES},
        "tensorflow.serving.ModelService": {"GetModelStatus": status, "HandleReloadConfigRequest": reload},
        oip_messages.SERVICE: oip_grpc.methods(),
    }


def _handler(grpc: Any, repository: Repository, method: str, act: _Act) -> Any:
    """Return a handler of the bytes of requests: grpc answers INTERNAL where a parser of its own fails."""
    codes = {code: getattr(grpc.StatusCode, code.name) for code in Code}
    apis: dict[_Act, str] = {
        predict: "Predict",
        oip_grpc.infer: "ModelInfer",
        **{_EXAMPLES[api]: api for api in _EXAMPLES},
    }

    def handle(data: bytes, context: Any) -> bytes:
        record = RequestRecord("GRPC", method, apis.get(act), bytes_in=len(data))
        ticket = repository.admission.enter()
        try:
            if not ticket[0]:
                raise unavailable()
            reply = act(repository, data, context, record)
            record.status, record.bytes_out = "OK", len(reply)
            return reply
        except (ServingError, TransloadError) as error:
            code, text = _status_of(error)
            record.status = code.name
            context.abort(codes[code], text)
            raise
        finally:
            repository.admission.leave(ticket)
            repository.add_request(record)

    return grpc.unary_unary_rpc_method_handler(handle, request_deserializer=bytes, response_serializer=bytes)


def _status_of(error: ServingError | TransloadError) -> tuple[Code, str]:
    """Return the status that tells an error. The handler has no name for the error that `as_status` returns: its
    traceback would hold the handler's frame, and so the request, until garbage is collected."""
    status = as_status(error)
    return status.code, status.text


def _spec(request: Message, record: RequestRecord) -> Message:
    """Return the ModelSpec of a request, and note it. Raises ServingError INVALID_ARGUMENT where it has none."""
    if not request.HasField("model_spec"):
        raise invalid("Missing ModelSpec")
    spec = request.model_spec
    record.model = spec.name
    record.version = str(spec.version.value) if spec.HasField("version") else spec.version_label
    return spec


def _find(repository: Repository, spec: Message) -> ServedVersion:
    """Return the version that a ModelSpec asks for. Raises ServingError."""
    return repository.find(spec.name, *_version(spec))


def _version(spec: Message) -> tuple[int | None, str]:
    """Return the version that a ModelSpec asks for, None for the latest, and the label."""
    return (int(spec.version.value) if spec.HasField("version") else None), spec.version_label


def predict(repository: Repository, data: bytes, context: Any, record: RequestRecord) -> bytes:
    """Return the PredictResponse to the bytes of a PredictRequest. Raises ServingError and TransloadError."""
    request, feeds = _KNOWN.read(data) or (parse_message(_parse_predict, data, "PredictRequest"), None)
    spec = _spec(request, record)
    model = _find(repository, spec).signatures.get(spec.signature_name or SIGNATURE)
    if model is None:
        raise ServingError(Code.FAILED_PRECONDITION, f'Serving signature key "{spec.signature_name}" not found.')
    with repository.statistics.start(model.name, model.number) as watch:
        model.check_inputs(request.inputs if feeds is None else feeds)
        names = model.outputs(list(request.output_filter))
        if feeds is None:
            feeds = decode_all(request.inputs)
            request.ClearField("inputs")
            _KNOWN.add(data, request, feeds)
        watch.samples = model.count_samples(feeds)
        watch.lap()
        answers = model.predict(feeds, deadline_of(context), watch.lap)
        watch.lap()
        parts = [_spec_of(model.name, model.number, model.signature_name)]
        for name in names:
            parts += output_parts(name, answers[name])
        reply = b"".join(parts)
        watch.lap()
    return reply


@lru_cache(maxsize=1024)
def _spec_of(name: str, number: int, signature_name: str) -> bytes:
    """Return the bytes of a PredictResponse that names a version and has no outputs."""
    reply = stock().PredictResponse()
    reply.model_spec.name, reply.model_spec.signature_name = name, signature_name
    reply.model_spec.version.value = number
    return _bytes_of(reply)


def _bytes_of(message: Message) -> bytes:
    data: bytes = message.SerializeToString()
    return data


def _with_examples(api: str) -> _Act:
    """Return what answers Classify, Regress or MultiInference."""
    name = tfserving_examples.REQUESTS[api]

    def act(repository: Repository, data: bytes, context: Any, record: RequestRecord) -> bytes:
        tfserving_examples.check_length(data)
        request = parse_message(getattr(stock(), name).FromString, data, name)
        tasks = [request] if api != "MultiInference" else request.tasks or [stock().InferenceTask()]
        model = _find(repository, _spec(tasks[0], record))
        deadline, most_bytes = deadline_of(context), repository.max_body_bytes
        return _bytes_of(tfserving_examples.answer_message(model, api, request, deadline, most_bytes))

    return act


_EXAMPLES = {api: _with_examples(api) for api in tfserving_examples.REQUESTS}


def metadata(repository: Repository, data: bytes, _context: Any, record: RequestRecord) -> bytes:
    """Return the signatures, packed into an Any as TF Serving does. Raises ServingError."""
    request = parse_message(stock().GetModelMetadataRequest.FromString, data, "GetModelMetadataRequest")
    spec = _spec(request, record)
    if not request.metadata_field:
        raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
    for field in request.metadata_field:
        if field != _FIELD:
            raise invalid(f"Metadata field {field} is not supported")
    model = _find(repository, spec)
    reply = stock().GetModelMetadataResponse()
    reply.model_spec.name, reply.model_spec.version.value = model.name, model.number
    reply.metadata[_FIELD].Pack(signature_map(model))
    return _bytes_of(reply)


def signature_map(model: ServedVersion) -> Message:
    """Return the model's signatures as a SignatureDefMap."""
    signature_map = stock().SignatureDefMap()
    for name, served in model.signatures.items():
        definition = signature_map.signature_def[name]
        definition.method_name = "tensorflow/serving/predict"
        for spec in served.signature.inputs:
            _describe(definition.inputs[spec.name], spec, feed_name(spec.name, name))
        for at, spec in enumerate(served.signature.outputs):
            _describe(definition.outputs[spec.name], spec, f"StatefulPartitionedCall:{at}")
    return signature_map


def _describe(info: Message, spec: TensorSpec, tensor: str) -> None:
    info.name, info.dtype = tensor, BY_DTYPE[spec.dtype].number
    for axis in spec.shape:
        info.tensor_shape.dim.add(size=-1 if isinstance(axis, str) else axis)


def status(repository: Repository, data: bytes, context: Any, record: RequestRecord) -> bytes:
    """Return the states of a model's versions, and where the latest runs. Raises ServingError."""
    spec = _spec(parse_message(stock().GetModelStatusRequest.FromString, data, "GetModelStatusRequest"), record)
    reply = stock().GetModelStatusResponse()
    for status in repository.statuses(spec.name, *_version(spec)):
        row = reply.model_version_status.add(version=status.number, state=int(status.state))
        row.status.error_code = 0 if status.failure is None else Code.UNKNOWN
        row.status.error_message = "" if status.failure is None else status.failure.what
    with suppress(ServingError):
        context.set_trailing_metadata(((DEVICE_KEY, _find(repository, spec).device),))
    return _bytes_of(reply)


def reload(repository: Repository, data: bytes, context: Any, _record: RequestRecord) -> bytes:
    """Serve the models of a ReloadConfigRequest and no others; answer when they are loaded, or cannot be.
    Raises ServingError and TransloadError; what was served is then served on."""
    request = parse_message(stock().ReloadConfigRequest.FromString, data, "ReloadConfigRequest")
    reply = stock().ReloadConfigResponse()
    repository.apply_request(configs_of(request.config, Path()), deadline_of(context).remaining_s)
    reply.status.error_code = 0
    return _bytes_of(reply)

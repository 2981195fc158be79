"""A session behind TF Serving's gRPC: a light client, without TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...models.errors import BadRequest, SessionLost, SessionTimeout
from ...models.signature import Array, Signature
from ..checked_session import CheckedSession, first_words
from ..runtimes.provider_check import UNKNOWN
from ..session import Session
from ..wire.tensor_proto import decode, encode, parse
from ..wire.tfserving_messages import AVAILABLE, DEVICE_KEY, stock
from .replies import check_answers

NAME = "tfserving-grpc"
OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
_REQUEST_S_FAULT = ("INVALID_ARGUMENT", "FAILED_PRECONDITION", "NOT_FOUND", "OUT_OF_RANGE", "UNIMPLEMENTED")


def open_session(address: str, model: str, signature: Signature, timeout_s: float = 30) -> Session:
    """Open a session over `model` at `address` ("host:port"). `timeout_s` is for one request.
    Raises BadRequest where no such model is there, SessionLost where nobody answers."""
    import grpc

    channel = grpc.insecure_channel(address, options=OPTIONS)
    try:
        with rpc_errors(address, timeout_s):
            device = available(channel, model, timeout_s)
    except BaseException:
        channel.close()
        raise
    return GrpcSession(channel, address, model, signature, device=device, timeout_s=timeout_s)


def available(channel: Any, model: str, timeout_s: float) -> str:
    """Ask whether the model is there; where it runs, if the server says so.
    Raises SessionLost where the model is there and not available, grpc.RpcError."""
    messages = stock()
    ask = channel.unary_unary(
        "/tensorflow.serving.ModelService/GetModelStatus",
        request_serializer=lambda request: request.SerializeToString(),
        response_deserializer=messages.GetModelStatusResponse.FromString,
    )
    request = messages.GetModelStatusRequest()
    request.model_spec.name = model
    reply, call = ask.with_call(request, timeout=timeout_s)
    if not any(row.state == AVAILABLE for row in reply.model_version_status):
        raise SessionLost(f"the server has {model}, and it is not available yet", fix="wait for it, or read its log")
    said = dict(call.trailing_metadata() or ())
    return str(said.get(DEVICE_KEY, UNKNOWN))


@contextmanager
def rpc_errors(address: str, timeout_s: float) -> Iterator[None]:
    """Every status of gRPC as one of our errors: the request's fault, too late, or lost."""
    import grpc

    try:
        yield
    except grpc.RpcError as error:
        code, text = error.code().name, first_words(error.details())
        if code in _REQUEST_S_FAULT:
            raise BadRequest(f"{address} refuses the request: {text}", fix="check model, names and shapes") from error
        if code == "DEADLINE_EXCEEDED":
            raise SessionTimeout(
                f"{address} gave no answer within {timeout_s:g} s", fix="read the server's log, or allow more time"
            ) from error
        raise SessionLost(f"{address} gives no answer ({code}): {text}", fix="read the server's log") from error


class GrpcSession(CheckedSession):
    """One channel, one request at a time. Its device is what the embedded server says; "unknown" of any other."""

    def __init__(
        self, channel: Any, address: str, model: str, signature: Signature, *, device: str, timeout_s: float
    ) -> None:
        super().__init__(NAME, signature, device)
        self._channel, self._address, self._model, self._timeout_s = channel, address, model, timeout_s
        self._predict = channel.unary_unary(
            "/tensorflow.serving.PredictionService/Predict",
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=lambda data: parse(data, "PredictResponse"),
        )

    def _answer(self, values: Sequence[Array]) -> list[Array]:
        request = stock().PredictRequest()
        request.model_spec.name = self._model
        for spec, value in zip(self.signature.inputs, values, strict=True):
            encode(value, request.inputs[spec.name])
        with rpc_errors(self._address, self._timeout_s):
            reply = self._predict(request, timeout=self._timeout_s)
        outputs = {name: decode(tensor, name) for name, tensor in reply.outputs.items()}
        check_answers(self._address, self.signature.outputs, outputs)
        return [outputs[name].copy() for name in self._outputs]  # out of the message's memory, which is read-only

    def _release(self) -> None:
        self._channel.close()

"""A session behind the gRPC of the Open Inference Protocol: the embedded server, Triton, KServe, MLServer."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ...models.errors import BadRequest, SessionLost
from ...models.signature import Array, Signature
from ..checked_session import CheckedSession
from ..runtimes.provider_check import UNKNOWN
from ..session import Session
from ..wire.oip_messages import SERVICE, messages, unread
from ..wire.oip_tensors import add_tensor, read_tensors
from ..wire.tfserving_messages import DEVICE_KEY
from .replies import check_answers
from .tfserving_grpc_client import OPTIONS, rpc_errors

NAME = "oip-grpc"


def open_session(address: str, model: str, signature: Signature, timeout_s: float = 30) -> Session:
    """Open a session over `model` at `address` ("host:port"). `timeout_s` is for one request.
    Raises BadRequest where no such model is there, SessionLost where nobody answers."""
    import grpc

    channel = grpc.insecure_channel(address, options=OPTIONS)
    try:
        with rpc_errors(address, timeout_s):
            device = _device(channel, model, timeout_s)
    except BaseException:
        channel.close()
        raise
    return OipGrpcSession(channel, address, model, signature, device=device, timeout_s=timeout_s)


def _device(channel: Any, model: str, timeout_s: float) -> str:
    """Ask for the model's metadata, which only a model that is loaded has; return where it runs, if the server says so.
    Raises grpc.RpcError."""
    ask = channel.unary_unary(
        f"/{SERVICE}/ModelMetadata",
        request_serializer=lambda request: request.SerializeToString(),
        response_deserializer=bytes,
    )
    _, call = ask.with_call(messages().ModelMetadataRequest(name=model), timeout=timeout_s)
    return str(dict(call.trailing_metadata() or ()).get(DEVICE_KEY, UNKNOWN))


class OipGrpcSession(CheckedSession):
    """One channel, one request at a time. Its device is what the embedded server says; "unknown" of any other."""

    def __init__(
        self, channel: Any, address: str, model: str, signature: Signature, *, device: str, timeout_s: float
    ) -> None:
        super().__init__(NAME, signature, device)
        self._channel, self._address, self._model, self._timeout_s = channel, address, model, timeout_s
        self._infer = channel.unary_unary(
            f"/{SERVICE}/ModelInfer",
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=unread().ModelInferResponse.FromString,
        )

    def _answer(self, values: Sequence[Array]) -> list[Array]:
        request = messages().ModelInferRequest(model_name=self._model)
        for spec, value in zip(self.signature.inputs, values, strict=True):
            add_tensor(spec.name, value, request.inputs, request.raw_input_contents)
        with rpc_errors(self._address, self._timeout_s):
            reply = self._infer(request, timeout=self._timeout_s)
        try:
            outputs = read_tensors(reply.outputs, reply.raw_output_contents, sys.maxsize)
        except BadRequest as error:
            raise SessionLost(f"{self._address} answers wrongly: {error.what}", fix="read the server's log") from error
        check_answers(self._address, self.signature.outputs, outputs)
        return [outputs[name].copy() for name in self._outputs]  # out of the message's memory, which is read-only

    def _release(self) -> None:
        self._channel.close()

"""A session behind TF Serving's gRPC: a light client, without TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...models.errors import SessionLost
from ...models.signature import Array, Signature
from ..checked_session import CheckedSession
from ..runtimes.provider_check import UNKNOWN
from ..session import Session
from ..wire.tensor_proto import decode, encode, parse
from ..wire.tfserving_messages import AVAILABLE, DEVICE_KEY, stock
from .grpc_link import GrpcLink
from .model_url import ServedName
from .replies import check_answers

NAME = "tfserving-grpc"


def open_session(address: str, model: str, signature: Signature, timeout_s: float = 30) -> Session:
    """Open a session over `model` at `address` ("host:port"). `timeout_s` is for one request.
    Raises BadRequest where no such model is there, SessionLost where nobody answers."""
    link = GrpcLink(address, timeout_s)
    try:
        device = available(link, model)
    except BaseException:
        link.close()
        raise
    return GrpcSession(link, model, signature, device)


def available(link: GrpcLink, model: str) -> str:
    """Ask whether the model is there; where it runs, if the server says so.
    Raises SessionLost where the model is there and not available, and what GrpcLink.ask raises."""
    messages = stock()
    request = messages.GetModelStatusRequest()
    set_model(request.model_spec, model)
    status = "/tensorflow.serving.ModelService/GetModelStatus"
    reply, metadata = link.ask(status, request, messages.GetModelStatusResponse)
    if not any(row.state == AVAILABLE for row in reply.model_version_status):
        raise SessionLost(f"the server has {model}, and it is not available yet", fix="wait for it, or read its log")
    return metadata.get(DEVICE_KEY, UNKNOWN)


def set_model(spec: Any, model: str) -> None:
    """Fill in a ModelSpec."""
    served = ServedName.parse(model)
    spec.name = served.name
    if served.version:
        spec.version.value = int(served.version)
    elif served.label:
        spec.version_label = served.label


class GrpcSession(CheckedSession):
    """One channel, one request at a time. Its device is what the embedded server says; "unknown" of any other."""

    def __init__(self, link: GrpcLink, model: str, signature: Signature, device: str) -> None:
        super().__init__(NAME, signature, device)
        self._link, self._model = link, model
        self._predict = link.method(
            "/tensorflow.serving.PredictionService/Predict", lambda data: parse(data, "PredictResponse")
        )

    def _answer(self, values: Sequence[Array]) -> list[Array]:
        request = stock().PredictRequest()
        set_model(request.model_spec, self._model)
        for spec, value in zip(self.signature.inputs, values, strict=True):
            encode(value, request.inputs[spec.name])
        reply = self._link.call(self._predict, request)
        outputs = {name: decode(tensor, name) for name, tensor in reply.outputs.items()}
        check_answers(self._link.address, self.signature.outputs, outputs)
        return [outputs[name].copy() for name in self._outputs]  # out of the message's memory, which is read-only

    def _release(self) -> None:
        self._link.close()

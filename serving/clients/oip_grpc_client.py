"""A session behind the gRPC of the Open Inference Protocol: the embedded server, Triton, KServe, MLServer."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ...models.errors import BadRequest, SessionLost
from ...models.signature import Array, Signature
from ..checked_session import CheckedSession
from ..runtimes.provider_check import UNKNOWN
from ..session import Session
from ..wire.oip_messages import SERVICE, messages, unread
from ..wire.oip_tensors import add_tensor, read_tensors
from ..wire.tfserving_messages import DEVICE_KEY
from .grpc_link import GrpcLink
from .model_url import ServedName
from .replies import check_answers

NAME = "oip-grpc"


def open_session(address: str, model: str, signature: Signature, timeout_s: float = 30) -> Session:
    """Open a session over `model` at `address` ("host:port"). `timeout_s` is for one request.
    Raises BadRequest where no such model is there, SessionLost where nobody answers."""
    link, served = GrpcLink(address, timeout_s), ServedName.parse(model)
    try:
        request = messages().ModelMetadataRequest(name=served.name, version=served.version)
        # Only a model that is loaded has metadata.
        _, metadata = link.ask(f"/{SERVICE}/ModelMetadata", request, messages().ModelMetadataResponse)
    except BaseException:
        link.close()
        raise
    return OipGrpcSession(link, served, signature, metadata.get(DEVICE_KEY, UNKNOWN))


class OipGrpcSession(CheckedSession):
    """One channel, one request at a time. Its device is what the embedded server says; "unknown" of any other."""

    def __init__(self, link: GrpcLink, served: ServedName, signature: Signature, device: str) -> None:
        super().__init__(NAME, signature, device)
        self._link, self._served = link, served
        self._infer = link.method(f"/{SERVICE}/ModelInfer", unread().ModelInferResponse.FromString)

    def _answer(self, values: Sequence[Array]) -> list[Array]:
        request = messages().ModelInferRequest(model_name=self._served.name, model_version=self._served.version)
        for spec, value in zip(self.signature.inputs, values, strict=True):
            add_tensor(spec.name, value, request.inputs, request.raw_input_contents)
        reply = self._link.call(self._infer, request)
        try:
            outputs = read_tensors(reply.outputs, reply.raw_output_contents, sys.maxsize)
        except BadRequest as error:
            where = f"the answer of {self._link.address} cannot be read: {error.what}"
            raise SessionLost(where, fix="read the server's log") from error
        check_answers(self._link.address, self.signature.outputs, outputs)
        return [outputs[name].copy() for name in self._outputs]  # out of the message's memory, which is read-only

    def _release(self) -> None:
        self._link.close()

"""A session behind TF Serving's REST API: http.client on one connection that is kept, JSON in columns."""

from __future__ import annotations

from collections.abc import Sequence

from ...models.errors import BadRequest, SessionLost
from ...models.signature import Array, Signature
from ..checked_session import CheckedSession
from ..runtimes.provider_check import UNKNOWN
from ..session import Session
from ..wire.tfserving_json import dumps, to_array
from ..wire.tfserving_messages import DEVICE_KEY
from .http_link import Link
from .replies import check_answers

NAME = "tfserving-rest"


def open_session(address: str, model: str, signature: Signature, timeout_s: float = 30) -> Session:
    """Open a session over `model` at `address` ("host:port"). `timeout_s` is for each wait on the socket.
    Raises BadRequest where no such model is there, SessionLost where nobody answers."""
    link = Link(address, timeout_s)
    try:
        status, headers = link.ask("GET", f"/v1/models/{model}", b"")
        rows = status.get("model_version_status", []) if isinstance(status, dict) else []
        if not any(row.get("state") == "AVAILABLE" for row in rows):
            raise SessionLost(f"{address} has {model}, and it is not available yet", fix="wait, or read its log")
    except BaseException:
        link.close()
        raise
    return RestSession(link, model, signature, headers.get(DEVICE_KEY, UNKNOWN))


class RestSession(CheckedSession):
    """One connection, one request at a time. Its device is what the embedded server says; "unknown" of any other."""

    def __init__(self, link: Link, model: str, signature: Signature, device: str) -> None:
        super().__init__(NAME, signature, device)
        self._link = link
        self._path = f"/v1/models/{model}:predict"

    @property
    def retries(self) -> int:
        """How many requests were sent twice, as the server had closed the idle connection."""
        return self._link.retries

    def _answer(self, values: Sequence[Array]) -> list[Array]:
        named: dict[str, Array] = {}
        for spec, value in zip(self.signature.inputs, values, strict=True):
            if not value.size:
                raise BadRequest(f"input {spec} is empty, and JSON has no shape for it", fix="send one sample or more")
            named[spec.name] = value
        document, _ = self._link.ask("POST", self._path, dumps({"inputs": named}, values))
        outputs = document.get("outputs") if isinstance(document, dict) else None
        if len(self._outputs) == 1:  # TF Serving leaves a single output's name out
            outputs = {self._outputs[0]: outputs}
        if not isinstance(outputs, dict):
            raise SessionLost(f"{self._link.address} answers without outputs", fix="check that it is TF Serving")
        specs = self.signature.outputs
        outputs = {spec.name: to_array(outputs[spec.name], spec) for spec in specs if spec.name in outputs}
        check_answers(self._link.address, specs, outputs)
        return [outputs[name] for name in self._outputs]

    def _release(self) -> None:
        self._link.close()

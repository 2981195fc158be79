"""The URL of a served model: the protocol, the address of its server, and its name there.

    http://HOST:PORT/v1/models/NAME[/versions/V|/labels/L]   TF Serving's REST
    grpc://HOST:PORT/v1/models/NAME[/versions/V|/labels/L]   TF Serving's gRPC
    http://HOST:PORT/v2/models/NAME[/versions/V]             the Open Inference Protocol over HTTP
    grpc://HOST:PORT/v2/models/NAME[/versions/V]             the Open Inference Protocol over gRPC

https:// and grpcs:// are the same over TLS.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...models.errors import BadRequest
from ...models.job import JsonRecord

FORMS = (
    "http[s]://HOST:PORT/v1/models/NAME (TF Serving), .../v2/models/NAME (Open Inference Protocol), or grpc[s]://..."
)
_SCHEME = re.compile(r"(https?|grpcs?)://", re.IGNORECASE)
_NAME = r"[^/:?#|%\s]+"
_URL = re.compile(
    r"(?P<scheme>http|grpc)(?P<tls>s?)://(?P<host>\[[\da-f:.]+\]|[\w.-]+)(:(?P<port>\d{1,5}))?"
    rf"/(?P<api>v[12])/models/(?P<model>{_NAME}(/versions/\d{{1,18}}|/labels/{_NAME})?)/?",
    re.IGNORECASE,
)
_RUNTIMES = {
    ("http", "v1"): ("tfserving-rest", "rest"), ("grpc", "v1"): ("tfserving-grpc", "grpc"),
    ("http", "v2"): ("oip-http", "rest"), ("grpc", "v2"): ("oip-grpc", "grpc"),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ModelUrl(JsonRecord):
    """The URL of a served model, and what the client of its protocol is told."""

    text: str
    runtime: str  # a served one, whose client speaks the protocol
    service: str  # that this client asks for: "grpc" or "rest"
    host: str
    address: str  # HOST:PORT; over TLS with https:// or grpcs:// in front
    model: str  # NAME, NAME/versions/V or NAME/labels/L


@dataclass(frozen=True, slots=True)
class ServedName:
    """The name of a model on a server; empty `version` and `label` mean its latest version."""

    name: str
    version: str = ""
    label: str = ""

    @staticmethod
    def parse(text: str) -> ServedName:
        """Parse NAME, NAME/versions/V or NAME/labels/L."""
        name, _, rest = text.partition("/")
        kind, _, value = rest.partition("/")
        return ServedName(name, value if kind == "versions" else "", value if kind == "labels" else "")


def is_model_url(text: str) -> bool:
    """Return whether an argument is meant as the URL of a served model."""
    return _SCHEME.match(text) is not None


def parse_model_url(text: str) -> ModelUrl:
    """Parse the URL of a served model. Raises BadRequest where it has none of the forms above."""
    match = _URL.fullmatch(text)
    if match is None:
        raise BadRequest(f"{text} is not the URL of a served model", fix=f"write it as {FORMS}")
    scheme, api, host, tls = match["scheme"].lower(), match["api"].lower(), match["host"], match["tls"].lower()
    if api == "v2" and "/labels/" in match["model"]:
        raise BadRequest(f"{text}: the Open Inference Protocol has no labels", fix="name a version: .../versions/V")
    if not match["port"] and scheme == "grpc":
        raise BadRequest(f"{text} names no port", fix=f"write it as in {scheme}{tls}://{host}:8500/{api}/models/NAME")
    port = match["port"] or ("443" if tls else "80")
    runtime, service = _RUNTIMES[scheme, api]
    return ModelUrl(
        text=text,
        runtime=runtime,
        service=service,
        host=host.strip("[]"),
        address=f"{scheme}s://{host}:{port}" if tls else f"{host}:{port}",
        model=match["model"],
    )

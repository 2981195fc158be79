"""Options of the jobs that hold a server, for both sides of the process border."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...models.job import JsonRecord
from ...models.signature import Signature

MAX_BODY_BYTES = 64 << 20
READ_TIMEOUT_S = 10.0  # for a header or handshake, and between two pieces of a body
IDLE_TIMEOUT_S = 600  # of a connection without requests; a caller that measures may pause between its rounds


@dataclass(frozen=True, kw_only=True)
class ServerOptions(JsonRecord):
    """The artifact that a server holds, and the name of the model on it."""

    folder: str
    name: str
    threads: int


@dataclass(frozen=True, kw_only=True)
class EmbeddedOptions(ServerOptions):
    """The embedded server. Port 0 takes a free one."""

    device: str
    host: str = "127.0.0.1"
    grpc_port: int = 0
    rest_port: int = 0
    max_body_bytes: int = MAX_BODY_BYTES  # of a request, in either protocol
    runtime: str | None = None  # None: that of the artifact's format
    settings: Mapping[str, Any] = field(default_factory=dict)  # of that runtime, beside `threads`


@dataclass(frozen=True, kw_only=True)
class NoopOptions(JsonRecord):
    """The embedded server over a model that computes nothing, in place of one with this signature, on free ports."""

    name: str
    signature: Signature
    host: str = "127.0.0.1"
    max_body_bytes: int = MAX_BODY_BYTES


@dataclass(frozen=True, kw_only=True)
class BinaryOptions(ServerOptions):
    """TensorFlow Serving's own program, or its container."""

    program: str
    container: bool = False

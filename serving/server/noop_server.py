"""The embedded server over a model that computes nothing, for the cost of server, protocol and client together."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from ..noop_session import NAME, NoopSession
from .embedded import EmbeddedServer, listen
from .repository.model_repository import hold_session
from .server_records import NoopOptions


def open_noop_server(**document: Any) -> EmbeddedServer:
    """Serve a NoopSession by NoopOptions as JSON, in this process, as `embedded.open_server` does a model."""
    options = NoopOptions.from_json(document)
    repository = hold_session(options.name, NoopSession(options.signature), NAME, options.max_body_bytes)
    with ExitStack() as undo:
        undo.callback(repository.close)
        server = listen(repository, options.host, 0, 0)
        undo.pop_all()
    return server

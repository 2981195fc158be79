"""A server process that is killed is a lost session, at once and in one sentence; and the server takes any format."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transload.models.artifact import read_artifact
from transload.models.errors import SessionLost
from transload.serving.clients import tfserving_grpc_client, tfserving_rest_client
from transload.serving.session import Session

CLIENTS: dict[str, Callable[..., Session]] = {
    "grpc": tfserving_grpc_client.open_session,
    "rest": tfserving_rest_client.open_session,
}


@pytest.mark.parametrize("protocol", CLIENTS)
def test_a_killed_server_is_a_lost_session(
    protocol: str, artifact: Callable[[str], Path], host: Callable[[], Any], contract: Any
) -> None:
    folder = artifact("onnx")
    with host() as server:
        options = {"folder": str(folder), "name": "m", "device": "cpu", "threads": 1}
        server.hold("transload.serving.server.embedded:open_server", options)
        session = CLIENTS[protocol](server.call("addresses", ())[protocol], "m", read_artifact(folder).signature, 20)
        contract.same(session.run(contract.feeds_of(2)), contract.answers_to(contract.feeds_of(2)))
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
        with pytest.raises(SessionLost, match="gives no answer"):  # and not "gave none within 20 s"
            session.run(contract.feeds_of(2))
        session.close()

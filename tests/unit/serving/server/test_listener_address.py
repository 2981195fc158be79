"""Servers on UNIX sockets, asked as clients do."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from transload.models.errors import BadRequest
from transload.serving.endpoint_security import OPEN, check_host
from transload.serving.server.embedded import EmbeddedServer, listen
from transload.serving.server.repository.model_repository import hold_session
from transload.serving.wire.tensor_proto import decode_all, encode
from transload.serving.wire.tfserving_messages import stock


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s")


def start(one_session: Any, folder: Path) -> EmbeddedServer:
    return listen(hold_session("m", one_session()), f"unix:{folder}", 0, 0)


def ask(path: Path, body: bytes, *fields: bytes) -> Any:
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(60)
        link.connect(str(path))
        head = [b"POST /v1/models/m:predict HTTP/1.0", b"Content-Length: %d" % len(body), *fields]
        link.sendall(b"\r\n".join([*head, b"", body]))
        reply = b"".join(iter(lambda: link.recv(65536), b""))
    return json.loads(reply.partition(b"\r\n\r\n")[2])


def test_both_protocols_answer_on_sockets_and_leave_none(one_session: Any, folder: Path) -> None:
    server = start(one_session, folder)
    assert server.addresses() == {"grpc": f"unix:{folder}/grpc.sock", "rest": f"unix:{folder}/rest.sock"}
    rows = b'{"instances": [[1, 2]]}'
    for host in (b"Host: localhost", b"Host: models.example"):  # a proxy passes its own name on
        assert ask(folder / "rest.sock", rows, host) == {"predictions": [[2.0, 4.0]]}
    assert "web page" in ask(folder / "rest.sock", rows, b"Host: localhost", b"Origin: https://evil.example")["error"]
    request = stock().PredictRequest()
    request.model_spec.name = "m"
    encode(np.array([[1, 2]], np.float32), request.inputs["x"])
    with grpc.insecure_channel(server.addresses()["grpc"]) as channel:
        reply = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")(
            request.SerializeToString(), timeout=60
        )
        assert health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=60).status == 1
    outputs = decode_all(stock().PredictResponse.FromString(reply).outputs)
    np.testing.assert_array_equal(outputs["y"], [[2, 4]])
    server.drain(10)
    assert list(folder.iterdir()) == []


def test_sockets_of_a_killed_server_are_taken_over_and_those_of_a_live_one_are_not(
    one_session: Any, folder: Path
) -> None:
    for name in ("grpc.sock", "rest.sock"):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(folder / name))
            left.listen()
    server = start(one_session, folder)
    with pytest.raises(BadRequest, match="nothing can listen in unix:"):
        start(one_session, folder)
    assert ask(folder / "rest.sock", b'{"instances": [[1, 2]]}', b"Host: localhost")["predictions"] == [[2.0, 4.0]]
    with grpc.insecure_channel(server.addresses()["grpc"]) as channel:
        assert health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=60).status == 1
    server.close()


@pytest.mark.parametrize("name", ["grpc.sock", "rest.sock"])
def test_a_file_in_the_place_of_a_socket_is_kept(name: str, one_session: Any, folder: Path) -> None:
    (folder / name).write_text("mine")
    with pytest.raises(BadRequest, match=rf"{name} is no socket"):
        start(one_session, folder)
    assert [path.read_text() for path in folder.iterdir()] == ["mine"]


def test_a_folder_that_is_not_there_or_too_long_is_refused(one_session: Any, folder: Path) -> None:
    with pytest.raises(BadRequest, match="nothing can listen in"):
        start(one_session, folder / "none")
    long = folder / ("x" * 120)
    long.mkdir()
    with pytest.raises(BadRequest, match="nothing can listen in"):
        start(one_session, long)


def test_sockets_are_this_machine_s_and_their_owner_s(one_session: Any, folder: Path) -> None:
    check_host(f"unix:{folder}", OPEN, insecure=False)
    former = os.umask(0o022)
    server = start(one_session, folder)
    os.umask(former)
    assert [path.stat().st_mode & 0o022 for path in folder.iterdir()] == [0, 0]
    server.close()

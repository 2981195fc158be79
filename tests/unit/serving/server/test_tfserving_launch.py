"""Which server is used, and the real binary's life: started, waited for, stopped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.models.artifact import Artifact, write_artifact
from transload.models.errors import BadRequest, SessionLost, SessionTimeout
from transload.models.formats import Format, Target
from transload.serving.clients import tfserving_grpc_client, tfserving_rest_client
from transload.serving.server import tfserving_launch
from transload.serving.server.tfserving_launch import (
    Binary,
    Embedded,
    Remote,
    find_tfserving,
    parse_url,
    start_tfserving,
)

FAKE = Path(__file__).with_name("fake_model_server.py")


def found(*names: str) -> Any:
    """A `which` that knows these programs alone."""
    return lambda name: f"/bin/{name}" if name in names else None


def test_the_order_in_which_a_server_is_chosen() -> None:
    def choose(url: str | None, environ: dict[str, str], *programs: str, image: bool = True) -> object:
        return find_tfserving(url, environ, found(*programs), lambda _: image)

    named = {"TRANSLOAD_TFSERVING_BIN": "mine"}
    everything = ("mine", "tensorflow_model_server", "docker")
    assert choose("h:8500,8501", named, *everything) == Remote("h:8500", "h:8501")
    assert choose(None, named, *everything) == Binary("/bin/mine")
    assert choose(None, {}, *everything) == Binary("/bin/tensorflow_model_server")
    assert choose(None, {}, "docker") == Binary("/bin/docker", container=True)
    assert choose(None, {}, "docker", image=False) == Embedded()
    assert choose(None, {}) == Embedded()


def test_results_say_which_server_it_was() -> None:
    assert [Remote("h:1").server, Binary("b").server, Binary("docker", container=True).server, Embedded().server] == [
        "remote",
        "binary",
        "binary",
        "embedded",
    ]


def test_a_binary_that_was_named_and_is_not_there_is_refused() -> None:
    with pytest.raises(BadRequest) as caught:
        find_tfserving(None, {"TRANSLOAD_TFSERVING_BIN": "/no/such"}, found())
    assert str(caught.value) == "TRANSLOAD_TFSERVING_BIN=/no/such is no program\n  fix: name the file, or unset it"


@pytest.mark.parametrize(
    ("text", "remote"),
    [
        ("h:8500", Remote("h:8500")),
        ("10.0.0.1:8500,8501", Remote("10.0.0.1:8500", "10.0.0.1:8501")),
        ("h:8500,other:80", Remote("h:8500", "other:80")),
    ],
)
def test_a_url_names_grpc_and_rest(text: str, remote: Remote) -> None:
    assert parse_url(text) == remote


@pytest.mark.parametrize("text", ["", "h", "8500", ":8500", "h:", "h:grpc", "http://h:8500", "h:8500,", "h:8500,x"])
def test_another_url_is_refused(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_url(text)
    assert str(caught.value) == (
        f"--tfserving-url {text!r} is not of the form HOST:GRPC_PORT[,REST_PORT]\n"
        "  fix: write it as in 127.0.0.1:8500,8501"
    )


@pytest.mark.parametrize(("script", "here"), [("exit 0", True), ("exit 1", False), ("sleep 5", False)])
def test_a_container_image_counts_where_an_engine_has_it(
    script: str, here: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tfserving_launch, "_ASK_S", 0.5)
    engine = tmp_path / "docker"
    engine.write_text(f'#!/bin/sh\n[ "$*" = "image inspect tensorflow/serving" ] || exit 9\n{script}\n')
    engine.chmod(0o755)
    assert tfserving_launch.image_is_here(str(engine)) is here
    assert tfserving_launch.image_is_here("/no/such") is False


@pytest.fixture
def binary(tmp_path: Path) -> Binary:
    program = tmp_path / "tensorflow_model_server"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n')
    program.chmod(0o755)
    return Binary(str(program))


@pytest.fixture
def artifact(tmp_path: Path) -> Artifact:
    from transload.models.signature import Signature, TensorSpec

    signature = Signature(
        (TensorSpec("b", "float32", ("batch", 2)), TensorSpec("a", "int64", ("batch",))),
        (TensorSpec("sum", "float32", ("batch", 2)), TensorSpec("kept", "int64", ("batch",))),
    )
    folder = tmp_path / "artifact"
    (folder / "saved_model").mkdir(parents=True)
    (folder / "saved_model" / "saved_model.pb").write_bytes(b"")
    return write_artifact(folder, Target(Format.SAVED_MODEL), signature)


def start(binary: Binary, artifact: Artifact, tmp_path: Path, timeout_s: float = 20) -> tfserving_launch.RunningServer:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return start_tfserving(binary, artifact, "m", threads=2, scratch=scratch, log=tmp_path / "log", timeout_s=timeout_s)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_binary_is_started_waited_for_and_stopped(binary: Binary, artifact: Artifact, tmp_path: Path) -> None:
    running = start(binary, artifact, tmp_path)
    feeds = {"b": np.array([[1, 2]], np.float32), "a": np.array([10], np.int64)}
    for client, kind in ((tfserving_grpc_client, "grpc"), (tfserving_rest_client, "rest")):
        session = client.open_session(running.addresses()[kind], "m", artifact.signature)
        np.testing.assert_array_equal(session.run(feeds)["sum"], np.array([[11, 12]], np.float32))
        session.close()
    running.close()
    running.close()
    assert not alive(running.pid)
    log = (tmp_path / "log").read_text()
    assert "tensorflow_intra_op_parallelism=2" in log
    assert log.endswith("fake server stopped\n")


def test_a_worker_opens_it_in_its_own_folder(
    binary: Binary,
    artifact: Artifact,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    monkeypatch.chdir(cwd)
    running = tfserving_launch.open_binary(folder=str(artifact.folder), name="m", threads=1, program=binary.program)
    assert sorted(running.addresses()) == ["grpc", "rest"]
    running.close()
    (made,) = cwd.iterdir()
    assert (made / "m" / "1").resolve() == artifact.path.resolve()
    assert "fake server stopped" in capfd.readouterr().out


def test_a_binary_that_dies_at_its_start_is_one_sentence(
    binary: Binary, artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE", "dies")
    with pytest.raises(SessionLost) as caught:
        start(binary, artifact, tmp_path)
    assert str(caught.value) == (f"TF Serving ended at its start (exit status 3)\n  fix: read {tmp_path / 'log'}")


def test_a_binary_that_never_listens_is_stopped_and_said(
    binary: Binary, artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE", "mute")
    made: list[int] = []
    popen = subprocess.Popen

    def remember(*args: Any, **named: Any) -> Any:
        process = popen(*args, **named)
        made.append(process.pid)
        return process

    monkeypatch.setattr(subprocess, "Popen", remember)
    with pytest.raises(SessionTimeout, match=r"TF Serving was not ready within 1 s: 127.0.0.1:\d+ gives no answer"):
        start(binary, artifact, tmp_path, timeout_s=1)
    assert not alive(made[0])


def test_what_is_no_program_is_refused(artifact: Artifact, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no program")
    with pytest.raises(BadRequest, match=r"text cannot be run: Permission denied"):
        start(Binary(str(text)), artifact, tmp_path)


def test_the_container_gets_the_model_read_only_on_loopback(artifact: Artifact, tmp_path: Path) -> None:
    ports = {"grpc": 1, "rest": 2}
    argv = tfserving_launch.command(Binary("docker", container=True), artifact, "m", ports, 1, tmp_path)
    assert argv == [
        "docker", "run", "--rm", "--init", "--pull=never",
        "-p", "127.0.0.1:1:8500", "-p", "127.0.0.1:2:8501",
        "-v", f"{artifact.path.resolve()}:/models/m/1:ro", "-e", "MODEL_NAME=m",
        "tensorflow/serving",
        "--model_name=m", "--tensorflow_intra_op_parallelism=1", "--tensorflow_inter_op_parallelism=1",
    ]  # fmt: skip

"""Bundles in the servers that they are for, where these are installed: their programs are found on the PATH."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from transload.pipeline.api import bundle
from transload.serving.server.tfserving_launch import free_ports

pytestmark = pytest.mark.slow
_START_S = 120.0


@contextmanager
def started(argv: list[str], folder: Path, tmp_path: Path, ready: str) -> Iterator[None]:
    """A server in the bundle's folder. It has a folder of its own for temporary files: TorchServe keeps its one process
    number of the machine there."""
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    path = os.pathsep.join((str(Path(argv[0]).parent), os.environ["PATH"]))
    env = {"PATH": path, "HOME": str(tmp_path), "TMPDIR": str(scratch), "OMP_NUM_THREADS": "1"}
    with (tmp_path / "server.log").open("w") as log:
        process = subprocess.Popen(argv, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        end = time.monotonic() + _START_S
        while not is_ready(ready):
            assert process.poll() is None, (tmp_path / "server.log").read_text()[-2000:]
            assert time.monotonic() < end, (tmp_path / "server.log").read_text()[-2000:]
            time.sleep(0.3)
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return b"READY" in reply.read() or "ready" in url
    except OSError:
        return False


def program(name: str, needs: str = "") -> str:
    found = shutil.which(name)
    if found is None or (needs and shutil.which(needs) is None):
        pytest.skip(f"{name} is not installed" if found is None else f"{name} needs {needs}, which is not installed")
    return found


def check(folder: Path, url: str) -> tuple[int, str]:
    done = subprocess.run([folder / "check.sh", url], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.fixture
def write(artifact: Callable[[str], Path], tmp_path: Path) -> Callable[..., Path]:
    def write(form: str, system: str) -> Path:
        folders: Any = {"runs": tmp_path / "runs", "store": tmp_path / "store"}
        bundle(artifact(form), system=system, out=tmp_path / system, name="contract", **folders)
        return tmp_path / system

    return write


def test_torchserve_answers_as_the_artifact_did(write: Callable[..., Path], tmp_path: Path) -> None:
    torchserve = program("torchserve", needs="java")
    folder, ports = write("torchscript", "torchserve"), free_ports(3)
    settings = folder / "config.properties"
    text = settings.read_text()
    for number, port in zip((8080, 8081, 8082), ports, strict=True):
        text = text.replace(f"127.0.0.1:{number}", f"127.0.0.1:{port}")
    settings.write_text(text)
    argv = [torchserve, "--start", "--foreground", "--ts-config", "config.properties", "--model-store", "model_store"]
    with started(argv, folder, tmp_path, f"http://127.0.0.1:{ports[1]}/models/contract"):
        status, said = check(folder, f"http://127.0.0.1:{ports[0]}")
    assert status == 0, said


@pytest.mark.parametrize("form", ["onnx", "torchscript"])
def test_mlserver_answers_as_the_artifact_did(write: Callable[..., Path], tmp_path: Path, form: str) -> None:
    mlserver = program("mlserver")
    libraries = {"onnx": "onnxruntime", "torchscript": "torch"}
    python = Path(mlserver).with_name("python")
    if subprocess.run([python, "-c", f"import {libraries[form]}"], capture_output=True, check=False).returncode:
        pytest.skip(f"MLServer's Python has no {libraries[form]}")
    folder, ports = write(form, "mlserver"), free_ports(3)
    settings = dict(zip(("http_port", "grpc_port", "metrics_port"), ports, strict=True))
    (folder / "settings.json").write_text(json.dumps(json.loads((folder / "settings.json").read_text()) | settings))
    url = f"http://127.0.0.1:{ports[0]}"
    with started([mlserver, "start", "."], folder, tmp_path, f"{url}/v2/models/contract/ready"):
        status, said = check(folder, url)
        assert status == 0, said
        with pytest.raises(urllib.error.HTTPError) as refused:
            body = json.dumps({"inputs": [{"name": "ids", "shape": [1], "datatype": "INT64", "data": [1]}]}).encode()
            headers = {"Content-Type": "application/json"}
            urllib.request.urlopen(urllib.request.Request(f"{url}/v2/models/contract/infer", body, headers))
        assert (refused.value.code, json.loads(refused.value.read())) == (
            400,
            {"error": "the model takes values, ids, keep, got ids"},
        )

"""The store on a real S3-compatible server, started for the test: found by another machine, refused when it refuses."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from transload.models.errors import BadRequest
from transload.models.remote.remote_store import open_store

pytestmark = pytest.mark.slow
KEY = "k" * 64


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server with the bucket `models`, which the environment names."""
    for module in ("moto.server", "s3fs", "boto3"):
        pytest.importorskip(module, reason="moto[server] and s3fs are not in the tested set")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    for name, value in {
        "AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1", "INITIAL_NO_AUTH_ACTION_COUNT": "100000",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    command = [sys.executable, "-P", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        end = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{url}/moto-api/", timeout=5).close()
                break
            except OSError:
                assert time.monotonic() < end
                time.sleep(0.2)
        import boto3

        boto3.client("s3").create_bucket(Bucket="models")
        yield url
        server.terminate()


def convert(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[float, Path]:
    """Convert a small model with the cache of the machine `name`; return the seconds, and the folder of results."""
    monkeypatch.setenv("TRANSLOAD_STORE_CACHE", str(tmp_path / f"cache-{name}"))
    (tmp_path / "net.py").write_text("from torch import nn\ndef make(): return nn.Linear(4, 2).eval()\n")
    out = tmp_path / name
    words = ["convert", "net.py:make", "--input", "x=float32[batch,4]", "--to", "torchscript", "--out", str(out)]
    command = [sys.executable, "-P", "-m", "transload", *words, "--store", "s3://models/store", "--quiet"]
    start = time.monotonic()
    subprocess.run(command, cwd=tmp_path, check=True)
    return time.monotonic() - start, out


def test_a_second_machine_does_nothing_again(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, first = convert("one", tmp_path, monkeypatch)
    _, second = convert("two", tmp_path, monkeypatch)
    payloads = [(folder / "torchscript" / "model.pt").read_bytes() for folder in (first, second)]
    assert payloads[0] == payloads[1]
    records = [list((tmp_path / f"cache-{name}").glob("*/actions/*.json")) for name in ("one", "two")]
    assert {file.name for file in records[0]} == {file.name for file in records[1]}
    assert [file.read_text() for file in sorted(records[0])] == [file.read_text() for file in sorted(records[1])]


def test_a_bucket_that_is_not_there_and_a_server_that_is_gone(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSLOAD_STORE_CACHE", str(tmp_path))
    with pytest.raises(BadRequest, match="the store s3://nothing/store refuses"):
        open_store(Path("s3://nothing/store"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(BadRequest, match="the store s3://other/store refuses"):
        open_store(Path("s3://other/store"))

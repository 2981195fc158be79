"""The address of MLflow, and what a server that is not there or refuses becomes."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

from transload.models.errors import BadRequest, ToolMissing
from transload.pipeline.commands.record import send_run
from transload.pipeline.extras.tracking import tracking_server
from transload.pipeline.extras.tracking.tracking_server import connect, resolve_address
from transload.pipeline.options.request import MlflowSection
from transload.pipeline.result.mlflow_names import check_address, check_alias

from ...show import samples

needs_mlflow = pytest.mark.skipif(find_spec("mlflow") is None, reason="the extra mlflow is not installed")


@pytest.mark.parametrize("text", ["localhost:5000", "runs", "file:///tmp/x", "http://", ""])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadRequest) as error:
        check_address(text)
    assert error.value.what == f"{text!r} is no address of MLflow"


@pytest.mark.parametrize("text", ["http://a:5000", "https://u:p@a/x", "databricks", "sqlite:///m.db", "env"])
def test_addresses_are_taken(text: str) -> None:
    assert check_address(text) == text


def test_the_address_of_the_environment_must_be_there() -> None:
    assert resolve_address("env", {"MLFLOW_TRACKING_URI": "http://a"}) == "http://a"
    with pytest.raises(BadRequest, match="MLFLOW_TRACKING_URI is not set"):
        resolve_address("env", {})


@pytest.mark.parametrize("text", ["latest", "v3", "Latest", "a b", ""])
def test_aliases_that_mlflow_keeps_for_itself_are_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="cannot be the alias of a model"):
        check_alias(text)
    assert check_alias("champion") == "champion"


def test_a_missing_mlflow_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking_server, "find_spec", lambda name: None)
    with pytest.raises(ToolMissing) as error, connect("http://127.0.0.1:9"):
        pass
    assert (error.value.what, error.value.fix) == ("mlflow is not installed", "pip install 'transload[mlflow]'")


def test_a_folder_called_mlflow_is_no_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mlflow").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "mlflow", raising=False)
    with pytest.raises(ToolMissing), connect("http://127.0.0.1:9"):
        pass


class QuietHandler(BaseHTTPRequestHandler):
    """A handler that answers GET as POST, and prints nothing."""

    disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement

    def do_POST(self) -> None:
        raise NotImplementedError

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served_by(handler: type[QuietHandler]) -> Iterator[str]:
    """Run a server on loopback; yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def refusing(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server that answers everything with one status."""

    class Refusal(QuietHandler):
        def do_POST(self) -> None:
            self.send_response(request.param)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with served_by(Refusal) as address:
        yield address


@needs_mlflow
@pytest.mark.parametrize("refusing", [401, 403], indirect=True)
def test_an_expired_token_is_one_sentence_without_the_password(refusing: str, request: pytest.FixtureRequest) -> None:
    with pytest.raises(BadRequest) as error, connect(refusing.replace("//", "//me:secret@")):
        pass
    status = request.node.callspec.params["refusing"]
    assert error.value.what.startswith(f"MLflow at {refusing} refuses the request (status {status}): ")
    assert "MLFLOW_TRACKING_TOKEN" in error.value.fix
    assert "secret" not in str(error.value)


@needs_mlflow
def test_an_address_that_does_not_answer_is_one_sentence_and_the_environment_is_left_alone() -> None:
    before = dict(os.environ)
    with pytest.raises(BadRequest) as error, connect("http://127.0.0.1:9"):
        pass
    assert error.value.what == "MLflow at http://127.0.0.1:9 does not answer: no connection could be made"
    assert dict(os.environ) == before


@pytest.fixture
def failing(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server that is well until a run is made; then it answers with a status, or, for 0, hangs up."""

    class Failure(QuietHandler):
        def do_POST(self) -> None:
            fails = self.path.endswith("runs/create")
            if fails and not request.param:
                self.close_connection = True
                return
            body = b"{}"
            self.send_response(request.param if fails else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with served_by(Failure) as address:
        yield address


FAILURES = {
    0: (
        "MLflow at {} does not answer: the connection is lost, or was never made",
        "start the server, or name another address with --mlflow",
    ),
    500: (
        "MLflow at {} failed: asked again, it still answers with an error of its own (status 429 or 5xx)",
        "read the log of the server; the disk of its artifacts may be full",
    ),
}


@needs_mlflow
@pytest.mark.parametrize("failing", FAILURES, indirect=True)
def test_a_server_that_fails_meanwhile_is_one_sentence(
    failing: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
    with pytest.raises(BadRequest) as error, connect(failing) as server:
        server.client.create_run("0")
    what, fix = FAILURES[request.node.callspec.params["failing"]]
    assert (error.value.what, error.value.fix) == (what.format(failing), fix)


@needs_mlflow
def test_the_command_that_sends_a_run_again_has_no_password(tmp_path: Path) -> None:
    section = MlflowSection(uri="http://me:secret@127.0.0.1:9", model="net", promote="champion")
    with pytest.raises(BadRequest) as error:
        send_run(tmp_path / "a run", samples.result(), section)
    command = f"transload record '{tmp_path}/a run' --mlflow http://127.0.0.1:9 --name net --promote champion"
    assert f"`{command}`" in error.value.fix
    assert "secret" not in str(error.value)

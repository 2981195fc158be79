"""A run goes to a real MLflow server on SQLite, is loaded back with plain mlflow, and read by history."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import transload
from transload.models.errors import BadRequest
from transload.pipeline.cli import main
from transload.pipeline.result.schema import Verdict, read_result, to_json

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("flask") is None or find_spec("mlflow") is None, reason="mlflow is not installed"),
]
TARGETS = ["onnx", "saved-model", "tflite", "torchscript", "pt2"]

# Nothing of transload: what somebody does who only has the registry.
LOAD = """
import math, sys
from pathlib import Path
import mlflow, numpy as np
uri = sys.argv[1]
model = mlflow.pyfunc.load_model(uri)
golden = np.load(Path(mlflow.artifacts.download_artifacts(uri)) / "golden.npz")
names = [column.name for column in model.metadata.signature.inputs]
answers = model.predict({name: golden[f"input_{at}"] for at, name in enumerate(names)})
for at, column in enumerate(model.metadata.signature.outputs):
    wanted = golden[f"output_{at}"].astype(float)
    noise = ((wanted - np.asarray(answers[column.name], float)) ** 2).sum()
    sqnr_db = 10 * math.log10((wanted**2).sum() / noise) if noise else math.inf
    assert sqnr_db >= model.metadata.metadata["least_sqnr_db"], sqnr_db
assert {name: array.shape[0] for name, array in model.input_example.items()} == dict.fromkeys(names, 1)
assert "transload" not in sys.modules
print("agrees")
"""
# mlflow.pytorch imports torchvision, whose wheel for CUDA's torch does not load beside the CPU one.
MEND = """
import sys
from transload.models.loading.torchvision_ops import register_torchvision_stubs
register_torchvision_stubs()
for name in [name for name in sys.modules if name.startswith("transload")]:
    del sys.modules[name]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [
        sys.executable, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db",
        "--artifacts-destination", str(folder / "artifacts"), "--host", "127.0.0.1", "--port", str(port),
        "--workers", "1",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        quiet = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
        process = subprocess.Popen(words, cwd=folder, env=quiet, stdout=log, stderr=log, start_new_session=True)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(120):
            with suppress(OSError):
                urllib.request.urlopen(f"{address}/health", timeout=5).close()
                break
            assert process.poll() is None, (folder / "log").read_text()
            time.sleep(1)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


@pytest.fixture(scope="module")
def runs(server: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that passed and was promoted while it ended."""
    folder = tmp_path_factory.mktemp("work")
    result = transload.run(
        recipe="zoo:breast-cancer-mlp", to=TARGETS, bench=False, runs=folder / "runs", store=folder / "store",
        mlflow=server, promote="champion", jobs=1,
    )  # fmt: skip
    assert result.verdict is Verdict.PASS
    return folder / "runs"


@pytest.fixture
def client(server: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(server)


@pytest.mark.parametrize("target", TARGETS)
def test_a_promoted_model_answers_as_the_reference_did(target: str, runs: Path, server: str) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", MEND + LOAD, f"models:/breast-cancer-mlp-{target}@champion"],
        env={**os.environ, "MLFLOW_TRACKING_URI": server}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1:] == ["agrees"], done.stderr


def test_a_run_that_is_sent_again_is_not_there_twice(runs: Path, server: str, client: Any) -> None:
    (run,) = runs.iterdir()
    sent = transload.record(run, mlflow=server, promote="again").record
    experiment = client.get_experiment_by_name("breast-cancer-mlp").experiment_id
    assert [row.info.run_id for row in client.search_runs([experiment])] == [sent.run_id]
    assert {row.version for row in client.search_model_versions("name='breast-cancer-mlp-onnx'")} == {"1"}
    assert client.get_registered_model("breast-cancer-mlp-onnx").aliases == {"champion": "1", "again": "1"}


def copied(runs: Path, to: Path, **changes: Any) -> Path:
    """Copy a run, with changes to its result."""
    (run,) = runs.iterdir()
    shutil.copytree(run, to)
    (to / "run.json").write_bytes(to_json(replace(read_result(run / "run.json"), **changes)))
    return to


def test_a_run_that_failed_is_recorded_and_never_registered(
    runs: Path, server: str, client: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = copied(runs, tmp_path / "f", id="20260101-000000-failed", verdict=Verdict.FAIL, exit_code=1)
    words = ["record", str(failed), "--mlflow", server, "--experiment", "f", "--name", "failing"]
    assert main([*words, "--promote", "champion"]) == 1
    assert "nothing is registered, and champion stays where it is" in capsys.readouterr().out
    assert client.search_registered_models("name LIKE 'failing%'") == []
    assert main(words) == 0
    assert main([*words, "--promote", "champion", "--force"]) == 0
    assert "champion was moved by --force: the verdict of the run is fail" in capsys.readouterr().out
    version = client.get_model_version_by_alias("failing-onnx", "champion")
    assert version.tags["transload.forced"] == "fail"
    assert client.get_run(version.run_id).data.tags["transload.forced"] == "fail"


def test_of_a_record_that_cannot_be_finished_nothing_stays(
    runs: Path, server: str, client: Any, tmp_path: Path
) -> None:
    broken = copied(runs, tmp_path / "b", id="20260101-000000-broken")
    (broken / "artifacts" / "tflite" / "model.tflite").unlink()
    (broken / "artifacts" / "tflite" / "model.tflite").write_bytes(b"other")
    with pytest.raises(BadRequest, match="has changed since it was verified"):
        transload.record(broken, mlflow=server, experiment="b", name="broken", promote="champion")
    experiment = client.get_experiment_by_name("b").experiment_id
    assert list(client.search_runs([experiment])) == []
    assert list(client.search_logged_models([experiment])) == []
    assert client.search_registered_models("name LIKE 'broken%'") == []


def test_two_runs_at_once_do_not_mix(runs: Path, server: str, client: Any, tmp_path: Path) -> None:
    folders = [copied(runs, tmp_path / f"r{at}", id=f"2026010{at}-000000-two") for at in (1, 2)]
    script = "import sys, transload; transload.record(sys.argv[1], mlflow=sys.argv[2], experiment='two', name='two')"

    def send(folder: Path) -> int:
        return subprocess.run([sys.executable, "-P", "-c", script, str(folder), server], check=False).returncode

    with ThreadPoolExecutor() as pool:
        assert [*pool.map(send, folders)] == [0, 0]
    experiment = client.get_experiment_by_name("two").experiment_id
    assert len(client.search_runs([experiment])) == 2
    for version in client.search_model_versions("name='two-onnx'"):
        model = client.get_logged_model(version.source.removeprefix("models:/"))
        run = client.get_run(version.run_id)
        assert model.source_run_id == version.run_id
        assert version.tags["transload.run"] == run.data.tags["transload.run"]


def test_history_is_that_of_the_folders(runs: Path, server: str) -> None:
    here, there = transload.history(runs), transload.history(mlflow=server, experiment="breast-cancer-mlp")
    assert [replace(run, folder="") for run in there.history.runs] == [
        replace(run, folder="") for run in here.history.runs
    ]
    assert there.history.points == here.history.points
    assert transload.history(store=runs.parent / "store").history.points == here.history.points

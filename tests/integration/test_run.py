"""The main job, for real: one command from training to verdict, once for all tests of this module."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest

import transload
from transload.models.artifact import read_artifact
from transload.models.zoo.template import write_recipe
from transload.pipeline.options.request import ALL_TARGETS
from transload.serving.runtimes.runtime_table import SERVED_FORMATS

TRANSLOAD = (sys.executable, "-m", "transload")
SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "run.schema.json").read_text())
# The default run, trained and measured for less long.
TRAINING = "[train]\nepochs = 8\n"
PIPELINE = f"{TRAINING}[bench]\nrounds = 3\nprocesses = 1\nbudget_s = 0\n"
RUNTIMES = {
    "pt2": {"torch"},
    "torchscript": {"torchscript"},
    "onnx": {"onnxruntime"},
    "saved-model": {"tensorflow", "tfserving-grpc", "tfserving-rest"},
    "tflite": {"tflite"},
}
# A net of its own for the whole run: whatever tries to leave finds no route, and the kernel counts it.
OFFLINE = """
import ctypes, fcntl, socket, struct, subprocess, sys
if ctypes.CDLL(None).unshare(0x40000000): sys.exit(77)
with socket.socket() as s: fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", 0x49))  # SIOCSIFFLAGS: up
code = subprocess.run(sys.argv[1:]).returncode
names, values = [line.split() for line in open("/proc/net/snmp") if line.startswith("Ip:")]
print("no routes:", dict(zip(names, values))["OutNoRoutes"], file=sys.stderr)
sys.exit(code)
"""


@dataclass(frozen=True)
class Finished:
    """A run that ended."""

    cwd: Path
    code: int
    stdout: str
    stderr: str

    @property
    def folder(self) -> Path:
        return sorted((self.cwd / "runs").iterdir())[-1]

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.folder / "run.json").read_text())
        return document


def run(cwd: Path, *words: str, prefix: Sequence[str] = ()) -> Finished:
    (cwd / "p.toml").write_text(PIPELINE)
    done = subprocess.run(
        [*prefix, *TRANSLOAD, "run", "p.toml", *words], cwd=cwd, capture_output=True, text=True, check=False
    )
    return Finished(cwd, done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The digits recipe to every target in every runtime, without a network."""
    cwd = tmp_path_factory.mktemp("whole")
    offline = (sys.executable, "-c", OFFLINE)
    done = run(cwd, prefix=offline)
    return done if done.code != 77 else run(cwd)


def test_the_default_run_passes(whole: Finished) -> None:
    assert whole.code == 0, whole.stderr + whole.stdout
    assert whole.document["verdict"] == "pass"
    assert whole.stdout.rstrip().splitlines()[-1].startswith("PASS")


def test_the_result_is_of_the_published_schema(whole: Finished) -> None:
    jsonschema.validate(whole.document, SCHEMA)


def test_every_target_is_verified_at_every_batch(whole: Finished) -> None:
    rows = {row["name"]: row for row in whole.document["artifacts"]}
    assert tuple(rows) == ALL_TARGETS
    for name, row in rows.items():
        assert row["status"] in ("verified", "degraded"), name
        assert row["batches_verified"] == [1, 2, 5, 65], name
        assert row["signature"]["inputs"] == [{"name": "image", "dtype": "float32", "shape": ["batch", 1, 8, 8]}]
        assert row["signature"]["outputs"] == [{"name": "logits", "dtype": "float32", "shape": ["batch", 10]}]


def test_every_artifact_is_judged_and_timed_in_every_runtime_that_takes_it(whole: Finished) -> None:
    for name in ALL_TARGETS:
        expected = RUNTIMES[name.partition(":")[0]] | ({"oip-grpc"} if name in SERVED_FORMATS else set())
        drift = [row for row in whole.document["drift"] if row["artifact"] == name]
        latency = [row for row in whole.document["latency"] if row["artifact"] == name]
        assert {row["runtime"] for row in drift} == {row["runtime"] for row in latency} == expected
        assert {row["batch"] for row in latency} == {1, 8}
        assert all(row["p50_s"] > 0 and row["ratio_to_reference"] > 0 for row in latency)
        assert {row["reference"] for row in latency if row["server"]} <= {
            "source in tfserving-grpc", "source in tfserving-rest", "source in oip-grpc",
        }  # fmt: skip
        assert {row["reference"] for row in latency if not row["server"]} <= {"source in torch"}
        assert all(row["metric"] for row in drift if row["samples"] == 540)


def test_the_runtimes_are_compared_behind_one_protocol_by_one_reference(whole: Finished) -> None:
    rows = [row for row in whole.document["latency"] if row["runtime"] == "oip-grpc"]
    assert {row["artifact"] for row in rows} == {"source", *SERVED_FORMATS}
    assert {row["reference"] for row in rows} - {None} == {"source in oip-grpc"}
    assert "ratios are to the model behind oip-grpc" in " ".join(whole.stdout.split())
    places = [choice["where"] for choice in whole.document["recommendation"]["choices"]]
    assert "served by oip-grpc" in places


def test_an_fp32_copy_agrees_to_60_db_and_a_reduced_one_is_judged_by_the_task(whole: Finished) -> None:
    for row in whole.document["drift"]:
        assert row["non_finite"] == 0
        if ":" not in row["artifact"]:
            assert row["sqnr_db"] is None or row["sqnr_db"] >= 60
        elif row["metric"]:
            assert row["tolerance"] == {"sqnr_db": None, "metric_loss": 0.02}
            assert row["metric"]["ci95"][0] >= -0.02


def test_the_report_says_what_became_of_the_other_route(whole: Finished) -> None:
    exported = next(row for row in whole.document["artifacts"] if row["name"] == "onnx")
    assert exported["route"] == ["torch.export", "torch.onnx-dynamo"]
    other = next(row for row in exported["tried"] if row["route"] == ["torch.onnx-torchscript"])
    assert other["status"] in ("verified", "wrong", "failed")
    assert "torch.onnx-torchscript" in (whole.folder / "report.html").read_text()


def test_the_artifacts_are_linked_ready_to_deploy(whole: Finished) -> None:
    for row in whole.document["artifacts"]:
        payload = whole.folder / row["path"]
        assert payload.exists()
        assert str(read_artifact(payload.parent).target) == row["name"]


@pytest.mark.slow
def test_every_step_leaves_a_log_and_a_script_that_repeats_it(whole: Finished) -> None:
    script = whole.folder / "repeat" / "convert.tflite.torch.export+torch.onnx-dynamo+lowering-tflite.sh"
    assert (whole.folder / "logs" / f"{script.stem}.log").is_file()
    subprocess.run(["sh", str(script)], check=True, capture_output=True)
    assert (script.with_suffix("") / "out" / "model.tflite").stat().st_size > 100_000
    served = whole.folder / "repeat" / "validate.saved-model.tfserving-rest.sh"  # with a server of its own
    for _ in range(2):
        done = subprocess.run(["sh", str(served)], check=True, capture_output=True, text=True)
        assert {row["verdict"] for row in json.loads(done.stdout)["rows"]} == {"pass"}


@pytest.mark.slow
def test_an_artifact_that_was_edited_in_place_is_made_again(whole: Finished, tmp_path: Path) -> None:
    """artifacts/ links into the store: a byte that changes there must not be called verified."""
    store = tmp_path / "store"
    subprocess.run(["cp", "-r", str(whole.cwd / ".transload"), str(store)], check=True)
    words = ("--to", "onnx", "--no-bench", "--store", str(store))
    first = run(tmp_path, *words)
    payload = first.folder / "artifacts" / "onnx" / "model.onnx"
    kept = payload.read_bytes()
    middle = len(kept) // 2
    payload.write_bytes(kept[:middle] + bytes([kept[middle] ^ 0x80]) + kept[middle + 1 :])
    second = run(tmp_path, *words)
    assert second.code == 0, second.stderr + second.stdout
    assert (second.folder / "artifacts" / "onnx" / "model.onnx").read_bytes() == kept
    assert second.document["artifacts"][0]["sha256"] == first.document["artifacts"][0]["sha256"]


@pytest.mark.slow
def test_a_remote_server_is_asked_every_time(whole: Finished, tmp_path: Path) -> None:
    """What somebody else's server answered yesterday says nothing of today."""
    words = ("--to", "saved-model", "--no-bench", "--store", str(whole.cwd / ".transload"))
    done = run(tmp_path, *words, "--runtime", "tfserving-grpc", "--tfserving-url", "127.0.0.1:1,2")
    assert done.code == 1, done.stderr + done.stdout
    answers = [row for row in done.document["gate"] if row["rule"] == "answers" and row["runtime"] == "tfserving-grpc"]
    assert answers[0]["verdict"] == "fail"
    assert "127.0.0.1:1" in answers[0]["got"]


def test_nothing_goes_to_the_network(whole: Finished) -> None:
    if "no routes:" not in whole.stderr:
        pytest.skip("an empty network namespace needs privilege")
    assert "no routes: 0" in whole.stderr
    for log in (whole.folder / "logs").glob("*.log"):
        assert "over the network" not in log.read_text(errors="replace"), log


def test_no_process_takes_2_gb(whole: Finished) -> None:
    peaks = [row["peak_rss_bytes"] for row in whole.document["latency"]]
    actions = [json.loads(file.read_text()) for file in (whole.cwd / ".transload" / "actions").glob("*.json")]
    peaks += [action["facts"]["peak_rss_bytes"] for action in actions]
    assert 0 < max(peaks) < 2e9


def test_a_second_run_does_nothing_again(whole: Finished) -> None:
    before = {file.name: file.read_text() for file in (whole.cwd / ".transload" / "actions").iterdir()}
    again = run(whole.cwd, "--no-bench", "--json")
    after = {file.name: file.read_text() for file in (whole.cwd / ".transload" / "actions").iterdir()}
    assert again.code == 0, again.stderr
    assert before == after  # each holds the seconds that it took
    document = json.loads(again.stdout)  # --json is alone on stdout
    assert [row["sha256"] for row in document["artifacts"]] == [row["sha256"] for row in whole.document["artifacts"]]
    assert document["drift"] == whole.document["drift"]
    assert not (again.folder / ".scratch").exists()


@pytest.mark.slow
def test_a_kill_at_any_stage_loses_nothing_that_was_finished(whole: Finished, tmp_path: Path) -> None:
    """kill -9 of the run while it trains, converts and validates, then a run to the end."""
    actions = tmp_path / ".transload" / "actions"
    kept: set[str] = set()
    for stage in ("train", "convert.onnx", "validate"):
        (tmp_path / "p.toml").write_text(PIPELINE)
        words = [*TRANSLOAD, "run", "p.toml", "--to", "onnx,torchscript", "--no-bench"]
        log = tmp_path / f"{stage}.txt"
        with log.open("w") as out, subprocess.Popen(words, cwd=tmp_path, stdout=out, stderr=out) as process:
            runs = tmp_path / "runs"
            seen = wait_for(
                lambda: any(runs.glob(f"*/logs/{stage}*.log")) or process.poll() is not None  # noqa: B023
            )
            assert seen
            process.send_signal(signal.SIGKILL)
        found = {file.name for file in actions.glob("*.json")}
        assert kept <= found  # nothing that was finished is lost
        kept = found
        runs.rename(tmp_path / f"runs-{stage}")  # so that the next stage's log is a new one
    done = run(tmp_path, "--to", "onnx,torchscript", "--no-bench")
    assert done.code == 0, done.stderr + done.stdout
    assert kept <= {file.name for file in actions.glob("*.json")}
    assert not list((tmp_path / ".transload" / "tmp").iterdir())
    assert "found" in done.stderr  # the training of a former run


@pytest.mark.parametrize(
    ("limit", "sentence"),
    [
        pytest.param("step_seconds = 0.02", "the worker gave no answer in 0.02 s", marks=pytest.mark.slow),
        ("step_memory_gb = 0.1", "the worker used more memory than its limit of 0.1 GB"),
    ],
    ids=["hangs", "eats the memory"],
)
def test_a_converter_that_outruns_its_limit_is_a_failed_row_and_no_route_left(
    limit: str, sentence: str, whole: Finished, tmp_path: Path
) -> None:
    (tmp_path / "slow.toml").write_text(
        f"{TRAINING}[convert]\n{limit}\ntargets = ['pt2', 'torchscript']\n[bench]\nenabled = false\n"
    )
    store = tmp_path / "store"
    subprocess.run(["cp", "-r", str(whole.cwd / ".transload"), str(store)], check=True)
    for file in (store / "actions").iterdir():  # what was trained is kept, what was captured is made again
        if {"test", "device"}.isdisjoint(json.loads(file.read_text())["facts"]):
            file.unlink()
    done = subprocess.run(
        [*TRANSLOAD, "run", "slow.toml", "--store", str(store)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4, done.stderr + done.stdout
    assert done.stdout.rstrip().splitlines()[-1].startswith("FAIL  no route left to pt2 and torchscript")
    rows = Finished(tmp_path, 4, "", "").document["artifacts"]
    assert [row["status"] for row in rows] == ["failed", "failed"]
    for row in rows:
        reason = row["tried"][0]["reason"]
        assert reason.startswith(sentence)
        assert (Finished(tmp_path, 4, "", "").folder / reason[reason.index("(") + 1 : -1]).is_file()  # the log


def test_a_worker_that_is_killed_costs_its_route_and_no_more(whole: Finished, tmp_path: Path) -> None:
    """SIGKILL to the worker that exports: the next route leads to the target, and the report says so."""
    (tmp_path / "p.toml").write_text(PIPELINE)
    words = [*TRANSLOAD, "run", "p.toml", "--to", "onnx", "--no-bench", "--store", str(whole.cwd / ".transload2")]
    words += ["--jobs", "1"]  # else a step that was begun ahead may be the one, which is then done once more
    subprocess.run(["cp", "-r", str(whole.cwd / ".transload"), str(whole.cwd / ".transload2")], check=True)
    actions = whole.cwd / ".transload2" / "actions"
    for file in actions.iterdir():  # training and data are kept, what was captured is made again
        if "nodes" in json.loads(file.read_text())["facts"]:
            file.unlink()
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        worker = wait_for(lambda: worker_of(process.pid, "convert.onnx") or worker_of(process.pid, "convert.pt2"))
        os.kill(worker, signal.SIGKILL)
        stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr + stdout
    tried = Finished(tmp_path, 0, stdout, stderr).document["artifacts"][0]["tried"]
    assert [row["status"] for row in tried[:2]] == ["failed", "verified"]
    assert {row["status"] for row in tried[2:]} <= {"not tried"}, "nothing is tried after what was verified"
    assert "the worker was killed by SIGKILL" in tried[0]["reason"]
    assert re.search(r"logs/convert\.\S+\.log", tried[0]["reason"])


SMALL = """
[convert]
cross_check = false
[validate]
runtimes = ["torch", "torchscript", "onnxruntime", "tensorflow", "tflite"]
[bench]
enabled = false
"""


@pytest.mark.slow  # all default targets of a model once more
@pytest.mark.usefixtures("loaded_once")
def test_a_reduced_target_that_reduces_nothing_is_left_out_where_nobody_named_it(tmp_path: Path) -> None:
    """TFLite's int8-dynamic leaves every weight of the template's small MLP in float32."""
    recipe, pipeline, store = write_recipe("wine", tmp_path), tmp_path / "small.toml", tmp_path / "store"
    pipeline.write_text(SMALL)
    result = transload.run(pipeline, recipe=str(recipe), runs=tmp_path / "runs", store=store)
    (row,) = result.left_out
    assert (row.target, row.reason) == (
        "tflite:int8-dynamic",
        "nothing is reduced to int8-dynamic: all 4 weights are float32, for TFLite quantises no weight of fewer than "
        "1,024 elements; use tflite:int8 or tflite",
    )
    assert (str(result.verdict), result.exit_code) == ("pass", 0)
    kept = [name for name in ALL_TARGETS if name != row.target]
    assert [artifact.name for artifact in result.artifacts] == kept
    assert {drift.artifact for drift in result.drift} == set(kept)
    folder = tmp_path / "runs" / result.id
    linked = {path.name for path in (folder / "artifacts").iterdir()}
    assert linked == {"source", *(name.replace(":", "-") for name in kept)}
    jsonschema.validate(json.loads((folder / "run.json").read_text()), SCHEMA)

    pipeline.write_text(SMALL.replace("[convert]", f"[convert]\ntargets = ['{row.target}']"))
    named = transload.run(pipeline, recipe=str(recipe), runs=tmp_path / "runs", store=store)
    assert named.left_out == ()
    assert [str(artifact.status) for artifact in named.artifacts] == ["unverified"]
    assert (str(named.verdict), named.exit_code) == ("inconclusive", 3)


def worker_of(caller: int, log: str) -> int:
    """The process below `caller`, its child or one that its fork server forked, whose stderr is the log of that name;
    0 if there is none."""
    for process in psutil.Process(caller).children(recursive=True):
        with contextlib.suppress(OSError):
            if log in Path(f"/proc/{process.pid}/fd/2").readlink().name:
                return process.pid
    return 0


def wait_for(condition: Callable[[], Any], seconds: float = 120) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
    return found

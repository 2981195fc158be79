"""convert, validate, bench and serve, as a stranger types them in a folder of their own."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from transload.serving.server.repository.version_keeper import DeathLimit

from .command_line import run

pytestmark = pytest.mark.usefixtures("loaded_once")

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self, scale=1.0):
        super().__init__()
        torch.manual_seed(5)
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.head = torch.nn.Linear(4, 5)
        self.scale = scale

    def forward(self, image):
        return self.head(torch.relu(self.conv(image)).mean((2, 3))) * self.scale

def louder():
    return Net(1.1)

class Fickle(torch.nn.Module):
    def forward(self, image):
        return image * 2 if len(image) > 1 else image * 3  # a trace keeps one of the two
"""
PROGRAM = (sys.executable, "-P", "-m", "transload")  # as the installed program: the user's folder is not searched
INPUT = ("--input", "image=float32[batch,3,9,7]")
TARGETS = ("pt2", "torchscript", "onnx", "onnx:fp16")


def run_alone(here: Path, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    done = subprocess.run([*PROGRAM, *words], cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr + done.stdout
    return done


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with net.py, converted to `made`/."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "net.py").write_text(NET)
    (folder / "json.py").write_text("raise ImportError('a file of the user that is called like one of Python')")
    done = run_alone(folder, "convert", "net.py:Net", *INPUT, "--to", ",".join(TARGETS), "--out", "made", "--jobs", "2")
    (folder / "printed").write_text(done.stdout)
    (folder / "told").write_text(done.stderr)
    return folder


def test_each_target_lies_in_its_folder_with_logs_and_scripts(here: Path) -> None:
    made = here / "made"
    assert {each.name for each in made.iterdir()} == {
        "pt2", "torchscript", "onnx", "onnx-fp16", "logs", "repeat", "convert.json",
    }  # fmt: skip
    assert (made / "onnx" / "model.onnx").is_file()
    assert json.loads((made / "onnx" / "artifact.json").read_text())["target"] == "onnx"
    assert not any(path.is_symlink() for path in made.rglob("*"))
    rows = json.loads((made / "convert.json").read_text())["artifacts"]
    assert [(row["name"], row["status"], row["batches_verified"]) for row in rows] == [
        (name, "verified", [1, 2, 5, 65]) for name in TARGETS
    ]
    assert all((made / row["path"]).exists() for row in rows)


def run_snippet(folder: Path) -> str:
    """Run the program in the README.md of an artifact, as somebody who got the folder alone; return the shapes."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", (folder / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    code += "print({name: tuple(array.shape) for name, array in outputs.items()})"
    command = (sys.executable, "-P", "-c", code)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_artifacts_folder_is_whole_and_says_how_it_is_called(here: Path, tmp_path: Path) -> None:
    folder = tmp_path / "got"
    shutil.copytree(here / "made" / "onnx", folder)
    assert {path.name for path in folder.iterdir()} == {
        "model.onnx", "artifact.json", "card.json", "golden.json", "README.md", "requirements.txt", "provenance.json",
        "made_from.json", "SHA256SUMS",
    }  # fmt: skip
    subprocess.run(["sha256sum", "-c", "--strict", "--quiet", "SHA256SUMS"], cwd=folder, check=True)
    assert run_snippet(folder) == "{'output': (1, 5)}\n"
    named = [line.partition("==")[0] for line in (folder / "requirements.txt").read_text().splitlines()]
    assert named in (["onnxruntime", "numpy"], ["onnxruntime-gpu", "numpy"])
    done = run(here, "inspect", str(folder), "--json", "--quiet")
    card = json.loads(done.stdout)["card"]
    assert (card["name"], card["status"], card["checks"][0]["runtime"]) == ("net.py:Net", "verified", "onnxruntime")
    statement = json.loads(run(here, "verify", str(folder), "--json").stdout)["statement"]
    inputs = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert [row["annotations"]["role"] for row in inputs] == ["model", "weights", "samples"]
    with (folder / "model.onnx").open("ab") as file:
        file.write(b"\0")
    assert "CHANGED  model.onnx" in run(here, "verify", str(folder), status=1).stdout
    done = run(here, "inspect", str(folder), status=1)
    assert "CHANGED  model.onnx" in done.stdout


def test_a_file_says_what_made_it_wherever_it_went(here: Path, tmp_path: Path) -> None:
    shutil.copyfile(here / "made" / "onnx-fp16" / "model.onnx", tmp_path / "alone.onnx")
    before = sorted(tmp_path.rglob("*"))
    done = run(tmp_path, "inspect", "alone.onnx", "--quiet")
    facts = {name: text.strip() for name, _, text in (line.partition(":") for line in done.stdout.splitlines())}
    assert facts["input"] == "image=float32[batch,3,9,7]"
    assert facts["made from"].startswith("net.py:Net (sha256 of the code: ")
    assert "onnxruntime" in done.stdout.rpartition("step to onnx:fp16:")[2]
    assert "float16" in facts["weights"]
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.slow
def test_the_program_of_every_card_runs(tmp_path: Path) -> None:
    targets = ("onnx", "onnx:int8", "saved-model", "tflite", "tflite:int8", "torchscript", "pt2")
    run_alone(tmp_path, "convert", "zoo:digits-cnn", "--to", ",".join(targets), "--out", "made", "--quiet")
    shapes = {name: run_snippet(tmp_path / "made" / name.replace(":", "-")) for name in targets}
    assert shapes == dict.fromkeys(targets, "{'logits': (1, 10)}\n")


def test_a_person_gets_a_line_per_target_and_the_verdict_last(here: Path) -> None:
    lines = (here / "printed").read_text().splitlines()
    assert [line.split()[:2] for line in lines[:4]] == [[name, "verified"] for name in TARGETS]
    assert "torch.export > torch.onnx-dynamo: agrees to" in lines[2]
    assert lines[-1] == "PASS  4 of 4 targets verified, in made"
    assert "64 random samples answered by torch" in (here / "told").read_text()


def test_the_second_time_everything_is_found(here: Path) -> None:
    before = set((here / ".transload" / "actions").iterdir())
    done = run(here, "convert", "net.py:Net", *INPUT, "--to", "onnx", "--out", "again", "--json", "--quiet")
    assert set((here / ".transload" / "actions").iterdir()) == before
    assert done.stderr == ""
    assert json.loads(done.stdout) == json.loads((here / "again" / "convert.json").read_text())


@pytest.mark.parametrize("model", ["made/onnx/model.onnx", "made/onnx", "made/pt2/model.pt2", "made/pt2"])
def test_a_file_or_a_folder_is_a_model_too(model: str, here: Path) -> None:
    out = f"from-{model.replace('/', '-')}"
    run(here, "convert", model, "--to", "onnx:fp16", "--out", out, "--quiet")
    record = json.loads((here / out / "onnx-fp16" / "artifact.json").read_text())
    assert record["signature"]["inputs"] == [{"name": "image", "dtype": "float32", "shape": ["batch", 3, 9, 7]}]


def test_an_artifact_passes_through_unchanged(here: Path) -> None:
    run(here, "convert", "made/onnx/model.onnx", "--to", "onnx", "--out", "same", "--quiet")
    assert (here / "same/onnx/model.onnx").read_bytes() == (here / "made/onnx/model.onnx").read_bytes()


def test_a_target_that_no_route_leads_to_ends_in_4_and_the_others_are_there(here: Path) -> None:
    stale = here / "partly" / "torchscript"
    stale.mkdir(parents=True)
    (stale / "artifact.json").write_text("{}")
    done = run(here, "convert", "made/onnx", "--to", "onnx:fp16,torchscript", "--out", "partly", "-q", status=4)
    assert done.stdout.splitlines()[-3:] == [
        "torchscript: no route leads to torchscript",
        "",
        "FAIL  1 of 2 targets verified, in partly",
    ]
    assert (here / "partly" / "onnx-fp16" / "model.onnx").is_file()
    assert not stale.exists(), "what a former run left would be taken for this one's"


def test_a_target_whose_routes_all_answer_wrongly_ends_in_1_and_is_not_kept(here: Path) -> None:
    words = ("net.py:Fickle", *INPUT, "--to", "torchscript", "--out", "wrong", "--quiet")
    done = run(here, "convert", *words, status=1)
    assert "torchscript  failed" in done.stdout
    assert "at batch 1: output output agrees to" in done.stdout
    assert not (here / "wrong" / "torchscript").exists()


def test_explain_lists_the_routes_cheapest_first_and_runs_nothing(here: Path) -> None:
    done = run(here, "convert", "net.py:Net", "--to", "onnx,pt2", "--explain")
    onnx, pt2 = done.stdout.partition("\n\n")[0].split("\npt2:\n")
    assert onnx.splitlines()[:3] == ["onnx:", "  1  torch.export > torch.onnx-dynamo", "  2  torch.onnx-torchscript"]
    assert pt2.splitlines()[0] == "  1  torch.export"
    assert done.stdout.partition("\n\n")[2].startswith(
        "Routes are tried in this order until one verifies. Nothing was run.\n"
        "Where torch.onnx-dynamo gives nothing, torch.onnx-dynamo@18 is tried in its place.\n"
    )
    rows = json.loads(run(here, "convert", "made/onnx", "--to", "onnx,torchscript", "--explain", "--json").stdout)
    assert rows == {"routes": [{"target": "onnx", "route": [], "cost": 0, "stands_in": False, "missing": None}]}


def test_samples_of_a_file_are_taken_in_place_of_random_ones(here: Path) -> None:
    image = np.random.default_rng(3).standard_normal((7, 3, 9, 7)).astype(np.float32)
    np.savez(here / "data.npz", image=image, labels=np.arange(7))
    words = ("made/onnx", "--against", "net.py:Net", *INPUT, "--data", "data.npz", "--batch", "1,2", "--json")
    done = run(here, "validate", *words)
    assert "7 samples answered by torch" in done.stderr
    found = json.loads(done.stdout)
    assert [(row["batch"], row["samples"], row["verdict"]) for row in found["drift"]] == [
        (7, 7, "pass"), (1, 4, "pass"), (2, 6, "pass"), (65, 7, "pass"),
    ]  # fmt: skip
    assert (found["verdict"], found["exit_code"]) == ("pass", 0)


def test_an_artifact_of_another_model_fails_with_a_sentence(here: Path) -> None:
    words = ("made/onnx", "--against", "net.py:louder", *INPUT, "--runtime", "onnxruntime", "--quiet")
    done = run(here, "validate", *words, status=1)
    assert "onnx in onnxruntime: drift" in done.stdout
    where = f"where: transload locate made/onnx --against net.py:louder --input '{INPUT[1]}'"
    assert where in done.stdout.splitlines()
    assert done.stdout.splitlines()[-1].startswith("FAIL  logs in runs/")


@pytest.mark.slow
def test_bench_holds_its_ratios_against_the_recorded_source_or_the_model_named(here: Path) -> None:
    short = ("--rounds", "3", "--processes", "1", "--budget", "0", "--batch", "1", "--json", "--quiet")
    rows = json.loads(run_alone(here, "bench", "made/onnx", "made/torchscript", *short).stdout)["latency"]
    assert [(row["artifact"], row["runtime"]) for row in rows] == [
        ("source", "torch"), ("onnx", "onnxruntime"), ("torchscript", "torchscript"),
    ]  # fmt: skip
    assert rows[0]["ratio_to_reference"] == 1
    rows = json.loads(run_alone(here, "bench", "made/onnx", "--against", "net.py:Net", *INPUT, *short).stdout)[
        "latency"
    ]
    assert [(row["artifact"], row["runtime"]) for row in rows] == [("source", "torch"), ("onnx", "onnxruntime")]
    assert rows[0]["ratio_to_reference"] == 1
    assert rows[1]["ratio_to_reference"] is not None
    folder = max((here / "runs").glob("*-bench*"), key=lambda each: each.stat().st_mtime)
    assert {each.name for each in folder.iterdir()} == {"bench.json", "latency.npz", "logs", "repeat"}


@pytest.fixture
def server(here: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*PROGRAM, "serve", "made/onnx", "--name", "net", "--grpc-port", "0", "--rest-port", "0"],
        cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def address(server: subprocess.Popen[str]) -> str:
    assert server.stdout
    line = server.stdout.readline()
    assert line.startswith("serving made/onnx as net (onnxruntime, cpu): gRPC 127.0.0.1:"), line
    return line.rstrip().rpartition("REST ")[2]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_serve_answers_until_it_is_told_to_end(how: int, server: subprocess.Popen[str]) -> None:
    body = json.dumps({"instances": np.zeros((2, 3, 9, 7)).tolist()}).encode()
    with urllib.request.urlopen(address(server), body) as reply:
        assert np.shape(json.load(reply)["predictions"]) == (2, 5)
    server.send_signal(how)
    assert server.wait(60) == 0
    assert server.stderr
    assert server.stderr.read() == ""


def kill_worker(server: subprocess.Popen[str]) -> None:
    (worker,) = psutil.Process(server.pid).children()
    worker.kill()


def test_serve_starts_a_worker_that_dies_again_and_gives_up_at_the_third(server: subprocess.Popen[str]) -> None:
    url = address(server)
    assert server.stderr
    body = json.dumps({"instances": np.zeros((2, 3, 9, 7)).tolist()}).encode()
    for _ in range(2):
        kill_worker(server)
        line = server.stderr.readline()
        assert re.fullmatch(
            "version 1 of the model net died and is started again: the worker was killed by SIGKILL\n", line
        )
        line = server.stderr.readline()
        assert re.fullmatch(r"version 1 of the model net answers again, after \d+\.\d s\n", line)
        with urllib.request.urlopen(url, body) as reply:  # the port that the system chose, again
            assert np.shape(json.load(reply)["predictions"]) == (2, 5)
    kill_worker(server)
    assert server.wait(60) == 4
    said = server.stderr.read()
    assert said.startswith(
        "version 1 of the model net is not served: the process of version 1 of the model net died 3 times within 60 s: "
        "the worker was killed by SIGKILL\n"
    )
    error = said.splitlines(keepends=True)[1:]
    assert error[0].startswith("error: the process of version 1 of the model net died 3 times within 60 s: ")
    assert error[1].startswith("  fix: read the logs in /")
    logs = Path(error[1].split("logs in ")[1].split(",")[0])
    assert [log.name for log in logs.iterdir()] == ["net-1.log"]
    shutil.rmtree(logs)


def test_a_death_counts_for_a_minute() -> None:
    deaths = DeathLimit(iter((0.0, 30.0, 61.0, 89.0)).__next__)
    assert [deaths.is_reached_by_another() for _ in range(4)] == [False, False, False, True]


@pytest.mark.parametrize("file", ["access.log", "-"])
def test_serve_writes_the_access_log_that_it_names(file: str, here: Path) -> None:
    words = ["made/onnx", "--name", "net", "--grpc-port", "0", "--rest-port", "0", "--access-log", file]
    with subprocess.Popen(
        [*PROGRAM, "serve", *words], cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout
        assert server.stderr
        url = server.stdout.readline().split("REST ")[1].split(",")[0]
        assert server.stdout.readline().endswith(f", access log {'stderr' if file == '-' else file}\n")
        body = json.dumps({"instances": np.zeros((2, 3, 9, 7)).tolist()}).encode()
        with urllib.request.urlopen(url, body) as reply:
            assert reply.status == 200
        server.terminate()
        assert server.wait(60) == 0
        log = server.stderr.read() if file == "-" else (here / file).read_text()
    assert [json.loads(entry)["method"] for entry in log.splitlines()] == ["POST /v1/models/net:predict"]


def test_serve_refuses_a_port_that_is_taken(server: subprocess.Popen[str], here: Path) -> None:
    port = address(server).split(":")[2].split("/")[0]
    done = run_alone(here, "serve", "made/onnx", "--grpc-port", "0", "--rest-port", port, status=2)
    assert done.stderr == f"error: nothing can listen on 127.0.0.1:{port}\n  fix: name another port, or 0\n"


@pytest.mark.slow
def test_the_python_face_returns_rows_and_loads_no_framework(here: Path) -> None:
    """In an interpreter of its own: other tests have loaded what must not be loaded here."""
    script = f"""
import sys, transload
rows = transload.convert("net.py:Net", ["onnx"], out="by-hand", inputs=[{INPUT[1]!r}]).artifacts
assert [(row.name, row.status, row.path) for row in rows] == [("onnx", "verified", "onnx/model.onnx")], rows
drift = transload.validate("by-hand/onnx", against="net.py:Net", inputs=[{INPUT[1]!r}], batches=[3]).drift
assert [(row.batch, row.verdict) for row in drift] == [(64, "pass"), (3, "pass"), (65, "pass")], drift
both = transload.validate("by-hand/onnx", "by-hand/onnx/model.onnx", against="net.py:Net", batches=[3])
assert sorted({{row.artifact for row in both.drift}}) == ["by-hand/onnx", "by-hand/onnx/model.onnx"], both.drift
assert len(both.drift) == 6
assert {{row.verdict for row in both.drift}} == {{"pass"}}
assert not {{"torch", "onnxruntime", "tensorflow"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

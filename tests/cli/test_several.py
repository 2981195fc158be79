"""Several models in one command: each in a folder of its own, the worst decides, and a kill loses nothing of it."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from transload.models.artifact import RECORD
from transload.models.errors import BadRequest
from transload.pipeline.commands.convert import unique_names

NETS = """
import torch

class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(7, 5)

    def forward(self, x):
        return torch.tanh(self.head(x))

class Large(Small):
    def forward(self, x):
        return super().forward(x) * 2

def broken():
    raise RuntimeError("no such checkpoint")
"""
PROGRAM = (sys.executable, "-P", "-m", "transload")
WORDS = ("--input", "x=float32[batch,7]", "--to", "pt2,torchscript,onnx", "--jobs", "2")


def run(here: Path, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*PROGRAM, "convert", *words], cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr + done.stdout
    return done


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "nets.py").write_text(NETS)
    return tmp_path


@pytest.mark.slow
def test_each_model_has_a_folder_and_one_that_cannot_be_taken_does_not_keep_the_others(here: Path) -> None:
    done = run(here, "nets.py:Small", "nets.py:broken", "nets.py:Large", *WORDS, "--out", "made", status=2)
    lines = done.stdout.splitlines()
    assert [line.split()[:3] for line in lines[:7]] == [
        *(["nets-Small", target, "verified"] for target in ("pt2", "torchscript", "onnx")),
        ["nets-broken", "failed", "was"],
        *(["nets-Large", target, "verified"] for target in ("pt2", "torchscript", "onnx")),
    ]
    assert lines[8].startswith("nets-broken: ")
    assert "no such checkpoint" in lines[8]
    assert lines[-1] == "FAIL  3 models, 6 of 6 targets verified, in made"
    assert any(line.startswith("nets-Small   convert ") for line in done.stderr.splitlines())
    assert any(line.startswith("nets-Large   model ") for line in done.stderr.splitlines())
    record = json.loads((here / "made" / "convert.json").read_text())
    assert (record["verdict"], record["exit_code"]) == ("fail", 2)
    assert [(each["name"], each["model"], each["exit_code"]) for each in record["models"]] == [
        ("nets-Small", "nets.py:Small", 0), ("nets-broken", "nets.py:broken", 2), ("nets-Large", "nets.py:Large", 0),
    ]  # fmt: skip
    assert all(each["smallest"] == [] for each in record["models"])
    for each in record["models"]:
        assert all((here / "made" / each["name"] / row["path"]).is_file() for row in each["artifacts"])
    assert (here / "made" / "nets-Small" / "convert.json").is_file()
    assert not (here / "made" / "onnx").exists()


def family(pid: int) -> set[int]:
    """A process and all that it started."""
    found = {pid}
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found |= family(int(child))
    return found


@pytest.mark.slow
def test_a_command_that_was_killed_goes_on_from_what_was_done(here: Path) -> None:
    words = ("nets.py:Small", "nets.py:Large", *WORDS, "--out", "made", "--quiet")
    process = subprocess.Popen([*PROGRAM, "convert", *words], cwd=here)
    actions = here / ".transload" / "actions"
    deadline = time.monotonic() + 240
    while len(list(actions.glob("*.json"))) < 5 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = family(process.pid) - {process.pid}
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert workers
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()], "workers end with what started them"
    places = [folder for folder in (here / "made").glob("*/*") if folder.name in ("pt2", "torchscript", "onnx")]
    assert all((folder / RECORD).is_file() for folder in places), "a target is there as a whole"
    done = {path.name: path.read_text() for path in actions.glob("*.json")}
    assert len(done) >= 5
    run(here, *words)
    assert {name: (actions / name).read_text() for name in done} == done, "what was done is not done again"
    assert len(list(actions.glob("*.json"))) > len(done)
    assert json.loads((here / "made" / "convert.json").read_text())["verdict"] == "pass"


def test_folders_are_named_after_the_models() -> None:
    named = {
        "zoo:digits-cnn": "digits-cnn", "net.py": "net", "sub/net.py:Net": "net-Net", "a.b:make": "a.b-make",
        "x/model.onnx": "model", "y/model.onnx": "model-2", "made/onnx": "onnx", "timm:resnet18.a1": "resnet18.a1",
        "C:/my nets/a b.pt2": "a-b",
    }  # fmt: skip
    assert unique_names(list(named)) == list(named.values())
    with pytest.raises(BadRequest, match=r"net\.py is named twice"):
        unique_names(["net.py", "net.py"])


def test_weights_are_of_one_model(here: Path) -> None:
    done = run(here, "nets.py:Small", "nets.py:Large", *WORDS, "--out", "o", "--weights", "w.safetensors", status=2)
    assert done.stderr.startswith("error: --weights is for one model\n  fix: ")

"""`validate`, `locate` and `bench` take an artifact's source from its record, and refuse one that has changed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from transload.models.artifact import read_artifact, write_artifact
from transload.models.formats import Format, Target

from .command_line import run

pytestmark = pytest.mark.usefixtures("loaded_once")

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.layer = torch.nn.Linear(3, width)

    def forward(self, x):
        return torch.relu(self.layer(x))
"""
WEIGHTS = """
import sys
sys.path.insert(0, ".")
import torch, net
torch.manual_seed(0)
weights = net.Net(5).state_dict()
torch.save({"ema": weights}, "w.pt")
weights["layer.bias"] += 1
torch.save({"ema": weights}, "shifted.pt")
"""
BRIEFLY = ("--budget", "0s", "--rounds", "3", "--processes", "1")  # of a measurement
OPTIONS = ("--weights", "w.pt", "--weights-key", "ema", "--set", "width=5", "--input", "x=float32[batch,3]")


def transload(here: Path, *words: str, status: int = 0) -> str:
    """Run a command in a folder; return what it printed."""
    done = run(here, *words, status=status)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def converted(loaded_once: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project whose model has been converted."""
    here = tmp_path_factory.mktemp("project")
    (here / "sub").mkdir()
    (here / "net.py").write_text(NET)
    subprocess.run([sys.executable, "-P", "-c", WEIGHTS], cwd=here, check=True)
    transload(here, "convert", "net.py:Net", *OPTIONS, "--to", "onnx,torchscript", "--out", "made", "--quiet")
    return here


@pytest.fixture
def project(converted: Path, tmp_path: Path) -> Path:
    """Return a copy of the project at another place."""
    return Path(shutil.copytree(converted, tmp_path / "moved"))


def test_the_record_holds_no_folder_of_the_machine(converted: Path) -> None:
    text = (converted / "made/onnx/made_from.json").read_text()
    assert str(converted) not in text
    record = json.loads(text)
    assert record["model"]["recipe"] == "../../net.py:Net"
    assert (record["model"]["weights"], record["model"]["weights_key"]) == ("../../w.pt", "ema")
    assert "made_from.json" not in (converted / "made/onnx/SHA256SUMS").read_text()


def test_a_whole_convert_is_validated_from_another_folder(project: Path) -> None:
    printed = transload(project / "sub", "validate", "../made", "--batch", "1")
    assert "net.py:Net, which ../made/onnx was made from" in printed
    assert "onnxruntime" in printed
    assert "torchscript" in printed
    assert "PASS" in printed


def test_one_artifact_is_located_and_verified(project: Path) -> None:
    assert "nothing departs" in transload(project, "locate", "made/onnx", "--quiet")
    assert "PASS" in transload(project, "verify", "made/onnx")


def _broken_onnx(here: Path) -> None:
    """Double one row of the layer in the copy, as a file that somebody else wrote."""
    code = (
        "import onnx; from onnx import numpy_helper as h; m = onnx.load('made/onnx/model.onnx');"
        "t = next(t for t in m.graph.initializer if len(t.dims) == 2); a = h.to_array(t).copy();"
        "at = (2,) if a.shape[0] == 5 else (slice(None), 2); a[at] *= 2;"
        "t.CopyFrom(h.from_array(a, t.name)); onnx.save(m, 'made/onnx/model.onnx')"
    )
    subprocess.run([sys.executable, "-P", "-c", code], cwd=here, check=True)


def test_of_a_whole_convert_each_artifact_that_departs_is_located(project: Path) -> None:
    _broken_onnx(project)
    lines = transload(project, "locate", "made", "--quiet", status=1).splitlines()
    assert [line.split()[:2] for line in lines[1:3]] == [["made/onnx", "fail"], ["made/torchscript", "pass"]]
    assert sum(line.startswith("made/onnx: the outputs depart at ") for line in lines) == 1
    assert not any(line.startswith("made/torchscript:") for line in lines)
    (explanation,) = (line for line in lines if line.startswith("   weight: "))
    assert "layer.weight[2] is 2 x the model's" in explanation
    document = json.loads(transload(project, "locate", "made", "--json", "--quiet", status=1))
    assert {name: part["verdict"] for name, part in document["artifacts"].items()} == {
        "made/onnx": "fail", "made/torchscript": "pass",
    }  # fmt: skip
    assert (document["verdict"], document["unlocated"]) == ("fail", {})


def test_what_cannot_be_searched_ends_no_search(project: Path) -> None:
    shutil.copytree(project / "made/onnx", project / "made/broken")
    (project / "made/broken/model.onnx").write_bytes(b"no model")
    printed = transload(project, "locate", "made/broken", "made/onnx", "--quiet", status=3)
    assert "made/broken  not searched  " in printed
    assert "made/onnx    pass          nothing departs" in printed
    assert "fix: " in transload(project, "locate", "made/broken", "--quiet", status=2)


def test_a_program_whose_values_cannot_be_followed_is_left_out(project: Path) -> None:
    signature = read_artifact(project / "made/onnx").signature
    (project / "made/pt2").mkdir()
    (project / "made/pt2" / Format.PT2.spec.payload).write_bytes(b"any")
    write_artifact(project / "made/pt2", Target(Format.PT2), signature)
    shutil.copy(project / "made/onnx/made_from.json", project / "made/pt2")
    lines = transload(project, "locate", "made/onnx", "made/pt2", "--quiet").splitlines()
    assert ["made/pt2", "left", "out"] in [line.split()[:3] for line in lines]
    assert ["made/onnx", "pass", "nothing"] in [line.split()[:3] for line in lines]
    assert "fix: name a copy in " in transload(project, "locate", "made/pt2", "--quiet", status=2)


@pytest.mark.parametrize(
    "words",
    [("validate", "--batch", "1"), ("locate",), ("bench", "--batch", "1", *BRIEFLY)],
    ids=lambda words: words[0],
)
def test_the_document_names_the_recorded_source(project: Path, words: tuple[str, ...]) -> None:
    command, *options = words
    document = json.loads(transload(project, command, "made/onnx", *options, "--json", "--quiet"))
    record = json.loads((project / "made/onnx/made_from.json").read_text())
    assert document["recorded_source"] == {
        "model": "net.py:Net", "artifact": "made/onnx", "sha256": record["sha256"], "weights_sha256": record["weights"],
    }  # fmt: skip
    named = ("--against", "net.py:Net", *OPTIONS)
    document = json.loads(transload(project, command, "made/onnx", *named, *options, "--json", "--quiet"))
    assert document["recorded_source"] is None


def test_bench_holds_against_the_recorded_source(project: Path) -> None:
    printed = transload(project, "bench", "made/onnx", "--batch", "1", *BRIEFLY, "--quiet")
    assert "source" in printed


def _other_weights(here: Path) -> None:
    shutil.copy(here / "shifted.pt", here / "w.pt")


def _other_code(here: Path) -> None:
    (here / "net.py").write_text(NET.replace("relu", "tanh"))


def _moved(here: Path) -> None:
    (here / "net.py").rename(here / "other.py")


def _moved_weights(here: Path) -> None:
    (here / "w.pt").rename(here / "v.pt")


def _broken(here: Path) -> None:
    (here / "made/onnx/made_from.json").write_text('{"root": 3}')


def _unknown(here: Path) -> None:
    (here / "made/onnx/made_from.json").unlink()


@pytest.mark.parametrize(
    ("change", "sentences"),
    [
        (_other_weights, ("its weights changed since: the record has ", ", and ", " is there")),
        (_other_code, ("its code changed since: the record has ", ", and ", " is there")),
        (_moved, ("made/onnx says the model lay at ", "net.py, and nothing is there", "--against")),
        (_moved_weights, ("made/onnx says the weights lay at ", "w.pt, and nothing is there", "--weights")),
        (_broken, ("made_from.json cannot be read: ",)),
        (_unknown, ("nothing says what made/onnx was made from", "--against")),
    ],
)
@pytest.mark.parametrize("command", ["validate", "locate"])
def test_a_source_that_is_another_is_refused(
    project: Path, command: str, change: Callable[[Path], None], sentences: tuple[str, ...]
) -> None:
    change(project)
    printed = transload(project, command, "made/onnx", "--quiet", status=2)
    for sentence in sentences:
        assert sentence in printed


def test_against_has_precedence(project: Path) -> None:
    _other_weights(project)
    words = ("validate", "made/onnx", "--against", "net.py:Net", *OPTIONS, "--batch", "1", "--quiet")
    assert "FAIL" in transload(project, *words, status=1)
    assert "FAIL" in transload(project, "validate", "made/onnx", "--weights", "w.pt", "--batch", "1", "-q", status=1)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--weights-key", "ema"), "--weights-key names a part of a file, and no file is named"),
        (("--data", "none.npz"), "no such file: none.npz"),
        (("--budget", "ten"), "'ten' is no time"),
        (("--python", "/usr/bin/python3"), "run trains a recipe with our own torch"),
        (("--epochs", "0"), "--epochs"),
    ],
)
def test_run_takes_the_options_that_its_hints_name(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    assert sentence in transload(tmp_path, "run", "zoo:breast-cancer-mlp", "--no-bench", "-q", *words, status=2)

"""A format of somebody else's: the package of tests/projects/onnx_text, used by every command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Collection
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "tests" / "projects" / "onnx_text"
PROGRAM = (sys.executable, "-P", "-m", "transload")
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))

    def forward(self, x):
        return self.layers(x)
"""
INPUT = "x=float32[batch,8]"


def install(folder: Path) -> None:
    """The package, as pip would have put it there."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    info = folder / f"onnx_text-{project['version']}.dist-info"
    shutil.copytree(PROJECT / "onnx_text", folder / "onnx_text")
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"].items()
    lines = [f"[{group}]\n" + "".join(f"{name}={value}\n" for name, value in rows.items()) for group, rows in groups]
    (info / "entry_points.txt").write_text("\n".join(lines))


class Place:
    """A folder with a model and the package, where commands run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        install(folder / "lib")
        (folder / "net.py").write_text(NET)

    @property
    def environment(self) -> dict[str, str]:
        path = [str(self.folder / "lib"), os.environ.get("PYTHONPATH", "")]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}

    def run(self, *words: str, status: Collection[int] = (0,)) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*PROGRAM, *words], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode in status, done.stderr + done.stdout
        return done


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("package")
    (folder / "lib").mkdir()
    place = Place(folder)
    place.run("convert", "net.py:Net", "--to", "onnx-text", "--input", INPUT, "--out", "made", "--quiet")
    return place


def test_the_graph_of_formats_has_it(place: Place) -> None:
    shown = place.run("formats").stdout
    assert "onnx-as-text (onnx-text 1.0)" in shown
    rows = json.loads(place.run("formats", "--json").stdout)["runtimes"]
    assert [row["takes"] for row in rows if row["name"] == "onnx-reference"] == [["onnx-text"]]


def test_a_copy_in_it_is_verified(place: Place) -> None:
    (row,) = json.loads((place.folder / "made" / "convert.json").read_text())["artifacts"]
    assert (row["format"], row["status"]) == ("onnx-text", "verified")
    assert row["route"][-1] == "onnx-as-text"


def test_its_card_tells_how_it_is_called(place: Place) -> None:
    card = (place.folder / "made" / "onnx-text" / "README.md").read_text()
    assert "ONNX as text" in card
    assert "ReferenceEvaluator" in card


def test_a_right_copy_passes_and_a_wrong_one_fails(place: Place) -> None:
    checked = place.run("validate", "made/onnx-text", "--against", "net.py:Net", "--input", INPUT, "--json").stdout
    rows = json.loads(checked)["drift"]
    assert {row["runtime"] for row in rows} == {"onnx-reference"}
    shutil.copytree(place.folder / "made" / "onnx-text", place.folder / "wrong")
    file = place.folder / "wrong" / "model.onnxtxt"
    file.write_text(file.read_text().replace('op_type: "Relu"', 'op_type: "Neg"'))
    place.run("validate", "wrong", "--against", "net.py:Net", "--input", INPUT, status=[1])


def test_an_operator_in_it_is_located(place: Place) -> None:
    said = place.run("locate", "wrong", "--against", "net.py:Net", "--input", INPUT, status=[1]).stdout
    assert "Neg" in said
    assert "net.py" in said


def test_a_bare_file_is_read_and_described(place: Place) -> None:
    shutil.copyfile(place.folder / "made" / "onnx-text" / "model.onnxtxt", place.folder / "bare.onnxtxt")
    described = place.run("inspect", "bare.onnxtxt").stdout
    assert "Gemm" in described
    place.run("validate", "bare.onnxtxt", "--against", "net.py:Net", "--input", INPUT)
    (place.folder / "broken.onnxtxt").write_text("ir_version: 10 graph {")
    said = place.run("inspect", "broken.onnxtxt", status=[2]).stderr
    assert "is no whole ONNX model in text" in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_its_latency_is_measured_in_process_and_served(place: Place) -> None:
    done = place.run(
        "bench",
        "made/onnx-text",
        "--runtime",
        "onnx-reference,oip-grpc",
        "--batch",
        "1",
        "--rounds",
        "3",
        "--json",
        status=[0, 3],  # what is measured beside other tests may settle nothing
    )
    rows = [row for row in json.loads(done.stdout)["latency"] if row["artifact"] == "onnx-text"]
    assert {row["runtime"] for row in rows} == {"onnx-reference", "oip-grpc"}
    assert all(row["p50_s"] > 0 for row in rows)


def test_a_copy_of_it_says_how_to_go_on(place: Place) -> None:
    said = place.run("convert", "bare.onnxtxt", "--to", "tflite", "--out", "other", status=[4]).stdout
    assert "no route leads to tflite" in said


def test_the_contract_of_sessions_holds(place: Place) -> None:
    words = [
        "-P",
        "-m",
        "pytest",
        "tests/contract/test_sessions.py",
        "-k",
        "onnx-reference",
        "-v",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=place.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout

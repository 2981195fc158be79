"""A worse model is not released, whatever its copies say of it; an equal one is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from .command_line import run

PIPELINE = """
[model]
recipe = "zoo:digits-cnn"
[train]
epochs = {epochs}
[convert]
targets = ["onnx"]
cross_check = false
[validate]
runtimes = ["onnxruntime"]
[bench]
enabled = false
"""

pytestmark = pytest.mark.usefixtures("loaded_once")


def train(folder: Path, name: str, epochs: int, *options: str, status: int = 0) -> tuple[Path, str]:
    """Run a pipeline with so many epochs; return the run's folder and what was printed."""
    (folder / name).write_text(PIPELINE.format(epochs=epochs))
    before = set((folder / "runs").glob("*"))
    printed = run(folder, "run", name, "--quiet", *options, status=status).stdout
    (made,) = set((folder / "runs").iterdir()) - before
    return made, printed


def test_a_retrained_model_that_is_worse_fails_against_the_last_release(tmp_path: Path) -> None:
    last, _ = train(tmp_path, "good.toml", 4)
    worse, printed = train(tmp_path, "bad.toml", 1, "--baseline", str(last), status=1)
    document = json.loads((worse / "run.json").read_text())
    assert document["artifacts"][0]["status"] == "verified"  # each copy equals its own source
    failed = {(row["rule"], row["artifact"]) for row in document["gate"] if row["verdict"] == "fail"}
    assert failed == {("no_worse metric", "source"), ("no_worse metric", "onnx")}
    (row,) = (row for row in document["gate"] if row["artifact"] == "source")
    old, new = f"{row['before'] * 100:.2f} %", f"{row['after'] * 100:.2f} %"
    assert "paired on the same 540 test samples" in " ".join(printed.split())
    texts = [printed, (worse / "report.md").read_text(), (worse / "report.html").read_text().replace("\u202f", " ")]
    for text in texts:
        assert old in text.replace("\xa0", " ")
        assert new in text.replace("\xa0", " ")
    compared = run(tmp_path, "compare", str(last), str(worse), status=1).stdout
    assert "the new source against the old source: accuracy" in " ".join(compared.split())
    run(tmp_path, "compare", str(worse), str(last))  # a better one is no loss

    again, _ = train(tmp_path, "good.toml", 4, "--baseline", str(last))
    assert json.loads((again / "run.json").read_text())["verdict"] == "pass"
    (last / "outcomes.npz").write_text("no archive")
    run(tmp_path, "compare", str(last), str(again), status=2)
    shutil.rmtree(last)
    run(tmp_path, "run", "good.toml", "--baseline", str(last), status=2)


def test_options_of_a_baseline_need_one(tmp_path: Path) -> None:
    for option in (["--release-loss", "0.1"], ["--allow-missing"]):
        assert "--baseline" in run(tmp_path, "run", *option, status=2).stderr
    assert "--release-loss" in run(tmp_path, "run", "--release-loss", "nan", "--baseline", "runs", status=2).stderr

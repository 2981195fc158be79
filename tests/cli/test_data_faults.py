"""Data is looked at before it is trusted: by `run`, `convert`, `validate` and `bench`, as a new user has it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.models.zoo.template import Task, write_recipe

from .command_line import run

pytestmark = pytest.mark.usefixtures("loaded_once")
NET = """
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        return torch.stack([-x[:, 0], -((x[:, 0] - 1) ** 2), x[:, 0] - 2.5], 1) * 3

class Fills(Net):
    def forward(self, x):
        return super().forward(torch.nan_to_num(x))
"""
INPUT = ("--input", "x=float32[batch,4]")


def write_table(path: Path, change: Any = None) -> None:
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.arange(90) % 3)
    rows = [
        [f"{label + 0.2 * rng.normal():.4f}", *(f"{x:.4f}" for x in rng.normal(size=3)), str(label)] for label in labels
    ]
    if change:
        change(rows)
    path.write_text("\n".join(map(",".join, [["a", "b", "c", "d", "label"], *rows])) + "\n")


def put(row: int, column: int, text: str) -> Any:
    def change(rows: list[list[str]]) -> None:
        rows[row][column] = text

    return change


def fill(column: int, text: Any) -> Any:
    def change(rows: list[list[str]]) -> None:
        for row in rows:
            row[column] = text(row)

    return change


REFUSED = {
    "label.csv": (put(40, 4, "3"), "label.csv: the column label holds 3, which is none of 3 classes that count from 0, "
                  "in 1 of 90 rows, first in row 41\n  fix: mend these labels: classes count from 0, and a negative "
                  "label does not count\n"),
    "nanlabel.csv": (put(5, 4, "nan"), "nanlabel.csv: the column label holds NaN or an infinity in 1 of 90 rows, first "
                     "in row 6\n  fix: mend these labels, or leave their samples out\n"),
}  # fmt: skip
DOUBTED = {
    "good.csv": (None, None),
    "nan.csv": (put(16, 0, "nan"), "nan.csv: the column a holds NaN in 1 of 90 rows, first in row 17"),
    "inf.csv": (put(16, 0, "-inf"), "inf.csv: the column a holds an infinity in 1 of 90 rows, first in row 17"),
    "class.csv": (fill(4, lambda row: "1" if row[4] == "0" else row[4]),
                  "class.csv: no row has the label 0, of 3 classes in 90 rows"),
    "constant.csv": (fill(3, lambda _: "7"), "constant.csv: the column d holds one value in all 90 rows, 7"),
    "feature.csv": (fill(1, lambda row: f"{(int(row[4]) * 2 + 1) % 3}"), "feature.csv: the label of every row can be "
                    "read off the column b: is that the label itself?"),
    "guess.csv": (fill(4, lambda row: str(int(row[3].replace("-", "9")[-1]) % 3)), " than chance: accuracy "),
}  # fmt: skip


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    (folder / "net.py").write_text(NET)
    for name, (change, _) in {**REFUSED, **DOUBTED}.items():
        write_table(folder / name, change)
    for name in ("Net", "Fills"):
        run(folder, "convert", f"net.py:{name}", *INPUT, "--to", "pt2", "--out", name.lower(), "--quiet")
    return folder


def commands(name: str, data: str, out: str) -> dict[str, tuple[str, ...]]:
    model = (f"net.py:{name}", *INPUT, "--data", data, "--quiet")
    return {
        "validate": ("validate", f"{name.lower()}/pt2", "--against", *model),
        "convert": ("convert", *model, "--to", "pt2", "--out", out),
        "bench": ("bench", f"{name.lower()}/pt2", "--data", data, "--quiet"),
    }


@pytest.mark.parametrize("command", ["validate", "convert", "bench"])
@pytest.mark.parametrize("data", REFUSED)
def test_a_refused_fault_is_told_and_leaves_nothing(data: str, command: str, here: Path) -> None:
    before = {*here.iterdir(), *here.glob("runs/*")}
    assert run(here, *commands("Net", data, "new")[command], status=2).stderr == f"error: {REFUSED[data][1]}"
    assert {*here.iterdir(), *here.glob("runs/*")} - {here / "runs"} == before - {here / "runs"}


@pytest.mark.parametrize("command", ["validate", "convert"])
@pytest.mark.parametrize("data", DOUBTED)
def test_a_doubt_stands_beside_the_verdict(data: str, command: str, here: Path) -> None:
    out = run(here, *commands("Net", data, f"out-{data}")[command], "--json").stdout
    doubts = [doubt for doubt in json.loads(out)["doubts"] if not doubt.startswith("not sandboxed")]
    expected = DOUBTED[data][1]
    if expected is None:
        assert doubts == []
    else:
        assert expected in doubts[0]
        assert all(" than chance: " in doubt for doubt in doubts[1:])


@pytest.mark.parametrize("command", ["validate", "convert"])
def test_a_model_that_takes_nan_is_not_doubted(command: str, here: Path) -> None:
    out = run(here, *commands("Fills", "nan.csv", "out-fills")[command], "--json").stdout
    assert [doubt for doubt in json.loads(out)["doubts"] if not doubt.startswith("not sandboxed")] == []


CAST = "    features = scaled.astype(np.float32)\n"


def test_a_run_refuses_before_it_trains_and_leaves_no_run(tmp_path: Path) -> None:
    path = write_recipe("wine", tmp_path)
    path.write_text(path.read_text().replace(CAST, f"{CAST}    features[train[3], 2] = np.inf\n"))
    refused = run(tmp_path, "run", "wine.py", "--to", "pt2", "--no-bench", "--quiet", status=2)
    assert refused.stderr == (
        "error: the train split: features[:, 2] holds an infinity in 1 of 80 samples, first in sample 4 (index 3)\n"
        "  fix: mend or leave out these samples, or let the net answer them, as by torch.nan_to_num\n"
    )
    assert list(tmp_path.glob("runs/*")) == []
    assert not list(tmp_path.glob(".transload/checkpoints/*"))


@pytest.mark.parametrize("task", [Task.CLASSIFICATION, Task.REGRESSION])
def test_a_run_has_the_doubts_of_its_data_in_all_its_reports(task: Task, tmp_path: Path) -> None:
    path = write_recipe("mine", tmp_path, task)
    text = path.read_text().replace("return Splits(", "train = np.concatenate([train, test[:7]])\n    return Splits(")
    rate = text.partition("learning_rate=")[2].partition(",")[0]
    path.write_text(text.replace(f"learning_rate={rate}", "learning_rate=1e-9"))
    done = run(tmp_path, "run", "mine.py", "--to", "pt2", "--no-bench", "--epochs", "2")
    (folder,) = tmp_path.glob("runs/*")
    leak, chance = json.loads((folder / "run.json").read_text())["doubts"][-2:]
    assert leak.startswith("the test split: 7 of ")
    assert "chance: " in chance
    assert f"note: {leak}" in done.stderr
    for name in ("report.md", "report.html"):
        assert "stand in the train split" in (folder / name).read_text()
    assert "train      epoch " in done.stderr


def test_samples_of_ones_own_are_held_against_the_training_split(tmp_path: Path) -> None:
    path = write_recipe("wine", tmp_path)
    text = re.sub(r"epochs=\d+", "epochs=2", path.read_text())
    path.write_text(text + "\ndef test_rows():\n    train = data().train\n"
                    "    return [(train.inputs['features'][:20], train.labels[:20])]\n")  # fmt: skip
    words = ("convert", "wine.py", "--data", "wine.py:test_rows", "--to", "pt2", "--out", "made", "--quiet", "--json")
    doubts = json.loads(run(tmp_path, *words).stdout)["doubts"]
    assert any("20 of 20 samples stand in the train split, too (100.0%)" in doubt for doubt in doubts)

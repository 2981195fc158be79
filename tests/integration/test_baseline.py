"""A release measured beside the last one, for real: in a run, and afterwards."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pytest

from transload.pipeline.measure.bench.latency_rows import read_series

from ..cli.command_line import run

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "run.schema.json").read_text())
PIPELINE = """
[model]
recipe = "zoo:breast-cancer-mlp"
[convert]
targets = ["onnx"]
cross_check = false
[validate]
runtimes = ["onnxruntime"]
[bench]
runtimes = ["onnxruntime"]
batches = [1]
rounds = 3
processes = 1
budget_s = 0
"""

pytestmark = [pytest.mark.usefixtures("loaded_once"), pytest.mark.slow]


def test_old_artifacts_are_measured_beside_the_new_ones(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(PIPELINE)
    run(tmp_path, "run", "p.toml", "--quiet")
    (last,) = (tmp_path / "runs").iterdir()

    printed = run(tmp_path, "run", "p.toml", "--baseline", str(last), "--quiet", status=3).stdout
    assert f"against the baseline {last.name}:" in printed
    folder = sorted((tmp_path / "runs").iterdir())[-1]
    document = json.loads((folder / "run.json").read_text())
    jsonschema.validate(document, SCHEMA)
    assert (document["baseline"]["before"], document["baseline"]["method"]) == (last.name, "side by side")
    (latency,) = (row for row in document["baseline"]["figures"] if row["figure"] == "latency")
    assert (latency["verdict"], latency["unit"]) == ("inconclusive", "s")  # one set of processes is no interval
    assert 0.2 < latency["change"] < 5
    assert latency["change"] == pytest.approx(latency["after"] / latency["before"], rel=0.5)
    rules = {row["rule"]: row["verdict"] for row in document["gate"]}
    assert rules["no_worse latency batch=1"] == "inconclusive"
    assert rules["no_worse size"] == rules["no_worse drift"] == rules["no_worse metric"] == "pass"
    pairs = {entry.pair for entry in read_series(folder / "baseline-latency.npz")}
    assert pairs == {("before/onnx", "onnxruntime"), ("after/onnx", "onnxruntime")}

    out = tmp_path / "out"
    run(tmp_path, "compare", str(last), str(folder), "--remeasure", "--budget", "1s", "--out",
        str(out), "--quiet", status=3)  # fmt: skip
    compared = json.loads((out / "compare.json").read_text())
    assert (compared["method"], compared["notes"]) == ("side by side", [])
    assert {"compare.html", "compare.md", "latency.npz"} <= {path.name for path in out.iterdir()}

    shutil.rmtree(tmp_path / ".transload")  # artifacts/ holds plain folders, which stay
    again = ("compare", str(last), str(folder), "--remeasure", "--budget", "1s", "--json", "--quiet")
    gone = run(tmp_path, *again, status=3).stdout  # enough sets of processes would settle it
    (note,) = json.loads(gone)["notes"]
    assert note == "both were asked random samples: the store has the test set of neither run (name one with --data)"

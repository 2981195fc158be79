"""A list on a cluster that several processes carry, as the command line has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[4] / "benchmarks" / "cluster"
pytestmark = pytest.mark.slow


def test_several_processes_carry_a_list_and_name_what_a_model_lacks(cluster_address: str, tmp_path: Path) -> None:
    models = [f"{BENCHMARKS / 'nets.py'}:{name}" for name in ("net_0", "none", "net_1")]
    tables = [f'[[model]]\nname = "m{at}"\nsource = "{text}"\n' for at, text in enumerate(models)]
    inputs = 'inputs = ["x=float32[batch,16]"]\n'
    (tmp_path / "models.toml").write_text("[defaults]\nto = ['pt2']\n" + inputs.join([*tables, ""]))
    result = subprocess.run(
        [sys.executable, "-P", str(BENCHMARKS / "several_processes.py"), "convert", "models.toml", "--out", "out",
         "--store", "store", "--executor", "ray", "--json"],
        env={**os.environ, "RAY_ADDRESS": cluster_address}, cwd=tmp_path, capture_output=True, text=True, timeout=280,
        check=False,
    )  # fmt: skip
    document = json.loads(result.stdout)
    assert result.returncode == document["exit_code"] == 2, result.stderr
    assert [model["verdict"] for model in document["models"]] == ["pass", "fail", "pass"]
    assert "none" in document["models"][1]["failures"][0]["message"]
    assert all(f"m{at}  model" in result.stderr for at in (0, 2))  # a line of a process, with the model's name
    assert not (tmp_path / "out" / ".scratch").exists()

"""The GitHub action and the hook: their form, and their steps as the runner calls them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from transload.pipeline.ci.pipeline_check import check_pipelines


@pytest.fixture
def steps(root: Path) -> list[dict[str, Any]]:
    action = yaml.safe_load((root / "action.yml").read_text())
    assert action["runs"]["using"] == "composite"
    return list(action["runs"]["steps"])


def call(step: dict[str, Any], here: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the script of a step in `here`, as the runner does."""
    (here / "step.sh").write_text(step["run"])
    files = {"GITHUB_OUTPUT": str(here / "output"), "GITHUB_STEP_SUMMARY": str(here / "summary")}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "step.sh"]
    return subprocess.run(
        command, cwd=here, env={**os.environ, **files, **env}, capture_output=True, text=True, check=False
    )


def run_pipeline(steps: list[dict[str, Any]], here: Path, pipeline: str, **env: str) -> str:
    """Run the step `run`, which itself never fails; return its outputs."""
    (step,) = (step for step in steps if step.get("id") == "run")
    values = {
        "PIPELINE": pipeline,
        "BASELINE": "",
        "BASELINE_ARTIFACT": "",
        "PYTHON": sys.executable,
        "OUT": "out",
        **env,
    }
    assert set(step["env"]) <= set(values)
    done = call(step, here, **values)
    assert done.returncode == 0, done.stderr
    return (here / "output").read_text()


def test_no_script_has_an_input_written_into_it(steps: list[dict[str, Any]]) -> None:
    assert [step["name"] for step in steps if "${{" in step.get("run", "")] == []
    assert all(step.get("shell") == "bash" for step in steps if "run" in step)


def test_a_request_that_is_refused_leaves_a_report_and_ends_with_its_status(
    steps: list[dict[str, Any]], tmp_path: Path
) -> None:
    name = "$(touch owned).toml"
    (tmp_path / name).write_text("[gate]\nsize_byts = 1\n")
    assert run_pipeline(steps, tmp_path, name) == "exit-code=2\nrun=\n"
    assert not (tmp_path / "owned").exists()
    assert (tmp_path / "summary").read_text() == "transload ended with 2 before there was a result.\n"
    assert "did you mean" in (tmp_path / "out" / "transload.xml").read_text()
    assert call(steps[-1], tmp_path, CODE="2").returncode == 2


@pytest.mark.slow
def test_a_run_leaves_its_report_and_is_the_baseline_of_the_next(steps: list[dict[str, Any]], tmp_path: Path) -> None:
    pipeline = '[model]\nrecipe = "zoo:breast-cancer-mlp"\n[convert]\ntargets = ["onnx"]\n[bench]\nenabled = false\n'
    (tmp_path / "p.toml").write_text(pipeline)
    outputs = run_pipeline(steps, tmp_path, "p.toml")
    assert outputs.startswith("exit-code=0\nrun=out/runs/")
    assert (tmp_path / "summary").read_text() == (tmp_path / "out" / "report.md").read_text()
    (tmp_path / "output").unlink()
    baseline = outputs.rpartition("run=")[2].strip()
    again = run_pipeline(steps, tmp_path, "p.toml", BASELINE=baseline, OUT="next")
    assert again.startswith("exit-code=0\n")
    assert "compare" in (tmp_path / "next" / "transload.xml").read_text()


def test_the_hook_names_the_check(root: Path) -> None:
    (hook,) = yaml.safe_load((root / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"] == "python -m transload.pipeline.ci.pipeline_check"


def test_every_pipeline_file_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    good.write_text("[gate]\nsize_bytes = 1\n")
    bad.write_text("[gate]\nsize_byts = 1\n")
    assert check_pipelines([str(good)]) == 0
    assert capsys.readouterr().err == ""
    assert check_pipelines([str(bad), str(good), str(tmp_path / "none.toml")]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"error: {bad}, line 2: unknown key 'gate.size_byts'",
        "  fix: did you mean 'size_bytes'?",
        f"error: {tmp_path}/none.toml cannot be read: No such file or directory",
        "  fix: name a pipeline file (docs/pipeline-file.md)",
    ]
    assert check_pipelines([]) == 2

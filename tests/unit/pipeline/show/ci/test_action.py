"""The GitHub action: its form, and its steps one after the other as the runner calls them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

PIPELINE = '[model]\nrecipe = "zoo:breast-cancer-mlp"\n[convert]\ntargets = ["onnx"]\n[bench]\nenabled = false\n'
COMMENT, DOWNLOAD, RUN = "Comment on the pull request", "Download the last release's run", "Convert, validate and gate"
EMPTY, VERDICT = "Empty the folder of the baseline", "End with the verdict"
# Stands for a Python with transload: writes the files of a run, and ends with the status in the variable CODE.
STAND_IN = """#!/bin/bash
printf '%s\\n' "$@" >>arguments
while (($#)); do
  case $1 in --out) runs=$2 ;; --junit) junit=$2 ;; esac
  shift
done
echo '<testsuites/>' >"$junit"
if ((CODE == 2)); then echo "error: the model is bad" >&2; exit 2; fi
mkdir -p "$runs/$ID/artifacts/onnx"
echo "{}" >"$runs/$ID/run.json"
echo "report of $ID" >"$runs/$ID/report.md"
exit "$CODE"
"""


@pytest.fixture
def action(root: Path) -> dict[str, Any]:
    return dict(yaml.safe_load((root / "action.yml").read_text()))


class Checkout:
    """A folder in which the steps of the action run, with a stand-in for `gh` and one for Python."""

    def __init__(self, here: Path, steps: list[dict[str, Any]]) -> None:
        self.here = here
        self.gh = here.parent / f"{here.name}-gh"
        self._steps = {step["name"]: step for step in steps}
        programs = here.parent / f"{here.name}-bin"
        for folder in (here, self.gh, programs):
            folder.mkdir()
        self._write(programs / "gh", f'#!/bin/bash\nexec {sys.executable} {Path(__file__).parent}/fake_gh.py "$@"\n')
        self.python = self._write(programs / "stand-in", STAND_IN)
        self._path = f"{programs}:{os.environ['PATH']}"

    def call(self, name: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run the script of a step. Every value that the step reads from the workflow has to be named."""
        step = self._steps[name]
        assert set(step.get("env", ())) - {"GH_TOKEN"} <= set(env)
        script = self._write(self.gh / "step.sh", step["run"])
        runner = {
            "GITHUB_OUTPUT": str(self.here / "output"), "GITHUB_STEP_SUMMARY": str(self.here / "summary"),
            "GITHUB_REPOSITORY": "owner/model", "GH_TOKEN": "none", "FAKE_GH": str(self.gh), "PATH": self._path,
        }  # fmt: skip
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        return subprocess.run(
            command, cwd=self.here, env={**os.environ, **runner, **env}, capture_output=True, text=True, check=False
        )

    def run(self, pipeline: str = "p.toml", *, python: str | None = None, **env: str) -> dict[str, str]:
        """Run the step `run`, which itself never fails; return its outputs."""
        output = self.here / "output"
        output.unlink(missing_ok=True)
        values = {"PIPELINE": pipeline, "BASELINE": "", "PYTHON": python or str(self.python), "OUT": "out", **env}
        done = self.call(RUN, **values)
        assert done.returncode == 0, done.stderr
        return dict(line.split("=", 1) for line in output.read_text().splitlines())

    def comment(self) -> list[str]:
        """Run the step that comments; return the comments there are."""
        done = self.call(COMMENT, NUMBER="7", OUT="out", MARKER="<!-- transload report -->")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        return [row["body"] for row in json.loads((self.gh / "comments.json").read_text())]

    def release(self, tag: str, run: Path | None, *, draft: bool = False) -> None:
        """Make a release with the run in a folder as its asset; the newest stands first."""
        place = self.gh / "releases.json"
        rows = json.loads(place.read_text()) if place.exists() else []
        place.write_text(json.dumps([{"tag": tag, "draft": draft}, *rows]))
        (self.gh / tag).mkdir()
        if run is not None:
            with tarfile.open(self.gh / tag / "transload-run.tar.gz", "w:gz") as archive:
                archive.add(run, run.name)

    def download(self, release: str) -> subprocess.CompletedProcess[str]:
        assert self.call(EMPTY).returncode == 0
        return self.call(DOWNLOAD, RELEASE=release, ASSET="transload-run.tar.gz")

    @staticmethod
    def _write(path: Path, text: str) -> Path:
        path.write_text(text)
        path.chmod(0o755)
        return path


@pytest.fixture
def checkout(action: dict[str, Any], tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "checkout", action["runs"]["steps"])


def test_no_script_has_an_input_written_into_it(action: dict[str, Any]) -> None:
    steps = action["runs"]["steps"]
    assert action["runs"]["using"] == "composite"
    assert [step["name"] for step in steps if "${{" in step.get("run", "")] == []
    assert all(step.get("shell") == "bash" for step in steps if "run" in step)


def test_the_examples_use_inputs_and_outputs_that_the_action_has(root: Path, action: dict[str, Any]) -> None:
    text = (root / "docs" / "ci.md").read_text()
    flows = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]
    jobs = [job for flow in flows if isinstance(flow, dict) for job in flow.get("jobs", {}).values()]
    uses = [step for job in jobs for step in job["steps"] if "/transload@" in step.get("uses", "")]
    assert len(uses) >= 2
    for step in uses:
        assert set(step.get("with", ())) <= set(action["inputs"])
    for step_id, name in re.findall(r"steps\.(\w+)\.outputs\.([\w-]+)", text):
        assert name in action["outputs"]
        assert step_id in {step.get("id") for step in uses}


def test_a_request_that_is_refused_leaves_its_error_as_the_report_and_ends_with_its_status(checkout: Checkout) -> None:
    name = "$(touch owned).toml"
    (checkout.here / name).write_text("[gate]\nsiz = 1\n")
    assert checkout.run(name, python=sys.executable) == {"exit-code": "2", "run": ""}
    assert not (checkout.here / "owned").exists()
    report = (checkout.here / "summary").read_text()
    assert report.splitlines() == [
        "transload ended with 2 before there was a result:",
        "",
        f"    error: {name}, line 2: unknown key 'gate.siz'",
        "      fix: did you mean 'size'?",
    ]
    assert "did you mean" in (checkout.here / "out" / "transload.xml").read_text()
    assert checkout.comment() == [f"<!-- transload report -->\n{report}"]
    assert checkout.call(VERDICT, CODE="2").returncode == 2


@pytest.mark.parametrize("code", ["0", "1", "3"])
def test_a_run_is_reported_and_the_job_ends_with_its_verdict(checkout: Checkout, code: str) -> None:
    assert checkout.run(CODE=code, ID="one") == {"exit-code": code, "run": "out/runs/one"}
    assert (checkout.here / "out" / "report.md").read_text() == "report of one\n"
    assert (checkout.here / "summary").read_text() == "report of one\n"
    assert checkout.comment() == ["<!-- transload report -->\nreport of one\n"]
    assert checkout.call(VERDICT, CODE=code).returncode == int(code)
    assert "--baseline" not in (checkout.here / "arguments").read_text().splitlines()


def test_the_second_run_updates_the_comment_of_the_first_and_no_other(checkout: Checkout) -> None:
    others = [
        {"id": 1, "type": "User", "body": "<!-- transload report -->\nquoted by a person"},
        {"id": 2, "type": "Bot", "body": "<!-- transload other -->\nof another pipeline"},
    ]
    (checkout.gh / "comments.json").write_text(json.dumps(others))
    checkout.run(CODE="0", ID="one")
    assert checkout.comment()[2:] == ["<!-- transload report -->\nreport of one\n"]
    checkout.run(CODE="1", ID="two")
    assert checkout.comment() == [row["body"] for row in others] + ["<!-- transload report -->\nreport of two\n"]


def test_the_report_of_an_earlier_run_is_not_told_as_that_of_a_refused_one(checkout: Checkout) -> None:
    checkout.run(CODE="0", ID="one")
    assert checkout.run(CODE="2") == {"exit-code": "2", "run": ""}
    told = "transload ended with 2 before there was a result:\n\n    error: the model is bad\n"
    assert (checkout.here / "out" / "report.md").read_text() == told
    assert checkout.comment() == [f"<!-- transload report -->\n{told}"]


def test_a_long_report_is_cut_in_the_comment_and_says_so(checkout: Checkout) -> None:
    checkout.run(CODE="0", ID="one")
    (checkout.here / "out" / "report.md").write_text("line of a table\n" * 5000)
    (comment,) = checkout.comment()
    assert len(comment) < 65536
    assert comment.endswith("\n\nThe report is cut here; all of it is in the uploaded report.\n")


def test_a_comment_that_is_refused_is_a_warning_and_leaves_the_verdict(checkout: Checkout) -> None:
    checkout.run(CODE="0", ID="one")
    (checkout.gh / "refused").touch()
    done = checkout.call(COMMENT, NUMBER="7", OUT="out", MARKER="<!-- transload report -->")
    assert done.returncode == 0
    assert done.stdout == (
        "::warning::the comment could not be written; it needs the permission pull-requests: write\n"
    )


def test_the_run_of_the_last_release_is_the_baseline(checkout: Checkout, tmp_path: Path) -> None:
    for tag in ("v1", "v2", "v3"):
        (tmp_path / tag / "20260101").mkdir(parents=True)
        (tmp_path / tag / "20260101" / "run.json").write_text(tag)
        checkout.release(tag, tmp_path / tag / "20260101", draft=tag == "v3")
    assert checkout.download("latest").returncode == 0
    checkout.run(CODE="0", ID="one")
    arguments = (checkout.here / "arguments").read_text().splitlines()
    assert arguments[arguments.index("--baseline") + 1] == ".transload-baseline/20260101"
    assert (checkout.here / ".transload-baseline" / "20260101" / "run.json").read_text() == "v2"
    assert checkout.download("v1").returncode == 0
    assert (checkout.here / ".transload-baseline" / "20260101" / "run.json").read_text() == "v1"


def test_before_the_first_release_nothing_is_compared(checkout: Checkout) -> None:
    (checkout.here / ".transload-baseline").mkdir()  # of an earlier call of the action
    done = checkout.download("latest")
    assert (done.returncode, done.stdout) == (0, "::notice::there is no release yet, and so nothing to compare with\n")
    checkout.run(CODE="0", ID="one")
    assert "--baseline" not in (checkout.here / "arguments").read_text().splitlines()


def test_a_baseline_that_is_not_there_ends_the_job(checkout: Checkout, tmp_path: Path) -> None:
    checkout.release("v1", None)
    done = checkout.download("latest")
    assert (done.returncode, done.stdout) == (
        2,
        "::error::the release v1 has no asset transload-run.tar.gz that can be downloaded; upload the run of that "
        "release, or leave baseline-release empty (docs/ci.md)\n",
    )
    empty = tmp_path / "empty"
    empty.mkdir()
    checkout.release("v2", empty)
    assert checkout.download("v2").returncode == 0
    done = checkout.call(RUN, PIPELINE="p.toml", BASELINE="", PYTHON=str(checkout.python), OUT="out")
    assert (done.returncode, done.stdout) == (2, "::error::the baseline that was downloaded holds no run.json\n")
    (checkout.gh / "refused").touch()
    done = checkout.download("latest")
    assert (done.returncode, done.stdout) == (
        2,
        "::error::the releases of owner/model cannot be listed; the job needs the permission contents: read\n",
    )


def test_the_uploaded_report_of_a_job_serves_as_the_baseline_of_another(checkout: Checkout) -> None:
    checkout.run(CODE="0", ID="one")
    (checkout.here / "out").rename(checkout.here / ".transload-baseline")  # as upload and download leave it
    checkout.run(CODE="0", ID="two")
    arguments = (checkout.here / "arguments").read_text().splitlines()
    assert arguments[arguments.index("--baseline") + 1] == ".transload-baseline/runs/one"


@pytest.mark.slow
def test_a_run_leaves_its_report_and_is_the_baseline_of_the_next(checkout: Checkout) -> None:
    (checkout.here / "p.toml").write_text(PIPELINE)
    outputs = checkout.run(python=sys.executable)
    assert outputs["exit-code"] == "0"
    report = (checkout.here / "out" / "report.md").read_text()
    assert (checkout.here / "summary").read_text() == report
    assert checkout.comment() == [f"<!-- transload report -->\n{report}"]
    checkout.release("v1", checkout.here / outputs["run"])
    assert checkout.download("latest").returncode == 0
    again = checkout.run(python=sys.executable, OUT="next")
    assert again["exit-code"] == "0"
    assert "compare" in (checkout.here / "next" / "transload.xml").read_text()


@pytest.mark.slow
def test_a_list_of_models_is_reported_as_a_whole(checkout: Checkout) -> None:
    text = '[defaults]\nto = ["onnx"]\nbench = false\n[[model]]\nsource = "zoo:breast-cancer-mlp"\n'
    (checkout.here / "models.toml").write_text(text)
    assert checkout.run("models.toml", python=sys.executable) == {"exit-code": "0", "run": "out/runs"}
    assert (checkout.here / "out" / "report.md").read_text() == (
        checkout.here / "out" / "runs" / "report.md"
    ).read_text()
    assert "onnx" in (checkout.here / "out" / "transload.xml").read_text()

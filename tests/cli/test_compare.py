"""`transload compare` on folders of runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import transload
from transload.pipeline.cli import main
from transload.pipeline.result.schema import RunResult, to_json

from ..unit.pipeline.show import samples

RUN = replace(samples.result(), id="20260101-000000-a")
LARGER = replace(
    RUN,
    id="20260102-000000-a",
    artifacts=tuple(replace(row, bytes=row.bytes and row.bytes * 2) for row in RUN.artifacts),
)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two finished runs, a run that was cut off, one of another schema, and a folder that is no run."""
    monkeypatch.chdir(tmp_path)
    write(Path("a"), RUN)
    write(Path("b"), LARGER)
    write(Path("newer"), RUN)
    Path("newer/run.json").write_bytes(to_json(RUN).replace(b'"schema": 1', b'"schema": 9'))
    for name in ("cut", "other"):
        Path(name).mkdir()
    Path("cut/plan.json").write_text("{}")
    return tmp_path


def write(folder: Path, run: RunResult) -> None:
    folder.mkdir()
    (folder / "run.json").write_bytes(to_json(run))


def test_a_run_that_grew_is_worse(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "a", "b", "--out", "out"]) == 1
    printed = capsys.readouterr().out
    assert printed.splitlines()[-1].startswith("FAIL  20260102-000000-a against 20260101-000000-a: ")
    assert "written to out" in printed
    assert "**onnx**" in (runs / "out" / "compare.md").read_text()
    assert main(["compare", "a", "b", "--budget", "9s"]) == 2


def test_json_is_alone_on_stdout_and_what_python_returns(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["compare", "a", "b", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document == transload.compare(runs / "a", runs / "b").document
    assert (document["exit_code"], document["verdict"], document["method"]) == (1, "fail", "separate runs")
    assert {row["verdict"] for row in document["figures"] if row["figure"] == "size"} == {"worse"}
    with pytest.raises(TypeError, match="unexpected keyword argument 'weight'"):
        transload.compare("a", "b", weight=1.0)  # type: ignore[call-arg]


WRONG = {
    "absent": "error: absent is no folder of a run\n  fix: name a folder under runs/\n",
    "other": "error: other holds no run: there is no run.json in it\n  fix: name a folder under runs/\n",
    "cut": "error: cut holds a run that was cut off before its result was written\n"
    "  fix: do the run again: what it finished is not done twice\n",
    "newer": "error: newer/run.json is no run.json of schema 1: schema: Input should be 1\n"
    "  fix: update transload, or run again\n",
}


@pytest.mark.parametrize("folder", WRONG)
def test_what_is_no_finished_run(folder: str, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(["compare", "a", folder]), *capsys.readouterr()) == (2, "", WRONG[folder])

"""`transload report` makes the reports of a run again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from transload.models.array_file import write_arrays
from transload.pipeline.cli import main
from transload.pipeline.result.schema import Recommendation, to_json
from transload.pipeline.show.html_page import render_html
from transload.pipeline.show.markdown import render_markdown

from ..unit.pipeline.show import samples

RESULT = samples.result()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The newest of two finished runs, beside one that was killed."""
    monkeypatch.chdir(tmp_path)
    for name in ("20260101-000000-a", "20260102-000000-a"):
        folder = Path("runs") / name
        folder.mkdir(parents=True)
        (folder / "run.json").write_bytes(to_json(RESULT))
    (Path("runs") / "20260103-000000-killed").mkdir()
    return folder


def test_the_newest_run_is_printed_with_the_verdict_last(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "report.html").touch()
    assert main(["report"]) == 0
    lines = capsys.readouterr().out.rstrip().splitlines()
    assert lines[-1].startswith(str(RESULT.verdict).upper())
    assert f"report: {run}/report.html" in lines


def test_json_is_the_file_as_it_is(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run), "--json"]) == 0
    assert capsys.readouterr().out == (run / "run.json").read_text()


def test_markdown_is_written_as_the_run_wrote_it(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run), "--format", "md"]) == 0
    assert capsys.readouterr().out == f"wrote {run}/report.md\n"
    assert (run / "report.md").read_text() == render_markdown(RESULT)


def test_html_is_written_with_the_raw_samples_of_all_rounds(run: Path) -> None:
    raw = samples.samples(RESULT, count=60)
    arrays = {}
    for (artifact, runtime, batch), seconds in raw.items():
        arrays[f"{artifact}|{runtime}|{batch}|seconds"] = seconds
        arrays[f"{artifact}|{runtime}|{batch}|round"] = np.repeat(np.arange(3, dtype=np.int32), 20)
    write_arrays(run / "latency.npz", arrays)
    assert main(["report", str(run), "--format", "html"]) == 0
    assert (run / "report.html").read_text() == render_html(RESULT, raw)


def test_another_constraint_gives_another_recommendation_and_run_json_stays(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (run / "run.json").read_bytes()
    assert main(["report", str(run), "--json", "--latency-bound", "2ms", "--metric-loss", "0.5"]) == 0
    asked = json.loads(capsys.readouterr().out)["recommendation"]
    assert (asked["latency_bound_s"], asked["metric_loss_points"], asked["price_per_hour"]) == (0.002, 0.5, None)
    assert main(["report", str(run), "--price-per-hour", "3.6"]) == 0
    assert " per million samples" in " ".join(capsys.readouterr().out.split())
    assert main(["report", str(run), "--format", "md", "--price-per-hour", "3.6"]) == 0
    assert "### To release, with 3.6 an hour for the machine" in (run / "report.md").read_text()
    assert (run / "run.json").read_bytes() == before


def test_options_replace_those_of_the_run_one_by_one(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = replace(RESULT, recommendation=Recommendation(0.001, 0.25, 2.0, ()))
    (run / "run.json").write_bytes(to_json(before))
    assert main(["report", str(run), "--json", "--metric-loss", "0.5"]) == 0
    asked = json.loads(capsys.readouterr().out)["recommendation"]
    assert (asked["latency_bound_s"], asked["metric_loss_points"], asked["price_per_hour"]) == (0.001, 0.5, 2.0)


WRONG = [
    (
        ["report", "--latency-bound", "soon"],
        "error: 'soon' is no latency\n  fix: write it as in 10ms, 250us or 0.5s\n",
    ),
    (
        ["report"],
        "error: no finished run lies under runs/\n  fix: name the folder of a run, or do one: transload run\n",
    ),
    (
        ["report", "runs/7"],
        "error: runs/7/run.json cannot be read: No such file or directory\n  fix: name a folder under runs/\n",
    ),
]


@pytest.mark.parametrize(("words", "text"), WRONG, ids=["no time", "none", "absent"])
def test_a_run_that_is_not_there(
    words: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (main(words), *capsys.readouterr()) == (2, "", text)

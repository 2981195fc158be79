"""Runs over time: in their order, on their machines, and nothing that is no run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import transload
from transload.models.errors import BadRequest
from transload.models.store_ledger import UseRecord
from transload.pipeline.cli import main
from transload.pipeline.commands.history import HistoryResult
from transload.pipeline.result.compare.history_records import RunHistory
from transload.pipeline.result.compare.run_history import read_history
from transload.pipeline.result.schema import RunResult, to_json
from transload.pipeline.show.history_page import history_plots, render_history_page
from transload.pipeline.show.history_text import history_lines

from ...show import samples
from .test_run_comparison import small


def dated(run: RunResult, day: int) -> RunResult:
    return replace(run, id=f"202601{day:02}-000000-a", started_at=f"2026-01-{day:02}T00:00:00Z")


def elsewhere(run: RunResult) -> RunResult:
    return replace(run, environment=replace(run.environment, cpu="6502"))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Four runs, the second of another machine, the last with another onnxruntime, and folders that are none."""
    newer = small(size=4000)
    newer = replace(
        newer, environment=replace(newer.environment, packages={**newer.environment.packages, "onnxruntime": "9"})
    )
    for day, run in ((3, small(sqnr_db=90.0)), (1, small(ratio=0.5)), (2, elsewhere(small(ratio=0.6))), (4, newer)):
        write(tmp_path / "runs" / f"z{9 - day}", dated(run, day))  # names do not sort as times do
    write(tmp_path / "runs" / "broken", small())
    (tmp_path / "runs" / "broken" / "run.json").write_text("{")
    (tmp_path / "runs" / "bench").mkdir()
    return tmp_path / "runs"


def write(folder: Path, run: RunResult) -> None:
    folder.mkdir(parents=True)
    (folder / "run.json").write_bytes(to_json(run))


@pytest.fixture
def history(runs: Path) -> RunHistory:
    return read_history([runs])


def test_runs_stand_in_the_order_of_time_with_their_machines(history: RunHistory) -> None:
    assert [(run.id[:8], run.machine) for run in history.runs] == [
        ("20260101", "m1"), ("20260102", "m2"), ("20260103", "m1"), ("20260104", "m1"),
    ]  # fmt: skip
    assert history.machines["m2"].startswith("6502, ")
    points = history.series()["onnx", "onnxruntime"]
    assert [point.size_bytes for point in points] == [1000, 1000, 1000, 4000]
    assert [point.drift for point in points] == [100.0, 100.0, 90.0, 100.0]
    assert [point.ratio for point in points] == [0.5, 0.6, 0.5, 0.5]
    assert [len(point.changed) for point in points] == [0, 1, 1, 1]
    assert points[3].changed[0].endswith(" against 9")


def test_folders_that_are_no_run_have_a_sentence_each(runs: Path, history: RunHistory) -> None:
    assert [text.partition(":")[0] for text in history.skipped] == [
        f"{runs}/bench holds no run", f"{runs}/broken/run.json is no run.json of schema 1",
    ]  # fmt: skip
    copy = read_history([runs, runs / "z8", runs / "z8"])
    assert copy.skipped == history.skipped
    write(runs.parent / "copy", dated(small(), 1))
    assert read_history([runs / "z8", runs.parent / "copy"]).skipped == (
        f"{runs.parent}/copy holds a copy of the run in {runs}/z8",
    )


def test_without_a_run_there_is_an_error(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs)  # where there is no store
    assert main(["history", str(runs / "broken"), str(runs / "absent")]) == 2
    assert "error: there is no finished run to draw: " in capsys.readouterr().err
    with pytest.raises(BadRequest, match="no run is named"):
        transload.history()


def test_points_of_unlike_machines_are_never_joined(history: RunHistory) -> None:
    plots = {plot.key: plot for plot in history_plots(history, 1)}
    assert list(plots) == ["drift", "metric", "latency", "ratio", "size"]
    for plot in plots.values():
        series = 2 if plot.key == "metric" else 1  # the source's own score beside its copy's
        lines = sorted((trace["x"], not trace["showlegend"]) for trace in plot.data)
        assert lines == [([0, 2, 3], False)] * series + [([1], True)] * series
    assert plots["size"].data[0]["y"] == [1.0, 1.0, 4.0]
    assert [symbol.endswith("-open") for symbol in plots["ratio"].data[0]["marker"]["symbol"]] == [False, True, True]


def test_times_that_were_measured_in_another_way_are_not_joined(runs: Path) -> None:
    row = small()
    write(runs / "z1", dated(replace(row, latency=(replace(row.latency[0], threads=2),)), 8))
    latency = next(plot for plot in history_plots(read_history([runs]), 1) if plot.key == "latency")
    assert [trace["x"] for trace in latency.data] == [[0, 2, 3], [1], [4]]


def test_plotly_knows_every_property_of_a_whole_run(tmp_path: Path) -> None:
    from plotly.graph_objects import Figure

    write(tmp_path / "a", samples.hostile(samples.result(), "</script><b onload=x>"))
    history = read_history([tmp_path / "a"])
    for plot in history_plots(history, 1):
        Figure(data=list(plot.data), layout=plot.layout)  # raises ValueError for what it does not know
    page = render_history_page(history, 1)
    assert "<b onload" not in page
    assert "default-src &#39;none&#39;; script-src &#39;sha256-" in page
    assert "\x1b" not in "\n".join(history_lines(history, 1))


def test_the_command_prints_writes_and_returns_the_same(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "pages" / "history.html"
    assert main(["history", str(runs), "--out", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "onnx in onnxruntime\n20260101-000000-a  m1       verified  100 dB" in printed
    assert "* 20260102-000000-a: cpu: " in printed
    assert f"skipped: {runs}/bench holds no run" in printed
    assert printed.endswith(f"\nwrote {page}\n")
    assert "20260104-000000-a" in page.read_text()
    done: HistoryResult = transload.history(runs)
    assert [point["p50_s"] for point in done.document["points"]] == [point.p50_s for point in done.history.points]


def test_another_batch_size_has_its_own_times(runs: Path) -> None:
    assert {point.p50_s for point in read_history([runs], batch=8).points} == {None}


def test_runs_elsewhere_are_ordered_among_those_of_folders_and_copies_count_once(runs: Path) -> None:
    other, copy = dated(small(), 5), dated(small(ratio=0.5), 1)
    history = read_history([runs], elsewhere=[("http://a/5", other), ("http://a/1", copy)])
    assert (history.runs[-1].id, history.runs[-1].folder) == (other.id, "http://a/5")
    assert f"http://a/1 holds a copy of the run in {runs / 'z8'}" in history.skipped


def test_the_runs_that_a_store_knows_of_are_those_beside_it_and_those_written_down(runs: Path, tmp_path: Path) -> None:
    store = tmp_path / ".transload"
    (store / "objects").mkdir(parents=True)
    write(tmp_path / "far" / "r", dated(small(), 9))
    use = UseRecord(store, tmp_path / "far" / "r")
    use.add("key")
    use.close()
    history = transload.history(store=store).history
    assert [run.id[:8] for run in history.runs][-1] == "20260109"
    assert len(history.runs) == 5


def test_a_store_without_runs_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "objects").mkdir()
    with pytest.raises(BadRequest, match="knows of no finished run"):
        transload.history(store=tmp_path)
    with pytest.raises(BadRequest, match="--experiment is one in MLflow"):
        transload.history(experiment="x")

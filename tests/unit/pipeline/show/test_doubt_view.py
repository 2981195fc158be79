"""What all latencies share is said once; a word that it could change is named; what is of one row stays at the row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from transload.pipeline.cli.bench import _lines
from transload.pipeline.commands.bench import BenchResult
from transload.pipeline.result.compare.change_records import Change, FigureChange, FigureKind
from transload.pipeline.result.doubt_kinds import DoubtKind
from transload.pipeline.result.ratio import Comparison
from transload.pipeline.result.schema import LatencyRow, Verdict
from transload.pipeline.show.compare_text import change_cell
from transload.pipeline.show.doubt_view import split_doubts
from transload.pipeline.show.html_page import render_html
from transload.pipeline.show.markdown import render_markdown
from transload.pipeline.show.notebook_html import render_latencies

from . import samples

OF_ROW = (DoubtKind.NO_ANSWER, DoubtKind.DEVICE, DoubtKind.ANSWERS, DoubtKind.OVERSUBSCRIBED, DoubtKind.NETWORK)


def rows_with(kind: DoubtKind, having: int, count: int = 10) -> list[LatencyRow]:
    return [
        replace(
            samples.latency("onnx", "onnxruntime", 1e-3, batch=batch, ratio=0.5, ci95=(0.4, 0.6)),
            comparison=Comparison.FASTER,
            doubts=(f"it was {batch + 10}% off: rest",) if batch <= having else (),
            doubt_kinds=(kind,) if batch <= having else (),
        )
        for batch in range(1, count + 1)
    ]


@pytest.mark.parametrize("kind", [kind for kind in DoubtKind if kind not in OF_ROW])
def test_a_doubt_of_every_row_is_one_line_about_the_machine(kind: DoubtKind) -> None:
    shared = split_doubts(rows_with(kind, 10))
    assert shared.rows == ()
    assert shared.machine == "the machine, on 10 of 10 latencies: it was 11 to 20% off (rest)"
    few = split_doubts(rows_with(kind, 3))
    assert (few.machine, [len(doubt.rows) for doubt in few.rows]) == ("", [3])
    assert split_doubts(rows_with(kind, 1, 1)).machine == ""  # a row alone shares nothing


@pytest.mark.parametrize("kind", OF_ROW[1:])
def test_a_number_of_something_else_stays_at_its_rows(kind: DoubtKind) -> None:
    doubts = split_doubts(rows_with(kind, 10))
    assert (doubts.machine, [len(doubt.rows) for doubt in doubts.rows]) == ("", [10])


def test_only_words_that_are_not_settled_could_change() -> None:
    rows = rows_with(DoubtKind.SPREAD, 10)
    rows[3] = replace(rows[3], comparison=Comparison.INCONCLUSIVE)
    assert split_doubts(rows).machine.endswith(". It could change the word of onnx in onnxruntime at batch 4")


def test_every_report_says_it_once() -> None:
    run = replace(samples.result(), latency=tuple(rows_with(DoubtKind.OTHER_LOAD, 10)))
    line = "the machine, on 10 of 10 latencies"
    assert (samples.render(run, 120).count(line), render_markdown(run).count(line)) == (1, 1)
    assert "doubts on" not in samples.render(run, 120)
    assert render_html(run, {}).count(line) == 2  # beside the table, and under Doubts


def test_beside_a_word_stands_the_interval_that_decides_it() -> None:
    row = replace(
        samples.latency("onnx", "onnxruntime", 1e-3, ratio=0.95, ci95=(0.91, 0.99)),
        comparison=Comparison.INCONCLUSIVE, comparison_interval=(0.88, 1.02), settling_s=54.0,
    )  # fmt: skip
    words = ("0.95\u00d7", "[0.88, 1.02]", "inconclusive: about 54 s would settle it")
    (line,) = (line for line in _lines(BenchResult((row,), Path("out"))) if line.startswith("onnx "))
    page = render_html(replace(samples.result(), latency=(row,)), {})
    cells = page[page.index("Latency (1)") :]
    for shown in (line, cells, render_latencies(Verdict.PASS, [row], [], Path("out"))):
        assert all(word in shown for word in words)
        assert "[0.91, 0.99]" not in shown


def test_a_change_shows_the_interval_that_decides_it() -> None:
    change = FigureChange(
        "onnx", "onnxruntime", 1, FigureKind.LATENCY, 1e-3, 1.1e-3, 1.1, (1.05, 1.15), 0.05, Change.INCONCLUSIVE, ""
    )  # fmt: skip
    assert change_cell(change) == "+10.0 % [+5, +15]"
    assert change_cell(replace(change, verdict_interval=(0.98, 1.24))) == "+10.0 % [\u22122, +24]"

"""What is printed, at 80 and at 120 columns, and on narrow terminals."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from transload.pipeline.result.doubt_kinds import DoubtKind
from transload.pipeline.result.schema import RunResult
from transload.pipeline.show.terminal import print_result

from . import samples
from .samples import render

WIDTHS = pytest.mark.parametrize("width", [80, 120])
LONG_PATH = f"/{'folder/' * 12}report.html"


@WIDTHS
def test_the_table_fits_the_terminal(width: int) -> None:
    text = render(samples.result(), width, logs=samples.LOGS)
    table = text[: text.index("p50 of a call on")]
    assert max(cell_len(line) for line in table.splitlines()) <= width


@WIDTHS
def test_every_fact_that_decides_is_there(width: int) -> None:
    text = " ".join(render(samples.result(), width, logs=samples.LOGS, report="runs/1/report.html").split())
    for fact in (
        "tflite:int8-dynamic", "45.6 KB", "11.9 dB", "94.44 % \u22123.89 pp", "[\u22126.11, \u22121.94]",
        "742 µs 3.47\u00d7", "1.08 ms 2.99\u00d7", "no answer", "214 µs ref", "identical", "degraded", "unverified",
        "runs/1/report.html", "log: logs/bench-rest.log", samples.SENTENCE,
        "doubts on 2 of 22 latencies", "2 latencies: a p99 from",
    ):  # fmt: skip
        assert fact in text, fact


@WIDTHS
def test_no_word_of_the_table_is_broken(width: int) -> None:
    text = render(samples.result(), width)
    for row in samples.result().artifacts:  # the longest name fits
        assert any(line.split(" ")[0] == row.name for line in text.splitlines()), row.name


@pytest.mark.parametrize("width", [40, 60])
def test_on_a_narrow_terminal_every_fact_is_a_whole_word(width: int) -> None:
    text, wide = (render(samples.result(), columns, logs=samples.LOGS, report=LONG_PATH) for columns in (width, 120))
    known = set(re.findall(r"[^\s,]+", wide))
    parts = [word for word in re.findall(r"[^\s,]+", text) if word not in known]
    assert set(parts) <= {"gate", "batch", *(f"{batch}:" for batch in (1, 8))}
    lines = [line for line in text.splitlines() if "log:" not in line and LONG_PATH not in line and "FAIL" not in line]
    assert max(cell_len(line) for line in lines) <= width
    for row in samples.result().artifacts:
        assert f"{row.name}  " in text


@WIDTHS
@pytest.mark.parametrize(
    ("run", "line"),
    [
        (samples.passing(), "PASS  7 of 7 artifacts keep their tolerance; 41 of 41 checks passed"),
        (samples.empty(), "INCONCLUSIVE  nothing was made, so nothing was judged"),
        (
            samples.result(),
            "FAIL  answering, drift and metric loss failed for saved-model and tflite:int8; "
            "7 of 9 artifacts keep their tolerance",
        ),
    ],
    ids=["pass", "empty", "fail"],
)
def test_the_verdict_is_the_last_line(width: int, run: RunResult, line: str) -> None:
    assert render(run, width).splitlines()[-1] == line


def test_what_is_no_terminal_gets_no_colour() -> None:
    assert "\x1b" not in render(samples.result(), 120)


def test_a_terminal_gets_colour() -> None:
    out = io.StringIO()
    print_result(samples.result(), Console(file=out, width=120, force_terminal=True, color_system="standard"))
    assert "\x1b[1;31mFAIL" in out.getvalue()


def test_a_name_can_neither_steer_the_terminal_nor_style_it() -> None:
    text = render(samples.renamed(samples.result(), "onnx", "[red]x\x1b[2J"), 120)
    assert "\x1b" not in text
    assert "[red]x" in text


@WIDTHS
def test_no_text_of_a_run_reaches_the_terminal_as_a_control(width: int) -> None:
    text = render(samples.hostile(samples.result(), "\x1b[2J\x07[bold]"), width, logs=samples.LOGS)
    assert "\x1b" not in text
    assert "\x07" not in text


def test_an_artifact_that_was_not_made_keeps_its_line() -> None:
    run = samples.passing()
    gone = samples.artifact("keras", None)
    text = render(samples.judged(replace(run, artifacts=(*run.artifacts, gone))), 80)
    assert "keras" in text
    assert "killed by SIGABRT" in text
    assert text.splitlines()[-1] == "FAIL  no route left to keras; 7 of 8 artifacts keep their tolerance"


def test_latencies_that_may_not_be_compared_stand_outside_the_table() -> None:
    run = samples.result()
    other = samples.latency("onnx", "gpu-runtime", 1e-5, device="cuda:0")
    text = render(replace(run, latency=(*run.latency, other)), 120)
    assert "not comparable: onnx in gpu-runtime at batch 1 on cuda:0, 1 thread: 10 µs" in text
    assert text.count("gpu-runtime") == 1


def test_a_run_without_latency_says_so() -> None:
    text = render(replace(samples.passing(), latency=()), 80)
    assert "no latency was measured" in text
    assert "p50, batch 1" not in text


def test_the_probe_that_is_furthest_below_its_limit_is_named() -> None:
    told = (
        "3 of 4 probes pass; furthest below its limit: 11.9 dB, limit 101 dB (tflite:int8 in tflite, whole test set, "
    )
    assert told in samples.render(samples.result(), 200)


def test_at_most_three_doubts_stand_beside_the_table_the_weightiest() -> None:
    kinds = (DoubtKind.THROTTLED, DoubtKind.OTHER_LOAD, DoubtKind.SPREAD, DoubtKind.FEW_CALLS)
    rows = [
        replace(
            samples.latency("onnx", "onnxruntime", 1e-3, batch=batch, doubts=("w", "x", "y", "z")), doubt_kinds=kinds
        )
        for batch in (1, 8)
    ]
    rows += [samples.latency("tflite", "tflite", 1e-3, batch=batch) for batch in (1, 8)]
    text = render(replace(samples.result(), latency=tuple(rows)), 120)
    start = text.index("doubts on 2 of 4 latencies")
    assert text[start:].splitlines()[:5] == [
        "doubts on 2 of 4 latencies",
        "  2 latencies: w",
        "  2 latencies: x",
        "  2 latencies: y",
        "  1 lighter kind in the report",
    ]


def test_what_was_asked_and_what_was_not_is_said_once_for_all_copies_alike() -> None:
    text = samples.render(samples.result(), 400)
    assert text.count("asked of ") == 2
    assert (
        "asked of pt2 in torch and 1 more: 360 samples in 31 calls; batch 1, 2, 5, 360; image from 0 to 1000, " in text
    )
    assert "stress: none; not asked: batch 361 and larger; stress (image large, nan)" in text


def test_a_target_that_was_lost_names_the_piece_and_the_line_at_which_it_fails() -> None:
    run = samples.judged(replace(samples.result(), artifacts=(samples.artifact("keras", None),)))
    assert "t its smallest: torch.export fails at CumSum (net.py:14" in samples.render(run, 200)


def test_a_copy_that_failed_names_the_operator_and_the_line_at_which_it_departs() -> None:
    assert "located: batch_norm in the module norm2, net.py:28" in samples.render(samples.result(), 200)

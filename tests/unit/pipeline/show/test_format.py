"""Numbers as a person reads them, at the places where the unit changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from transload.pipeline.result.schema import GateRow, Verdict
from transload.pipeline.show import units

from .samples import drift, latency, metric, silent

TIMES = "\u00d7"
MINUS = "\u2212"


@pytest.mark.parametrize(
    ("act", "value", "text"),
    [
        (units.duration, 7.5e-6, "7.5 µs"),
        (units.duration, 999.4e-6, "999 µs"),
        (units.duration, 999.6e-6, "1 ms"),
        (units.duration, 1.2345e-3, "1.23 ms"),
        (units.duration, 0.9996, "1 s"),
        (units.duration, 2.31, "2.31 s"),
        (units.duration, 0.0, "0 µs"),
        (units.duration, None, "\u2013"),
        (units.stretch, 0.42, "0.4 s"),
        (units.stretch, 9.99, "10 s"),
        (units.stretch, 59.6, "1 min 00 s"),
        (units.stretch, 118.4, "1 min 58 s"),
        (units.energy, 12.5, "12.5 J"),
        (units.energy, 0.0381, "38.1 mJ"),
        (units.energy, 0.000412, "412 uJ"),
        (units.energy, None, "\u2013"),
        (units.size, 999, "999 B"),
        (units.size, 1000, "1 KB"),
        (units.size, 45_616, "45.6 KB"),
        (units.size, 999_600, "1 MB"),
        (units.size, 1_210_000, "1.21 MB"),
        (units.size, 2_500_000_000, "2.5 GB"),
        (units.size, 5e12, "5000 GB"),
        (units.size, None, "\u2013"),
        (units.decibel, 58.24, "58.2 dB"),
        (units.decibel, 128.4, "128 dB"),
        (units.decibel, -3.0, f"{MINUS}3.0 dB"),
        (units.decibel, None, "\u2013"),
        (units.ratio, 0.4249, f"0.42{TIMES}"),
        (units.ratio, 12.34, f"12.3{TIMES}"),
        (units.ratio, 1234.0, f"1230{TIMES}"),
        (units.ratio, None, "\u2013"),
        (units.instant, "2026-11-21T04:09:01Z", "2026-11-21 04:09 UTC"),
    ],
)
def test_units(act: Callable[[object], str], value: object, text: str) -> None:
    assert act(value) == text


def test_sqnr_tells_identical_from_no_answer() -> None:
    row = drift("onnx", "onnxruntime", None)
    assert units.sqnr(row) == "identical"
    assert units.sqnr(silent(row)) == "no answer"
    assert units.sqnr(replace(row, non_finite=2)) == "NaN or inf"
    assert units.sqnr(replace(row, max_abs=0.1)) == "\u2013"


def test_a_metric_that_is_a_share_is_read_in_per_cent() -> None:
    row = metric(-0.0056, -0.0139, 0.0028)
    assert (units.score(row), units.change(row)) == ("97.77 %", f"{MINUS}0.56 pp")
    assert units.change_interval(row) == f"[{MINUS}1.39, +0.28]"


def test_a_metric_that_is_no_share_is_read_as_it_is() -> None:
    row = replace(metric(0, -0.5, 0.25), reference=0.5, candidate=0.375, delta=-0.125, unit="")
    assert (units.score(row), units.change(row)) == ("0.375", f"{MINUS}0.125")
    assert units.change_interval(row) == f"[{MINUS}0.5, +0.25]"


@pytest.mark.parametrize(
    ("rule", "limit", "got", "text"),
    [
        ("answers", "answers", "killed by\n SIGSEGV", "killed by SIGSEGV"),
        ("latency_p99 batch=8", 0.01, 0.0123, "p99 at batch 8: 12.3 ms, limit 10 ms"),
        ("latency_ratio batch=1", 1.0, 1.22, f"latency ratio at batch 1: 1.22{TIMES}, limit 1.00{TIMES}"),
        ("size", 1e6, 1.2e6, "size: 1.2 MB, limit 1 MB"),
        ("size_ratio", 0.5, 0.61, f"size ratio to pt2: 0.61{TIMES}, limit 0.50{TIMES}"),
        ("sqnr_db", 60.0, 12.0, "SQNR: 12.0 dB, limit 60.0 dB"),
        ("drift", "SQNR at least 60 dB", None, "drift: \u2013, limit SQNR at least 60 dB"),
        ("a rule of tomorrow", 1.0, 2.0, "a rule of tomorrow: 2, limit 1"),
    ],
)
def test_a_gate_row_in_words(rule: str, limit: float | str, got: float | str | None, text: str) -> None:
    assert units.sentence(GateRow(rule, limit, got, Verdict.FAIL, "onnx", None)) == text


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        ("share", "metric loss: 3.89 pp, limit 1.00 pp"),
        ("mm", "metric loss: 0.0389 mm, limit 0.01 mm"),
        ("", "metric loss: 0.0389, limit 0.01"),
        (None, "metric loss: 0.0389, limit 0.01"),
    ],
)
def test_a_metrics_loss_is_read_in_the_metrics_own_unit(unit: str | None, text: str) -> None:
    row = GateRow("metric_loss", 0.01, 0.0389, Verdict.FAIL, "onnx", None, unit)
    assert units.sentence(row) == text
    spans = replace(row, verdict=Verdict.INCONCLUSIVE, samples_needed=4100)
    assert (
        units.sentence(spans)
        == f"{text}; the 95 % interval reaches over the limit: about 4,100 samples would decide it"
    )


def test_an_open_gate_row_says_what_would_decide_it() -> None:
    row = GateRow("latency_ratio batch=1", 1.0, 1.02, Verdict.INCONCLUSIVE, "onnx", "onnxruntime")
    assert units.sentence(row).endswith("; the 95 % interval reaches over the limit, so a longer --budget is needed")
    assert units.sentence(replace(row, got="no ratio")).endswith("no ratio, limit 1.00\u00d7")


def test_plain_text_steers_no_terminal() -> None:
    assert units.plain("a\x1b[31mb\x07\tc\n d\u202ee") == r"ab\x07 c d\u202ee"


def test_the_interval_of_a_ratio_is_left_out_where_there_is_none() -> None:
    assert units.ratio_interval(latency("onnx", "onnxruntime", 1e-3, ci95=(0.411, 0.43))) == "[0.41, 0.43]"
    assert units.ratio_interval(latency("onnx", "onnxruntime", 1e-3, ci95=None)) == ""

"""Rows of load, the file of requests, and the cells that a person reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.models.array_file import read_arrays, write_arrays
from transload.models.errors import BadRequest
from transload.pipeline.measure.load.load_rows import (
    LoadMeasurement,
    LoadTarget,
    failed_load_row,
    load_row,
    read_measurement,
    write_load,
)
from transload.pipeline.measure.load.load_subject import LoadFacts
from transload.pipeline.result.load_cases import LoadEngine, parse_load
from transload.pipeline.show.load_view import load_doubts, load_table
from transload.pipeline.show.units import NONE

from .load_samples import records

TIMES = np.arange(1000) / 100


def target(text: str, engine: LoadEngine = LoadEngine.TRANSLOAD) -> LoadTarget:
    return LoadTarget(("onnx", "oip-http"), parse_load([text])[0], engine, 1, "cpu", server="embedded")


def measurement(latency_s: float, **facts: Any) -> LoadMeasurement:
    said: dict[str, Any] = {"device": "cpu", "connections": 32, "samples": 1, **facts}
    return LoadMeasurement(records(TIMES, TIMES, TIMES + latency_s), LoadFacts(**said))


def test_a_row_has_the_figures_and_the_cost_of_the_harness() -> None:
    row = load_row(target("server:100@10ms"), measurement(0.004), measurement(0.003))
    assert (row.scenario, row.engine, row.rate_per_s, row.bound_s) == ("server", "transload", 100, 0.01)
    assert (row.requests, row.refused, row.lost, row.valid, row.concurrency) == (1000, 0, 0, True, None)
    assert (row.p50_s, row.p99_s, row.harness_p50_s, row.late_p99_s) == pytest.approx((0.004, 0.004, 0.003, 0))
    assert row.doubts == ()


def test_what_loadgen_says_stands_in_place_of_ours() -> None:
    said = measurement(0.004, early_stopping_s=0.0042, valid=False)
    row = load_row(target("server:100@10ms", LoadEngine.LOADGEN), said, None)
    assert (row.early_stopping_s, row.valid, row.engine) == (0.0042, False, "loadgen")
    assert row.doubts == ("the cost of the harness could not be measured: read the log",)


def test_a_percentile_that_the_requests_do_not_support_is_printed_as_such() -> None:
    few = LoadMeasurement(
        records(TIMES[:50], TIMES[:50], TIMES[:50] + 0.004),
        LoadFacts(device="cpu", connections=1, samples=1),
    )
    rows = [
        load_row(target("closed:1"), few, few),
        load_row(target("server:100@10ms", LoadEngine.LOADGEN), measurement(0.004), measurement(0.003)),
        failed_load_row(target("offline"), "the server is gone"),
    ]
    assert load_table(rows).texts() == [
        ("artifact", "runtime", "load", "batch", "p50", "p90", "p99", "p99.9", "bound", "samples/s", "harness",
         "lost", "kept"),
        ("onnx", "oip-http", "closed:1", "1", "4 ms", "4 ms", "too few", "too few", "too few", "101", "4 ms", "0",
         NONE),
        ("onnx", "oip-http", "server:100@10ms (loadgen)", "1", "4 ms", "4 ms", "4 ms", "too few", "4 ms", "100", "3 ms",
         "0", "yes"),
        ("onnx", "oip-http", "offline", "1", NONE, NONE, NONE, NONE, NONE, NONE, NONE, "no answer", NONE),
    ]  # fmt: skip
    assert "onnx in oip-http under offline: the server is gone" in load_doubts(rows, 99)


def test_doubts_about_loads_that_differ_only_in_numbers_are_one_line_and_the_lighter_ones_are_counted() -> None:
    row = failed_load_row(target("closed:1"), "")
    rows = [
        replace(row, doubts=("it sent 3 ms late",)),
        replace(row, doubts=("it sent 4.5 ms late", "others used 1 core", "few requests")),
        replace(row, doubts=("the rate is not sustained",)),
    ]
    assert load_doubts(rows, 2) == [
        "2 loads, as onnx in oip-http under closed:1: it sent 3 ms late",
        "onnx in oip-http under closed:1: the rate is not sustained",
        "lighter doubts about loads, 2 of them, are in the result",
    ]
    assert len(load_doubts(rows, 4)) == 4


def test_a_percentile_among_lost_requests_is_printed_as_such() -> None:
    row = load_row(target("closed:1"), measurement(0.004), None)
    lost = replace(row, p99_s=None, lost=100)
    assert load_table([lost]).texts()[1][6] == "no answer"


def test_no_rows_give_no_table() -> None:
    assert load_table([]).texts() == []


def test_every_request_is_kept(tmp_path: Path) -> None:
    write_load(tmp_path / "load.npz", [(target("poisson:100"), measurement(0.004))])
    arrays = read_arrays(tmp_path / "load.npz")
    name = "onnx|oip-http|poisson:100|transload"
    assert set(arrays) == {f"{name}|{part}" for part in ("intended", "sent", "done", "status")}
    assert np.allclose(arrays[f"{name}|done"] - arrays[f"{name}|intended"], 0.004)


def test_the_file_of_a_worker_is_read_once(tmp_path: Path) -> None:
    path, facts = tmp_path / "requests.npz", LoadFacts(device="cpu", connections=1, samples=1)
    write_arrays(path, records([0.0], [0.0], [1.0]).to_arrays())
    assert len(read_measurement(path, facts).records) == 1
    assert not path.exists()
    write_arrays(path, records([], [], []).to_arrays())
    with pytest.raises(BadRequest, match="no request was sent"):
        read_measurement(path, facts)
    write_arrays(path, {"intended": np.zeros(2)})
    with pytest.raises(BadRequest, match="holds no requests"):
        read_measurement(path, facts)

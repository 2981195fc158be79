"""MLPerf's LoadGen: what is read of its logs, and what is said where it is not installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.models.errors import SessionLost, ToolMissing
from transload.pipeline.measure.load import loadgen_engine
from transload.pipeline.measure.load.load_records import RequestStatus
from transload.pipeline.measure.load.load_subject import LoadOrder


def order(scenario: str, **fields: Any) -> LoadOrder:
    return LoadOrder(scenario=scenario, batch=1, seconds=1.0, seed=0, file="x.npz", **fields)


def line(sample: int, query: int, ts: float, issued_ns: int, complete_ns: int) -> str:
    args = {"sample_seq": sample, "query_seq": query, "sample_idx": 3, "issue_start_ns": issued_ns}
    text = json.dumps({**args, "complete_ns": complete_ns}, separators=(",", ":"))
    return f'{{"name":"Sample","cat":"default","ph":"b","pid":1,"id":{sample},"ts":{ts:.3f},"args":{text}}},\n'


OTHER = '{"name":"IssueQuery","ph":"X","pid":1,"tid":1,"ts":1.000,"dur":9.0,"args":{}},\n'
END = '{"name":"Sample","cat":"default","ph":"e", "pid":1,"id":0,"ts":3.0},\n'


def test_requests_of_its_trace_count_from_the_intended_time(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(OTHER + line(1, 1, 3000, 500, 2_000_000) + END + line(0, 0, 1000, 0, 1_000_000))
    result = loadgen_engine._records(path, order("server"), [])
    assert np.allclose(result.intended_s, [0, 0.002])
    assert np.allclose(result.sent_s, [0, 0.0020005])
    assert np.allclose(result.done_s - result.intended_s, [0.001, 0.002])


def test_a_query_of_several_samples_ends_with_its_last(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(line(0, 0, 0, 0, 1_000_000) + line(1, 0, 0, 0, 4_000_000) + line(2, 1, 5000, 0, 1_000_000))
    result = loadgen_engine._records(path, order("multi-stream", concurrency=2), [])
    assert np.allclose(result.done_s, [0.004, 0.006])
    assert len(loadgen_engine._records(path, order("offline"), [])) == 3


def test_an_unanswered_query_is_not_taken_for_a_fast_one(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(line(0, 0, 0, 0, 1_000_000))
    with pytest.raises(SessionLost, match=r"^1 queries of LoadGen had no answer"):
        loadgen_engine._records(path, order("single-stream"), [RequestStatus.LOST])
    path.write_text(OTHER)
    with pytest.raises(SessionLost, match=r"^LoadGen's trace holds no query"):
        loadgen_engine._records(path, order("single-stream"), [])


def test_its_own_words_are_read(tmp_path: Path) -> None:
    path = tmp_path / "detail.txt"
    facts = {"early_stopping_met": True, "early_stopping_latency_ss": 677467, "result_validity": "INVALID"}
    path.write_text("".join(f":::MLLOG {json.dumps({'key': k, 'value': v})}\n" for k, v in facts.items()) + "other\n")
    assert loadgen_engine._words(path, order("single-stream")) == {"early_stopping_s": 677467e-9}
    assert loadgen_engine._words(path, order("server")) == {"valid": False}
    assert loadgen_engine._words(path, order("offline")) == {}


def test_where_it_is_missing_the_line_of_pip_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mlperf_loadgen", None)
    with pytest.raises(ToolMissing) as caught:
        loadgen_engine.run_loadgen([lambda _: None], order("single-stream"), 1, tmp_path)
    assert caught.value.what == "MLPerf's LoadGen is not installed"
    assert caught.value.fix == "pip install 'mlcommons-loadgen>=6', or leave --load-engine loadgen out"

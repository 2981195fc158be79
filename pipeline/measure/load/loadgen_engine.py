"""MLPerf's LoadGen as a second engine: it decides when a query is sent, and times it; we answer.

Its requests are read from its trace, so that percentiles and intervals are made as those of our own engine. Its verdict
and its early-stopping bound are its own (mlcommons/inference, loadgen/). `mlcommons-loadgen` is an optional extra.
"""

from __future__ import annotations

import json
import queue
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ....models.errors import SessionLost, ToolMissing
from ...result.load_cases import LoadScenario
from .load_records import LoadRecords, RequestStatus, status_of
from .load_runner import Ask, run_closed

if TYPE_CHECKING:
    from .load_subject import LoadOrder

_MOST_QUERIES = 200_000  # its trace holds a kilobyte of each
_TRIAL_S, _TRIAL_SHARE = 0.5, 0.1  # to tell it what to expect: it makes its queries before the start
_LATENCY = {
    LoadScenario.SINGLE_STREAM: "early_stopping_latency_ss",
    LoadScenario.MULTI_STREAM: "early_stopping_latency_ms",
}


def run_loadgen(
    connections: Sequence[Ask], order: LoadOrder, feeds: int, folder: Path
) -> tuple[LoadRecords, dict[str, Any]]:
    """Let LoadGen measure; its logs lie in `folder`. `feeds`: how many different requests there are.
    Returns the requests, and its own {early_stopping_s, valid} where it says them.
    Raises ToolMissing where it is not installed, SessionLost where no request was answered."""
    loadgen = _import()
    trial = run_closed(connections, min(_TRIAL_S, _TRIAL_SHARE * order.seconds))
    if not trial.count(RequestStatus.OK):
        raise SessionLost("no request was answered", fix="read the server's log")
    settings = _settings(loadgen, order, trial)
    logs = loadgen.LogSettings()
    logs.log_output.outdir = str(folder)
    logs.log_output.copy_summary_to_stdout = False
    logs.enable_trace = True
    with _Answerer(loadgen, connections, order) as answerer, ExitStack() as stack:
        sut = loadgen.ConstructSUT(answerer.issue, lambda: None)
        stack.callback(loadgen.DestroySUT, sut)
        library = loadgen.ConstructQSL(feeds, feeds, lambda _: None, lambda _: None)
        stack.callback(loadgen.DestroyQSL, library)
        loadgen.StartTestWithLogSettings(sut, library, settings, logs)
    records = _records(folder / "mlperf_log_trace.json", order, answerer.failures)
    return records, _words(folder / "mlperf_log_detail.txt", order)


def missing_loadgen() -> ToolMissing:
    """Return the error that LoadGen is not installed."""
    fix = "pip install 'mlcommons-loadgen>=6', or leave --load-engine loadgen out"
    return ToolMissing("MLPerf's LoadGen is not installed", fix=fix)


def _import() -> Any:
    try:
        import mlperf_loadgen
    except ImportError as error:
        raise missing_loadgen() from error
    return mlperf_loadgen


def _settings(loadgen: Any, order: LoadOrder, trial: LoadRecords) -> Any:
    """Return LoadGen's settings for an order; `trial` says how fast the model is."""
    case = order.case
    seconds = float(np.median(trial.latencies_s))
    per_s = order.batch * trial.count(RequestStatus.OK) / max(float(trial.done_s.max()), 1e-9)
    settings = loadgen.TestSettings()
    settings.mode = loadgen.TestMode.PerformanceOnly
    settings.min_query_count = 1
    settings.max_query_count = _MOST_QUERIES
    settings.min_duration_ms = round(1000 * order.seconds)
    settings.max_duration_ms = 3 * settings.min_duration_ms
    settings.schedule_rng_seed = settings.sample_index_rng_seed = settings.qsl_rng_seed = order.seed + 1
    expected_ns = max(1, round(0.7e9 * seconds))  # too many queries made before are dropped; too few end it early
    match case.scenario:
        case LoadScenario.SINGLE_STREAM:
            settings.scenario = loadgen.TestScenario.SingleStream
            settings.single_stream_expected_latency_ns = expected_ns
        case LoadScenario.MULTI_STREAM:
            settings.scenario = loadgen.TestScenario.MultiStream
            settings.multi_stream_samples_per_query = case.concurrency
            settings.multi_stream_expected_latency_ns = expected_ns
        case LoadScenario.SERVER:
            settings.scenario = loadgen.TestScenario.Server
            settings.server_target_qps = case.rate_per_s
            settings.server_target_latency_ns = round(1e9 * (case.bound_s or 0))
            settings.server_target_latency_percentile = 0.99
        case _:
            settings.scenario = loadgen.TestScenario.Offline
            settings.offline_expected_qps = min(per_s, _MOST_QUERIES / order.seconds)
    return settings


class _Answerer:
    """The system under test. In single and multi stream the answer is there when `issue` returns; else threads with a
    connection each take queries from a queue, as LoadGen sends the next one on time."""

    def __init__(self, loadgen: Any, connections: Sequence[Ask], order: LoadOrder) -> None:
        self._loadgen, self._connections, self._order = loadgen, connections, order
        self._queue: queue.SimpleQueue[list[Any] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._number = 0
        self.failures: list[RequestStatus] = []

    def __enter__(self) -> _Answerer:
        if self._order.case.scenario in {LoadScenario.SERVER, LoadScenario.OFFLINE}:
            self._threads = [threading.Thread(target=self._work, args=(ask,)) for ask in self._connections]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for _thread in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def issue(self, samples: Sequence[Any]) -> None:
        """Take a query of LoadGen's."""
        size = self._order.batch
        for at in range(0, len(samples), size):
            part = list(samples[at : at + size])
            if self._threads:
                self._queue.put(part)
            else:
                self._answer(self._connections[0], part)

    def _work(self, ask: Ask) -> None:
        while (part := self._queue.get()) is not None:
            self._answer(ask, part)

    def _answer(self, ask: Ask, samples: Sequence[Any]) -> None:
        self._number += 1
        try:
            ask(self._number)
        except Exception as error:  # noqa: BLE001  (see load_runner: a request without an answer)
            self.failures.append(status_of(error))  # LoadGen knows no failed query
        self._loadgen.QuerySamplesComplete([self._loadgen.QuerySampleResponse(sample.id, 0, 0) for sample in samples])


_SAMPLE = re.compile(rb'"name":"Sample",.*?"ph":"b",.*?"ts":([\d.]+),"args":(\{[^}]*\})')


def _records(path: Path, order: LoadOrder, failures: Sequence[RequestStatus]) -> LoadRecords:
    """Return the queries of LoadGen's trace: `ts` is the intended time in microseconds. A query of several samples
    ends with its last one. Raises SessionLost where there is none, or where one was not answered: LoadGen does not say
    which."""
    if failures:
        fix = "use a lower rate, or the engine transload, which counts them"
        raise SessionLost(f"{len(failures)} queries of LoadGen had no answer, and it knows none like them", fix=fix)
    begun: dict[int, float] = {}
    sent: dict[int, float] = {}
    done: dict[int, float] = {}
    is_one = order.case.scenario is not LoadScenario.OFFLINE  # there each sample is a request, and all are one query
    for start_s, sample in _samples(path):
        key = sample["query_seq"] if is_one else sample["sample_seq"]
        begun[key] = start_s
        sent[key] = start_s + sample["issue_start_ns"] / 1e9
        done[key] = max(done.get(key, 0.0), start_s + sample["complete_ns"] / 1e9)
    if not begun:
        raise SessionLost("LoadGen's trace holds no query", fix=f"read {path.name} in the worker's folder")
    intended, sent_s, done_s = (np.array([times[key] for key in begun]) for times in (begun, sent, done))
    first, order_of = intended.min(), np.argsort(intended, kind="stable")
    times = [values[order_of] - first for values in (intended, sent_s, done_s)]
    return LoadRecords(times[0], times[1], times[2], np.zeros(len(begun), dtype=np.uint8))


def _samples(path: Path) -> Iterator[tuple[float, dict[str, int]]]:
    with path.open("rb") as lines:
        for line in lines:
            if match := _SAMPLE.search(line):
                yield float(match[1]) / 1e6, json.loads(match[2])


def _words(path: Path, order: LoadOrder) -> dict[str, Any]:
    """Return what LoadGen itself says in its detailed log, a line of JSON behind ":::MLLOG " for each fact."""
    said: dict[str, Any] = {}
    for line in path.read_text(errors="replace").splitlines():
        mark, _, text = line.partition(" ")
        if mark == ":::MLLOG":
            fact = json.loads(text)
            said[fact["key"]] = fact["value"]
    scenario = order.case.scenario
    words: dict[str, Any] = {}
    if said.get("early_stopping_met") and _LATENCY.get(scenario) in said:
        words["early_stopping_s"] = said[_LATENCY[scenario]] / 1e9
    if scenario is LoadScenario.SERVER and "result_validity" in said:
        words["valid"] = said["result_validity"] == "VALID"
    return words

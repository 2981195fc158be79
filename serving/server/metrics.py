"""Metrics of the served models, as TF Serving exposes them to Prometheus.

Names, labels, buckets and what is counted when are those of tensorflow/serving: servables/tensorflow/util.cc,
model_servers/prediction_service_impl.cc, model_servers/http_server.cc; the text is that of util/prometheus_exporter.cc.
prometheus-client cannot write it: it appends `_total` to the name of every counter.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from .pending_records import PendingRecords

PATH = "/monitoring/prometheus/metrics"
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BOUNDS = [10 * 1.8**power for power in range(33)]  # microseconds, up to about 20 minutes
_BUCKETS = [*(f"{bound:g}" for bound in _BOUNDS), "+Inf"]


@dataclass(slots=True)
class RequestRecord:
    """What is known about one request. Whoever handles it fills in the rest."""

    protocol: str  # "GRPC", "REST"
    method: str
    api: str | None = None  # TF Serving's label; None where TF Serving counts no request
    model: str = ""
    version: str = ""
    status: str = "UNKNOWN"
    bytes_in: int = 0
    bytes_out: int = 0
    device: str = ""  # where the model runs that answers
    start: float = field(default_factory=time.perf_counter)


class Histogram:
    """Counts of durations in microseconds, and their sum."""

    def __init__(self) -> None:
        self.counts = [0] * len(_BUCKETS)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        microseconds = seconds * 1e6
        self.counts[bisect_left(_BOUNDS, microseconds)] += 1
        self.sum += microseconds


class Metrics:
    """The counters of a server. Requests for names that it never had are counted under the empty name: each new label
    takes memory for good."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, str], int] = {}
        self._latencies: dict[tuple[str, str, str], Histogram] = {}
        self._runs: dict[tuple[str, str, str], Histogram] = {}
        self._models: set[str] = set()
        self._pending = PendingRecords(self._count)

    def add_model(self, name: str, runtime: str) -> None:
        """Count requests for this model under its name from now on."""
        with self._lock:
            self._models.add(name)
            self._runs.setdefault((name, "Predict", runtime), Histogram())

    def add_request(self, record: RequestRecord) -> None:
        """Count a request that has its answer."""
        if record.api is None:
            return
        self._pending.add((record, time.perf_counter() - record.start))

    def _count(self, request: tuple[RequestRecord, float]) -> None:
        record, seconds = request
        with self._lock:
            name = record.model if record.model in self._models else ""
            key = name, record.status
            self._requests[key] = self._requests.get(key, 0) + 1
            if record.status == "OK":
                entry = name, record.api or "", record.protocol
                if entry not in self._latencies:
                    self._latencies[entry] = Histogram()
                self._latencies[entry].add(seconds)

    def add_run(self, model: str, runtime: str, seconds: float) -> None:
        """Count a call of the runtime that gave an answer."""
        with self._lock:
            self._runs[model, "Predict", runtime].add(seconds)

    def page(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        prefix = ":tensorflow:serving"
        self._pending.flush()
        with self._lock:
            lines = [f"# TYPE {prefix}:request_count counter"]
            for (model, status), count in self._requests.items():
                lines.append(f'{prefix}:request_count{{model_name="{model}",status="{status}"}} {count}')
            lines += _histogram(f"{prefix}:request_latency", "entrypoint", self._latencies)
            lines += _histogram(f"{prefix}:runtime_latency", "runtime", self._runs)
        return "\n".join([*lines, ""]).encode()


def _histogram(name: str, last: str, cells: dict[tuple[str, str, str], Histogram]) -> Iterator[str]:
    yield f"# TYPE {name} histogram"
    for (model, api, value), cell in cells.items():
        labels = f'model_name="{model}",API="{api}",{last}="{value}"'
        total = 0
        for bucket, count in zip(_BUCKETS, cell.counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels},le="{bucket}"}} {total}'
        yield f"{name}_sum{{{labels}}} {cell.sum:.0f}"
        yield f"{name}_count{{{labels}}} {total}"

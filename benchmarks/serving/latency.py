"""Latency of one client after the other, in interleaved rounds: what a server adds to the time in process."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
from wire_requests import WireRequest

from transload.models.signature import Array
from transload.pipeline.measure.bench.rounds import RoundsPlan, Series, empty_series, run_rounds
from transload.pipeline.measure.bench.statistics import find_doubts, summary

WARM_UP = 200


class MeasuredCall:
    """A call, as a subject of the rounds."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    def __call__(self, method: str, **options: Any) -> Any:
        """Call a method, as a worker would."""
        return getattr(self, method)(**options)

    def prepare(self, batch: int) -> Mapping[str, Any]:
        """Warm up."""
        first, *others = self.chunk(batch, 1 + WARM_UP)["samples_s"]
        warm = {"first_call_s": first, "call_s": min(others), "warm_up_s": first + sum(others)}
        return {**warm, "load_s": 0.0, "timer_s": 0.0, "resident_bytes": 0, "answers": None}

    def chunk(self, batch: int, calls: int) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the seconds of each call."""
        samples = []
        for _ in range(calls):
            start = time.perf_counter()
            self._call()
            samples.append(time.perf_counter() - start)
        return {"samples_s": samples}

    def device(self) -> str:
        """Return where it runs."""
        return "cpu"


class HttpLink:
    """One kept connection, on which prepared bytes are sent: a client that costs little."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connect()

    def _connect(self) -> None:
        self._socket = socket.create_connection(("127.0.0.1", self._port), 30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> bytes:
        """Send the bytes of a request and return the body of its reply. Raises ValueError unless it is 200, EOFError
        where the server closes the connection in between."""
        try:
            self._socket.sendall(data)
            reply = self._receive()
        except (OSError, EOFError):  # a connection that was idle while the others were measured
            self._connect()
            self._socket.sendall(data)
            reply = self._receive()
        while b"\r\n\r\n" not in reply:
            reply += self._receive()
        if not reply.startswith(b"HTTP/1.1 200"):
            raise ValueError(reply)
        head, _, body = reply.partition(b"\r\n\r\n")
        missing = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]) - len(body)
        parts = [body]
        while missing > 0:
            parts.append(self._receive())
            missing -= len(parts[-1])
        return b"".join(parts)

    def _receive(self) -> bytes:
        if data := self._socket.recv(1 << 16):
            return data
        raise EOFError


def http_bytes(request: WireRequest) -> bytes:
    """Return a request as it is sent."""
    fields = {"host": "127.0.0.1", **request.headers, "content-length": str(len(request.body))}
    head = [f"POST {request.path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(head).encode() + request.body


def make_call(request: WireRequest, port: int) -> Callable[[], bytes]:
    """Return a function that sends a request and returns the bytes of its reply."""
    if request.protocol == "http":
        link, data = HttpLink(port), http_bytes(request)
        return lambda: link.send(data)
    import grpc

    method = grpc.insecure_channel(f"127.0.0.1:{port}").unary_unary(request.path)
    body = request.body
    return lambda: bytes(method(body, timeout=30))


def measure(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Series]:
    """Return the series of each call."""
    subjects = {(name, "call"): MeasuredCall(call) for name, call in calls.items()}
    plan = RoundsPlan(batches=(1,), rounds=rounds)
    series = empty_series(subjects, plan)
    run_rounds(subjects, series, plan, 0, rng=Random(0))  # noqa: S311
    return {entry.pair[0]: entry for entry in series.values()}


def describe(series: Series, reference: Series) -> dict[str, Any]:
    """Return the figures of a series, paired by rounds with a reference."""
    times = summary(series.samples_s, 1)
    rounds, reference_rounds = series.processes[0].rounds, reference.processes[0].rounds
    common = sorted(rounds.keys() & reference_rounds.keys())
    medians, references = (
        np.array([1e6 * np.median(chunks[at]) for at in common]) for chunks in (rounds, reference_rounds)
    )
    return {
        "p50_us": 1e6 * times.p50_s,
        "p99_us": 1e6 * times.p99_s,
        "calls": len(series.samples_s),
        "reference": reference.pair[0],
        "ratio": quartiles(medians / references),
        "added_us": quartiles(medians - references),
        "doubts": [doubt.text for doubt in find_doubts(series)],
    }


def quartiles(values: Array | Sequence[float]) -> list[float]:
    """Return what a quarter, the half and three quarters of the values are below."""
    return [float(value) for value in np.percentile(values, [25, 50, 75])]

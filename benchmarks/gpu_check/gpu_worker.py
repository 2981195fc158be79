"""A process that is measured: `python gpu_worker.py` reads one JSON request a line and answers each with one.

Requests: {"method": NAME, "options": {...}}. Answers: {"value": ...} or {"error": SENTENCE}. What libraries print goes
to stderr, which is the log.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

STARTED = time.perf_counter()
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "typings")]  # typings/transload is the checkout's root

import gpu_nets  # noqa: E402
import gpu_timing  # noqa: E402
import numpy as np  # noqa: E402
from gpu_assets import make_asset  # noqa: E402
from gpu_subjects import Runtime, open_runtime, set_tf32, torch_dtype  # noqa: E402

MATRIX, MATMULS = 8192, 20
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class MeasuredRuntime:
    """One runtime over one net. Its methods are the requests; prepare and chunk are those that
    transload.pipeline.measure.bench.rounds asks for."""

    def __init__(self) -> None:
        self._runtime: Runtime | None = None
        self._calls: dict[int, gpu_timing.BoundCalls] = {}
        self._call_s: dict[int, float] = {}
        self._device_s: dict[int, float] = {}
        self._load_s = 0.0

    def open(
        self, *, net: str, runtime: str, precision: str, device: str, small: bool, assets: str, batches: list[int]
    ) -> dict[str, Any]:
        """Load the net, and compile it for all batches that follow, where it is compiled."""
        self._spec = gpu_nets.net_spec(net, small=small)
        self._reference = Path(assets) / f"{net}.reference.npz"
        self._runtime = open_runtime(runtime, self._spec, precision, device, assets=Path(assets), net=net)
        self._load_s = time.perf_counter() - STARTED
        for batch in batches if runtime == "compile" else batches[:1]:  # the first call says where it runs
            self._bound(batch).host()
        self.release()
        return {"load_s": self._load_s, "ready_s": time.perf_counter() - STARTED}

    def device(self) -> str:
        """Where it runs, as its first answers say."""
        return str(self._opened.facts()["runs_on"] or "unknown")

    def facts(self) -> dict[str, Any]:
        """What really runs."""
        return self._opened.facts()

    def prepare(self, batch: int) -> dict[str, Any]:
        """Make the first call and warm up. See pipeline/measure/bench/subject.py for what is returned."""
        started = time.perf_counter()
        calls = self._bound(batch)
        calls.host()
        first_call_s = time.perf_counter() - started
        windows = gpu_timing.warm_up(calls.host)
        self._call_s[batch] = median(windows[-1])
        return {
            "load_s": self._load_s,
            "first_call_s": first_call_s,
            "warm_up_s": first_call_s + sum(map(sum, windows)),
            "call_s": self._call_s[batch],
            "timer_s": median(gpu_timing.host_seconds(lambda: None, 1000)),
            "resident_bytes": int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES,
            "answers": None,
        }

    def chunk(self, batch: int, calls: int) -> dict[str, Any]:
        """Time calls from host to host."""
        return {"samples_s": gpu_timing.host_seconds(self._bound(batch).host, calls)}

    def on_device(self, batch: int) -> dict[str, Any]:
        """Time calls whose inputs and outputs stay on the device, and the copies alone."""
        calls, timer = self._bound(batch), self._opened.timer
        timer.seconds(calls.device, 3)
        samples = timer.seconds(calls.device, gpu_timing.event_calls(self._call_s[batch]))
        self._device_s[batch] = median(samples)
        copies = gpu_timing.time_copies(calls)
        return {"timer": timer.name, "samples_s": samples, "copies": copies, "bytes_in": calls.bytes_in}

    def window(self, batch: int, seconds: float) -> dict[str, Any]:
        """Call back to back for about so long without waiting in between: how many calls, in what time."""
        calls, timer = self._bound(batch), self._opened.timer
        count = max(2, math.ceil(seconds / max(self._device_s[batch], 1e-6)))
        timer.synchronise()
        started = time.perf_counter()
        for _ in range(count):
            calls.device()
        timer.synchronise()
        return {"calls": count, "seconds": time.perf_counter() - started}

    def drift(self, batch: int) -> dict[str, Any]:
        """Hold the answers against float64's: decibels by output, None where they are equal."""
        answers = self._bound(batch).host()
        with np.load(self._reference) as reference:
            rows = np.arange(batch) % gpu_nets.ROWS
            wanted = [reference[name][rows] for name in self._spec.outputs]
        decibels = map(gpu_timing.sqnr_db, answers, wanted)
        return {
            name: None if db is None else max(-999.0, round(db, 2))  # JSON has no infinity
            for name, db in zip(self._spec.outputs, decibels, strict=True)
        }

    def release(self) -> None:
        """Let go of all inputs and what is cached of them: others measure on the same device."""
        self._calls.clear()
        self._opened.release()

    @property
    def _opened(self) -> Runtime:
        if self._runtime is None:
            raise RuntimeError("nothing is open")
        return self._runtime

    def _bound(self, batch: int) -> gpu_timing.BoundCalls:
        if batch not in self._calls:
            self._calls[batch] = self._opened.bind(gpu_nets.host_input(self._spec, batch))
        return self._calls[batch]


def make(kind: str, net: str, assets: str, device: str, small: bool) -> dict[str, Any]:
    """Make an asset (gpu_assets.py)."""
    return make_asset(kind, net, Path(assets), device, small=small)


def matmul(device: str, small: bool) -> dict[str, Any]:
    """Return the rate of a large square matmul in each precision, in FLOP/s: the median of 20 calls."""
    import torch

    size = 256 if small else MATRIX
    timer: gpu_timing.DeviceTimer = (
        gpu_timing.EventTimer(torch) if device.startswith("cuda") else gpu_timing.HostTimer()
    )
    rates, failed = {}, {}
    for precision in ("fp32", "tf32", "fp16", "bf16"):
        set_tf32(on=precision == "tf32")
        try:
            left, right = (torch.randn(size, size, device=device).to(torch_dtype(precision)) for _ in range(2))
            timer.seconds(lambda: left @ right, 5)  # noqa: B023  called at once
            rates[precision] = 2 * size**3 / median(timer.seconds(lambda: left @ right, MATMULS))  # noqa: B023
        except RuntimeError as error:
            failed[precision] = str(error).splitlines()[0]
    return {"matmul_flops_per_s": rates, "size": size, "failed": failed}


def flops(nets: list[str], small: bool) -> dict[str, int]:
    """Return the floating-point operations of a sample of each net."""
    return {net: gpu_nets.count_flops(gpu_nets.net_spec(net, small=small)) for net in nets}


def main() -> None:
    """Answer until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # a library that prints would break the protocol
    subject = MeasuredRuntime()
    for line in sys.stdin:
        request = json.loads(line)
        name = request["method"]
        methods: dict[str, Callable[..., Any]] = {"make": make, "matmul": matmul, "flops": flops}
        method = methods.get(name) or getattr(subject, name)
        try:
            answer = {"value": method(**request["options"])}
        except Exception as error:  # noqa: BLE001  whatever a runtime raises ends its cell, not the measurement
            text = str(error).strip()
            answer = {
                "error": f"{type(error).__name__}: {' '.join(text.split())[:400]}" if text else type(error).__name__
            }
            import traceback

            traceback.print_exc()
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()

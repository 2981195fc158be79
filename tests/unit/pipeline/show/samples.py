"""A run as it could have been: nine artifacts, one of them failed, one that cannot be decided, and its raw samples."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from pydantic import TypeAdapter
from rich.console import Console

from transload.models.signature import Array
from transload.pipeline.result.gate import GateRules, gate, verdict_of
from transload.pipeline.result.schema import (
    ArtifactRow,
    AxisRow,
    DriftRow,
    Environment,
    ErrorRow,
    ExercisedRow,
    InnerRangeRow,
    InnerValueRow,
    InputValuesRow,
    LatencyRow,
    LeftOutRow,
    LocatedRow,
    MetricRow,
    ProbeResultRow,
    RouteStatus,
    RunResult,
    SampleSetRow,
    SignatureRow,
    SmallestRow,
    SourceRow,
    Status,
    TensorRow,
    Tolerance,
    TriedRow,
    Verdict,
    WorstSampleRow,
    to_json,
)
from transload.pipeline.show.terminal import print_result
from transload.pipeline.show.view import Links

RULES = GateRules(latency_ratio=6.0, size=1_000_000)
FP32, REDUCED = Tolerance(60.0, None), Tolerance(None, 0.01)
LOGS = {"tflite:int8": "logs/validate-tflite-int8.log", "saved-model in tfserving-rest": "logs/bench-rest.log"}
REPEAT = {"torch.export": "repeat/03-pt2.sh", "lowering": "repeat/07-saved-model.sh"}
CHECK_PARTS = ("probes", "exercised", "errors", "worst_samples")
SENTENCE = "the server closed the connection after 3 of 20 rounds"

_SIGNATURE = SignatureRow(
    (TensorRow("image", "float32", ("batch", 1, 8, 8)),), (TensorRow("logits", "float32", ("batch", 10)),)
)
_ROUTES = {
    "pt2": ("torch.export",),
    "torchscript": ("torch.jit",),
    "onnx": ("torch.export", "torch.onnx-dynamo"),
    "saved-model": ("torch.export", "torch.onnx-dynamo", "lowering"),
    "tflite": ("torch.export", "torch.onnx-dynamo", "lowering", "tflite"),
}


def artifact(name: str, size: int | None = 100_000, status: Status = Status.VERIFIED) -> ArtifactRow:
    """A target that was made, or one with no route left where `size` is None."""
    form, _, precision = name.partition(":")
    route = _ROUTES.get(form, (form,))
    tried = TriedRow(route, RouteStatus.VERIFIED, "agrees at batch 1, 2 and 5")
    row = ArtifactRow(
        name, form, precision or "fp32", f"artifacts/{name.replace(':', '-')}", "ab" * 32, size, status, route,
        (tried,), 3.2, _SIGNATURE, (1, 2, 5, 360),
    )  # fmt: skip
    if size is not None:
        return row
    failed = TriedRow(route, RouteStatus.FAILED, "the converter ended early (killed by SIGABRT)")
    return replace(
        row, path=None, sha256=None, bytes=None, status=Status.FAILED, tried=(failed,), signature=None,
        batches_verified=(),
    )  # fmt: skip


def metric(delta: float, low: float, high: float) -> MetricRow:
    return MetricRow("accuracy", 0.9833, round(0.9833 + delta, 4), delta, (low, high), "share")


def drift(
    name: str,
    runtime: str,
    sqnr_db: float | None,
    *,
    tolerance: Tolerance = FP32,
    verdict: Verdict = Verdict.PASS,
    task: MetricRow | None = None,
    batch: int = 360,
) -> DriftRow:
    """A row that answered; identical to the last bit where `sqnr_db` is None."""
    loud = 0.0 if sqnr_db is None else 10 ** (-sqnr_db / 20)
    return DriftRow(
        name, runtime, batch, batch, loud * 4, loud, 1 - loud**2 / 2, sqnr_db, 0, tolerance, verdict, task
    )  # fmt: skip


def silent(row: DriftRow) -> DriftRow:
    """The row of a runtime that gave no answer."""
    return replace(
        row, max_abs=None, rms=None, cosine=None, sqnr_db=None, non_finite=None, metric=None, verdict=Verdict.FAIL
    )  # fmt: skip


def latency(
    name: str,
    runtime: str,
    p50_s: float | None,
    *,
    batch: int = 1,
    ratio: float = 1.0,
    ci95: tuple[float, float] | None = (0.98, 1.02),
    doubts: tuple[str, ...] = (),
    device: str = "cpu",
    p90_s: float | None = None,
    p99_s: float | None = None,
) -> LatencyRow:
    """A row that was timed, or one that did not run where `p50_s` is None."""
    server: Literal["embedded"] | None = "embedded" if runtime.startswith(("tfserving", "oip")) else None
    if p50_s is None:
        return LatencyRow(
            name, runtime, server, device, 1, batch, 0, 0, None, None, None, None, None, None, None, doubts
        )  # fmt: skip
    return LatencyRow(
        name, runtime, server, device, 1, batch, 20, 2000, p50_s, p90_s or p50_s * 1.2, p99_s or p50_s * 1.8,
        batch / p50_s / 1.05, ratio, ci95, 310_000_000, doubts,
    )  # fmt: skip


_ARTIFACTS = (
    artifact("pt2", 171_204),
    artifact("torchscript", 189_530),
    replace(
        artifact("onnx", 152_911),
        tried=(
            TriedRow(_ROUTES["onnx"], RouteStatus.VERIFIED, "agrees to 128.4 dB at batch 1, 2 and 5"),
            TriedRow(("torch.onnx-torchscript",), RouteStatus.NOT_TRIED, "a cheaper route has verified"),
        ),
    ),
    artifact("onnx:int8", 48_120, Status.DEGRADED),
    replace(
        artifact("saved-model", 262_540),
        tried=(
            TriedRow(_ROUTES["saved-model"], RouteStatus.VERIFIED, "agrees to 126.9 dB at batch 1, 2 and 5"),
            TriedRow(
                ("torch.export", "torch.onnx-dynamo", "onnx2tf"), RouteStatus.WRONG,
                "equals the reference after permutation (0,2,1): layout lost",
            ),
        ),
    ),
    artifact("tflite", 148_776),
    artifact("tflite:fp16", 76_312),
    artifact("tflite:int8-dynamic", 44_904, Status.UNVERIFIED),
    artifact("tflite:int8", 45_616, Status.FAILED),
)  # fmt: skip

_DRIFT = (
    drift("pt2", "torch", None, task=metric(0, 0, 0)),
    drift("torchscript", "torchscript", 141.2, task=metric(0, 0, 0)),
    drift("onnx", "onnxruntime", 128.4, task=metric(0, 0, 0)),
    drift("onnx", "onnxruntime", 131.0, batch=1),
    drift("onnx:int8", "onnxruntime", 31.7, tolerance=REDUCED, task=metric(-0.0042, -0.0083, -0.0008)),
    drift("saved-model", "tensorflow", 126.9, task=metric(0, 0, 0)),
    drift("saved-model", "tfserving-grpc", 126.9, task=metric(0, 0, 0)),
    drift("tflite", "tflite", 125.1, task=metric(0, 0, 0)),
    drift("tflite:fp16", "tflite", 63.8, tolerance=REDUCED, task=metric(0, 0, 0)),
    drift(
        "tflite:int8-dynamic", "tflite", 27.4, tolerance=REDUCED, verdict=Verdict.INCONCLUSIVE,
        task=metric(-0.0056, -0.0139, 0.0028),
    ),
    drift(
        "tflite:int8", "tflite", 11.9, tolerance=REDUCED, verdict=Verdict.FAIL,
        task=metric(-0.0389, -0.0611, -0.0194),
    ),
)  # fmt: skip

_FLOOR = "the model itself agrees to 136 dB where a batch is asked sample by sample"


def probe(
    name: str,
    runtime: str,
    sqnr_db: float | None,
    values: str = "samples",
    *,
    batch: int = 5,
    reason: str = "",
    sizes: dict[str, int] | None = None,
) -> ProbeResultRow:
    """A probe that answered, whose limit of 101 dB was derived; one with a `reason` failed."""
    loud = 0.0 if sqnr_db is None else 10 ** (-sqnr_db / 20)
    verdict = Verdict.FAIL if reason else Verdict.PASS
    return ProbeResultRow(
        name, runtime, batch, sizes or {}, values, 20, loud * 4, sqnr_db, 0, Tolerance(101.0, None), _FLOOR, verdict,
        reason or None,
    )  # fmt: skip


_PROBES = (
    probe("pt2", "torch", None, "whole test set", batch=360),
    probe("onnx", "onnxruntime", 128.4, "whole test set", batch=360),
    probe("onnx", "onnxruntime", 131.0, "image 1000 times as large", sizes={"height": 12}),
    probe("tflite:int8", "tflite", 11.9, "whole test set", batch=360, reason="output logits agrees to 11.9 dB"),
)

_SAMPLED = InputValuesRow("image", "float32", 0.0, 1.0, 0.0625, False, None, ())
_BATCH = AxisRow("batch", (1, None), (1, 2, 5, 360), (), ((361, None),))


def exercised(name: str, runtime: str, *, stress: bool = True) -> ExercisedRow:
    """What a copy was asked; a reduced precision without stress."""
    kinds = ("image large", "image nan")
    asked = replace(_SAMPLED, most=1000.0, non_finite=True) if stress else _SAMPLED
    return ExercisedRow(
        name, runtime, 360, 31, (_BATCH,), (asked,), kinds if stress else (), () if stress else kinds
    )  # fmt: skip


_EXERCISED = (
    exercised("pt2", "torch"),
    exercised("onnx", "onnxruntime"),
    exercised("tflite:int8", "tflite", stress=False),
)
_ERRORS = (
    ErrorRow("pt2", "torch", "logits", 3600, 3600, 0, 5.46, ()),
    ErrorRow("onnx", "onnxruntime", "logits", 3600, 600, 0, 5.46, ((-20, 2000), (-19, 1000))),
    ErrorRow("tflite:int8", "tflite", "logits", 3600, 0, 1, 5.46, ((-4, 599), (-2, 3000))),
)
PICTURE = "iVBORw0KGgo="
_WORST = (
    WorstSampleRow("onnx", "onnxruntime", 17, "logits", 3.8e-6, 12.1, 12.1, None, None),
    WorstSampleRow("tflite:int8", "tflite", 226, "logits", None, None, 5.25, "7", PICTURE),
    WorstSampleRow("tflite:int8", "tflite", 197, "logits", 0.125, -5.0, -5.125, "9", PICTURE),
)
_INNER = (
    InnerRangeRow(
        "onnx:fp16", "onnxruntime", "float16", 65504.0, 8, 52.5, 0, 0, None,
        (InnerValueRow("add_3", "the operator Add (node_add_3)", 21.5, beyond=False),),
    ),
)  # fmt: skip
_SMALLEST = (
    SmallestRow(
        "keras", ("torch.export",), 1, "torch.export fails at CumSum (net.py:14 `x.cumsum(1)`): it has no kernel",
        "repeat/smallest.keras.torch.export.py", "multiply with a triangular matrix instead",
    ),
)  # fmt: skip

_LOCATED = (
    LocatedRow(
        "tflite:int8", "tflite", "batch_norm in the module norm2, net.py:28 (`self.norm2(x)`): eps is 0.001",
        "batch_norm", "norm2", "net.py:28 (`self.norm2(x)`)", "eps", ("CONV_2D (3)",),
    ),
)  # fmt: skip

_LEFT_OUT = (LeftOutRow("onnx:fp16", "nothing is reduced to fp16: it stores no weights; use onnx:int8 or onnx"),)

_GUESS = "a p99 from 200 samples is a guess: use --rounds 100"
_TIMES = {  # p50 at batch 1 and 8, ratio at both
    ("source", "torch"): (214e-6, 361e-6, 1.0, 1.0),
    ("pt2", "torch"): (209e-6, 355e-6, 0.98, 0.98),
    ("torchscript", "torchscript"): (131e-6, 262e-6, 0.61, 0.73),
    ("onnx", "onnxruntime"): (31e-6, 118e-6, 0.145, 0.33),
    ("onnx:int8", "onnxruntime"): (38e-6, 96e-6, 0.18, 0.27),
    ("saved-model", "tensorflow"): (262e-6, 377e-6, 1.22, 1.04),
    ("saved-model", "tfserving-grpc"): (742e-6, 1.08e-3, 3.47, 2.99),
    ("saved-model", "tfserving-rest"): (None, None, 0.0, 0.0),
    ("tflite", "tflite"): (26e-6, 171e-6, 0.12, 0.47),
    ("tflite:fp16", "tflite"): (27e-6, 174e-6, 0.13, 0.48),
    ("tflite:int8-dynamic", "tflite"): (24e-6, 160e-6, 0.11, 0.44),
    ("tflite:int8", "tflite"): (19e-6, 88e-6, 0.09, 0.24),
}


def _timed() -> tuple[LatencyRow, ...]:
    rows = []
    for (name, runtime), (one, eight, ratio_one, ratio_eight) in _TIMES.items():
        doubts = (_GUESS,) if runtime.startswith("tfserving") else ()
        for batch, p50_s, ratio in ((1, one, ratio_one), (8, eight, ratio_eight)):
            ci95 = (1.0, 1.0) if name == "source" else (ratio * 0.97, ratio * 1.03)
            said = (SENTENCE,) if p50_s is None else doubts
            rows.append(latency(name, runtime, p50_s, batch=batch, ratio=ratio, ci95=ci95, doubts=said))
    return tuple(rows)


def result(rules: GateRules = RULES) -> RunResult:
    """The run: tflite:int8 failed, tflite:int8-dynamic cannot be decided, tfserving-rest died."""
    timed = _timed()
    rows = gate(rules, _ARTIFACTS, _DRIFT, timed)
    verdict, code = verdict_of(rows, _ARTIFACTS)
    environment = Environment(
        "3.11.7", "Linux-6.1-x86_64", "Intel Xeon 2.6 GHz", 2, 24_000_000_000, (),
        {"torch": "2.13.0", "onnx": "1.23.2", "onnxruntime": "1.31.1", "tensorflow": "2.21.0", "numpy": "2.4.1"},
    )  # fmt: skip
    return RunResult(
        1, "20261121-040901-digits-cnn", "0.1.0", verdict, int(code), "2026-11-21T04:09:01Z", 118.4, environment,
        _ARTIFACTS, _DRIFT, timed, rows, _PROBES, _EXERCISED, _ERRORS, _WORST, _SMALLEST, _LOCATED,
        _LEFT_OUT, source=SourceRow("5" * 64, SampleSetRow(540, "6" * 64, "7" * 64)),
        inner_ranges=_INNER,
    )  # fmt: skip


def passing() -> RunResult:
    """The same run without what went wrong."""
    return without(result(), "tflite:int8", "tflite:int8-dynamic", runtime="tfserving-rest")


def without(run: RunResult, *names: str, runtime: str = "") -> RunResult:
    """`run` without these artifacts and this runtime, judged anew."""
    kept = tuple(row for row in run.artifacts if row.name not in names)
    compared = tuple(row for row in run.drift if row.artifact not in names and row.runtime != runtime)
    timed = tuple(row for row in run.latency if row.artifact not in names and row.runtime != runtime)
    rest: dict[str, Any] = {
        part: tuple(row for row in getattr(run, part) if row.artifact not in names and row.runtime != runtime)
        for part in CHECK_PARTS
    }
    return judged(replace(run, artifacts=kept, drift=compared, latency=timed, **rest))


def judged(run: RunResult, rules: GateRules = RULES) -> RunResult:
    """`run` with the gate's rows and verdict of its own rows."""
    rows = gate(rules, run.artifacts, run.drift, run.latency)
    verdict, code = verdict_of(rows, run.artifacts)
    return replace(run, gate=rows, verdict=verdict, exit_code=int(code))


def renamed(run: RunResult, old: str, new: str) -> RunResult:
    """`run` with an artifact under another name everywhere."""

    def other(name: str) -> str:
        return new if name == old else name

    rest: dict[str, Any] = {
        part: tuple(replace(row, artifact=other(row.artifact)) for row in getattr(run, part)) for part in CHECK_PARTS
    }
    return replace(
        run,
        artifacts=tuple(replace(row, name=other(row.name)) for row in run.artifacts),
        drift=tuple(replace(row, artifact=other(row.artifact)) for row in run.drift),
        latency=tuple(replace(row, artifact=other(row.artifact)) for row in run.latency),
        **rest,
        gate=tuple(replace(row, artifact=other(row.artifact)) for row in run.gate),
    )


_CLOSED = {
    "picture",
    "status",
    "verdict",
    "server",
    "sha256",
    "inputs_sha256",
    "labels_sha256",
    "started_at",
}  # what the schema does not leave free


def hostile(run: RunResult, bad: str) -> RunResult:
    """`run` with `bad` added to every text that it holds."""

    def spoilt(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {(f"{name}{bad}" if key == "packages" else name): spoilt(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [spoilt(one, key) for one in value]
        return f"{value}{bad}" if isinstance(value, str) and key not in _CLOSED else value

    return TypeAdapter(RunResult).validate_json(json.dumps(spoilt(json.loads(to_json(run)))))


def empty() -> RunResult:
    """A run that made nothing."""
    rest: dict[str, Any] = dict.fromkeys(CHECK_PARTS, ())
    return judged(replace(result(), artifacts=(), drift=(), latency=(), **rest))


def samples(run: RunResult, count: int = 2000, seed: int = 7) -> dict[tuple[str, str, int], Array]:
    """Raw seconds whose median is the row's p50: a body, and now and then a late one."""
    rng = np.random.default_rng(seed)
    found = {}
    for row in run.latency:
        if row.p50_s is not None:
            body = rng.gamma(6, 0.02, count) + 0.9
            late = rng.random(count) < 0.03
            found[(row.artifact, row.runtime, row.batch)] = row.p50_s * (body + late * rng.gamma(2, 0.3, count))
    return found


def render(run: RunResult, width: int, *, logs: Links | None = None, report: str | None = None) -> str:
    """What is printed on a plain terminal of this width: no colour, no escape codes."""
    out = io.StringIO()
    print_result(run, Console(file=out, width=width, force_terminal=False), logs=logs, report=report)
    return out.getvalue()

"""The options that several commands share, each in one word, one spelling, one help text.

A command takes them as `def command(batch: Batch = None, json: Json = False)`. Lists are written with commas, or with
the option several times; `split` and the parsers below turn them into what the library takes, and refuse with a mend.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ...models.errors import BadRequest
from ...models.formats import Target, parse_target
from ...models.signature import TensorSpec, parse_input
from ...serving.runtimes.runtime_table import RUNTIMES
from ..commands.bench_options import LoadOptions, TuningOptions
from ..load.load_cases import LOAD_SECONDS, LoadEngine, check_load, parse_load
from . import completion_values

Texts = list[str] | None

To = Annotated[
    Texts,
    typer.Option(
        "--to",
        metavar="TARGETS",
        help="Targets, FORMAT[:PRECISION], as in onnx,tflite:int8.",
        autocompletion=completion_values.complete_targets,
    ),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where to put what is made.")]
Input = Annotated[
    Texts,
    typer.Option(
        "--input",
        metavar="SPEC",
        help="An input, NAME=DTYPE[dims], as in image=float32[batch,3,224,224]; once for each. Sizes may have bounds "
        "and a step, as in height=32..1024:32 or seq=1..; values stand behind: "
        "'ids=int64[batch,seq=1..128] in 0..30521'.",
    ),
]
Weights = Annotated[Path | None, typer.Option("--weights", metavar="FILE", help="The weights of a model that is code.")]
WeightsKey = Annotated[
    str | None,
    typer.Option("--weights-key", metavar="KEY", help="The part of that file that holds them, as in model_ema.state."),
]
Set = Annotated[
    Texts,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="What makes the model is called with it, as in depth=50, widths=[8,16], config.depth=50; once for each.",
    ),
]
Python = Annotated[
    str | None,
    typer.Option(
        "--python",
        metavar="PATH",
        help="The Python, or the environment, that the model's code lives in; self: ours. By itself that of its "
        "project, where it has torch (docs/environments.md).",
    ),
]
ModelSeconds = Annotated[
    float | None,
    typer.Option(
        "--model-seconds",
        min=1,
        metavar="S",
        help="The time limit for code that makes a model, 180, or for reading a file, 20.",
    ),
]
SearchSeconds = Annotated[
    float | None,
    typer.Option(
        "--search-seconds",
        min=0,
        metavar="S",
        help="How long to look for the smallest piece that fails where no route is left, 90; 0: not at all.",
    ),
]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Take a model whose operators may read and write files or run code."),
]
Flex = Annotated[
    bool,
    typer.Option("--flex", help="Where TFLite has no kernel, TensorFlow's: what runs it then needs its Flex delegate."),
]
KeepFloat = Annotated[
    str | None,
    typer.Option(
        "--keep-float", metavar="auto", help="tflite:int8 keeps in float32 the layers that win most dB for their bytes."
    ),
]
Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="DATA",
        help="Samples: FILE.npz, a folder of images, FILE.csv, FILE.parquet or FILE.py:NAME (docs/data.md).",
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="The task's metric beside the labels: accuracy, top5, f1, auroc, ece, mae, rmse, r2, cosine, recall@K, "
        "miou, map, perplexity or FILE.py:FUNCTION.",
        autocompletion=completion_values.complete_metrics,
    ),
]
AllowedLoss = Annotated[
    float | None,
    typer.Option(
        "--allowed-loss",
        min=0,
        metavar="LOSS",
        help="How much of the metric a reduced precision may lose, in its own unit: 0.01 of a share is a point.",
    ),
]
Batch = Annotated[Texts, typer.Option("--batch", metavar="SIZES", help="Batch sizes, as in 1,8.")]
RuntimeNames = Annotated[
    Texts,
    typer.Option(
        "--runtime",
        metavar="NAMES",
        help="Runtimes, as in onnxruntime,tflite ('transload formats').",
        autocompletion=completion_values.complete_runtimes,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="DEVICE",
        help="auto, cpu, cuda or cuda:N.",
        autocompletion=completion_values.complete_devices,
    ),
]
Rounds = Annotated[
    int | None, typer.Option("--rounds", min=3, metavar="N", help="Turns of each model in each process, at least.")
]
Processes = Annotated[
    int | None, typer.Option("--processes", min=1, metavar="N", help="New processes of each model, at least.")
]
Budget = Annotated[
    str | None,
    typer.Option("--budget", metavar="TIME", help="Measure until all is settled, or for so long: 60s, 5m; 0s: once."),
]
SameWithin = Annotated[
    str | None, typer.Option("--same-within", metavar="SHARE", help="A ratio this close to 1 is the same, as in 2%.")
]
Load = Annotated[
    Texts,
    typer.Option(
        "--load",
        metavar="LOAD",
        help="Put load on it: closed:1,2,4 (connections), constant:100 or poisson:100,200 (requests a second), "
        "server:200@10ms, single-stream, multi-stream:8, offline; once for each.",
    ),
]
LoadSeconds = Annotated[
    float | None, typer.Option("--load-seconds", min=0.1, max=3600, metavar="S", help="How long each load lasts, 10.")
]
LoadEngines = Annotated[
    Texts,
    typer.Option("--load-engine", metavar="NAMES", help="What sends it: transload, loadgen (MLPerf's), or both."),
]
BatchBound = Annotated[
    str | None,
    typer.Option("--latency-bound", metavar="TIME", help="Find the batch of most throughput whose p99 keeps it: 10ms."),
]
Untuned = Annotated[bool, typer.Option("--untuned", help="Use the defaults, whatever tuning.json says.")]
LatencyBound = Annotated[
    str | None,
    typer.Option(
        "--latency-bound",
        metavar="TIME",
        help="Recommend only copies whose p99 keeps this, as in 10ms: the upper end of its 95 % interval.",
    ),
]
MetricLoss = Annotated[
    float | None,
    typer.Option(
        "--metric-loss",
        min=0,
        metavar="POINTS",
        help="Recommend only copies that lose at most this: percentage points of a share, else the metric's unit.",
    ),
]
PricePerHour = Annotated[
    float | None,
    typer.Option("--price-per-hour", min=0, metavar="PRICE", help="Of this machine: the cost of a million samples."),
]
Threads = Annotated[int | None, typer.Option("--threads", min=1, metavar="N", help="Threads of a runtime.")]
Junit = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write the rows as JUnit XML, for a CI (docs/ci.md).")
]
Sarif = Annotated[
    Path | None, typer.Option("--sarif", metavar="FILE", help="Write what does not pass as SARIF, with source lines.")
]
SignKey = Annotated[
    Path | None,
    typer.Option("--sign-key", metavar="KEY.pem", help="Sign the statement beside each artifact (docs/verify.md)."),
]
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, metavar="N", help="Steps side by side.")]
Executor = Annotated[
    str | None,
    typer.Option(
        "--executor", metavar="NAME", help="Where steps are done: local, ray, or ray://HOST:PORT (docs/scale.md)."
    ),
]
Store = Annotated[
    Path | None, typer.Option("--store", metavar="DIR", help="Where finished steps are kept: a folder or a URL.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, alone, on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress; the result and errors only.")]

TfservingUrl = Annotated[
    str | None, typer.Option("--tfserving-url", metavar="HOST:GRPC[,REST]", help="A running TF Serving to use.")
]
TfservingModel = Annotated[
    str | None, typer.Option("--tfserving-model", metavar="NAME", help="The model's name on it.  [default: model]")
]
Mlflow = Annotated[
    str | None,
    typer.Option(
        "--mlflow", metavar="URI", help="A tracking server of MLflow, http://HOST:PORT; env: MLFLOW_TRACKING_URI."
    ),
]
Experiment = Annotated[
    str | None,
    typer.Option(
        "--experiment",
        metavar="NAME",
        help="The experiment there; else MLFLOW_EXPERIMENT_NAME, else as the model.",
    ),
]
ModelName = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="Registered models are called NAME-TARGET; without it by the model."),
]
Promote = Annotated[
    str | None,
    typer.Option(
        "--promote", metavar="ALIAS", help="Move this alias of the registered models to a run that passes, as champion."
    ),
]


def split(values: Sequence[str] | None) -> tuple[str, ...]:
    """Return the words of an option that takes a list: `--to a,b --to c` is a, b, c.
    Raises BadRequest where the option is there and names nothing: that is not the same as leaving it out."""
    words = tuple(word for value in values or () for part in value.split(",") if (word := part.strip()))
    if values and not words:
        raise BadRequest("an option that takes a list was given an empty one", fix="name something, or leave it out")
    return words


def parse_targets(values: Sequence[str] | None) -> tuple[Target, ...]:
    """`--to`, each target once, in order. Raises BadRequest."""
    return tuple(dict.fromkeys(parse_target(word) for word in split(values)))


def parse_runtimes(values: Sequence[str] | None) -> tuple[str, ...]:
    """`--runtime`, each once, in order. Raises BadRequest with the names that are known."""
    for word in split(values):
        if word not in RUNTIMES:
            raise BadRequest(f"unknown runtime {word!r}", fix=f"use one of {', '.join(RUNTIMES)}")
    return tuple(dict.fromkeys(split(values)))


def parse_batches(values: Sequence[str] | None) -> tuple[int, ...]:
    """`--batch`, each size once, in order. Raises BadRequest."""
    for word in split(values):
        if not word.isdecimal() or len(word) > _MOST_DIGITS or int(word) < 1:
            raise BadRequest(f"{word[:80]!r} is no batch size", fix="use whole numbers from 1, as in --batch 1,8")
    return tuple(dict.fromkeys(int(word) for word in split(values)))


def parse_load_engines(values: Sequence[str] | None) -> tuple[str, ...]:
    """`--load-engine`, each once, in order. Raises BadRequest."""
    for word in split(values):
        if word not in set(LoadEngine):
            raise BadRequest(f"unknown load engine {word!r}", fix=f"use {' or '.join(LoadEngine)}")
    return tuple(dict.fromkeys(split(values)))


def parse_load_options(values: Texts, seconds: float | None, engines: Texts) -> LoadOptions | None:
    """`--load` with its `--load-seconds` and `--load-engine`, checked; commas belong to `--load` here.
    Raises BadRequest."""
    if not values:
        _require({"--load-seconds": seconds, "--load-engine": engines}, "a load", "--load")
        return None
    chosen = parse_load_engines(engines)
    words = [LoadEngine(engine) for engine in chosen] or [LoadEngine.TRANSLOAD]
    check_load(parse_load(values), words, LOAD_SECONDS if seconds is None else seconds)
    return LoadOptions(cases=tuple(values), seconds=seconds, engines=chosen or None)


def parse_tuning_options(budget: str | None, latency_bound: str | None, *, tune: bool) -> TuningOptions | None:
    """`--tune` with its `--tune-budget` and `--latency-bound`. Raises BadRequest."""
    if not tune:
        _require({"--tune-budget": budget, "--latency-bound": latency_bound}, "a search of settings", "--tune")
        return None
    return TuningOptions(budget_s=parse_duration(budget), latency_bound_s=parse_latency(latency_bound))


def _require(dependent: Mapping[str, object], subject: str, option: str) -> None:
    """Raise BadRequest where an option was used that belongs to another, which was not."""
    for name, value in dependent.items():
        if value is not None:
            raise BadRequest(f"{name} belongs to {subject}", fix=f"give {option}, too")


_MOST_DIGITS = 18  # of a batch size: an int64
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h)?")
_SECONDS = {None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(value: str | None) -> float | None:
    """Seconds of a time as in "60s", "5m", "1h", "10ms", "250us" or "90". Raises BadRequest."""
    if value is None:
        return None
    match = _DURATION.fullmatch(value.strip())
    if not match:
        raise BadRequest(f"{value!r} is no time", fix="write it as in 60s, 5m or 10ms")
    return float(match[1]) * _SECONDS[match[2]]


def parse_latency(value: str | None) -> float | None:
    """Seconds of a latency as in "10ms", "0.5s" or "250us". Raises BadRequest."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(us|ms|s)", value.strip())
    if not match or not float(match[1]):
        raise BadRequest(f"{value!r} is no latency", fix="write it as in 10ms, 250us or 0.5s")
    return float(match[1]) * {"us": 1e-6, "ms": 1e-3, "s": 1.0}[match[2]]


def release_options(
    latency_bound: str | None, metric_loss: float | None, price_per_hour: float | None
) -> dict[str, float | None]:
    """Return the section [release] of these options. Raises BadRequest where the bound is no time."""
    return {
        "latency_bound_s": parse_latency(latency_bound),
        "metric_loss_points": metric_loss,
        "price_per_hour": price_per_hour,
    }


def mlflow_options(
    uri: str | None, experiment: str | None, name: str | None, promote: str | None
) -> dict[str, str | None]:
    """Return the section [mlflow] of these options."""
    return {"uri": uri, "experiment": experiment, "model": name, "promote": promote}


def parse_share(value: str | None) -> float | None:
    """A share as in "2%" or "0.02", above 0 and below 1. Raises BadRequest."""
    if value is None:
        return None
    try:
        share = float(value.strip().removesuffix("%")) / (100 if value.strip().endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise BadRequest(f"{value!r} is no share between 0 and 1", fix="write it as in 2% or 0.02")
    return share


_PYTHON = {"True": True, "False": False, "None": None}  # not JSON, and never meant as text
_SETTING = re.compile(r"[A-Za-z_]\w*(\.\w+)*")


def parse_settings(values: Sequence[str] | None) -> dict[str, Any]:
    """`--set`, by name: JSON where it is JSON, True, False and None as Python has them, else text.
    Raises BadRequest."""
    settings: dict[str, Any] = {}
    for value in values or ():
        name, equals, text = value.partition("=")
        if not equals or not _SETTING.fullmatch(name.strip()):
            raise BadRequest(f"--set {value!r} is not of the form NAME=VALUE", fix="write it as in --set depth=50")
        if name.strip() in settings:
            raise BadRequest(f"--set names {name.strip()!r} twice", fix="give every setting once")
        settings[name.strip()] = _setting(text.strip())
    return settings


def _setting(text: str) -> Any:
    if text in _PYTHON:
        return _PYTHON[text]
    try:
        return json.loads(text, parse_constant=str)  # NaN and Infinity are none of JSON's
    except (ValueError, RecursionError):
        return text


def parse_inputs(values: Sequence[str] | None) -> tuple[TensorSpec, ...]:
    """`--input`, in order: the model's own. Commas belong to the dims here. Raises BadRequest."""
    specs = tuple(parse_input(value) for value in values or ())
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise BadRequest(f"--input names {name!r} twice", fix="give every input once")
    return specs

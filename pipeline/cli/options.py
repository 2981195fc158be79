"""The options that several commands share, each in one word, one spelling, one help text.

A command takes them as `def command(batch: Batch = None, json: Json = False)`; option_values.py turns their words into
what the library takes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .completion import completion_values
from .option_values import Texts

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
NonFinite = Annotated[
    str | None,
    typer.Option(
        "--non-finite",
        metavar="WORD",
        help="What it means that a copy does not pass NaN or infinities on: note (the default), or require, a failure.",
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
ModelVersion = Annotated[
    str | None,
    typer.Option("--model-version", metavar="V", help="The release's version, for its statement (docs/verify.md)."),
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
AllowMissing = Annotated[
    bool,
    typer.Option("--allow-missing", help="Targets, runtimes and test samples of the earlier run may be missing."),
]
Promote = Annotated[
    str | None,
    typer.Option(
        "--promote", metavar="ALIAS", help="Move this alias of the registered models to a run that passes, as champion."
    ),
]

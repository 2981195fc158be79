"""The options that several commands share, each in one word, one spelling, one help text.

A command's record takes them as `batches: shared.Batches = None`; option_words.py turns texts into what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from ...models.formats import Target
from ...models.signature import TensorSpec
from . import completion_values as complete
from . import option_words as words
from .option import Key, Option, Positional, Side


def by(parse: Callable[[Any], Any], accepted: Any = str) -> BeforeValidator:
    """Return what makes a value of texts, and of what a function takes in its place; None stays."""
    return BeforeValidator(lambda value: None if value is None else parse(value), json_schema_input_type=accepted)


def texts(accepted: Any = str | Path) -> BeforeValidator:
    """Return what makes a tuple of texts; None stays."""
    return by(lambda values: tuple(map(str, values)), accepted)


def absolute(path: Path | str) -> str:
    """Return a path that holds wherever the pipeline file lies."""
    return str(Path(path).absolute())


def absolute_python(text: str) -> str:
    """Return a path that holds wherever the pipeline file lies; `self` and the name of a program stay."""
    return absolute(text) if "/" in text or Path(text).exists() else text


Text = by(str, str | Path)

# The model, its data, and what makes it.

Model = Annotated[Any, by(lambda model: model, str | Path | object)]  # a text that names it, or the model itself
Candidates = Annotated[tuple[str, ...], texts(), Positional(starred=True)]
Weights = Annotated[
    Path | None, Key("model.weights", absolute), Option("--weights", "FILE", "The weights of a model that is code.")
]
WeightsKey = Annotated[
    str | None,
    Key("model.weights_key"),
    Option("--weights-key", "KEY", "The part of that file that holds them, as in model_ema.state."),
]
Settings = Annotated[
    dict[str, Any] | None,
    by(words.parse_settings, Mapping[str, Any]),
    Key("model.set"),
    Option(
        "--set",
        "NAME=VALUE",
        "What makes the model is called with it, as in depth=50, widths=[8,16], config.depth=50; once for each.",
        several=True,
    ),
]
Python = Annotated[
    str | None,
    Text,
    Key("model.python", absolute_python),
    Option(
        "--python",
        "PATH",
        "The Python, or the environment, that the model's code lives in; self: ours. By itself that of its "
        "project, where it has torch (docs/environments.md).",
    ),
]
ModelSeconds = Annotated[
    float | None,
    Key("model.seconds"),
    Option(
        "--model-seconds", "S", "The time limit for code that makes a model, 180, or for reading a file, 20.", min=1
    ),
]
ModelVersion = Annotated[
    str | None,
    Key("model.version"),
    Option("--model-version", "V", "The release's version, for its statement (docs/verify.md)."),
]
Trust = Annotated[
    bool,
    Key("model.trust"),
    Option("--trust", help="Take a model whose operators may read and write files or run code."),
]
Inputs = Annotated[
    tuple[TensorSpec, ...],
    by(words.parse_inputs, Sequence[str | TensorSpec]),
    Option(
        "--input",
        "SPEC",
        "An input, NAME=DTYPE[dims], as in image=float32[batch,3,224,224]; once for each. Sizes may have bounds "
        "and a step, as in height=32..1024:32 or seq=1..; values stand behind: "
        "'ids=int64[batch,seq=1..128] in 0..30521'.",
        several=True,
    ),
]
Data = Annotated[
    str | None,
    Text,
    Option(
        "--data",
        "DATA",
        "Samples: FILE.npz, a folder of images, FILE.csv, FILE.parquet or FILE.py:NAME (docs/data.md).",
    ),
]

# The conversion.

Targets = Annotated[
    tuple[Target, ...] | None,
    by(words.parse_targets, Sequence[str | Target]),
    Key("convert.targets", lambda targets: list(map(str, targets))),
    Option(
        "--to",
        "TARGETS",
        "Targets, FORMAT[:PRECISION], as in onnx,tflite:int8.",
        several=True,
        complete=complete.complete_targets,
    ),
]
SearchSeconds = Annotated[
    float | None,
    Key("convert.search_seconds"),
    Option(
        "--search-seconds",
        "S",
        "How long to look for the smallest piece that fails where no route is left, 90; 0: not at all.",
        min=0,
    ),
]
Flex = Annotated[
    bool,
    Key("convert.flex"),
    Option("--flex", help="Where TFLite has no kernel, TensorFlow's: what runs it then needs its Flex delegate."),
]
KeepFloat = Annotated[
    str | None,
    Key("convert.keep_float"),
    Option("--keep-float", "auto", "tflite:int8 keeps in float32 the layers that win most dB for their bytes."),
]

# The check.

Metric = Annotated[
    str | None,
    Key("validate.metric"),
    Option(
        "--metric",
        "NAME",
        "The task's metric beside the labels: accuracy, top5, f1, auroc, ece, mae, rmse, r2, cosine, recall@K, "
        "miou, map, perplexity or FILE.py:FUNCTION.",
        complete=complete.complete_metrics,
    ),
]
AllowedLoss = Annotated[
    float | None,
    Key("validate.allowed_loss"),
    Option(
        "--allowed-loss",
        "LOSS",
        "How much of the metric a reduced precision may lose, in its own unit: 0.01 of a share is a point.",
        min=0,
    ),
]
NonFinite = Annotated[
    str | None,
    Key("validate.non_finite"),
    Option(
        "--non-finite",
        "WORD",
        "What it means that a copy does not pass NaN or infinities on: note (the default), or require, a failure.",
    ),
]
Runtimes = Annotated[
    tuple[str, ...] | None,
    by(words.parse_runtimes, Sequence[str]),
    Option(
        "--runtime",
        "NAMES",
        "Runtimes, as in onnxruntime,tflite ('transload formats').",
        several=True,
        complete=complete.complete_runtimes,
    ),
]
Batches = Annotated[
    tuple[int, ...] | None,
    by(words.parse_batches, Sequence[int]),
    Option("--batch", "SIZES", "Batch sizes, as in 1,8.", several=True),
]
Device = Annotated[
    str | None,
    Key("device"),
    Option("--device", "DEVICE", "auto, cpu, cuda or cuda:N.", complete=complete.complete_devices),
]
TfservingUrl = Annotated[
    str | None, Key("tfserving_url"), Option("--tfserving-url", "HOST:GRPC[,REST]", "A running TF Serving to use.")
]
TfservingModel = Annotated[
    str | None, Key("tfserving_model"), Option("--tfserving-model", "NAME", "The model's name on it.  [default: model]")
]

# The measurement.

UNTUNED = Option("--untuned", help="Use the defaults, whatever tuning.json says.")
Threads = Annotated[int | None, Key("bench.threads"), Option("--threads", "N", "Threads of a runtime.", min=1)]
Processes = Annotated[
    int | None, Key("bench.processes"), Option("--processes", "N", "New processes of each model, at least.", min=1)
]
Budget = Annotated[
    float | None,
    by(words.parse_duration, str | float),
    Key("bench.budget_s"),
    Option("--budget", "TIME", "Measure until all is settled, or for so long: 60s, 5m; 0s: once."),
]

# What may be released.

LatencyBound = Annotated[
    float | None,
    by(words.parse_latency, str | float),
    Key("release.latency_bound_s"),
    Option(
        "--latency-bound",
        "TIME",
        "Recommend only copies whose p99 keeps this, as in 10ms: the upper end of its 95 % interval.",
    ),
]
MetricLoss = Annotated[
    float | None,
    Key("release.metric_loss_points"),
    Option(
        "--metric-loss",
        "POINTS",
        "Recommend only copies that lose at most this: percentage points of a share, else the metric's unit.",
        min=0,
    ),
]
PricePerHour = Annotated[
    float | None,
    Key("release.price_per_hour"),
    Option("--price-per-hour", "PRICE", "Of this machine: the cost of a million samples.", min=0),
]
ALLOW_MISSING = Option("--allow-missing", help="Targets, runtimes and test samples of the earlier run may be missing.")

# Where the work is done and kept.

Out = Annotated[Path | None, Option("--out", "DIR", "Where to put what is made.")]
Runs = Annotated[Path, Option("--out", "DIR", "Where runs go.")]
RunsOfFunction = Annotated[Path, Option("--runs", "DIR", "Where runs go.", only=Side.PYTHON)]
Store = Annotated[Path | None, Option("--store", "DIR", "Where finished steps are kept: a folder or a URL.")]
Jobs = Annotated[int | None, Option("--jobs", "N", "Steps side by side.", min=1)]
Executor = Annotated[
    str | None, Option("--executor", "NAME", "Where steps are done: local, ray, or ray://HOST:PORT (docs/scale.md).")
]
SignKey = Annotated[
    Path | None, Option("--sign-key", "KEY.pem", "Sign the statement beside each artifact (docs/verify.md).")
]

# MLflow.

MlflowUri = Annotated[
    str | None,
    Key("mlflow.uri"),
    Option("--mlflow", "URI", "A tracking server of MLflow, http://HOST:PORT; env: MLFLOW_TRACKING_URI."),
]
Experiment = Annotated[
    str | None,
    Key("mlflow.experiment"),
    Option("--experiment", "NAME", "The experiment there; else MLFLOW_EXPERIMENT_NAME, else as the model."),
]
Promote = Annotated[
    str | None,
    Key("mlflow.promote"),
    Option("--promote", "ALIAS", "Move this alias of the registered models to a run that passes, as champion."),
]

# What is printed, and a list of models.

Json = Annotated[bool, Option("--json", help="Print the result as JSON, alone, on stdout.", only=Side.LINE)]
Quiet = Annotated[bool, Option("--quiet", help="No progress; the result and errors only.", short="-q")]
Junit = Annotated[
    Path | None, Option("--junit", "FILE", "Write the rows as JUnit XML, for a CI (docs/ci.md).", only=Side.LINE)
]
Sarif = Annotated[
    Path | None, Option("--sarif", "FILE", "Write what does not pass as SARIF, with source lines.", only=Side.LINE)
]
Resume = Annotated[
    bool,
    Option("--resume", help="Of a models file: go on with what an earlier command did not finish.", only=Side.LINE),
]
FailFast = Annotated[
    bool, Option("--fail-fast", help="Of a models file: stop at the first model that fails.", only=Side.LINE)
]

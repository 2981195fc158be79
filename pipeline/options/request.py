"""The request of a run: the pipeline file (TOML), checked, and the command line over it (docs/pipeline-file.md)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import psutil
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from ...models.errors import BadRequest
from ...models.formats import Format, Target, parse_target
from ...models.sources import CodeRef, code_ref
from ...serving.runtimes.runtime_table import RUNTIMES, default_runtimes
from ...serving.server.tfserving_launch import parse_url
from ..drift.metrics.metric_kinds import is_function, kind_of_metric
from ..result.compare.compare_limits import CompareLimits
from ..result.load_cases import LOAD_SECONDS, LoadEngine, check_load, parse_load
from ..result.mlflow_names import check_address, check_alias
from ..result.ratio import LEAST_PROCESSES, SAME_WITHIN
from ..result.release_limits import KINDS, Limit, check_metric_limits, check_use, read_limit
from ..result.size_text import parse_size
from ..workers.executor_choice import LOCAL, parse_executor
from .toml_file import line_of, read_toml, refused_key

PAGE = "docs/pipeline-file.md"

ALL_TARGETS = (
    "pt2", "torchscript", "onnx", "onnx:int8", "onnx:fp16", "saved-model",
    "tflite", "tflite:fp16", "tflite:int8-dynamic", "tflite:int8",
)  # fmt: skip


@contextmanager
def _refused_as_value() -> Iterator[None]:
    """Turn a BadRequest into the ValueError that pydantic expects of a validator."""
    try:
        yield
    except BadRequest as error:
        raise ValueError(f"{error.what}; {error.fix}") from error


def _by(parse: Callable[[str], object]) -> AfterValidator:
    """Return the validator of a text by a parser. It keeps what the parser makes of a text where that is one."""

    def validate(text: str) -> str:
        with _refused_as_value():
            parsed = parse(text)
        return parsed if isinstance(parsed, str) else text

    return AfterValidator(validate)


def _runtime(text: str) -> str:
    if text not in RUNTIMES:
        raise ValueError(f"unknown runtime {text!r}; use one of {', '.join(RUNTIMES)}")
    return text


def _device(text: str) -> str:
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", text):
        raise ValueError(f"unknown device {text!r}; use auto, cpu, cuda or cuda:N")
    return text


def _metric(text: str) -> str:
    return text if is_function(text) else kind_of_metric(text).name


def _limit(value: object, info: ValidationInfo) -> object:
    return read_limit(str(info.field_name), value)


FiniteLoss = Annotated[float, Field(ge=0)]
ReleaseLimit = Annotated[Limit | None, BeforeValidator(_limit)]
NonFinite = Literal["note", "require"]
TargetText = Annotated[str, _by(lambda text: str(parse_target(text)))]
RuntimeText = Annotated[str, AfterValidator(_runtime)]
DeviceText = Annotated[str, AfterValidator(_device)]
MetricText = Annotated[str, _by(_metric)]
Batches = Annotated[tuple[Annotated[int, Field(ge=1, le=65536)], ...], Field(min_length=1)]


def default_step_memory_gb() -> float:
    """Return the default memory limit of a step: a converter holds a large model several times."""
    return float(round(0.7 * psutil.virtual_memory().total / 1e9, 1))


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_switch(cls, value: object, info: ValidationInfo) -> object:
        """Refuse true and false as numbers: pydantic reads them as 1 and 0."""
        kinds = _types_in(cls.model_fields[str(info.field_name)].annotation)
        items = value if isinstance(value, list | tuple) else (value,)
        if kinds & {int, float} and bool not in kinds and any(isinstance(item, bool) for item in items):
            raise ValueError("a switch is no number")
        return value


def _types_in(annotation: Any) -> set[Any]:
    """Return the types that an annotation is made of."""
    return {annotation}.union(*(_types_in(part) for part in get_args(annotation)))


class ModelSection(_Section):
    """The model: a recipe, with weights that replace its training; or other code that makes one, with its settings."""

    recipe: str = "zoo:digits-cnn"
    weights: str | None = None
    weights_key: str | None = None  # the model's part of the file of weights
    settings: dict[str, JsonValue] = Field(default={}, alias="set")  # arguments of the code that makes the model
    python: str | None = None  # the interpreter that the code lives in; "self" is ours; None: that of its project
    version: Annotated[str, Field(max_length=200)] | None = None  # of this release, for the statement (docs/verify.md)
    trust: bool = False  # take a model whose operators may read and write files or run code
    seconds: float = Field(default=180.0, gt=0)  # to import, make and call it: code may hang


class TrainSection(_Section):
    """The settings of the training that a recipe does not fix."""

    seed: int = Field(default=0, ge=0)
    epochs: int | None = Field(default=None, ge=1)  # None: as the recipe has it
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    devices: int = Field(default=1, ge=1)


class ConvertSection(_Section):
    """The targets, and the limits of a step."""

    targets: Annotated[tuple[TargetText, ...], Field(min_length=1)] = ALL_TARGETS
    cross_check: bool = True  # try the other steps to a target too, and report what they gave
    flex: bool = False  # where TFLite has no kernel, TensorFlow's: the runtime then needs its Flex delegate
    keep_float: Literal["auto"] | None = None  # tflite:int8 keeps the layers in float32 that int8 costs most
    step_seconds: float = Field(default=600.0, gt=0)
    search_seconds: float = Field(default=90.0, ge=0)  # for minimal repros of lost targets, and for where copies fail
    step_memory_gb: float = Field(default_factory=default_step_memory_gb, gt=0)

    @field_validator("keep_float")
    @classmethod
    def _check_keep_float(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value and "tflite:int8" not in info.data.get("targets", ("tflite:int8",)):
            raise ValueError(f"{value!r} needs the target tflite:int8; name it, or leave keep_float out")
        return value

    @property
    def requested(self) -> frozenset[str]:
        """The options that open further steps (converters.steps.Step.on_request)."""
        options = {"flex": self.flex, "keep-float": self.keep_float is not None}
        return frozenset(name for name, is_requested in options.items() if is_requested)


class ValidateSection(_Section):
    """The runtimes and batch sizes of the validation, and its tolerances."""

    runtimes: tuple[RuntimeText, ...] = Field(default_factory=default_runtimes)
    batches: Batches = (1, 2, 5)
    # The least agreement of an fp32 copy, in dB; None: derived from the model's noise floor
    sqnr_db: float | None = Field(default=None, gt=0)
    # The task's metric; None: the recipe's, else the plain one for the labels' shape.
    metric: MetricText | None = None
    allowed_loss: FiniteLoss | None = None  # of the metric, in its own unit; None: as the recipe has it
    non_finite: NonFinite = "note"  # what it means that a copy does not pass NaN or infinities on
    untuned: bool = False  # leave tuning.json beside an artifact alone


class BenchSection(_Section):
    """The latency measurement."""

    enabled: bool = True
    runtimes: tuple[RuntimeText, ...] = Field(default_factory=default_runtimes)
    served: tuple[Format, ...] | None = None  # in fp32 behind one protocol; None: four where `runtimes` is not named
    batches: Batches = (1, 8)
    threads: int = Field(default=1, ge=1)
    rounds: int = Field(default=10, ge=3)  # in each process
    processes: int = Field(default=LEAST_PROCESSES, ge=1)  # at least, one after the other, of each model
    budget_s: float = Field(default=60.0, ge=0)  # of measuring; more processes until then, or until all is settled
    same_within: float = Field(default=SAME_WITHIN, gt=0, lt=1)  # a ratio this close to 1 is the same
    tune: bool = False  # search each runtime's settings first, and measure it with those that win
    tune_budget_s: float = Field(default=60.0, gt=0)  # of the search, for each artifact in each runtime
    untuned: bool = False  # leave tuning.json beside an artifact alone
    latency_bound_s: float | None = Field(default=None, gt=0)  # with `tune`: find the batch whose p99 keeps it
    seed: int = Field(default=0, ge=0)
    load: tuple[
        Annotated[str, _by(lambda text: parse_load([text]))], ...
    ] = ()  # on runtimes beside, as in "closed:1,2,4"
    load_seconds: float = Field(default=LOAD_SECONDS, gt=0, le=3600)  # of each
    load_engines: Annotated[tuple[LoadEngine, ...], Field(min_length=1)] = (LoadEngine.TRANSLOAD,)

    @model_validator(mode="after")
    def _check_load(self) -> Self:
        with _refused_as_value():
            check_load(parse_load(self.load), self.load_engines, self.load_seconds)
        return self


def _no_worse(value: object) -> object:
    """Return a switch as it is, and a table of limits as CompareLimits."""
    if not isinstance(value, Mapping):
        return value
    known = CompareLimits.__dataclass_fields__
    if unknown := [name for name in value if name not in known]:
        raise ValueError(f"unknown limit {unknown[0]!r}; use one of {', '.join(known)}")
    if wrong := [
        name for name, limit in value.items() if isinstance(limit, bool) or not isinstance(limit, int | float)
    ]:
        raise ValueError(f"the limit {wrong[0]} is no number; use a finite number from 0 up")
    with _refused_as_value():
        return CompareLimits(**value)


NoWorse = Annotated[bool | CompareLimits | None, BeforeValidator(_no_worse)]


class BaselineSection(_Section):
    """An earlier run that this one is compared with."""

    run: str | None = None  # its folder
    allow_missing: bool = False  # of targets, runtimes and test samples that it had


class GateSection(_Section):
    """The release rules of pipeline/result/gate.py; a rule that is absent is not applied (docs/gate.md)."""

    require_verified: bool = False
    sqnr_db: ReleaseLimit = None
    metric_loss: ReleaseLimit = None  # in the metric's own unit
    metric_min: ReleaseLimit = None  # of a score, of the source and of each copy
    metric_max: ReleaseLimit = None  # of an error
    latency_ratio: ReleaseLimit = None
    latency_p99: ReleaseLimit = None  # seconds
    size: ReleaseLimit = None  # bytes
    size_ratio: ReleaseLimit = None
    peak_memory: ReleaseLimit = None  # bytes
    no_worse: NoWorse = None  # than the baseline; None: on where there is one

    @property
    def limits(self) -> dict[str, Limit | None]:
        """The limits of the rules that have one."""
        return {rule: getattr(self, rule) for rule in KINDS}


class ReleaseSection(_Section):
    """The user's constraint, under which the reports recommend a copy to release."""

    latency_bound_s: float | None = Field(default=None, gt=0)  # for the upper end of p99's 95 % interval
    # Percentage points of a share, as the reports show them; of another metric in its own unit.
    metric_loss_points: FiniteLoss | None = None
    price_per_hour: float | None = Field(default=None, gt=0)  # of the machine, in any currency


class StoreSection(_Section):
    """The store of finished steps."""

    limit: Annotated[str, _by(parse_size)] | None = None  # None: TRANSLOAD_STORE_LIMIT, else none


class EngineSection(_Section):
    """Where the steps are done."""

    executor: Annotated[str, _by(parse_executor)] = LOCAL
    gpu_kind: str | None = None  # of the nodes that do steps on a GPU, as Ray names it: "H100"


class MlflowSection(_Section):
    """The record of a finished run in MLflow."""

    uri: Annotated[str, _by(check_address)] | None = None  # "env": MLFLOW_TRACKING_URI; None: no record
    experiment: Annotated[str, Field(min_length=1)] | None = None  # None: MLFLOW_EXPERIMENT_NAME, else the model's name
    model: Annotated[str, Field(pattern=r"^[^/:]+$")] | None = None  # before the target, in names of registered models
    promote: Annotated[str, _by(check_alias)] | None = None  # the alias that moves where the run passes

    @field_validator("experiment", "model", "promote")
    @classmethod
    def _check_address_is_named(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value and info.data.get("uri", "") is None:
            raise ValueError(f"{value!r} belongs to a record in MLflow; give --mlflow URI, or uri in [mlflow]")
        return value


class RunRequest(_Section):
    """Everything that a run is to do."""

    model: ModelSection = ModelSection()
    train: TrainSection = TrainSection()
    convert: ConvertSection = ConvertSection()
    validate_: ValidateSection = Field(default=ValidateSection(), alias="validate")
    bench: BenchSection = BenchSection()
    gate: GateSection = GateSection()
    release: ReleaseSection = ReleaseSection()
    baseline: BaselineSection = BaselineSection()
    store: StoreSection = StoreSection()
    engine: EngineSection = EngineSection()
    mlflow: MlflowSection = MlflowSection()
    device: DeviceText = "auto"
    data: str | None = None  # samples, as --data names them; None: the recipe's own, else random ones
    # A running TF Serving, HOST:GRPC_PORT[,REST_PORT].
    tfserving_url: Annotated[str, _by(parse_url)] | None = None
    tfserving_model: str = "model"  # the name that the model has, or gets, on the server
    root: str | None = Field(default=None, exclude=True)  # the pipeline file's folder: paths in it are relative to it

    @property
    def targets(self) -> tuple[Target, ...]:
        """The wanted targets, in order, each once."""
        return tuple(dict.fromkeys(parse_target(text) for text in self.convert.targets))

    @property
    def ref(self) -> CodeRef:
        """The place of the recipe, or of other code that makes the model."""
        return code_ref(self.model.recipe, self.root, self.model.settings)


def _override(table: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Set what is given, table by table: a limit from the command line leaves the others of its table."""
    for key, value in values.items():
        if isinstance(value, Mapping) and isinstance(table.get(key), dict):
            _override(table[key], value)
        elif value is not None:
            table[key] = value


def read_request(path: Path | None, overrides: Mapping[str, Mapping[str, Any] | Any] | None = None) -> RunRequest:
    """Read a pipeline file, or return the default request.
    `overrides` are sections of the same form from the command line, and have precedence; what is None is not given.
    Raises BadRequest with the line of the file and the fix."""
    text, document = read_toml(path, "pipeline file", PAGE) if path is not None else ("", {})
    if "root" in document:
        raise BadRequest(f"{path}: unknown key 'root'", fix="remove it: paths start at the file's folder")
    for section, values in (overrides or {}).items():
        if isinstance(values, Mapping) and isinstance(document.get(section, {}), dict):
            _override(document.setdefault(section, {}), values)
        elif values is not None and not isinstance(values, Mapping):
            document[section] = values
    root = str((path.parent if path else Path()).absolute())
    try:
        request = RunRequest.model_validate({**document, "root": root})
        of_file = request if path is None else RunRequest.model_validate(tomllib.loads(text))
    except ValidationError as error:
        raise refused_key(path, text, error, RunRequest, page=PAGE, hidden=["root"]) from error
    _check_gate(path, text, request, of_file)
    return request


def _check_gate(path: Path | None, text: str, request: RunRequest, of_file: RunRequest) -> None:
    """Raise BadRequest where a rule would never be applied, or is one that the metric of the request cannot have.
    A target or batch size of the file may be named that the command line has narrowed away."""
    targets = [str(target) for target in (*request.targets, *of_file.targets)]
    batches = (*request.bench.batches, *of_file.bench.batches)
    limits = request.gate.limits
    for rule, problem, fix in check_use(limits, targets, batches, is_measured=request.bench.enabled):
        line = line_of(text, ("gate", rule))
        raise BadRequest(f"{path or 'the request'}{f', line {line}' if line else ''}: gate.{rule}: {problem}", fix=fix)
    if request.validate_.metric and not is_function(request.validate_.metric):
        check_metric_limits(limits, kind_of_metric(request.validate_.metric))

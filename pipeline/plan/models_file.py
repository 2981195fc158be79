"""The models file (TOML): a list of models with their options, checked, and its rows (docs/many-models.md).

A row is one model on one device. The command line has precedence over a model's own options, and those over
[defaults]. [sweep] multiplies models by targets, precisions and devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from ...converters.steps import STEPS
from ...models.errors import BadRequest
from ...models.formats import Format, Precision, Target, parse_target
from ...models.signature import parse_input
from ...models.sources import LIBRARIES
from ..options.request import Batches, DeviceText, FiniteLoss, MetricText, NonFinite, RuntimeText, TargetText
from ..options.toml_file import line_of, line_of_item, read_toml, refused_key
from .row_names import check_names, name_of_row

PAGE = "docs/many-models.md"
_TABLES = ("defaults", "sweep")  # that no pipeline file has
_SCHEMES = ("zoo", *LIBRARIES)
_SUFFIXES = (".py", ".onnx", ".pt2", ".pt", ".pth", ".keras", ".tflite")


def _input(text: str) -> str:
    try:
        parse_input(text)
    except BadRequest as error:
        raise ValueError(f"{error.what}; {error.fix}") from error
    return text


class _FileTable(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelOptions(_FileTable):
    """Options of a model, called as those of the command line. None: the command's default."""

    to: Annotated[tuple[TargetText, ...], Field(min_length=1)] | None = None
    inputs: tuple[Annotated[str, AfterValidator(_input)], ...] | None = None
    data: str | None = None
    weights: str | None = None
    weights_key: str | None = None
    settings: dict[str, JsonValue] | None = Field(default=None, alias="set")
    python: str | None = None
    trust: bool | None = None
    device: DeviceText | None = None
    flex: bool | None = None
    keep_float: Literal["auto"] | None = None
    runtimes: tuple[RuntimeText, ...] | None = None
    batches: Batches | None = None
    sqnr_db: float | None = None
    metric: MetricText | None = None
    allowed_loss: FiniteLoss | None = None
    non_finite: NonFinite | None = None
    bench: bool | None = None  # of `run`
    model_version: str | None = None
    model_seconds: Annotated[float, Field(gt=0)] | None = None
    search_seconds: Annotated[float, Field(ge=0)] | None = None
    step_seconds: Annotated[float, Field(gt=0)] | None = None
    step_memory_gb: Annotated[float, Field(gt=0)] | None = None


class ModelEntry(ModelOptions):
    """A model of the list: a MODEL as on the command line, or a pipeline file, which only `run` takes."""

    name: str | None = None  # of its folder; None: after the source
    source: str | None = None
    pipeline: str | None = None

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.source is None) == (self.pipeline is None):
            raise ValueError("a model has either a source or a pipeline; name one, as in source = 'net.py:Net'")
        return self


class Exclusion(_FileTable):
    """Combinations that a sweep leaves out: those that every pattern fits."""

    model: str = "*"
    target: str = "*"  # the format
    precision: str = "*"
    device: str = "*"

    @model_validator(mode="after")
    def _check_patterns(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("it excludes everything; name a model, target, precision or device")
        return self

    def fits(self, name: str, target: str, device: str) -> bool:
        """Return whether a combination is excluded."""
        known = parse_target(target)
        values = (name, str(known.format), str(known.precision), device)
        patterns = (self.model, self.target, self.precision, self.device)
        return all(map(fnmatchcase, values, patterns))


class SweepTable(_FileTable):
    """What is multiplied. `models` are further sources, without options of their own."""

    models: tuple[str, ...] = ()
    targets: tuple[Format, ...] = ()
    precisions: tuple[Precision, ...] = (Precision.FP32,)
    devices: tuple[DeviceText, ...] = ()
    exclude: tuple[Exclusion, ...] = ()

    @property
    def combinations(self) -> tuple[str, ...]:
        """The targets of the product that a step leads to, format by format."""
        known = {step.target for step in STEPS}
        pairs = (Target(form, precision) for form, precision in product(self.targets, self.precisions))
        return tuple(dict.fromkeys(str(target) for target in pairs if target in known))


class ModelsFile(_FileTable):
    """A list of models."""

    defaults: ModelOptions = ModelOptions()
    model: tuple[ModelEntry, ...] = ()
    sweep: SweepTable = SweepTable()


@dataclass(frozen=True)
class ListedModel:
    """One model on one device, with all of its options."""

    name: str  # of its folder
    source: str  # a MODEL, or the path of a pipeline file
    root: str  # the folder of the models file, which relative paths start at
    is_pipeline: bool = False
    targets: tuple[str, ...] | None = None  # None: the command's default
    options: Mapping[str, Any] = field(default_factory=dict)  # of ModelOptions, by name, but `to`
    line: int | None = None  # of its source in the models file


def is_models_file(path: Path) -> bool:
    """Return whether a TOML file holds a list of models. A pipeline file has one table [model], and no [defaults].
    Raises BadRequest where it is no TOML."""
    _, document = read_toml(path, "models file", PAGE)
    return isinstance(document.get("model"), list) or any(name in document for name in _TABLES)


def read_models_file(path: Path, overrides: Mapping[str, Any] | None = None) -> tuple[ListedModel, ...]:
    """Return the rows of a models file. `overrides`: options of the command line; what is None is not given.
    Raises BadRequest with the line and the fix."""
    text, document = read_toml(path, "models file", PAGE)
    if isinstance(document.get("model"), dict):
        fix = f"give it to transload run, or write [[model]] for each model ({PAGE})"
        raise BadRequest(f"{path} is a pipeline file: its [model] is one table, and no list", fix=fix)
    try:
        parsed = ModelsFile.model_validate(document)
    except ValidationError as error:
        raise refused_key(path, text, error, ModelsFile, page=PAGE) from error
    entries = [*parsed.model, *(ModelEntry(source=source) for source in parsed.sweep.models)]
    if not entries:
        raise BadRequest(f"{path} lists no model", fix=f"write [[model]] and its source, as {PAGE} does")
    given_options = {name: value for name, value in (overrides or {}).items() if value is not None}
    names = check_names(path, text, [(entry.name, entry.source or entry.pipeline or "") for entry in entries])
    rows = tuple(
        replace(row, line=line)
        for name, entry, line in zip(names, entries, _lines_of(text, parsed), strict=True)
        for row in _rows_of(parsed, name, entry, given_options, path.parent)
    )
    if not rows:
        raise BadRequest(f"{path}: [sweep] excludes every combination", fix="take a pattern out of sweep.exclude")
    return rows


def _lines_of(text: str, parsed: ModelsFile) -> Iterator[int | None]:
    """Yield the line of each entry: that of its source or pipeline, or of the item of sweep.models."""
    for at, entry in enumerate(parsed.model):
        yield line_of(text, ("model", at, "source" if entry.source else "pipeline"))
    first = line_of(text, ("sweep", "models"))
    for source in parsed.sweep.models:
        yield first and line_of_item(text, first, source)


def _rows_of(
    parsed: ModelsFile, name: str, entry: ModelEntry, overrides: Mapping[str, Any], folder: Path
) -> Iterator[ListedModel]:
    """Yield the rows of one model: one for each device of the sweep, with the targets that are not excluded."""
    own = entry.model_dump(exclude_unset=True, exclude={"name", "source", "pipeline"})
    options = {**parsed.defaults.model_dump(exclude_unset=True), **own, **overrides}
    common = options.pop("to", None)
    targets = overrides.get("to") or own.get("to") or parsed.sweep.combinations or common
    swept = () if "device" in overrides or "device" in own else parsed.sweep.devices
    for device in swept or (options.get("device"),):
        left = targets
        if targets and "to" not in overrides:
            left = tuple(target for target in targets if not _excluded(parsed.sweep, name, target, device or "auto"))
        if targets and not left:
            continue
        placed = {**options, "device": device} if device else options
        yield ListedModel(
            name_of_row(name, device if len(swept) > 1 else None),
            entry.pipeline or _located(entry.source or "", folder),
            str(folder.absolute()),
            is_pipeline=entry.pipeline is not None,
            targets=left,
            options=placed,
        )


def _excluded(sweep: SweepTable, name: str, target: str, device: str) -> bool:
    return any(exclusion.fits(name, target, device) for exclusion in sweep.exclude)


def _located(source: str, folder: Path) -> str:
    """Return a source whose file is found from the current folder, too; a module of Python starts at the root."""
    scheme, colon, rest = source.partition(":")
    if folder.absolute() == Path.cwd() or (colon and scheme in _SCHEMES and scheme != "hf"):
        return source
    if colon and scheme == "hf":
        return f"hf:{(folder / rest).absolute()}"
    is_module = all(part.isidentifier() for part in scheme.split(".")) and not scheme.endswith(_SUFFIXES)
    return source if is_module and not (folder / source).exists() else str((folder / source).absolute())


def section_of(row: ListedModel, *, cross_check: bool | None = None) -> dict[str, Any]:
    """Return the sections of a request that a row stands for, as a pipeline file has them."""
    option = row.options.get
    runtimes = option("runtimes")
    return {
        "model": {
            "recipe": None if row.is_pipeline else row.source, "weights": option("weights"),
            "weights_key": option("weights_key"), "set": option("settings"), "python": option("python"),
            "trust": option("trust"), "seconds": option("model_seconds"), "version": option("model_version"),
        },
        "convert": {
            "targets": list(row.targets) if row.targets else None, "cross_check": cross_check,
            "flex": option("flex"), "keep_float": option("keep_float"), "search_seconds": option("search_seconds"),
            "step_seconds": option("step_seconds"), "step_memory_gb": option("step_memory_gb"),
        },
        "validate": {
            "runtimes": runtimes, "batches": option("batches"), "sqnr_db": option("sqnr_db"),
            "metric": option("metric"), "allowed_loss": option("allowed_loss"),
            "non_finite": option("non_finite"),
        },
        "bench": {"enabled": option("bench"), "runtimes": runtimes},
        "device": option("device"), "data": option("data"),
    }  # fmt: skip

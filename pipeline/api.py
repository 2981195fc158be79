"""The public Python API: each command as a function. `import transload` has them as transload.convert and so on.

Frameworks run in worker processes, so these functions load none into the caller's process. They raise TransloadError
(models/errors.py) with the message and the fix that the command would print.

This module is longer than 400 lines because the public functions are read, and documented, together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..models.data_sources.data_argument import absolute_data
from ..models.errors import BadRequest, TransloadError
from ..models.formats import Target, parse_target
from ..models.signature import TensorSpec, parse_input
from ..serving.bundles.bundle_records import System
from .commands import bench as bench_command
from .commands import bundle as bundle_command
from .commands import compare as compare_command
from .commands import convert as convert_command
from .commands import history as history_command
from .commands import locate as locate_command
from .commands import record as record_command
from .commands import validate as validate_command
from .commands import verify as verify_command
from .commands.bench import BenchResult
from .commands.bench_options import LoadOptions, TuningOptions
from .commands.bundle import BundleResult
from .commands.compare import CompareResult
from .commands.convert import ConvertManyResult, ConvertResult, convert_models
from .commands.history import HistoryResult
from .commands.live_model_argument import name_model, name_reference
from .commands.locate import LocateAllResult, LocateResult
from .commands.record import RecordResult
from .commands.validate import ValidateResult
from .commands.verify import VerifyResult
from .commands.workspace import remove_if_unused
from .context import LocalSettings
from .plan.model_argument import ModelRequest
from .plan.recorded_source import RecordedSource, find_source, require_source
from .progress import Progress
from .request import RunRequest, read_request
from .result.compare.compare_limits import CompareLimits
from .result.verified_artifact import artifacts_in

if TYPE_CHECKING:
    from .show.notebook_html import NotebookRun

_Path = str | Path


def run(
    pipeline: _Path | None = None,
    *,
    recipe: str | None = None,
    weights: _Path | None = None,
    weights_key: str | None = None,
    python: _Path | None = None,
    data: _Path | None = None,
    epochs: int | None = None,
    budget_s: float | None = None,
    to: Sequence[str] | None = None,
    runtimes: Sequence[str] | None = None,
    metric: str | None = None,
    allowed_loss: float | None = None,
    non_finite: str | None = None,
    device: str | None = None,
    bench: bool = True,
    baseline: _Path | None = None,
    release_loss: float | None = None,
    allow_missing: bool = False,
    mlflow: str | None = None,
    experiment: str | None = None,
    promote: str | None = None,
    runs: _Path = "runs",
    store: _Path | None = None,
    jobs: int | None = None,
    sign_key: _Path | None = None,
    executor: str | None = None,
    quiet: bool = True,
) -> NotebookRun:
    """Train, convert, validate, measure and judge a model, as `transload run` does. Leaves `runs`/<id>/.

    `pipeline` is a pipeline file; the keywords have precedence over it. Without either the digits recipe is run.
    `baseline`: the folder of an earlier run; its artifacts are measured beside the new ones, and the gate refuses what
    is worse: more than `release_loss` of the metric, in its own unit (without it 0.01 of a score, 2 % of an error), or
    targets, runtimes and test samples missing, unless `allow_missing`.
    `sign_key`: a private key in PEM that signs the statements beside the artifacts (docs/verify.md).
    `mlflow`: the address of a tracking server, or "env", that the finished run is sent to (docs/mlflow.md);
    where that fails, the error is raised although runs/<id>/ is whole.
    """
    from .commands.run import run as run_command
    from .show.notebook_html import in_notebook

    sections: dict[str, Any] = {
        "model": {"recipe": recipe, "weights": _absolute(weights), "weights_key": weights_key, "python": _text(python)},
        "train": {"epochs": epochs},
        "data": absolute_data(_text(data)),
        "convert": {"targets": to},
        "validate": {"runtimes": runtimes, "metric": metric, "allowed_loss": allowed_loss, "non_finite": non_finite},
        "bench": {"runtimes": runtimes, "enabled": None if bench else False, "budget_s": budget_s},
        "gate": {"no_worse": None if release_loss is None else {"metric_loss": release_loss}},
        "baseline": {"run": _absolute(baseline), "allow_missing": allow_missing or None},
        "mlflow": {"uri": mlflow, "experiment": experiment, "promote": promote},
        "device": device,
    }
    request = read_request(Path(pipeline) if pipeline else None, sections)
    local = _local(store, jobs, runs, sign_key=sign_key, executor=executor)
    finished = run_command(request, local, Progress(quiet=quiet))
    if isinstance(finished.record, TransloadError):
        raise finished.record
    return in_notebook(finished.result)


def record(
    run: _Path,
    *,
    mlflow: str,
    experiment: str | None = None,
    name: str | None = None,
    promote: str | None = None,
    force: bool = False,
) -> RecordResult:
    """Send the finished run in a folder to MLflow, unless it is there. `mlflow`: the server's address, or "env".

    A run that passed gets a version of the registered model `name`-TARGET for each verified artifact; `promote` is the
    alias that then moves to them; with `force` also where the run did not pass, which tags then say.

    The result has the run's page and the models with their addresses.
    """
    section = {"uri": mlflow, "experiment": experiment, "model": name, "promote": promote}
    return record_command.record(Path(run), read_request(None, {"mlflow": section}).mlflow, force=force)


def convert(
    model: str | Path | object,
    to: Sequence[str | Target],
    *,
    out: _Path,
    inputs: Sequence[str | TensorSpec] = (),
    data: _Path | None = None,
    weights: _Path | None = None,
    weights_key: str | None = None,
    settings: Mapping[str, Any] | None = None,
    python: _Path | None = None,
    model_seconds: float | None = None,
    search_seconds: float | None = None,
    trust: bool = False,
    flex: bool = False,
    keep_float: str | None = None,
    device: str | None = None,
    non_finite: str | None = None,
    store: _Path | None = None,
    jobs: int | None = None,
    sign_key: _Path | None = None,
    model_version: str | None = None,
    executor: str | None = None,
    quiet: bool = True,
) -> ConvertResult:
    """Convert a model to each target in `to`; each lies in `out`/<target>/ once it has been verified.

    `model`: FILE.py[:NAME], package.module:NAME, zoo:NAME, torchvision:NAME, timm:NAME, hf:FOLDER, FILE.onnx, FILE.pt2,
    FILE.pt (TorchScript), FILE.keras, FILE.tflite, a SavedModel's folder, an artifact's; or an nn.Module, an
    onnx.ModelProto or a Keras model, which is written to `out`/source/ first.
    `settings`: the arguments of a class or a function, {"depth": 50}; `weights_key`: the model's part of a file of
    weights. `python`: the interpreter that its code lives in, "self" for ours; without it that of the code's project,
    where there is one (docs/environments.md). `inputs`: its inputs, as "image=float32[batch,3,224,224]".
    `trust`: it may do more than compute.
    `flex`: operators that TFLite lacks may be TensorFlow's, for a runtime with its Flex delegate.
    `keep_float`: "auto" keeps layers of tflite:int8 in float32 that win most dB for their bytes.
    `data`: FILE.npz, a folder of images, FILE.csv, FILE.parquet or FILE.py:NAME (docs/data.md); without it a recipe's
    own data, else random samples. `sign_key`: a private key in PEM that signs the statements beside the artifacts, and
    `model_version` stands in them.

    `non_finite`: "require" refuses routes whose copies do not pass NaN or infinities on.

    The first route that verifies is taken, and no other is tried beside it (`run` does that). A target that could not
    be made has a row with `path` None. The smallest piece at which it fails is searched for `search_seconds`.

    The result has the rows, the verdict and the folder.
    """
    progress = Progress(quiet=quiet)
    with remove_if_unused(Path(out)):
        text, inputs = name_model(model, _specs(inputs), Path(out), progress, has_data=data is not None)
        section = _model_section(
            text, weights, weights_key, settings, model_seconds, trust=trust, python=python, version=model_version
        )
        requests = _convert_requests(
            section,
            to,
            inputs,
            data,
            flex=flex,
            keep_float=keep_float,
            search=search_seconds,
            device=device,
            non_finite=non_finite,
        )
        local = _local(store, jobs, sign_key=sign_key, executor=executor)
        return convert_command.convert(*requests, Path(out), local, progress)


def convert_all(
    models: Sequence[str],
    to: Sequence[str | Target],
    *,
    out: _Path,
    inputs: Sequence[str | TensorSpec] = (),
    data: _Path | None = None,
    python: _Path | None = None,
    model_seconds: float | None = None,
    search_seconds: float | None = None,
    trust: bool = False,
    flex: bool = False,
    keep_float: str | None = None,
    device: str | None = None,
    non_finite: str | None = None,
    store: _Path | None = None,
    jobs: int | None = None,
    sign_key: _Path | None = None,
    executor: str | None = None,
    quiet: bool = True,
) -> ConvertManyResult:
    """Convert several models to each target in `to`, side by side; each target lies in `out`/<name>/<target>/.

    The rest is as in `convert`. A model that cannot be taken has its error in its row, and does not stop the others.

    The result has a row for each model, the worst verdict, and the folder.
    """
    sections = [_model_section(model, None, None, None, model_seconds, trust=trust, python=python) for model in models]
    requests = [
        _convert_requests(
            section,
            to,
            inputs,
            data,
            flex=flex,
            keep_float=keep_float,
            search=search_seconds,
            device=device,
            non_finite=non_finite,
        )
        for section in sections
    ]
    local = _local(store, jobs, sign_key=sign_key, executor=executor)
    return convert_models(requests, Path(out), local, Progress(quiet=quiet))


def _convert_requests(
    model: Mapping[str, Any],
    to: Sequence[str | Target],
    inputs: Sequence[str | TensorSpec],
    data: _Path | None,
    *,
    flex: bool,
    keep_float: str | None,
    search: float | None,
    device: str | None,
    non_finite: str | None,
) -> tuple[RunRequest, ModelRequest]:
    listed = to.split(",") if isinstance(to, str) else to
    targets = [str(target if isinstance(target, Target) else parse_target(target)) for target in listed]
    if not targets:
        raise BadRequest("no target is named", fix="name what to make, as in --to onnx,tflite")
    # Without a cross-check: the other routes took three quarters of the time.
    section = {"targets": targets, "cross_check": False, "flex": flex, "keep_float": keep_float}
    section["search_seconds"] = search
    checks = {"non_finite": non_finite}
    request = read_request(None, {"model": model, "convert": section, "validate": checks, "device": device})
    return request, ModelRequest(model["recipe"], _specs(inputs), data=_text(data))


def validate(
    *candidates: _Path,
    against: str | Path | object | None = None,
    data: _Path | None = None,
    inputs: Sequence[str | TensorSpec] = (),
    weights: _Path | None = None,
    weights_key: str | None = None,
    settings: Mapping[str, Any] | None = None,
    python: _Path | None = None,
    model_seconds: float | None = None,
    trust: bool = False,
    metric: str | None = None,
    allowed_loss: float | None = None,
    non_finite: str | None = None,
    runtimes: Sequence[str] | None = None,
    batches: Sequence[int] | None = None,
    device: str | None = None,
    untuned: bool = False,
    tfserving_url: str | None = None,
    tfserving_model: str | None = None,
    runs: _Path = "runs",
    store: _Path | None = None,
    jobs: int | None = None,
    executor: str | None = None,
    quiet: bool = True,
) -> ValidateResult:
    """Compare the outputs of artifacts (folders, files of models, or URLs of served models) with those of the model
    they were made from. `against` is that model, in any form that `convert` takes; the file of an object is kept under
    `runs`/sources/, and its inputs are those of the artifacts where `inputs` names none.

    There is a row for each artifact, runtime and batch size, the full test set first. `metric`: a name of
    docs/metrics.md, or FILE.py:FUNCTION; the data then holds labels. `allowed_loss`: how much of it a reduced
    precision may lose. `non_finite`: "require" makes it a failure that NaN or infinities are not passed on.

    The result has the rows, the rules that were applied, the verdict and the folder.
    """
    if not candidates:
        raise BadRequest("nothing to validate is named", fix="name the folders of artifacts")
    texts, progress = _artifacts(candidates), Progress(quiet=quiet)
    named = _model_section(None, weights, weights_key, settings, model_seconds, trust=trust, python=python)
    sections, model = _reference(against, named, (_specs(inputs), _text(data)), texts, (Path(runs), progress))
    checks = {"runtimes": runtimes, "batches": batches, "metric": metric, "allowed_loss": allowed_loss}
    checks |= {"untuned": untuned or None, "non_finite": non_finite}
    server = {"tfserving_url": tfserving_url, "tfserving_model": tfserving_model}
    request = _request(model, {**sections, "validate": checks, "device": device, **server})
    local = _local(store, jobs, runs, executor=executor)
    return validate_command.validate(request, texts, model, local, progress)


def locate(
    candidate: _Path,
    *,
    against: str | Path | object | None = None,
    data: _Path | None = None,
    inputs: Sequence[str | TensorSpec] = (),
    weights: _Path | None = None,
    weights_key: str | None = None,
    settings: Mapping[str, Any] | None = None,
    python: _Path | None = None,
    model_seconds: float | None = None,
    trust: bool = False,
    seconds: float = 120.0,
    runs: _Path = "runs",
    store: _Path | None = None,
    jobs: int | None = None,
    quiet: bool = True,
) -> LocateResult:
    """Find the first operator of an artifact whose result its inputs do not explain, with its module and source line.

    `against` is the model in PyTorch: code, a .pt2 file, or an nn.Module. `seconds` limit the search.

    The result has the call that departs, the places, the verdict and the folder.
    """
    if len(texts := _artifacts([candidate])) > 1:
        fix = f"name one of {', '.join(texts)}, or call locate_all"
        raise BadRequest(f"{candidate} holds {len(texts)} artifacts, and locate has one result", fix=fix)
    return locate_all(
        candidate, against=against, data=data, inputs=inputs, weights=weights, weights_key=weights_key,
        settings=settings, python=python, model_seconds=model_seconds, trust=trust, seconds=seconds, runs=runs,
        store=store, jobs=jobs, quiet=quiet,
    ).results[0]  # fmt: skip


def locate_all(
    *candidates: _Path,
    against: str | Path | object | None = None,
    data: _Path | None = None,
    inputs: Sequence[str | TensorSpec] = (),
    weights: _Path | None = None,
    weights_key: str | None = None,
    settings: Mapping[str, Any] | None = None,
    python: _Path | None = None,
    model_seconds: float | None = None,
    trust: bool = False,
    seconds: float = 120.0,
    runs: _Path = "runs",
    store: _Path | None = None,
    jobs: int | None = None,
    quiet: bool = True,
) -> LocateAllResult:
    """Locate as `locate` does in several artifacts of one model, or in all of a folder that `convert` or a run left.

    The result has one of `locate` for each artifact, and says why others could not be searched.
    """
    if not candidates:
        raise BadRequest("nothing to locate is named", fix="name the folders of artifacts")
    progress, texts = Progress(quiet=quiet), _artifacts(candidates)
    named = _model_section(None, weights, weights_key, settings, model_seconds, trust=trust, python=python)
    sections, model = _reference(against, named, (_specs(inputs), _text(data)), texts, (Path(runs), progress))
    request = _request(model, sections)
    local = _local(store, jobs or 1, runs)  # its steps follow each other: one worker with all cores
    return locate_command.locate_all(request, texts, model, local, progress, seconds=seconds)


def bench(
    *candidates: _Path,
    against: str | Path | object | None = None,
    data: _Path | None = None,
    inputs: Sequence[str | TensorSpec] = (),
    weights: _Path | None = None,
    weights_key: str | None = None,
    settings: Mapping[str, Any] | None = None,
    python: _Path | None = None,
    model_seconds: float | None = None,
    trust: bool = False,
    runtimes: Sequence[str] | None = None,
    batches: Sequence[int] | None = None,
    threads: int | None = None,
    rounds: int | None = None,
    processes: int | None = None,
    budget_s: float | None = None,
    same_within: float | None = None,
    load: LoadOptions | None = None,
    tune: TuningOptions | None = None,
    untuned: bool = False,
    device: str | None = None,
    tfserving_url: str | None = None,
    tfserving_model: str | None = None,
    runs: _Path = "runs",
    store: _Path | None = None,
    jobs: int | None = None,
    quiet: bool = True,
) -> BenchResult:
    """Measure the latency of artifacts and of served models (URLs), all in the same rounds.

    Ratios are relative to the model `against`, else to the first candidate in its first runtime; of what is served, to
    the first that is served in the same way. All is repeated in new processes, at least in `processes` of each, until
    all are settled (`same_within`) or `budget_s` is spent. `load` is measured beside that. `tune` searches the settings
    of each runtime first; what it found is used by later calls, too, unless `untuned`.
    The result has the rows and the folder."""
    if not candidates:
        raise BadRequest("nothing to measure is named", fix="name the folders of artifacts")
    texts, progress = _artifacts(candidates), Progress(quiet=quiet)
    named = _model_section(None, weights, weights_key, settings, model_seconds, trust=trust, python=python)
    model: ModelRequest | None = None
    sections = {"model": named}
    if against is not None or find_source(texts):
        sections, model = _reference(against, named, (_specs(inputs), _text(data)), texts, (Path(runs), progress))
    rule = {
        "runtimes": runtimes, "batches": batches, "threads": threads, "rounds": rounds, "processes": processes,
        "budget_s": budget_s, "same_within": same_within, "untuned": untuned or None,
        **(load.section() if load else {}), **(tune.section() if tune else {}),
    }  # fmt: skip
    server = {"tfserving_url": tfserving_url, "tfserving_model": tfserving_model, "device": device}
    request = _request(model, {**sections, "bench": rule, **server})
    return bench_command.bench(
        request, texts, _local(store, jobs, runs), progress,
        against=model, inputs=_specs(inputs), data=model.data if model else _text(data),
    )  # fmt: skip


def compare(
    before: _Path,
    after: _Path,
    *,
    out: _Path | None = None,
    remeasure: bool = False,
    runtimes: Sequence[str] | None = None,
    batches: Sequence[int] | None = None,
    threads: int | None = None,
    processes: int | None = None,
    budget_s: float | None = None,
    device: str | None = None,
    data: _Path | None = None,
    runs: _Path = "runs",
    store: _Path | None = None,
    jobs: int | None = None,
    quiet: bool = True,
    allow_missing: bool = False,
    **limits: float | None,
) -> CompareResult:
    """Compare the run in the folder `after` with the earlier one in `before`.

    `limits`: `drift_db`, `metric_loss`, `latency`, `size` and `memory`, as the options of `transload compare`. `out`: a
    folder for compare.json, compare.md and compare.html. `allow_missing`: artifacts, runtimes and test samples that the
    earlier run had may be missing.

    `remeasure`: the artifacts of both are measured now, each against its former one in the same rounds, in sets of new
    processes, at least `processes` of them, until each is settled; `budget_s` ends it in any case. Runtimes, batch
    sizes and threads are those of the later run, unless they are named; so is the data, where the store still has it.
    Without `out` a folder under `runs` keeps the results.

    The result has the figures with their verdicts, what is new and gone, and the verdict of all.
    """
    known = CompareLimits.__dataclass_fields__
    if unknown := limits.keys() - known:
        raise BadRequest(f"there is no limit {', '.join(sorted(unknown))}", fix=f"use {', '.join(known)}")
    bench = {
        "runtimes": runtimes, "batches": batches, "threads": threads, "processes": processes, "budget_s": budget_s,
    }  # fmt: skip
    own = CompareLimits(**{name: limit for name, limit in limits.items() if limit is not None})
    if not remeasure:
        measuring = {**bench, "device": device, "data": data}
        if named := [name for name, value in measuring.items() if value is not None]:
            raise BadRequest(f"{named[0]} says how to measure, and nothing is measured", fix="add remeasure=True")
        return compare_command.compare(
            Path(before), Path(after), limits=own, allow_missing=allow_missing, out=_path(out)
        )
    request = read_request(None, {"bench": bench, "device": device})
    return compare_command.compare_measured(
        Path(before), Path(after), request, _local(store, jobs, runs), Progress(quiet=quiet),
        limits=own, allow_missing=allow_missing, out=_path(out), data=_text(data),
    )  # fmt: skip


def history(
    *runs: _Path,
    store: _Path | None = None,
    mlflow: str | None = None,
    experiment: str | None = None,
    batch: int = 1,
    out: _Path | None = None,
) -> HistoryResult:
    """Read several runs in the order of time: folders of runs, or folders that hold runs; those that a `store` knows
    of; those of an `experiment` on the server `mlflow`. Without any of them, those that the default store knows of.

    `batch`: the batch size of latencies. `out`: where to write a page that draws them.

    The result has the runs, their machines, and a point for each artifact in each runtime in each run.
    """
    if not runs and store is None and mlflow is None and experiment is None:
        store = LocalSettings().store
        if not store.is_dir():
            raise BadRequest(
                "no run is named", fix="name folders under runs/, or runs/ itself; or --store, or --mlflow"
            )
    places = [Path(run) for run in runs]
    return history_command.history(
        places, batch=batch, out=_path(out), store=_path(store), mlflow=mlflow, experiment=experiment
    )


def verify(
    artifact: _Path,
    *,
    key: _Path | None = None,
    model: str | None = None,
    version: str | None = None,
    replay: bool = False,
) -> VerifyResult:
    """Check the files of an artifact's folder against its statement, and the statement against a public `key` in PEM.

    `model` and `version` are those that it must be of. `replay` asks it its golden samples again, in a worker; without,
    nothing of the artifact is run or loaded. Without a `key` a pass says that the folder is in one piece, and not who
    made it. Raises BadRequest where the folder is no artifact's, or the statement or the key cannot be read.

    The result has the verdict and its exit status as `decided`, the state of the `signature`, the files that are
    `changed`, `missing`, `unlisted`, `relisted` or `linked`, what is `unexpected`, how it `replayed`, and
    as `document` what `transload verify --json` prints.
    """
    return verify_command.verify(Path(artifact), _path(key), model=model, version=version, replay=replay)


def bundle(
    artifact: _Path,
    *,
    system: str | System,
    out: _Path,
    name: str = "model",
    version: int = 1,
    max_batch: int | None = None,
    data: _Path | None = None,
    runs: _Path = "runs",
    store: _Path | None = None,
    quiet: bool = True,
) -> BundleResult:
    """Write the bundle of an artifact for a serving system: tfserving, docker, triton and so on (docs/bundle.md).

    `artifact`: its folder, or that of a run or a convert, of which the best fitting artifact is taken. `out`: a new
    folder. `data`: the inputs of the golden samples; without it those of the run, else random ones. `max_batch`: the
    most rows of a request, for systems that gather requests.

    The result has the folder, the tolerance and the command that checks an endpoint.
    """
    known = ", ".join(System)
    if system not in set(System):
        raise BadRequest(f"no system is called {system!r}", fix=f"use one of {known}")
    return bundle_command.bundle(
        read_request(None, {}), Path(artifact), _local(store, None, runs), Progress(quiet=quiet), system=System(system),
        out=Path(out), name=name, version=version, data=_text(data), max_batch=max_batch,
    )  # fmt: skip


def _model_section(
    model: str | None,
    weights: _Path | None,
    key: str | None,
    settings: Mapping[str, Any] | None,
    seconds: float | None,
    *,
    trust: bool,
    python: _Path | None = None,
    version: str | None = None,
) -> dict[str, Any]:
    """Return the section `model` of a request."""
    code = {"recipe": model, "weights": _absolute(weights), "weights_key": key, "set": dict(settings or {})}
    return {**code, "version": version, "python": _text(python), "seconds": seconds, "trust": trust}


def _artifacts(candidates: Sequence[_Path]) -> list[str]:
    """Return the candidates, with those of a folder of `convert` or of a run one by one."""
    return [text for candidate in candidates for text in artifacts_in(str(candidate))]


def _recorded(
    source: RecordedSource, named: Mapping[str, Any], inputs: tuple[TensorSpec, ...], data: str | None
) -> tuple[dict[str, Any], ModelRequest]:
    """Return the sections of a request and the model that a record names, under what the user named beside it."""
    if any(named[name] for name in ("weights", "weights_key", "set")):
        source = replace(source, record=replace(source.record, weights=""))  # other weights are wanted
    model = ModelRequest(source.text, inputs or source.inputs, data=absolute_data(data) or source.data, recorded=source)
    return {"model": source.section(named), "train": dict(source.record.train)}, model


def _reference(
    against: object, named: dict[str, Any], request: tuple[tuple[TensorSpec, ...], str | None], texts: Sequence[str],
    local: tuple[Path, Progress],
) -> tuple[dict[str, Any], ModelRequest]:  # fmt: skip
    """Return the sections of a request and the model that candidates are compared with: `against`, else the one that
    their records name. `request`: the inputs and data that are named. Raises BadRequest where nothing names it."""
    (inputs, data), (runs, progress) = request, local
    if against is not None:
        text, specs = name_reference(against, inputs, texts, runs, progress, has_data=data is not None)
        return {"model": named | {"recipe": text}}, ModelRequest(text, specs, data=data)
    source = require_source(texts)
    note = f"source: {source.text}, which {source.artifact} was made from; --against names another"
    progress.note(note, once="source")
    return _recorded(source, named, inputs, data)


def _request(model: ModelRequest | None, sections: Mapping[str, Any]) -> RunRequest:
    """Return the request; code that a record names is imported from the folder that it was imported from."""
    request = read_request(None, sections)
    root = model.recorded.root if model and model.recorded else None
    return request.model_copy(update={"root": root}) if root else request


def _specs(inputs: str | TensorSpec | Sequence[str | TensorSpec]) -> tuple[TensorSpec, ...]:
    """Return inputs as records; a single one may stand without a list."""
    inputs = (inputs,) if isinstance(inputs, str | TensorSpec) else inputs
    return tuple(spec if isinstance(spec, TensorSpec) else parse_input(spec) for spec in inputs)


def _text(data: _Path | None) -> str | None:
    return None if data is None else str(data)


def _path(path: _Path | None) -> Path | None:
    return None if path is None else Path(path)


def _absolute(path: _Path | None) -> str | None:
    return None if path is None else str(Path(path).absolute())


def _local(
    store: _Path | None,
    jobs: int | None,
    runs: _Path | None = None,
    *,
    sign_key: _Path | None = None,
    executor: str | None = None,
) -> LocalSettings:
    return LocalSettings.with_defaults(_path(store), _path(runs), jobs, sign_key=_path(sign_key), executor=executor)

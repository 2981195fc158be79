"""The Python face: what the commands do, as functions. `import transload` has them as transload.convert and so on.

Frameworks run in worker processes, so these functions load none into the caller's. They raise TransloadError
(models/errors.py), with the sentence and the mend that the command would print.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..models.errors import BadRequest
from ..models.formats import Target, parse_target
from ..models.signature import TensorSpec, parse_input
from .commands import convert as convert_command
from .commands import validate_bench
from .commands.convert import Converted
from .commands.convert_many import ConvertedModels, convert_models
from .commands.validate_bench import Benched, Validated
from .intake.model import Asked
from .progress import Progress
from .request import RunRequest, read_request
from .result.schema import RunResult
from .settings import Places

_Path = str | Path


def run(
    pipeline: _Path | None = None,
    *,
    recipe: str | None = None,
    weights: _Path | None = None,
    to: Sequence[str] | None = None,
    runtimes: Sequence[str] | None = None,
    device: str | None = None,
    bench: bool = True,
    runs: _Path = "runs",
    store: _Path | None = None,
    jobs: int | None = None,
    quiet: bool = True,
) -> RunResult:
    """Train, convert, validate, measure and judge, as `transload run` does; leaves `runs`/<id>/.

    `pipeline` is a pipeline file; the keywords go before it. Without either it is the digits recipe.
    """
    from .commands.run import run as do

    sections = {
        "model": {"recipe": recipe, "weights": _absolute(weights)},
        "convert": {"targets": to},
        "validate": {"runtimes": runtimes},
        "bench": {"runtimes": runtimes, "enabled": None if bench else False},
        "device": device,
    }
    asked = read_request(Path(pipeline) if pipeline else None, _given(sections))
    return do(asked, _places(store, jobs, runs), Progress(quiet=quiet)).result


def convert(
    model: str,
    to: Sequence[str | Target],
    *,
    out: _Path,
    inputs: Sequence[str | TensorSpec] = (),
    data: _Path | None = None,
    weights: _Path | None = None,
    weights_key: str | None = None,
    settings: Mapping[str, Any] | None = None,
    model_seconds: float | None = None,
    search_seconds: float | None = None,
    trust: bool = False,
    flex: bool = False,
    device: str | None = None,
    store: _Path | None = None,
    jobs: int | None = None,
    quiet: bool = True,
) -> Converted:
    """Carry a model to each target in `to`; each lies in `out`/<target>/ when it has been verified.

    `model`: FILE.py[:NAME], package.module:NAME, zoo:NAME, torchvision:NAME, timm:NAME, hf:FOLDER, FILE.onnx, FILE.pt2,
    FILE.pt (TorchScript), FILE.keras, FILE.tflite, a SavedModel's folder, or an artifact's. `settings`: what a class or
    a function is called with, {"depth": 50}; `weights_key`: the part of a file of weights that is the model's.
    `inputs`: what it takes, as "image=float32[batch,3,224,224]". `trust`: it may do more than compute.
    `flex`: what TFLite has no kernel for may be TensorFlow's, for a runtime with its Flex delegate.
    `data`: an .npz file of inputs by name; without it a recipe's own data, else random samples. The first route that
    verifies is taken, and no other is tried beside it (`run` does that). A target that could not be made has a row with
    `path` None; what it fails at, at its smallest, is looked for as long as `search_seconds` says.

    The result has the rows, the verdict and the folder.
    """
    made = _made_with(weights, weights_key, settings, model_seconds, trust=trust)
    request, asked = _to_convert(model, to, inputs, data, made=made, flex=flex, search=search_seconds, device=device)
    return convert_command.convert(request, asked, Path(out), _places(store, jobs), Progress(quiet=quiet))


def convert_all(
    models: Sequence[str],
    to: Sequence[str | Target],
    *,
    out: _Path,
    inputs: Sequence[str | TensorSpec] = (),
    data: _Path | None = None,
    model_seconds: float | None = None,
    search_seconds: float | None = None,
    trust: bool = False,
    flex: bool = False,
    device: str | None = None,
    store: _Path | None = None,
    jobs: int | None = None,
    quiet: bool = True,
) -> ConvertedModels:
    """Carry several models to each target in `to`, side by side: each lies in `out`/<name>/<target>/. Otherwise as
    `convert`; a model that cannot be taken has its error in its row, and does not keep the others.

    The result has what became of each model, the verdict of the worst, and the folder.
    """
    made = _made_with(None, None, None, model_seconds, trust=trust)
    asked = [
        _to_convert(model, to, inputs, data, made=made, flex=flex, search=search_seconds, device=device)
        for model in models
    ]
    return convert_models(asked, Path(out), _places(store, jobs), Progress(quiet=quiet))


def _to_convert(
    model: str,
    to: Sequence[str | Target],
    inputs: Sequence[str | TensorSpec],
    data: _Path | None,
    *,
    made: Mapping[str, Any],
    flex: bool,
    search: float | None,
    device: str | None,
) -> tuple[RunRequest, Asked]:
    targets = [str(each if isinstance(each, Target) else parse_target(each)) for each in to]
    if not targets:
        raise BadRequest("no target is named", fix="name what to make, as in --to onnx,tflite")
    request = _request(
        model={"recipe": model, **made},
        # Without a cross-check: the other routes took three quarters of the time.
        convert={"targets": targets, "cross_check": False, "flex": flex, "search_seconds": search},
        device=device,
    )
    return request, Asked(model, _specs(inputs), _path(data))


def validate(
    candidate: _Path,
    *,
    against: str,
    data: _Path | None = None,
    inputs: Sequence[str | TensorSpec] = (),
    weights: _Path | None = None,
    weights_key: str | None = None,
    settings: Mapping[str, Any] | None = None,
    model_seconds: float | None = None,
    trust: bool = False,
    runtimes: Sequence[str] | None = None,
    batches: Sequence[int] | None = None,
    device: str | None = None,
    runs: _Path = "runs",
    store: _Path | None = None,
    jobs: int | None = None,
    quiet: bool = True,
) -> Validated:
    """Hold the answers of an artifact (its folder, an .onnx or a .pt2 file) against those of the model it is of.

    One row for each runtime and batch size, the whole test set first.

    The result has the rows, the rules that were applied, the verdict and the folder.
    """
    request = _request(
        model={"recipe": against, **_made_with(weights, weights_key, settings, model_seconds, trust=trust)},
        validate={"runtimes": runtimes, "batches": batches},
        device=device,
    )
    asked = Asked(against, _specs(inputs), _path(data))
    return validate_bench.validate(request, str(candidate), asked, _places(store, jobs, runs), Progress(quiet=quiet))


def bench(
    *candidates: _Path,
    against: str | None = None,
    data: _Path | None = None,
    inputs: Sequence[str | TensorSpec] = (),
    weights: _Path | None = None,
    weights_key: str | None = None,
    settings: Mapping[str, Any] | None = None,
    model_seconds: float | None = None,
    trust: bool = False,
    runtimes: Sequence[str] | None = None,
    batches: Sequence[int] | None = None,
    threads: int | None = None,
    rounds: int | None = None,
    device: str | None = None,
    runs: _Path = "runs",
    store: _Path | None = None,
    jobs: int | None = None,
    quiet: bool = True,
) -> Benched:
    """Measure artifacts in the same rounds. Ratios are held against the model `against`, else against the first
    candidate in its first runtime. One row for each artifact, runtime and batch size; the reference first.

    The result has the rows, and the folder that keeps the samples.
    """
    if not candidates:
        raise BadRequest("nothing to measure is named", fix="name the folders of artifacts")
    request = _request(
        model={"recipe": against, **_made_with(weights, weights_key, settings, model_seconds, trust=trust)},
        bench={"runtimes": runtimes, "batches": batches, "threads": threads, "rounds": rounds},
        device=device,
    )
    return validate_bench.bench(
        request,
        [str(each) for each in candidates],
        _places(store, jobs, runs),
        Progress(quiet=quiet),
        against=Asked(against, _specs(inputs)) if against else None,
        inputs=_specs(inputs),
        data=_path(data),
    )


def _made_with(
    weights: _Path | None,
    key: str | None,
    settings: Mapping[str, Any] | None,
    seconds: float | None,
    *,
    trust: bool,
) -> dict[str, Any]:
    """How a model that is code is made, and whether one that is not may do more than compute, as a request has it."""
    made = {"weights": _absolute(weights), "weights_key": key, "set": dict(settings or {}), "seconds": seconds}
    return {**made, "trust": trust}


def _request(**sections: Any) -> RunRequest:
    return read_request(None, _given(sections))


def _given(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the sections, and of their keys, that were given."""
    given = {name: value for name, value in sections.items() if value is not None}
    return {name: _given(value) if isinstance(value, Mapping) else value for name, value in given.items()}


def _specs(inputs: Sequence[str | TensorSpec]) -> tuple[TensorSpec, ...]:
    return tuple(each if isinstance(each, TensorSpec) else parse_input(each) for each in inputs)


def _path(path: _Path | None) -> Path | None:
    return None if path is None else Path(path)


def _absolute(path: _Path | None) -> str | None:
    return None if path is None else str(Path(path).absolute())


def _places(store: _Path | None, jobs: int | None, runs: _Path | None = None) -> Places:
    return Places.given(_path(store), _path(runs), jobs)

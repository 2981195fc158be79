"""What a statement says of a command: what was asked for, and the digests of what went in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ....models.job_records import DataFacts
from ....models.loading.weight_files import weights_digest
from ....models.sources import WEIGHTS
from ....models.store import digest_of
from ...options.request import RunRequest
from ...plan.code_model import weights_file
from ...plan.model_argument import ModelRequest
from ...plan.run_inputs import ModelWithData
from ...result.environment import describe_environment
from ...show.card.card_records import ModelFacts
from .statement import BuildFacts

# The parts of a request that decide what an artifact is and whether it may be released.
_PARTS = {"model", "train", "convert", "validate_", "gate", "device", "data"}


def build_of_convert(request: RunRequest, model: ModelRequest, inputs: ModelWithData, known: ModelFacts) -> BuildFacts:
    """Return the facts of a `convert`."""
    asked_for = {"data": model.data, "inputs": [str(spec) for spec in model.inputs]}
    return BuildFacts(
        command="convert",
        parameters=_parameters(request) | {name: _without_folders(value) for name, value in asked_for.items() if value},
        dependencies=tuple(_dependencies(request, inputs, known)),
        environment=describe_environment(),
    )


def build_of_run(
    request: RunRequest, inputs: ModelWithData, known: ModelFacts, *, run_id: str, started_at: str
) -> BuildFacts:
    """Return the facts of a `run`, which has an id and a start."""
    return BuildFacts(
        command="run",
        parameters=_parameters(request),
        dependencies=tuple(_dependencies(request, inputs, known)),
        environment=describe_environment(),
        run_id=run_id,
        started_at=started_at,
    )


def _parameters(request: RunRequest) -> dict[str, Any]:
    """Return the options that the user named."""
    named: dict[str, Any] = request.model_dump(mode="json", by_alias=True, exclude_unset=True, include=_PARTS)
    parameters: dict[str, Any] = _without_folders(named)
    return parameters


def _without_folders(value: Any) -> Any:
    """Return a JSON value whose absolute paths have lost their folders, which may say who made it."""
    if isinstance(value, Mapping):
        return {name: _without_folders(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_folders(item) for item in value]
    if isinstance(value, str) and value.startswith(("/", "~", "hf:/")):
        return value[: 3 * value.startswith("hf:")] + value.rstrip("/").rpartition("/")[2]
    return value


def _dependencies(request: RunRequest, inputs: ModelWithData, known: ModelFacts) -> Iterator[Mapping[str, Any]]:
    """Yield what went in beside the model: weights, samples, and the commit of its code."""
    weights = weights_file(request)
    loaded = inputs.source.folder / WEIGHTS
    if weights is not None:
        key = "transload_sha256" if weights.suffix == ".json" else "sha256"
        yield {"name": weights.name, "digest": {key: weights_digest(weights)}, "annotations": {"role": "weights file"}}
    if loaded.is_file():  # as they were trained, or read from the file
        yield {"name": WEIGHTS, "digest": {"sha256": digest_of(loaded)}, "annotations": {"role": "weights"}}
    facts = DataFacts.from_json(inputs.data.facts)
    counts = {"test": facts.test, "calibration": facts.calibration, "random": facts.random}
    yield {
        "name": "samples",
        "digest": {"transload_sha256": inputs.data.digest},
        "annotations": {"role": "samples", **counts},
    }
    if known.commit:
        annotations: dict[str, Any] = {"role": "commit"}
        if known.commit.changed is not None:
            annotations["changed"] = list(known.commit.changed)
        yield {"name": "git", "digest": {"gitCommit": known.commit.commit}, "annotations": annotations}

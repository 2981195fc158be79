"""Candidates of `validate` and `bench`, artifacts or URLs of served models: loaded, with runtimes, and equal inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...models.errors import BadRequest
from ...models.signature import Signature, TensorSpec
from ...serving.clients.model_url import is_model_url, parse_model_url
from ...serving.runtimes.runtime_table import RUNTIMES, Runtime, default_runtimes, runtimes_for
from ..plan.context import Context
from ..plan.loaded_model import LoadedModel, require_runtime
from ..plan.model_argument import candidate_request, start_of
from ..plan.run_inputs import load_model
from ..plan.served_model import load_served


def check_candidate(text: str, runtimes: Sequence[str]) -> None:
    """Check a candidate before it is loaded: it is an artifact, and the runtimes that were named take its format.
    The URL of a served model says its runtime itself.
    Raises BadRequest where it is a model that is still code, or no named runtime takes it, ToolMissing where a named
    runtime is not installed."""
    if is_model_url(text):
        require_runtime(parse_model_url(text).runtime)
        return
    target = start_of(text)
    if target is None and ":" not in text and not Path(text).exists():
        raise BadRequest(f"no such file or folder: {text}", fix="name an artifact's folder, or a model in a file")
    if target is None:
        raise BadRequest(
            f"{text} is a model and no artifact", fix=f"convert it first: transload convert {text} --to onnx --out DIR"
        )
    if tuple(runtimes) == default_runtimes():
        return
    takers = [runtime.name for runtime in RUNTIMES.values() if runtime.accepts(target.format)]
    fitting = [name for name in runtimes if name in takers]
    if not fitting:
        raise BadRequest(
            f"none of the runtimes {', '.join(runtimes)} takes {target.format}", fix=f"use {', '.join(takers)}"
        )
    for name in fitting:
        require_runtime(name)


def load_candidate(context: Context, text: str, inputs: Sequence[TensorSpec]) -> LoadedModel:
    """Load a candidate: into the store, or by asking its server. `inputs` are those of a TorchScript file.
    Raises TransloadError where it cannot be taken."""
    return load_served(context, text) if is_model_url(text) else load_model(context, candidate_request(text, inputs))


def check_operators(text: str, candidate: LoadedModel, runtimes: Sequence[str]) -> None:
    """Refuse runtimes that lack the operators of a TFLite file, which are known once it is loaded.
    Raises BadRequest, or ToolMissing where the runtime that has them is not installed."""
    if candidate.served:
        return
    takers = [runtime.name for runtime in fitting_runtimes(candidate)]
    flex = ", ".join(candidate.flex)
    if not set(runtimes).intersection(takers):
        reason = f"needs TensorFlow's Flex delegate for {flex}" if flex else "holds no operator of TensorFlow's"
        raise BadRequest(f"{text} {reason}, so {', '.join(runtimes)} is not for it", fix=f"use {', '.join(takers)}")
    for name in takers if flex else ():
        require_runtime(name)


def fitting_runtimes(candidate: LoadedModel) -> tuple[Runtime, ...]:
    """Return the runtimes that take a candidate."""
    if candidate.served:
        return (RUNTIMES[candidate.served.url.runtime],)
    return runtimes_for(candidate.start.format, candidate.flex) if candidate.start else ()


def check_same_inputs(
    candidate: str, ours: Signature, model: str, theirs: Signature, *, may_fix_batch: bool = False
) -> None:
    """Raise BadRequest where two models take different inputs, so that their outputs cannot be compared.
    `may_fix_batch`: the candidate may be for one batch of the model's."""
    if not has_same_inputs(ours, theirs, may_fix_batch=may_fix_batch):
        raise BadRequest(
            f"{candidate} takes {', '.join(map(str, ours.inputs))}, and {model} takes "
            f"{', '.join(map(str, theirs.inputs))}",
            fix="name the model that the candidate was made from",
        )


def has_same_inputs(ours: Signature, theirs: Signature, *, may_fix_batch: bool = False) -> bool:
    """Return whether two models take the same inputs, as `check_same_inputs` has it. They are fed by name, so their
    order is free: TensorFlow sorts those of a SavedModel."""
    batch, named = theirs.batch if may_fix_batch else None, {spec.name: spec for spec in theirs.inputs}
    return len(ours.inputs) == len(named) and all(
        spec.name in named and _is_same_input(spec, named[spec.name], batch) for spec in ours.inputs
    )


def _is_same_input(ours: TensorSpec, theirs: TensorSpec, batch: str | None) -> bool:
    """Compare dtypes and static sizes; our size of their axis `batch` may be fixed."""
    if (ours.dtype, len(ours.shape)) != (theirs.dtype, len(theirs.shape)):
        return False
    axes = zip(ours.shape, theirs.shape, strict=True)
    return all(
        own == other if isinstance(other, int) else isinstance(own, str) or (other == batch and own > 0)
        for own, other in axes
    )


def can_locate(candidate: str, model: str) -> bool:
    """Return whether `locate` takes the two: the values inside both can be followed, and the model's in PyTorch."""
    if is_model_url(candidate):
        return False
    target, start = start_of(candidate), start_of(model)
    return target is not None and bool(target.format.spec.recorder) and (start is None or start.format.spec.is_program)


def labels_of(candidates: Sequence[str], loaded: Sequence[LoadedModel]) -> list[str]:
    """Return a unique label for each candidate: the target, or the URL, else the path, else that with a number."""
    targets = [model.served.url.text if model.served else str(model.start) for model in loaded]
    labels: list[str] = []
    for text, target in zip(candidates, targets, strict=True):
        label = target if targets.count(target) == 1 else text
        labels.append(label if label not in labels else f"{label}#{len(labels) + 1}")
    return labels

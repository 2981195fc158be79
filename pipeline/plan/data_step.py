"""The step that reads the data of `--data`: what it needs, and what its result depends on."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from ...converters.steps import missing
from ...models.data_checks.data_findings import DataUse, doubts_of_data
from ...models.data_sources.data_argument import DataArgument, DataKind, parse_data, source_digest
from ...models.errors import BadRequest, ToolMissing
from ...models.job_records import CodeOptions, DataFacts, SourceSamplesOptions
from ...models.loading.code_refs import ref_digest
from ...models.signature import TensorSpec
from ...models.sources import code_ref
from ...models.store import Stored
from ..workers.engine import Action
from ..workers.extras import install_command
from .context import Context
from .loaded_model import ModelDescription
from .model_argument import ModelRequest

_HALVES = ("float16", "bfloat16")
_LIBRARIES = {DataKind.IMAGES: ("PIL",), DataKind.TABLE: ("pyarrow",)}


def data_argument(context: Context, text: str | None) -> DataArgument | None:
    """Return the data that a command names, else that of the pipeline file; None where neither names any.
    Raises BadRequest where it has no form that is known, ToolMissing where what reads it is not installed."""
    text = text or context.request.data
    if text is None:
        return None
    argument = parse_data(text, context.request.root)
    _require_reader(argument)
    return argument


def _require_reader(argument: DataArgument) -> None:
    """Raise ToolMissing where the library that reads such data is not installed."""
    if need := missing(_LIBRARIES.get(argument.kind, ())):
        raise ToolMissing(
            f"{argument.place} {need}, which is not installed", fix=f"{install_command(('data',))} (docs/data.md)"
        )


def samples_of_request(context: Context, request: ModelRequest) -> Stored | None:
    """Return the samples of a request, for the first calls of its model; None where it has none, or names no inputs.
    The samples of half-precision inputs are in float32, as the model is carried.
    Raises BadRequest where they do not fit the inputs that the user has named."""
    argument, inputs = data_argument(context, request.data), request.inputs or request.copy_inputs
    if argument is None or not inputs:
        return None
    wide = tuple(replace(spec, dtype="float32") if spec.dtype in _HALVES else spec for spec in inputs)
    with suppress(*(() if request.inputs else (BadRequest,))):  # a copy's inputs may be others than the model's
        stored = context.executor.perform(samples_action(context, argument, wide))
        doubts_of_data(DataFacts.from_json(stored.facts).findings, DataUse.TIMES)
        return stored
    return None


def samples_action(context: Context, argument: DataArgument, inputs: tuple[TensorSpec, ...]) -> Action:
    """Return the action that reads the samples for a model of these inputs.
    Raises BadRequest where the code that gives them is not there."""
    options = SourceSamplesOptions(
        kind=argument.kind,
        place=argument.place,
        samples=argument.samples,
        sha256=source_digest(argument.kind, argument.place),
        images=argument.images,
        table=argument.table,
        inputs=inputs,
    )
    action = Action(
        name="data",
        entry="transload.models.data_sources.take_samples:take_samples",
        options=options.to_json(),
        requires=_LIBRARIES.get(argument.kind, ()),
        limits=context.data_limits(),
    )
    if argument.kind is not DataKind.CODE:
        return replace(action, reads=(argument.place,))
    ref = code_ref(argument.place, context.request.root)
    options = replace(options, place=ref.text, root=ref.root)
    return replace(
        action, options=options.to_json(), framework="torch", code=ref_digest(ref), root=ref.root, reads=ref.reads
    )


def recipe_data(context: Context, recipe: ModelDescription) -> Stored:
    """Return the recipe's test set and its calibration samples."""
    action = Action(
        name="data",
        entry="transload.models.training.data:prepare_data",
        options=CodeOptions.of(recipe.ref).to_json() if recipe.ref else {},
        requires=recipe.requires,
        framework="torch",  # which recipes import for their net
        code=recipe.code,
        root=recipe.root,
        reads=recipe.reads,
        limits=context.limits(),
    )
    return context.executor.perform(action)

"""Load a model that is code: a recipe, a user's class, function or instance, or a library's model by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from ...converters.readers.reader_records import CodeFacts
from ...converters.steps import missing
from ...models.data_sources.data_argument import DataKind
from ...models.errors import BadRequest, CallFailed, StepFailed, StepOutOfMemory, StepTimeout, ToolMissing
from ...models.job_records import CodeOptions, RecipeFacts, SourceFacts, SourceOptions, TrainOptions
from ...models.loading.checkpoints.file_head import check_weight_file, weights_in
from ...models.loading.code_refs import ref_digest
from ...models.loading.transformers_models import folder_files
from ...models.loading.weight_files import shards_of, weights_digest
from ...models.probes.stress_values import free_integers
from ...models.processors import core_count
from ...models.signature import check_inputs
from ...models.sources import LIBRARIES, CodeRef, code_ref
from ...models.store import Stored, size_of
from ...models.untrusted_files import check_plain
from ..drift.drift_records import AcceptedFacts
from ..drift.metrics.metric_kinds import recipe_kind
from ..options.request import RunRequest
from ..result.release_limits import check_metric_limits
from ..workers.engine import Action
from ..workers.isolation import Limits
from .context import Context
from .data_faults import check_training_data
from .data_step import data_argument, samples_action, samples_of_request
from .file_model import limits_named
from .loaded_model import LoadedModel, ModelDescription, require_libraries
from .model_argument import ModelRequest

_MODELS = "transload.models"
_TRANSFORMERS_S = 15.0  # to import it beside PyTorch, on two busy cores


def load_code(context: Context, request: ModelRequest) -> LoadedModel:
    """Load the model that a request names, with the settings and weights of the run; train a recipe without weights.
    Raises BadRequest where code, settings, weights and inputs do not fit together, ToolMissing where a library is not
    installed, StepFailed where the code ends its process or does not return in time."""
    text, inputs = request.text, request.inputs
    check_inputs(inputs)
    weights_file(context.request)  # before anything is imported: raises BadRequest where it holds no weights
    ref = code_ref(text, context.request.root, context.request.model.settings, request.python)
    _require_libraries(ref)
    if ref.is_keras_file and not ref.python:
        raise BadRequest(f"{text} is in a file that another Python loads", fix="name the file alone, and its --python")
    code = ref_digest(ref)
    if request.recorded:
        request.recorded.check(code)
    if not ref.library and not ref.python:
        with _code_failures(context, text):
            recipe = _recipe_facts(context, ref, code)
        if recipe:
            if inputs:
                raise BadRequest(f"{text} is a recipe, and says what it takes", fix="leave --input out")
            if ref.settings:
                raise BadRequest(f"{text} is a recipe, and takes no settings", fix="leave --set out")
            return load_recipe(context, _describe(context, ref, code, recipe))
    of_file = limits_named(text, _limits_of(context, ref)) if ref.library == "hf" else nullcontext()
    with _code_failures(context, text), of_file:
        inferred = _inputs_from_data(context, ref, code, request)
        source = _source(context, ref, code, replace(request, inputs=inputs or inferred.inputs))
    facts = SourceFacts.from_json(source.facts)
    model = ModelDescription(
        _name(ref), facts.signature, ref, code,
        labels=facts.labels, preprocessing=facts.preprocessing, labels_from=facts.labels_from,
    )  # fmt: skip
    return LoadedModel(model, source, notes=(*inferred.notes, *facts.notes))


def describe_recipe(context: Context) -> ModelDescription:
    """Ask the recipe of the request for its name, signature and metric, in a worker.
    Raises BadRequest where there is no such recipe, or it cannot be read."""
    ref = context.request.ref
    code = ref_digest(ref)
    options = CodeOptions.of(ref).to_json()
    stored = context.executor.perform(
        Action(
            "describe",
            f"{_MODELS}.loading.code_refs:describe",
            options=options,
            framework="torch",
            code=code,
            root=ref.root,
            reads=ref.reads,
            limits=Limits(threads=context.limits().threads),
        )
    )
    return _describe(context, ref, code, RecipeFacts.from_json(stored.facts))


def load_recipe(context: Context, recipe: ModelDescription) -> LoadedModel:
    """Load the recipe's net: with the weights of the request, else trained."""
    section = context.request.model
    if section.weights is None and not section.weights_key:
        check_training_data(context, recipe)
        return LoadedModel(recipe, _train(context, recipe))
    source = _with_weights(context, SourceOptions.of(_ref_of(recipe)), recipe.code, requires=recipe.requires)
    return LoadedModel(recipe, source, notes=SourceFacts.from_json(source.facts).notes)


def _train(context: Context, recipe: ModelDescription) -> Stored:
    section = context.request.train
    accelerator, _, number = context.device.partition(":")
    options = TrainOptions.of(
        _ref_of(recipe),
        **section.model_dump(),
        accelerator=accelerator,
        gpu=int(number or 0) if accelerator == "cuda" else None,
        threads=max(1, core_count() // section.devices),
    )
    action = Action(
        name="train",
        entry=f"{_MODELS}.training.fit:train",
        options=options.to_json(),
        requires=("torch", "lightning_fabric", *recipe.requires),
        code=recipe.code,
        root=recipe.root,
        reads=recipe.reads,
        limits=context.training_limits(loopback=section.devices > 1),  # several devices meet on 127.0.0.1
        checkpoints=True,
    )
    return context.executor.perform(action)


def weights_file(request: RunRequest) -> Path | None:
    """Return the file of weights that the request names, or the one in the folder that it names; None without any.
    Raises BadRequest where there is no such file, or where it is cut short or plainly something else."""
    if request.model.weights is None:
        return None
    path = Path(request.root or ".") / request.model.weights
    if path.is_dir():
        path = weights_in(path)
    if not path.is_file():
        raise BadRequest(f"no such file: {path}", fix="check model.weights in the pipeline file, or --weights")
    for file in (path, *(shards_of(path) if path.suffix == ".json" else ())):
        check_plain(file)
        check_weight_file(file)
    return path


def _recipe_facts(context: Context, ref: CodeRef, code: str) -> RecipeFacts | None:
    """Return the description that the code gives of itself where it is a recipe, else None.
    Raises BadRequest where importing it takes more memory than a file may."""
    limits = replace(context.model_limits(), memory_bytes=context.intake_limits(0).memory_bytes)
    action = Action(
        "describe",
        "transload.converters.readers.model_code:describe_code",
        options=CodeOptions(ref=ref.text, root=ref.root).to_json(),
        framework="torch",
        code=code,
        root=ref.root,
        reads=ref.reads,
        limits=limits,
    )
    try:
        return CodeFacts.from_json(context.executor.perform(action).facts).recipe
    except StepOutOfMemory as error:
        raise BadRequest(
            f"importing {ref.text} took more memory than {limits.memory_bytes / 1e9:.3g} GB",
            fix="make what is large in a function or a class, which is called where more may be used; or give --trust",
        ) from error


def _describe(context: Context, ref: CodeRef, code: str, facts: RecipeFacts) -> ModelDescription:
    """Return the description of a recipe. The allowed loss of the request has precedence over the recipe's.
    Raises ToolMissing where a library that the recipe needs is not installed."""
    if need := missing(facts.requires):
        raise ToolMissing(f"the recipe {ref.text} {need}", fix="install it (transload doctor shows what is there)")
    allowed_loss = context.request.validate_.allowed_loss
    if context.request.validate_.metric is None:
        kind = recipe_kind(facts.metric, facts.metric_unit, higher_is_better=facts.higher_is_better)
        check_metric_limits(context.request.gate.limits, kind)
    return ModelDescription(
        name=facts.name,
        signature=facts.signature,
        ref=ref,
        code=code,
        metric=facts.metric,
        allowed_loss=facts.allowed_loss if allowed_loss is None else allowed_loss,
        requires=facts.requires,
        summary=facts.summary,
        labels=facts.labels,
        preprocessing=facts.preprocessing,
    )


def _with_weights(
    context: Context, options: SourceOptions, code: str, *, requires: tuple[str, ...], data: Stored | None = None,
    step: str = "source_from_code:take_weights",
) -> Stored:  # fmt: skip
    """Return the model of the options with the weights of the request or of its code, or what `step` finds of it."""
    if path := weights_file(context.request):
        key = context.request.model.weights_key or None
        options = replace(options, weights=str(path.absolute()), sha256=weights_digest(path), key=key)
    elif context.request.model.weights_key:
        raise BadRequest("--weights-key names a part of a file, and no file is named", fix="name it with --weights")
    ref = options.code_ref
    action = Action(
        name="weights",
        entry=f"{_MODELS}.loading.{step}",
        inputs={"data": data} if data else {},
        options=options.to_json(),
        requires=("torch", *requires),
        framework="torch",
        code=code,
        root=options.root,
        reads=(*ref.reads, *_weight_files(options.weights), *((options.data.place,) if options.data else ())),
        limits=replace(_limits_of(context, ref), starts=ref.programs),
    )
    return context.executor.perform(action)


def _weight_files(weights: str | None) -> tuple[str, ...]:
    """List the files that the weights are read from: of an index also those that it names."""
    if weights is None:
        return ()
    shards = shards_of(Path(weights)) if weights.endswith(".json") else []
    return (weights, *map(str, shards))


def _limits_of(context: Context, ref: CodeRef) -> Limits:
    """Return the limits of making a model: those of taking in a file where it is a folder of transformers, whose code
    is not run."""
    if ref.library != "hf":
        return context.model_limits()
    return context.intake_limits(sum(map(size_of, folder_files(Path(ref.name)))), library_s=_TRANSFORMERS_S)


def _inputs_from_data(context: Context, ref: CodeRef, code: str, request: ModelRequest) -> AcceptedFacts:
    """Return the inputs of the user's code by their data, with a sentence for the user; none where others are known.
    Raises BadRequest where the data do not fit the parameters of forward."""
    argument = data_argument(context, request.data)
    if argument is None or argument.kind is DataKind.CODE or request.inputs or request.copy_inputs or ref.library:
        return AcceptedFacts()
    reading, step = samples_action(context, argument, ()), "inputs_from_data:infer_inputs"
    options = SourceOptions.from_json({**SourceOptions.of(ref).to_json(), "data": reading.options})
    return AcceptedFacts.from_json(_with_weights(context, options, code, requires=reading.requires, step=step).facts)


def _source(context: Context, ref: CodeRef, code: str, request: ModelRequest) -> Stored:
    inputs = request.inputs
    options = SourceOptions.of(ref, inputs=inputs, copy_inputs=request.copy_inputs)
    try:
        data = samples_of_request(context, request)
        return _with_weights(context, options, code, requires=_libraries(ref), data=data)
    except CallFailed as error:
        if not inputs:
            raise
        named = " ".join(f"--input '{spec}'" if spec.values else f"--input {spec}" for spec in inputs)
        fix = f"hold {named} against what forward takes, or mend that line"  # most often the shape is wrong
        if free := free_integers(inputs):
            fix += f"; where it does not take 0 to 3, say what it takes: --input '{free[0]} in 1..9'"
        raise BadRequest(error.what, fix=fix) from error


@contextmanager
def _code_failures(context: Context, text: str) -> Iterator[None]:
    """Name the model where its code does not return, kills its process or uses up the memory."""
    try:
        yield
    except StepTimeout as error:
        raise StepFailed(
            f"{text} is not made yet after {context.request.model.seconds:g} s",
            fix=f"look for what its code waits for, or allow more with --model-seconds; {error.fix}",
        ) from error
    except StepFailed as error:
        raise StepFailed(f"making {text}: {error.what}", fix=error.fix, decided=error.decided) from error


def _libraries(ref: CodeRef) -> tuple[str, ...]:
    return LIBRARIES[ref.library] if ref.library else ()


def _require_libraries(ref: CodeRef) -> None:
    require_libraries("the model", ("torch", "safetensors"))
    require_libraries(ref.text, _libraries(ref))


def _name(ref: CodeRef) -> str:
    """Return the model's name; for a folder of transformers the folder's own name, for a file of Keras the file's."""
    if ref.is_keras_file:
        return Path(ref.place).stem
    return ref.name.rstrip("/").rpartition("/")[2] if ref.library == "hf" else ref.name


def _ref_of(recipe: ModelDescription) -> CodeRef:
    if recipe.ref is None:
        raise ValueError(f"{recipe.name} has no code")
    return recipe.ref

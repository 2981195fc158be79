"""What conversion starts from and is held against: the model, the data, and the reference's answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from ...converters.steps import missing
from ...models.errors import BadRequest, StepFailed, ToolMissing
from ...models.formats import Target
from ...models.loading.catalogue import ref_digest
from ...models.loading.weight_files import weights_digest
from ...models.probes.masks import blanks, masks
from ...models.probes.sizes import batches_within
from ...models.probes.stress_values import free_integers
from ...models.signature import Signature
from ...models.sources import CodeRef
from ...models.store import Stored
from ...serving.runtimes.runtime_table import RUNTIMES
from ..context import Context, cores
from ..drift.integer_range import MOST_TRIES
from ..request import RunRequest
from ..workers.engine import Action, Executor
from ..workers.fork_server import framework_of
from ..workers.interpreters import interpreter_of

_MODELS = "transload.models"


@dataclass(frozen=True)
class Described:
    """What is known of a model: a recipe says it of itself (models.recipe.Recipe.describe), any other model has no
    metric, and one that is kept in a file has no code either."""

    name: str
    signature: Signature
    ref: CodeRef | None = None
    code: str = ""  # the digest of the code at `ref`
    metric: str | None = None
    allowed_loss: float | None = None
    requires: tuple[str, ...] = ()

    @property
    def options(self) -> dict[str, Any]:
        """How a job names the recipe; empty where the model is none."""
        return ref_options(self.ref) if self.ref and self.metric else {}

    @property
    def root(self) -> str | None:
        """The folder that the model's code imports from."""
        return self.ref.root if self.ref else None


@dataclass(frozen=True, kw_only=True)
class Begun:
    """What conversion starts from."""

    model: Described
    source: Stored
    data: Stored
    start: Target | None = None  # what `source` holds; None: a model in PyTorch


@dataclass(frozen=True, kw_only=True)
class Prepared(Begun):
    """What conversion starts from and is held against."""

    reference: Stored


Meanwhile: TypeAlias = Callable[[Begun], AbstractContextManager[None]]  # what is done while the reference is asked


def nothing(begun: Begun) -> AbstractContextManager[None]:  # noqa: ARG001
    """Nothing is done meanwhile."""
    return nullcontext()


def describe(context: Context) -> Described:
    """Ask the recipe of the request what it is, in a worker.

    Raises BadRequest where there is no such recipe, or it cannot be read.
    """
    ref = context.request.ref
    code = ref_digest(ref)
    facts = context.executor.perform(
        Action("describe", f"{_MODELS}.loading.catalogue:describe", options=ref_options(ref), code=code, root=ref.root)
    ).facts
    return of_recipe(context, ref, code, facts)


def of_recipe(context: Context, ref: CodeRef, code: str, facts: Mapping[str, Any]) -> Described:
    """A recipe by what it says of itself; the request's allowed loss goes before its own.

    Raises ToolMissing where a library that it needs is not here.
    """
    if lacking := missing(tuple(facts["requires"])):
        raise ToolMissing(f"the recipe {ref.text} {lacking}", fix="install it (transload doctor shows what is there)")
    asked = context.request.validate_.allowed_loss
    return Described(
        name=facts["name"],
        signature=Signature.from_json(facts["signature"]),
        ref=ref,
        code=code,
        metric=facts["metric"],
        allowed_loss=facts["allowed_loss"] if asked is None else asked,
        requires=tuple(facts["requires"]),
    )


def obtain_source(context: Context, recipe: Described) -> Stored:
    """The recipe's net with its weights: trained, or given."""
    if context.request.model.weights is not None:
        return take_weights(context, _ref_of(recipe), recipe.code, requires=recipe.requires)
    asked = context.request.train
    device = context.device
    return context.executor.perform(
        Action(
            name="train",
            entry=f"{_MODELS}.training.fit:train",
            options={
                **recipe.options,
                "seed": asked.seed,
                "epochs": asked.epochs,
                "precision": asked.precision,
                "accelerator": "cuda" if device.startswith("cuda") else "cpu",
                "devices": asked.devices,
                "gpu": int(device.partition(":")[2] or 0) if device.startswith("cuda") else None,
                "threads": max(1, cores() // asked.devices),
            },
            requires=("torch", "lightning_fabric", *recipe.requires),
            code=recipe.code,
            root=recipe.root,
            limits=context.training_limits(loopback=asked.devices > 1),  # several devices meet on 127.0.0.1
            checkpoints=True,
        )
    )


def given_weights(request: RunRequest) -> Path | None:
    """The file of weights that the request names, or None.

    Raises BadRequest where it is not there.
    """
    if request.model.weights is None:
        return None
    path = Path(request.root or ".") / request.model.weights
    if not path.is_file():
        raise BadRequest(f"no such file: {path}", fix="check model.weights in the pipeline file, or --weights")
    return path


def take_weights(
    context: Context,
    ref: CodeRef,
    code: str,
    *,
    inputs: tuple[Mapping[str, Any], ...] = (),
    requires: tuple[str, ...] = (),
) -> Stored:
    """The model at `ref` with the request's weights, or as its code makes it where the request names none.

    `inputs` (specs as JSON) are for code that is no recipe, and so does not say what it takes.
    """
    options: dict[str, Any] = {**ref_options(ref), **({"inputs": list(inputs)} if inputs else {})}
    if path := given_weights(context.request):
        options |= {"weights": str(path.absolute()), "sha256": weights_digest(path)}
        if key := context.request.model.weights_key:
            options["key"] = key
    elif context.request.model.weights_key:
        raise BadRequest("--weights-key names a part of a file, and no file is named", fix="name it with --weights")
    return context.executor.perform(
        Action(
            name="weights",
            entry=f"{_MODELS}.loading.weighted_source:take_weights",
            options=options,
            requires=("torch", *requires),
            framework="torch",
            code=code,
            root=ref.root,
            limits=context.model_limits(),
        )
    )


def prepare_data(context: Context, recipe: Described) -> Stored:
    """The recipe's test set, and its calibration samples."""
    return context.executor.perform(
        Action(
            name="data",
            entry=f"{_MODELS}.training.data:prepare_data",
            options=recipe.options,
            requires=recipe.requires,
            code=recipe.code,
            root=recipe.root,
            limits=context.limits(),
        )
    )


def answer_reference(
    context: Context,
    model: Described,
    source: Stored,
    data: Stored,
    runtime: str = "torch",
    *,
    probes_only: bool = False,
) -> Stored:
    """What the model answers on the CPU: a source in PyTorch, eager; anything else in the runtime named.

    `probes_only`: at the probe batches and no more, which is all that a conversion is verified by. Where the samples
    are random, other integers are tried too.
    """
    interpreter = interpreter_of(RUNTIMES[runtime])
    options = {
        "runtime": runtime,
        "device": "cpu",
        "threads": 1,
        "batches": batches(context, model),
        "probes_only": probes_only,
    }
    asked = Action(
        name="reference",
        entry="transload.pipeline.drift.reference:answer",
        inputs={"model": source, "data": data},
        options=options,
        requires=RUNTIMES[runtime].requires,
        python=interpreter.path,
        framework=framework_of(RUNTIMES[runtime].requires),
        tools=interpreter.tools,
        code=model.code,
        root=model.root,
        limits=context.limits(),
    )
    inputs = model.signature.inputs
    if data.facts.get("random") and (masks(inputs) or blanks(inputs)):
        asked = replace(asked, options={**asked.options, "random": True})
    if data.facts.get("random") and free_integers(inputs):
        return _with_numbers(context.executor, asked)
    return context.executor.perform(asked)


def _with_numbers(executor: Executor, asked: Action) -> Stored:
    """The reference asked with other integers than the samples hold, too; without, where these end its process: what is
    said of copies then is that they were seen with the samples' alone."""
    try:
        return executor.perform(replace(asked, options={**asked.options, "tries": MOST_TRIES}))
    except StepFailed as error:
        if error.decided:
            raise
        return executor.perform(replace(asked, options={**asked.options, "tries": 0}))


def batches(context: Context, model: Described) -> list[int]:
    """The batch sizes that everything is checked at, beside the full test set: those asked for, as the model takes
    them. A model without a batch is asked one sample at a time."""
    return list(batches_within(model.signature.inputs, context.request.validate_.batches))


def ref_options(ref: CodeRef) -> dict[str, Any]:
    """How a job names code."""
    return {"ref": ref.text, "root": ref.root, **({"settings": dict(ref.settings)} if ref.settings else {})}


def _ref_of(recipe: Described) -> CodeRef:
    if recipe.ref is None:
        raise ValueError(f"{recipe.name} has no code")
    return recipe.ref

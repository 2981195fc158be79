"""The first stages of a run: the trained source, the data, and the reference's answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..converters.steps import missing
from ..models.errors import BadRequest, ToolMissing
from ..models.signature import Signature
from ..models.sources import CodeRef
from ..models.store import Stored, digest_of
from ..models.zoo.catalogue import ref_digest
from .context import Context, cores
from .engine import Action

_ZOO = "transload.models.zoo"


@dataclass(frozen=True)
class Described:
    """A recipe's facts (models.recipe.Recipe.describe), and where its code lies."""

    ref: CodeRef
    code: str  # digest
    name: str
    signature: Signature
    metric: str
    allowed_loss: float
    requires: tuple[str, ...]

    @property
    def options(self) -> dict[str, Any]:
        """How a job names the recipe."""
        return {"ref": self.ref.text, "root": self.ref.root}


@dataclass(frozen=True)
class Prepared:
    """What conversion starts from and is held against."""

    recipe: Described
    source: Stored
    data: Stored
    reference: Stored


def describe(context: Context) -> Described:
    """Ask the recipe what it is, in a worker.

    Raises BadRequest where there is no such recipe, or it cannot be read.
    """
    ref = context.request.ref
    code = ref_digest(ref)
    facts = context.executor.perform(
        Action("describe", f"{_ZOO}.catalogue:describe", options=_ref(ref), code=code, root=ref.root)
    ).facts
    if lacking := missing(tuple(facts["requires"])):
        raise ToolMissing(f"the recipe {ref.text} {lacking}", fix="install it (transload doctor shows what is there)")
    return Described(
        ref,
        code,
        facts["name"],
        Signature.from_json(facts["signature"]),
        facts["metric"],
        context.request.validate_.allowed_loss
        if context.request.validate_.allowed_loss is not None
        else facts["allowed_loss"],
        tuple(facts["requires"]),
    )


def obtain_source(context: Context, recipe: Described) -> Stored:
    """The recipe's net with its weights: trained, or given."""
    if context.request.model.weights is not None:
        return _take_weights(context, recipe, Path(context.request.model.weights))
    asked = context.request.train
    device = context.device
    return context.executor.perform(
        Action(
            name="train",
            entry=f"{_ZOO}.fit:train",
            options={
                **recipe.options,
                "seed": asked.seed,
                "epochs": asked.epochs,
                "precision": asked.precision,
                "accelerator": "cuda" if device.startswith("cuda") else "cpu",
                "devices": asked.devices,
                "threads": max(1, cores() // asked.devices),
            },
            requires=("torch", "lightning_fabric", *recipe.requires),
            code=recipe.code,
            root=recipe.ref.root,
            limits=context.training_limits(loopback=asked.devices > 1),  # several devices meet on 127.0.0.1
            checkpoints=True,
        )
    )


def _take_weights(context: Context, recipe: Described, given: Path) -> Stored:
    path = Path(context.request.root or ".") / given
    if not path.is_file():
        raise BadRequest(f"no such file: {path}", fix="check model.weights in the pipeline file, or --weights")
    return context.executor.perform(
        Action(
            name="weights",
            entry=f"{_ZOO}.given:take_weights",
            options={**recipe.options, "weights": str(path.absolute()), "sha256": digest_of(path)},
            requires=("torch", *recipe.requires),
            code=recipe.code,
            root=recipe.ref.root,
            limits=context.limits(),
        )
    )


def prepare_data(context: Context, recipe: Described) -> Stored:
    """The test set, and the calibration samples."""
    return context.executor.perform(
        Action(
            name="data",
            entry=f"{_ZOO}.data:prepare_data",
            options=recipe.options,
            requires=recipe.requires,
            code=recipe.code,
            root=recipe.ref.root,
            limits=context.limits(),
        )
    )


def answer_reference(context: Context, recipe: Described, source: Stored, data: Stored) -> Stored:
    """What the source model in PyTorch, eager, on the CPU, answers."""
    return context.executor.perform(
        Action(
            name="reference",
            entry="transload.pipeline.drift.validate:answer",
            inputs={"model": source, "data": data},
            options={"runtime": "torch", "device": "cpu", "threads": 1, "batches": batches(context)},
            requires=("torch",),
            code=recipe.code,
            root=recipe.ref.root,
            limits=context.limits(),
        )
    )


def batches(context: Context) -> list[int]:
    """The batch sizes that everything is checked at, beside the full test set."""
    return list(context.request.validate_.batches)


def _ref(ref: CodeRef) -> dict[str, Any]:
    return {"ref": ref.text, "root": ref.root}

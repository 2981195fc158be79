"""Records of a model that is in the store, and the checks that its libraries are installed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...converters.steps import missing
from ...models.errors import ToolMissing
from ...models.formats import Target
from ...models.signature import Signature, ValueRange
from ...models.sources import CodeRef
from ...models.store import Stored
from ...models.user_python.inside.conversation import TENSORFLOW
from ...serving.clients.model_metadata import DeclaredModel
from ...serving.clients.model_url import ModelUrl
from ...serving.runtimes.runtime_table import RUNTIMES
from ..drift.sessions import runtime_for
from ..workers.extras import extras_for, install_command
from ..workers.interpreters import lacking
from ..workers.isolation import Limits

_USUAL = ValueRange(-1.5, 2.1)  # of most random floats, which are normal around 0.3


@dataclass(frozen=True)
class ModelDescription:
    """Name and signature of a model; for a model that is code, its place; for a recipe, also its metric."""

    name: str
    signature: Signature
    ref: CodeRef | None = None
    code: str = ""  # the digest of the code at `ref`
    metric: str | None = None
    allowed_loss: float | None = None
    requires: tuple[str, ...] = ()
    summary: str = ""
    labels: tuple[str, ...] = ()  # of a recipe that names its classes, or of the weights that a library publishes
    preprocessing: str = ""
    labels_from: str = ""  # whose weights have these labels and this preprocessing; empty for the recipe's own

    @property
    def recipe_options(self) -> dict[str, Any]:
        """The options by which a job finds the recipe; empty where the model is no recipe."""
        return {"ref": self.ref.text, "root": self.ref.root} if self.ref and self.metric else {}

    @property
    def root(self) -> str | None:
        """The folder that the model's code imports from."""
        return self.ref.root if self.ref else None

    @property
    def reads(self) -> tuple[str, ...]:
        """The folders that the model is made from."""
        return self.ref.reads if self.ref else ()

    def within(self, limits: Limits) -> Limits:
        """Return limits under which a step may start the interpreter that the model lives in, if not ours."""
        return replace(limits, starts=self.ref.programs) if self.ref and self.ref.python else limits


@dataclass(frozen=True)
class ServedModel:
    """A model that a server elsewhere holds: its URL, what the server declares of it, and the signature."""

    url: ModelUrl
    declared: DeclaredModel
    signature: Signature

    @property
    def services(self) -> dict[str, str]:
        """The address that the client of its protocol asks for."""
        return {self.url.service: self.url.address}


@dataclass(frozen=True)
class LoadedModel:
    """A model in the store. `start` is the format that it is kept in; None for a source in PyTorch.
    Of a served model nothing is in the store but what its server declares."""

    model: ModelDescription
    stored: Stored
    start: Target | None = None
    flex: tuple[str, ...] = ()  # the operators of a TFLite file that need TensorFlow's Flex delegate
    notes: tuple[str, ...] = ()  # sentences for the user
    accepted: tuple[str, ...] = ()  # sentences on values and sizes that it was asked with, as it refused others
    served: ServedModel | None = None  # then there is no format
    calibrated: Mapping[str, ValueRange] = field(default_factory=dict)  # by input: random samples are within these
    is_quantised: bool = False  # an input is quantised at once: a file in int8

    @property
    def runtime(self) -> str:
        """The runtime of the reference: PyTorch, eager, for a source; else the default one of the format."""
        return "torch" if self.start is None else runtime_for(self.start.format, self.flex)

    @property
    def answers_by(self) -> str:
        """The library that gives the reference's answers, in words: of a model of Keras elsewhere, its TensorFlow."""
        python = self.model.ref.python if self.model.ref else None
        return python.framework_summary if python and python.framework == TENSORFLOW else self.runtime


def ranges_of(facts: Mapping[str, tuple[float, float]]) -> dict[str, ValueRange]:
    """Return the ranges that a file was calibrated on and that usual random samples leave."""
    usual = _USUAL.low, _USUAL.high
    return {
        name: ValueRange(low, high)
        for name, (low, high) in facts.items()
        if -math.inf < low < high < math.inf and not (low <= usual[0] and high >= usual[1])
    }


def within_ranges(signature: Signature, ranges: Mapping[str, ValueRange]) -> Signature:
    """Return a signature whose float inputs have these ranges, where their values are not declared."""
    inputs = tuple(
        replace(spec, values=ranges[spec.name])
        if spec.name in ranges and spec.values is None and spec.dtype.startswith("float") else spec
        for spec in signature.inputs
    )  # fmt: skip
    return replace(signature, inputs=inputs)


def common_ranges(models: Iterable[LoadedModel]) -> dict[str, ValueRange]:
    """Return the range of each input that all of these models were calibrated on, where they have one in common."""
    common: dict[str, ValueRange] = {}
    for name, (low, high) in ((name, own) for model in models for name, own in model.calibrated.items()):
        known = common.get(name, ValueRange(low, high))
        common[name] = ValueRange(max(low, known.low), min(high, known.high))
    return {name: own for name, own in common.items() if own.low < own.high}


def require_libraries(user: str, libraries: tuple[str, ...]) -> None:
    """Raise ToolMissing where a library that `user` needs is not installed."""
    _refuse_lacking(user, missing(libraries), libraries)


def require_runtime(name: str) -> None:
    """Raise ToolMissing where a library of the runtime is not installed."""
    _refuse_lacking(f"the runtime {name}", lacking(RUNTIMES[name]), RUNTIMES[name].requires)


def _refuse_lacking(user: str, need: str | None, libraries: tuple[str, ...]) -> None:
    if need:
        extras = extras_for(libraries)
        fix = f"{install_command(extras)} (docs/install.md)" if extras else "install it (transload doctor shows how)"
        raise ToolMissing(f"{user} {need}, which is not installed", fix=fix)

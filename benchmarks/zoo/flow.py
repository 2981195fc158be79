"""One model through the product: its source, its data, PyTorch's answers, ONNX, and each target, checked."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import reduced
from by_onnx2tf import STEP
from catalogue import NETS, Entry
from table import Row, row_of, variation

from transload.converters.steps import STEPS, Step
from transload.models.code_digest import code_digest
from transload.models.data_sources.data_argument import DataKind
from transload.models.dataset import Dataset, write_dataset
from transload.models.errors import TransloadError
from transload.models.formats import Format, Target
from transload.models.job_records import SourceSamplesOptions
from transload.models.signature import TensorSpec, parse_input
from transload.models.store import Stored, digest_of
from transload.pipeline.drift.drift_records import CheckOptions
from transload.pipeline.drift.recorded_answers import PROBES, read_calls
from transload.pipeline.plan.route_actions import VerificationInputs, verification
from transload.pipeline.plan.router import Router, TargetResult
from transload.pipeline.plan.run_plan import plan_routes
from transload.pipeline.workers.engine import Action, Executor
from transload.pipeline.workers.isolation import Limits
from transload.serving.runtimes.runtime_table import RUNTIMES

ONNX = Target(Format.ONNX)
BY_ONNX2TF = STEP.name
BATCHES = (1, 3, 5)
SAMPLES = 6
_EXPORTED = (Target(Format.PT2), ONNX)
_OPEN = tuple(step for step in STEPS if not step.on_request)
OURS = tuple(step for step in _OPEN if step.target in _EXPORTED or step.name.startswith("lowering"))
ONNX2TF = (STEP, *(step for step in _OPEN if step.name.startswith("tflite")))  # of its SavedModel
_ANSWER = "transload.pipeline.drift.reference:answer"
_CHECKS = {"device": "cpu", "threads": 1, "batches": list(BATCHES)}


@dataclass(frozen=True)
class Place:
    """Where the zoo keeps things."""

    home: Path

    @property
    def packages(self) -> Path:
        """What requirements.txt installs. The name keeps its files out of the digest of a model's code."""
        return self.home / ".packages" / "site-packages"


class Subject:
    """A model of the catalogue in the store, with its data and its reference at every size."""

    def __init__(self, entry: Entry, place: Place, executor: Executor, limits: Limits) -> None:
        self.entry = entry
        self._place = place
        self._executor = executor
        self._limits = limits

    @property
    def is_given(self) -> bool:
        """Whether a package brings it as an ONNX file."""
        return self.entry.ref.endswith(".onnx")

    @cached_property
    def source(self) -> Stored:
        """The model in PyTorch with its weights, or the ONNX file taken in."""
        if self.is_given:
            path = self._place.packages / self.entry.ref
            options: dict[str, Any] = {"path": str(path), "sha256": digest_of(path), "inputs": self._inputs}
            return self._perform(
                "given", "transload.converters.readers.onnx.onnx_reader:import_onnx", options, ("onnx",)
            )
        options = {"ref": str(self._place.home / "nets" / self.entry.ref), "root": self._root, "inputs": self._inputs}
        return self._perform(
            "source", "transload.models.loading.source_from_code:take_weights", options, ("torch",), code=self.code
        )

    @cached_property
    def code(self) -> str:
        """The digest of the factory's code and of the packages that it builds on; empty for a file."""
        if self.is_given:
            return ""
        file = self._place.home / "nets" / self.entry.ref.partition(":")[0]
        return f"{code_digest(file, self._place.packages)} {digest_of(NETS.parent / 'requirements.txt')}"

    @cached_property
    def data(self) -> list[Stored]:
        """The samples, one folder for each size."""
        return [self._data(at, sizes) for at, sizes in enumerate(self.entry.sizes)]

    @cached_property
    def references(self) -> list[Stored]:
        """What the source answers to each of `data`: PyTorch, eager; ONNX Runtime for a model that came as ONNX."""
        runtime = "onnxruntime" if self.is_given else "torch"
        options = {"runtime": runtime, "random": True, **_CHECKS}
        return [
            self._perform("reference", _ANSWER, options, RUNTIMES[runtime].requires, code=self.code, inputs=inputs)
            for inputs in ({"model": self.source, "data": data} for data in self.data)
        ]

    @cached_property
    def variation(self) -> float:
        """How much the reference's answers differ between samples (table.variation)."""
        return variation(read_calls(self.references[0].folder / PROBES)[BATCHES.index(1)])

    def basis(self, start: Stored | None = None) -> VerificationInputs:
        """What routes begin at: the source, or an artifact made of it."""
        return VerificationInputs(
            source=start or self.source,
            start=ONNX if start or self.is_given else None,
            data=self.data[0],
            reference=self.references[0],
            verify_options=CheckOptions(batches=BATCHES),
            sqnr_db=None,
            code="" if start else self.code,
            root=None if start else self._root,
            limits=self._limits,
        )

    def _data(self, at: int, sizes: Mapping[str, int]) -> Stored:
        specs = [parse_input(text) for text in self.entry.inputs]
        rng = np.random.default_rng([at, len(specs)])
        arrays = {
            spec.name: draw(rng, _shape(spec, {**sizes, "batch": SAMPLES}))
            for spec, draw in zip(specs, self.entry.inputs.values(), strict=True)
        }
        arrays = {spec.name: np.asarray(arrays[spec.name], dtype=spec.dtype) for spec in specs}
        path = self._place.home / ".store" / "samples" / f"{self.entry.name.replace('/', '.')}-{at}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_dataset(path, Dataset(arrays))
        options = SourceSamplesOptions(
            inputs=tuple(specs), kind=DataKind.ARRAYS, place=str(path), sha256=digest_of(path)
        ).to_json()
        return self._perform("data", "transload.models.data_sources.take_samples:take_samples", options, ())

    @property
    def _inputs(self) -> list[dict[str, Any]]:
        return [parse_input(text).to_json() for text in self.entry.inputs]

    @property
    def _root(self) -> str | None:
        return None if self.is_given else str(self._place.packages)

    def _perform(
        self, name: str, entry: str, options: Mapping[str, Any], requires: tuple[str, ...], **more: Any
    ) -> Stored:
        """Do an action; `more`: its inputs, and the digest of the code that it calls."""
        action = Action(name, entry, options=options, requires=requires, root=self._root, limits=self._limits, **more)
        return self._executor.perform(replace(action, remembers_refusal=True))


def _shape(spec: TensorSpec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(axis if isinstance(axis, int) else sizes[axis] for axis in spec.shape)


class Bench:
    """Makes rows of the table."""

    def __init__(self, place: Place, executor: Executor, limits: Limits) -> None:
        self._place = place
        self.executor = executor
        self._limits = limits

    def subject(self, entry: Entry) -> Subject:
        """The model of an entry."""
        return Subject(entry, self._place, self.executor, self._limits)

    def rows(self, subject: Subject, column: str) -> list[Row]:
        """The row of `onnx`, or of `saved-model` or `tflite` by our own lowering; or both rows of `onnx2tf`, which
        starts from the ONNX file that ours is made of; or that of a precision of TFLite (reduced.COLUMNS)."""
        if column in reduced.COLUMNS:
            return [self._reduced(subject, column)]
        if column != BY_ONNX2TF:
            return self._rows(subject, OURS, {column: Target(Format(column))})
        forms = (Format.TFLITE, Format.SAVED_MODEL)
        return self._rows(subject, ONNX2TF, {f"{BY_ONNX2TF}:{form}": Target(form) for form in forms})

    def exported(self, subject: Subject) -> TargetResult:
        """The ONNX file of a subject."""
        basis = subject.basis()
        return Router(self.executor, basis, plan_routes([ONNX], basis.start, OURS)).make_all([ONNX])[0]

    def _reduced(self, subject: Subject, column: str) -> Row:
        try:
            exported = self.exported(subject)
            return reduced.row(self, subject, column, exported)
        except TransloadError as error:
            return Row.failed(subject.entry, column, error.what)

    def _rows(self, subject: Subject, steps: tuple[Step, ...], wanted: Mapping[str, Target]) -> list[Row]:
        try:
            start = self.exported(subject).stored if steps is ONNX2TF else None
            basis = subject.basis(start)
            plan = plan_routes(list(wanted.values()), basis.start, steps)
            router = Router(self.executor, basis, plan)  # what the targets share is made once, or fails once
            made = {column: router.make_all([target])[0] for column, target in wanted.items()}
            rows = [
                row_of(subject.entry, column, each, self.checks(subject, basis, each), subject.variation)
                for column, each in made.items()
            ]
        except TransloadError as error:
            return [Row.failed(subject.entry, column, error.what) for column in wanted]
        for each in made.values():
            if each.target != ONNX:
                self.drop(each)
        return rows

    def drop(self, made: TargetResult) -> None:
        """Delete a copy: they are large, and made again where wanted."""
        if made.stored is not None:
            shutil.rmtree(made.stored.folder, ignore_errors=True)

    def checks(self, subject: Subject, basis: VerificationInputs, made: TargetResult) -> list[Mapping[str, Any]]:
        """The facts of the check at every size; the first was made on the way, and is found."""
        if not made.route or not made.route.steps or made.stored is None:  # it was given
            return []
        facts = []
        for data, reference in zip(subject.data, subject.references, strict=True):
            action = verification(replace(basis, data=data, reference=reference), made.route, made.stored)
            facts.append(self.executor.perform(action).facts)
        return facts

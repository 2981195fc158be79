"""A model of the zoo in a reduced precision of TFLite: from its ONNX file, opened under XNNPACK, held against PyTorch.

No other route is tried, and a copy that is far off is described too: which operators stayed in float, and which XNNPACK
left to TFLite's own kernels, is what is asked.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from catalogue import Entry
from table import INT8, WRONG, Row, row_of

from transload.converters.steps import STEPS, Step
from transload.models.errors import StepFailed
from transload.models.formats import Format, Precision, Target, parse_target
from transload.models.signature import parse_input
from transload.models.store import Stored
from transload.pipeline.plan.route_actions import VerificationInputs, conversion
from transload.pipeline.plan.router import TargetResult
from transload.pipeline.plan.run_plan import Route
from transload.pipeline.workers.engine import Executor

COLUMNS = (INT8, f"{Format.TFLITE}:{Precision.INT8_DYNAMIC}")
_COUNTS = Path(__file__).resolve().parent / "delegated.py"
_OPENING_S = 120.0


class Subject(Protocol):
    """A model of the catalogue in the store (flow.Subject)."""

    @property
    def entry(self) -> Entry:
        """The row of the catalogue."""
        ...

    @property
    def variation(self) -> float:
        """How much the reference's answers differ between samples."""
        ...

    def basis(self) -> VerificationInputs:
        """Return what routes start from and are checked against."""
        ...


class Bench(Protocol):
    """Where copies are made and checked (flow.Bench)."""

    @property
    def executor(self) -> Executor:
        """What runs the steps."""
        ...

    def checks(self, subject: Any, basis: VerificationInputs, made: TargetResult) -> Sequence[Mapping[str, Any]]:
        """Return the facts of the check at every size."""
        ...

    def drop(self, made: TargetResult) -> None:
        """Delete a copy."""
        ...


def row(bench: Bench, subject: Subject, column: str, exported: TargetResult) -> Row:
    """The row of one of COLUMNS. `exported`: the ONNX file. Raises what a step raises that makes no copy."""
    if exported.stored is None or exported.route is None:
        return row_of(subject.entry, column, exported, (), subject.variation)
    step = _step(parse_target(column))
    basis = subject.basis()
    route = Route((*exported.route.steps, step))
    stored = bench.executor.perform(conversion(basis, route, exported.stored))
    made = TargetResult(step.target, stored, route, (), exported.seconds + stored.seconds, ())
    counted: Mapping[str, Any] = {}
    try:
        found = row_of(subject.entry, column, made, bench.checks(subject, basis, made), subject.variation)
        counted = _counted(subject.entry, stored)
    except StepFailed as error:  # it was made, and ended the process that ran it
        found = Row(subject.entry.name, subject.entry.family, column, WRONG, f"it does not run: {error.what}")
    finally:
        bench.drop(made)
    return replace(found, counted=counted)


def _step(target: Target) -> Step:
    onnx = Target(Format.ONNX)
    return next(step for step in STEPS if step.source == onnx and step.target == target)


def _counted(entry: Entry, made: Stored) -> dict[str, Any]:
    """What delegated.py tells of a copy, in a process of its own, at batch 1."""
    sizes = {**entry.sizes[0], "batch": 1}
    specs = [parse_input(text) for text in entry.inputs]
    shapes = {spec.name: [sizes[axis] if isinstance(axis, str) else axis for axis in spec.shape] for spec in specs}
    command = [sys.executable, "-P", str(_COUNTS), str(made.folder / "model.tflite"), json.dumps(shapes)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=_OPENING_S, check=False)
    counted: dict[str, Any] = json.loads(said.stdout) if said.returncode == 0 else {"error": said.stderr[-300:]}
    return counted

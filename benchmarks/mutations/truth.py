"""Where an artifact is wrong, measured against the model in float64.

Each call is one of those that the declaration allows (`declarations.py`). An element counts only where the model in
float32 is itself right: where rounding alone sends PyTorch elsewhere, no copy can be blamed. A float is wrong where it
lies further from the truth than `TIMES` what rounding makes of the model. That is measured by sample, relative to the
sample's largest value, or to what is usual for that output where that is larger; of columns of unlike size by column
(`Model.columns`). An integer is wrong where it differs;
so are NaN or infinity in the place of a number, another shape, another dtype, and an error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from benchmark_models import Model
from declarations import Array, Call
from runtimes import ModuleRun, Run

TIMES = 8.0
_LEAST = 4 * 2.0**-23  # of a float32, where the model's own answers happen to be exact
_AGREES = 1e-3  # the model in float32 must agree with its truth so far
KINDS = ("random", "declared", "stress")
# Of a reduced precision: what a right copy rounds at least, how far it must agree to be one, and TIMES.
_ROUNDED = {"fp16": (2.0**-9, 0.05, TIMES), "int8": (2.0**-7, 0.5, 3.0)}


@dataclass(frozen=True)
class Excess:
    """How far an artifact's worst answer of one kind of call lies beyond rounding, and which call showed it.

    `times`: the error as a share of the tolerance; more than 1 is wrong. Infinite: no number was right.
    """

    times: float = 0.0
    call: str = ""

    def worse(self, other: Excess) -> Excess:
        """Return the larger of two."""
        return other if other.times > self.times else self


@dataclass(frozen=True)
class Measured:
    """What was measured of an artifact, by kind of call; NaN and infinities at the input apart."""

    excess: dict[str, Excess] = field(default_factory=dict)

    @property
    def shown_by(self) -> str:
        """Return the first kind of call that shows the artifact to be wrong, else "never"."""
        return next((kind for kind in (*KINDS, "nan") if self.excess.get(kind, Excess()).times > 1), "never")

    def to_json(self) -> dict[str, Any]:
        """Return {kind: {times, call}}, infinite times as null."""
        return {
            kind: {"times": round(excess.times, 2) if math.isfinite(excess.times) else None, "call": excess.call}
            for kind, excess in self.excess.items()
        }


class Truth:
    """A model in float64 and in float32, at all of its calls; `like`: a right copy of a reduced precision."""

    def __init__(self, model: Model, precision: str = "", like: Run | None = None) -> None:
        self.model, self.precision = model, precision
        self._least, self._agrees, self._times_noise = _ROUNDED.get(precision, (_LEAST, _AGREES, TIMES))
        self.calls = model.calls()
        exact, single = ModuleRun(model.build(), double=True), like or ModuleRun(model.build())
        self._exact = [exact(call.feeds) for call in self.calls]
        self._single = [single(call.feeds) for call in self.calls]
        outputs = range(len(self._exact[0]))
        usual = [at for at, call in enumerate(self.calls) if call.kind == "random"]
        self._usual = [
            _or_one(np.median([self._largest(self._exact[at][output]) for at in usual], axis=0)) for output in outputs
        ]
        self._noise = [
            np.max([self._relative_noise(at, output) for at in usual], axis=0, initial=0.0) for output in outputs
        ]

    def measure(self, run: Run, kinds: Sequence[str] = KINDS) -> Measured:
        """Run an artifact at all calls of some kinds."""
        excess: dict[str, Excess] = {}
        for at, call in enumerate(self.calls):
            if call.kind in kinds and not (call.has_nan and self.model.unjudged == "nan"):
                kind = "nan" if call.has_nan and not self.model.imputes else call.kind
                excess[kind] = excess.get(kind, Excess()).worse(Excess(self._times(run, at, call), call.name))
        return Measured(excess)

    def _times(self, run: Run, at: int, call: Call) -> float:
        try:
            answers = run(call.feeds)
        except Exception:  # noqa: BLE001  whatever a runtime raises, it gave no answer
            return math.inf
        return max(self._output_times(at, output, answer) for output, answer in enumerate(answers))

    def _output_times(self, at: int, output: int, answer: Array) -> float:
        single, exact = self._single[at][output], self._exact[at][output]
        if answer.shape != single.shape or answer.dtype != single.dtype:
            return math.inf
        if single.dtype.kind != "f" and self.model.unjudged == "integers":
            return 0.0
        if single.dtype.kind != "f":
            return math.inf if ((answer != exact) & (single == exact)).any() else 0.0
        usable = self._usable(single, exact, self._usual[output])
        finite = usable & np.isfinite(exact)
        if (usable & ~finite & ~_same(answer, exact)).any() or (finite & ~np.isfinite(answer)).any():
            return math.inf
        relative = np.maximum(np.maximum(self._noise[output], self._relative_noise(at, output)), self._least)
        scale = self._scale(exact, finite, self._usual[output])
        with np.errstate(all="ignore"):
            errors = np.abs(np.where(finite, answer - exact, 0.0)) / (self._times_noise * relative * scale)
        return float(np.nanmax(errors, initial=0.0))

    def _relative_noise(self, at: int, output: int) -> Array:
        single, exact = self._single[at][output], self._exact[at][output]
        if single.dtype.kind != "f":
            return np.zeros(())
        usual = self._usual[output]
        finite = self._usable(single, exact, usual) & np.isfinite(exact)
        errors = np.abs(np.where(finite, single, 0.0) - np.where(finite, exact, 0.0))
        return self._over(errors / self._scale(exact, finite, usual), all_samples=True)

    def _usable(self, single: Array, exact: Array, usual: Array) -> Array:
        """Return where the model in float32 gives the truth."""
        with np.errstate(all="ignore"):
            finite = np.isfinite(exact) & np.isfinite(single)
            close = np.abs(single - exact) <= self._agrees * self._scale(exact, finite, usual)
        return np.asarray((finite & close) | (~np.isfinite(exact) & _same(single, exact)))

    def _largest(self, exact: Array) -> Array:
        return self._over(np.abs(exact.astype(np.float64)), all_samples=True)

    def _scale(self, exact: Array, finite: Array, least: Array) -> Array:
        """Return the largest magnitude of each sample, `least` at least; with `columns` of each column of a sample."""
        return np.maximum(self._over(np.abs(np.where(finite, exact, 0.0)), all_samples=False), least)

    def _over(self, sizes: Array, *, all_samples: bool) -> Array:
        """Return the largest over the axes that are measured together, in a shape that divides an answer."""
        kept = set() if all_samples else {0}
        if self.model.columns is not None and sizes.ndim > 1:
            kept.add(self.model.columns % sizes.ndim)
        axes = tuple(axis for axis in range(sizes.ndim) if axis not in kept)
        return np.asarray(np.max(sizes, axis=axes, keepdims=True, initial=0.0))


def _same(one: Array, other: Array) -> Array:
    return np.asarray((one == other) | (np.isnan(one) & np.isnan(other)))


def _or_one(sizes: Array) -> Array:
    return np.where(sizes == 0.0, 1.0, sizes)

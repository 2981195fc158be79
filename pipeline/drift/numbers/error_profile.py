"""How the errors of a copy are spread over elements and samples, in memory that does not grow with the samples.

Each output has counts of |candidate - reference| by powers of two, and its worst samples. Counts of any split of the
data add up to the same.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....models.dataset import Dataset
from ....models.probes.evidence import Answers
from ....models.signature import Array
from ..recorded_answers import split_by_sample
from .picture import picture_of

WORST = 6  # samples that are kept
_LEAST_EXPONENT, _EXPONENTS = -1022, 2048  # of float64, as its bits have them
_BLOCK = 1 << 15  # elements that are compared at a time: a few arrays of 256 KB, which stay in the cache


@dataclass(frozen=True, order=True)
class _SampleError:
    """The largest error of one sample in one output; infinite where one side alone is NaN or infinite."""

    error: float
    sample: int
    candidate: float = field(compare=False)
    reference: float = field(compare=False)


@dataclass
class OutputErrors:
    """Errors of one output."""

    elements: int = 0
    non_finite: int = 0  # on one side only
    squares: float = 0.0  # sum of reference^2 over finite elements
    finite: int = 0
    counts: Array = field(default_factory=lambda: np.zeros(_EXPONENTS, np.int64))  # of errors, by exponent
    worst: tuple[_SampleError, ...] = ()  # the largest first, each sample once

    def add(self, candidate: Array, reference: Array, samples: Array) -> None:
        """Add one call, whose `samples` are the rows of the test set along axis 0."""
        if not reference.ndim or len(reference) != len(samples) or not reference.size:
            self._count(candidate, reference)
            return
        few = max(1, _BLOCK * len(reference) // reference.size)
        for start in range(0, len(reference), few):
            block = slice(start, start + few)
            errors = self._count(candidate[block], reference[block])
            if errors.max() < self._least_worst:
                continue
            worst = _worst(errors, candidate[block], reference[block], samples[block], self._least_worst)
            by_sample = {error.sample: error for error in (*worst, *self.worst)}
            self.worst = tuple(heapq.nlargest(WORST, by_sample.values()))

    @property
    def _least_worst(self) -> float:
        """The error from which on a sample is one of the worst so far."""
        return self.worst[-1].error if len(self.worst) == WORST else 0.0

    def _count(self, candidate: Array, reference: Array) -> Array:
        """Count the elements of one block, and return their errors."""
        errors = _errors(candidate, reference)
        exponents = np.bincount(errors.reshape(-1).view(np.int64) >> 52, minlength=_EXPONENTS)
        exponents[0] -= errors.size - np.count_nonzero(errors)
        self.non_finite += int(exponents[-1])
        exponents[-1] = 0
        self.counts += exponents
        self.elements += errors.size
        sizes = np.abs(reference).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = float(np.sum(sizes * sizes))
            if not math.isfinite(squares):
                sizes = sizes[np.isfinite(sizes)]
                squares = float(np.sum(sizes * sizes))
        self.squares += squares
        self.finite += sizes.size
        return errors

    @property
    def rms(self) -> float:
        """Root mean square of the reference."""
        return min(math.sqrt(self.squares / self.finite), np.finfo(np.float64).max.item()) if self.finite else 0.0

    def row(self, runtime: str, output: str) -> dict[str, Any]:
        """result.ErrorRow without `artifact`."""
        exponents = np.flatnonzero(self.counts)
        bins = [[int(at) + _LEAST_EXPONENT, int(self.counts[at])] for at in exponents]
        equal = self.elements - self.non_finite - int(self.counts.sum())
        sums = {"elements": self.elements, "equal": equal, "non_finite": self.non_finite, "rms": self.rms}
        return {"runtime": runtime, "output": output, **sums, "bins": bins}


def _errors(candidate: Array, reference: Array) -> Array:
    """Return |candidate - reference| in float64: 0 where both are NaN or the same infinity, infinite
    where one side alone is."""
    if candidate.dtype.kind == reference.dtype.kind == "f":
        with np.errstate(invalid="ignore", over="ignore"):
            errors = np.asarray(np.abs(candidate.astype(np.float64) - reference.astype(np.float64)))
        if math.isfinite(float(errors.max(initial=0.0))):  # NaN is the largest of all
            return errors
    kind = np.complex128 if reference.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        errors = np.asarray(np.abs(candidate.astype(kind) - reference.astype(kind)))
        same = (candidate == reference) | (np.isnan(candidate) & np.isnan(reference))
    errors[np.isnan(errors)] = np.inf
    errors[same] = 0
    errors[~same & (errors == 0)] = 1  # integers that are equal in float64 alone
    return errors


def _worst(errors: Array, candidate: Array, reference: Array, samples: Array, least: float) -> Iterator[_SampleError]:
    """Yield the samples of one block with the largest errors, those of `least` or more."""
    by_sample = errors.reshape(len(errors), -1)
    largest = by_sample.max(axis=1)
    for at in np.argsort(-largest, kind="stable")[:WORST]:
        if largest[at] > 0 and largest[at] >= least:
            place = by_sample[at].argmax()
            pair = (float(np.real(side[at].reshape(-1)[place])) for side in (candidate, reference))
            yield _SampleError(float(largest[at]), int(samples[at]), *pair)


@dataclass
class ErrorProfile:
    """Errors of all outputs. `batched`: answers have samples along axis 0."""

    batched: bool
    outputs: dict[str, OutputErrors] = field(default_factory=dict)

    def add(self, candidate: Answers, reference: Answers, samples: Array) -> None:
        """Add the answers of one call."""
        candidate, reference = (split_by_sample(side, batched=self.batched) for side in (candidate, reference))
        for name, array in reference.items():
            self.outputs.setdefault(name, OutputErrors()).add(candidate[name], array, samples)

    def rows(self, runtime: str) -> list[dict[str, Any]]:
        """Return result.ErrorRow of each output, without `artifact`."""
        return [errors.row(runtime, name) for name, errors in self.outputs.items()]

    def worst_rows(self, runtime: str, data: Dataset) -> list[dict[str, Any]]:
        """Return result.WorstSampleRow of the worst samples, without `artifact`, the worst first.
        Errors of several outputs compare by the root mean square of each."""
        largest: dict[int, tuple[float, str, _SampleError]] = {}
        for name, errors in self.outputs.items():
            for error in errors.worst:
                share = error.error / errors.rms if errors.rms else math.inf
                if share > largest.get(error.sample, (0.0,))[0]:
                    largest[error.sample] = share, name, error
        worst = heapq.nlargest(WORST, largest.values(), key=lambda item: item[0])
        return [_worst_row(runtime, name, error, data) for _, name, error in worst]


def _worst_row(runtime: str, output: str, error: _SampleError, data: Dataset) -> dict[str, Any]:
    return {
        "runtime": runtime,
        "sample": error.sample,
        "output": output,
        "error": _finite(error.error),
        "candidate": _finite(error.candidate),
        "reference": _finite(error.reference),
        "label": _label(data, error.sample),
        "picture": picture_of(list(data.inputs.values()), error.sample),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _label(data: Dataset, sample: int) -> str | None:
    """Return a sample's label where it is a single value."""
    label = None if data.labels is None else np.asarray(data.labels[sample])
    return None if label is None or label.size != 1 else str(label.reshape(-1)[0])

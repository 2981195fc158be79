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

from ...models.dataset import Dataset
from ...models.probes.evidence import Answers
from ...models.signature import Array
from .picture import picture_of
from .recorded_answers import split_by_sample

WORST = 6  # samples that are kept
_LEAST_EXPONENT, _EXPONENTS = -1080, 2110  # of float64


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
        errors = _errors(candidate, reference)
        infinite = np.isinf(errors)
        different = errors[(errors > 0) & ~infinite]
        self.elements += errors.size
        self.non_finite += int(np.count_nonzero(infinite))
        self.counts += np.bincount(np.frexp(different)[1] - _LEAST_EXPONENT, minlength=_EXPONENTS)
        sizes = np.abs(reference).astype(np.float64)
        sizes = sizes[np.isfinite(sizes)]
        with np.errstate(over="ignore"):
            self.squares += float(np.sum(np.square(sizes)))
        self.finite += sizes.size
        if errors.ndim and len(errors) == len(samples) and errors.size:
            by_sample = {error.sample: error for error in (*_worst(errors, candidate, reference, samples), *self.worst)}
            self.worst = tuple(heapq.nlargest(WORST, by_sample.values()))

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
    kind = np.complex128 if reference.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        errors = np.asarray(np.abs(candidate.astype(kind) - reference.astype(kind)))
        same = (candidate == reference) | (np.isnan(candidate) & np.isnan(reference))
    errors[np.isnan(errors)] = np.inf
    errors[same] = 0
    errors[~same & (errors == 0)] = 1  # integers that are equal in float64 alone
    return errors


def _worst(errors: Array, candidate: Array, reference: Array, samples: Array) -> Iterator[_SampleError]:
    """Yield the samples of one call with the largest errors."""
    by_sample = errors.reshape(len(errors), -1)
    places = by_sample.argmax(axis=1)
    largest = by_sample[np.arange(len(errors)), places]
    for at in np.argsort(-largest, kind="stable")[:WORST]:
        if largest[at] > 0:
            pair = (float(np.real(side[at].reshape(-1)[places[at]])) for side in (candidate, reference))
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

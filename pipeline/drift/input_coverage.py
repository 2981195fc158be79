"""What a copy was asked: sizes of its axes, ranges of its inputs, stress; and what of the declaration was not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...models.errors import SessionTimeout
from ...models.probes.probe_set import Probe
from ...models.probes.value_range import AxisRange
from ...models.signature import ANY_SIZE, Array, Signature, TensorSpec, ValueRange
from ...serving.session import Session
from .probe_result import CheckResult
from .recorded_answers import ReferenceRecord

_MOST_TIMEOUTS = 3  # in a row, of one session


@dataclass
class _HeldNumbers:
    """The numbers that an input held, in all calls so far."""

    least: float = math.inf  # of integers: an int
    most: float = -math.inf
    least_magnitude: float = math.inf  # of floats, without zeros
    non_finite: bool = False

    def add(self, array: Array) -> None:
        """Add the numbers of one call."""
        if not array.size:
            return
        if array.dtype.kind in "iub":
            self.least, self.most = min(self.least, int(array.min())), max(self.most, int(array.max()))
            return
        floats = array if array.dtype.kind == "f" else np.abs(array) if array.dtype.kind == "c" else array.astype("f8")
        finite = np.isfinite(floats)
        if not finite.all():
            self.non_finite = True
            floats = floats[finite]
        self.least = min(self.least, float(np.min(floats, initial=math.inf)))
        self.most = max(self.most, float(np.max(floats, initial=-math.inf)))
        sizes = np.abs(floats)
        smallest = float(np.min(sizes, initial=math.inf, where=sizes > 0))
        self.least_magnitude = min(self.least_magnitude, smallest)

    def row(self, spec: TensorSpec, sizes: Mapping[str, Iterable[int]]) -> dict[str, Any]:
        """result.InputValuesRow. Of a range up to an axis that is what the asked `sizes` allow."""
        values = spec.values
        if isinstance(values, AxisRange):
            smallest, largest = ({axis: end(observed) for axis, observed in sizes.items()} for end in (min, max))
            values = ValueRange(values.at(smallest).low, values.at(largest).high)
        declared = list(values) if values else None
        return {
            "input": spec.name,
            "dtype": spec.dtype,
            "least": _finite(self.least),
            "most": _finite(self.most),
            "least_magnitude": _finite(self.least_magnitude),
            "non_finite": self.non_finite,
            "declared": declared,
            "not_asked": [] if declared is None else _ends_left_out(declared, self.least, self.most, 0),
        }


@dataclass
class ObservedSession:
    """A session that notes the sizes and numbers that it is asked."""

    session: Session
    requested: Signature
    calls: int = 0
    timeouts: int = 0  # in a row
    sizes: dict[str, set[int]] = field(default_factory=dict)
    values: dict[str, _HeldNumbers] = field(default_factory=dict)

    @property
    def signature(self) -> Signature:
        """That of the session."""
        return self.session.signature

    @property
    def device(self) -> str:
        """That of the session."""
        return self.session.device

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """Note the feeds and pass them on. Raises SessionTimeout at once after three time-outs in a row: a server that
        hangs would take a minute of each of a hundred calls."""
        if self.timeouts == _MOST_TIMEOUTS:
            raise SessionTimeout(
                f"{_MOST_TIMEOUTS} calls in a row got no answer in time", fix="read the server's log, and start it anew"
            )
        self.calls += 1
        for spec in self.requested.inputs:
            if (array := feeds.get(spec.name)) is None:
                continue
            self.values.setdefault(spec.name, _HeldNumbers()).add(array)
            for at, axis in spec.dynamic_axes.items():
                self.sizes.setdefault(axis, set()).add(array.shape[at])
        try:
            answers = self.session.run(feeds)
        except SessionTimeout:
            self.timeouts += 1
            raise
        self.timeouts = 0
        return answers

    def close(self) -> None:
        """Close the session."""
        self.session.close()


def describe_exercise(
    observed: ObservedSession,
    record: ReferenceRecord,
    results: Sequence[CheckResult],
    runtime: str,
    constants: tuple[int, int] = (0, 0),
) -> dict[str, Any]:
    """result.ExercisedRow without `artifact`. `constants`: of the copy; else the model's count."""
    compared, unreached = constants if constants[0] else record.constants
    bounds = observed.requested.bounds
    axes = []
    for axis, sizes in observed.sizes.items():
        limits = bounds.get(axis, ANY_SIZE)
        declared = [limits.low, limits.high]
        tried = sizes | set(record.refused.get(axis, ()))
        axes.append(
            {
                "axis": axis,
                "declared": declared,
                "sizes": sorted(sizes),
                "refused": sorted(record.refused.get(axis, ())),
                "not_asked": _ends_left_out(declared, min(tried), max(tried), limits.step),
            }
        )
    stress, known = _stress(result.probe for result in results), _stress(record.probes)
    return {
        "runtime": runtime,
        "samples": max((result.row["samples"] for result in results if result.probe.as_sampled), default=0),
        "calls": observed.calls,
        "axes": axes,
        "inputs": [
            values.row(spec, observed.sizes)
            for spec in observed.requested.inputs
            if (values := observed.values.get(spec.name))
        ],
        "stress": stress,
        "constants": compared,
        "constants_not_reached": unreached,
        "stress_not_asked": [kind for kind in known if kind not in stress],
    }


def _stress(probes: Iterable[Probe]) -> list[str]:
    """Return the kinds of fills and other integers in some probes, each once."""
    kinds = (
        [
            *(f"{name} {fill}" for name, fill in probe.fills.items()),
            *(f"{name} integers" for name in probe.reach),
            *([probe.source] if probe.source else []),
        ]
        for probe in probes
    )
    return list(dict.fromkeys(kind for own in kinds for kind in own))


def _ends_left_out(declared: Sequence[Any], least: float, most: float, gap: int) -> list[list[Any]]:
    """Return the parts of a declared range below the least and above the most that was asked.
    `gap` is how far allowed sizes lie apart; 0 of numbers."""
    low, high = declared
    below = [[low, least - gap]] if least > low else []
    return [*below, *([[most + gap, high]] if high is None or most < high else [])]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

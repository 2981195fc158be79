"""What the copies were asked, and what of the declared range was not, as the reports show it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..result.schema import ExercisedRow, InputValuesRow
from . import units

_INTEGERS = ("int16", "uint16", "int32", "uint32", "int64", "uint64")


@dataclass(frozen=True)
class Exercise:
    """One set of questions, and the copies that were asked them: "onnx in onnxruntime"."""

    copies: tuple[str, ...]
    row: ExercisedRow

    @property
    def samples(self) -> str:
        """How many samples in how many calls."""
        return f"{self.row.samples} samples in {self.row.calls} calls"

    @property
    def sizes(self) -> str:
        """The sizes of each dynamic axis: "batch 1, 2, 5"; and those that the model itself refuses."""
        refused = [
            f"the model itself does not answer at {axis.axis} {_listed(axis.refused)}"
            for axis in self.row.axes
            if axis.refused
        ]
        sizes = [f"{axis.axis} {_listed(axis.sizes)}" for axis in self.row.axes]
        return units.plain("; ".join([*sizes, *refused]))

    @property
    def values(self) -> str:
        """The numbers of each input: "image from -100 to 1000, magnitudes from 6e-06, with NaN or infinities"."""
        return units.plain("; ".join(text for row in self.row.inputs if (text := _values(row))))

    @property
    def stress(self) -> str:
        """What inputs were filled with, input by input: "image nan, infinite"; "none" where only samples were asked."""
        return _by_input(self.row.stress) or "none"

    @property
    def not_asked(self) -> str:
        """What of the declared range and of the model's stress was left out; "nothing" where all of it was asked."""
        sizes = [f"{axis.axis} {_range(*part)}" for axis in self.row.axes for part in axis.not_asked]
        values = [f"{row.input} {_range(*part)}" for row in self.row.inputs for part in row.not_asked]
        stress = [f"stress ({_by_input(self.row.stress_not_asked)})"] if self.row.stress_not_asked else []
        few, all_of = self.row.constants_not_reached, self.row.constants
        constants = [f"{few} of {all_of} constants, which no input reached"] if few else []
        functions = [f"the function {name}" for name in self.row.functions_not_asked]
        parts = [*sizes, *values, *self._undeclared, *constants, *stress, *functions]
        return units.plain("; ".join(parts)) or "nothing"

    @property
    def _undeclared(self) -> list[str]:
        """Integers that the samples alone bound: nothing declares them, and none beyond them were tried."""
        integers = [row for row in self.row.inputs if row.dtype in _INTEGERS and row.declared is None]
        free = [row for row in integers if f"{row.input} integers" not in self.row.stress and (row.most or 0) > 1]
        return [f"{row.input} beyond {_range(row.least or 0, row.most)}: nothing declares them" for row in free]

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        copies = f"{self.copies[0]}{f' and {len(self.copies) - 1} more' if len(self.copies) > 1 else ''}"
        parts = (self.samples, self.sizes, self.values, f"stress: {self.stress}", f"not asked: {self.not_asked}")
        return f"asked of {copies}: {'; '.join(part for part in parts if part)}"


def exercises(rows: Iterable[ExercisedRow]) -> tuple[Exercise, ...]:
    """Return each set of questions once, with all copies that were asked it."""
    copies: dict[ExercisedRow, list[str]] = {}
    for row in rows:
        copies.setdefault(replace(row, artifact="-", runtime="-"), []).append(units.where(row))
    return tuple(Exercise(tuple(names), row) for row, names in copies.items())


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes))


def _values(row: InputValuesRow) -> str:
    if row.least is None or row.most is None:
        return ""
    tiny = f", magnitudes from {units.digits(row.least_magnitude)}" if row.least_magnitude is not None else ""
    non_finite = ", with NaN or infinities" if row.non_finite else ""
    return f"{row.input} from {_number(row.least)} to {_number(row.most)}{tiny}{non_finite}"


def _number(value: float) -> str:
    return units.signed(str(value)) if isinstance(value, int) else units.digits(value)


def _range(low: float, high: float | None) -> str:
    if high is None:
        return f"{_number(low)} and larger"
    return _number(low) if low == high else f"{_number(low)} to {_number(high)}"


def _by_input(kinds: Sequence[str]) -> str:
    """Join "image nan" and "image large" to "image nan, large"."""
    by_input: dict[str, list[str]] = {}
    for kind in kinds:
        name, _, fill = kind.partition(" ")
        by_input.setdefault(name, []).append(fill)
    return units.plain("; ".join(f"{name} {', '.join(fills)}" for name, fills in by_input.items()))

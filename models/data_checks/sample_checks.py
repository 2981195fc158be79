"""Look for faults in samples and labels, a few megabytes at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..array_file import pieces
from ..dataset import Dataset
from ..signature import Array, TensorSpec
from .class_labels import LabelRange, as_classes, class_axis
from .data_findings import DataFault, DataFinding

_PIECE_BYTES = 4 << 20
_SHOWN_ROWS = 8  # of a fault that are kept
_SHOWN = 5  # columns or classes that a sentence lists
_MOST_CLASSES = 100_000  # that are counted
_LEAST_ROWS = 30  # from which on a column without a second value tells something
_BY_CHANCE = 1e-4  # the most that a column may equal the labels by chance
_LEAST_FIT = 1e-9  # of the variance that a column leaves of the label which it is, rescaled
_PICTURE_COLUMNS = 49  # from which on columns may be the pixels of a picture


@dataclass(frozen=True)
class DataPlace:
    """Where samples come from, in words."""

    name: str  # "the train split", "table.csv"
    row: str = "sample"
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of a table, by input
    label: str = ""  # the column of the labels
    is_learnt_from: bool = False  # else chance alone may leave a rare class out

    def row_text(self, index: int) -> str:
        """Return "row 17" of a table's row, which counts from 1, else "sample 17 (index 16)"."""
        return f"{self.row} {index + 1}" + (f" (index {index})" if self.row == "sample" else "")

    def column_text(self, name: str, shape: Sequence[int], column: int) -> str:
        """Return the name of a column of a table or of an input."""
        if name in self.columns and column < len(self.columns[name]):
            return f"the column {self.columns[name][column]}"
        return f"{name}[:, {column}]" if len(shape) == 1 and shape[0] > 1 else f"the input {name}"

    @property
    def labels_text(self) -> str:
        """Return the labels as a subject with its verb."""
        return f"the column {self.label} holds" if self.label else "the labels hold"


def check_dataset(data: Dataset, place: DataPlace, outputs: Sequence[TensorSpec] = ()) -> list[DataFinding]:
    """Return the faults of samples and of labels by themselves; of labels beside `outputs` where these are known."""
    findings, classes = _check_finite_labels(data.labels, place), None
    plain = data.labels is not None and not findings
    if data.labels is not None and plain:
        findings += check_labels(data.labels, outputs, place)
        classes = _count_classes(data.labels)
    checks = {name: _InputCheck(name, array, place) for name, array in data.inputs.items()}
    matches = {
        name: _LabelMatch(math.prod(array.shape[1:]), len(data), classes)
        for name, array in data.inputs.items()
        if plain and array.ndim <= 2 and data.labels is not None and _is_single(data.labels)
    }
    for start, part in parts_of(data):
        for name, array in part.inputs.items():
            rows = array.reshape(len(array), -1)
            checks[name].add(start, rows)
            if name in matches:
                matches[name].add(rows, np.asarray(part.labels).reshape(-1))
    findings += [finding for check in checks.values() for finding in check.findings()]
    for name, match in matches.items():
        if columns := match.columns():
            which = ", ".join(place.column_text(name, data.inputs[name].shape[1:], at) for at in columns[:_SHOWN])
            text = f"{place.name}: the label of every {place.row} can be read off {which}: is that the label itself?"
            findings.append(DataFinding(fault=DataFault.LABEL_AS_FEATURE, text=text))
    return findings


def parts_of(data: Dataset) -> Iterator[tuple[int, Dataset]]:
    """Yield samples a few megabytes at a time, each with the number of its first; the last part is let go of."""
    size = sum(array[:1].nbytes for array in data.arrays.values())
    for start in range(0, len(data), step := max(1, _PIECE_BYTES // max(1, size))):
        yield start, data.rows(start, start + step)
        data.release()


def _is_single(labels: Array) -> bool:
    return labels.dtype.kind in "biuf" and math.prod(labels.shape[1:]) == 1


@dataclass
class _BadRows:
    """The samples that have a fault."""

    count: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, start: int, is_bad: object) -> None:
        bad = np.asarray(is_bad)
        self.count += int(np.count_nonzero(bad))
        if len(self.first) < _SHOWN_ROWS:
            self.first += [start + int(at) for at in np.flatnonzero(bad)[: _SHOWN_ROWS - len(self.first)]]

    def text(self, place: DataPlace, total: int) -> str:
        return f"in {self.count:,} of {total:,} {place.row}s, first in {place.row_text(self.first[0])}"


class _InputCheck:
    """Values that are no finite numbers, and columns that hold one value."""

    def __init__(self, name: str, array: Array, place: DataPlace) -> None:
        self.name, self.shape, self.total, self.place = name, array.shape[1:], len(array), place
        self.is_float = array.dtype.kind == "f"
        self.has_columns = array.ndim <= 2 and (self.is_float or name in place.columns)
        self.bad = _BadRows()
        self.bad_columns: Array = np.zeros(math.prod(self.shape), bool)
        self.kinds: set[str] = set()
        self.low: Array | None = None
        self.high: Array | None = None

    def add(self, start: int, rows: Array) -> None:
        finite = np.isfinite(rows) if self.is_float else None
        if finite is not None and not finite.all():
            self.bad.add(start, ~finite.all(axis=1))
            self.bad_columns |= ~finite.all(axis=0)
            self.kinds |= {"NaN" if np.isnan(value) else "an infinity" for value in rows[~finite][:1000]}
        if self.has_columns and len(rows):
            low, high = rows.min(axis=0), rows.max(axis=0)
            self.low = low if self.low is None else np.minimum(self.low, low)
            self.high = high if self.high is None else np.maximum(self.high, high)

    def findings(self) -> Iterator[DataFinding]:
        if self.bad.count:
            bad = np.flatnonzero(self.bad_columns)
            where = self._column(int(bad[0])) if len(self.shape) <= 1 else f"the input {self.name}"
            more = f" and {len(bad) - 1} more columns" if len(bad) > 1 and len(self.shape) <= 1 else ""
            kinds = " and ".join(sorted(self.kinds))
            yield DataFinding(
                fault=DataFault.SAMPLE_NOT_FINITE,
                text=f"{self.place.name}: {where}{more} {'hold' if more else 'holds'} {kinds} "
                f"{self.bad.text(self.place, self.total)}",
                fix="mend or leave out these samples, or let the net answer them, as by torch.nan_to_num",
                rows=tuple(self.bad.first),
            )
        if self.low is not None and self.high is not None and self.total >= _LEAST_ROWS:
            constant = [int(at) for at in np.flatnonzero(self.low == self.high) if not self._is_background(int(at))]
            if constant:
                names = ", ".join(map(self._column, constant[:_SHOWN]))
                more = f" and {len(constant) - _SHOWN} more" if len(constant) > _SHOWN else ""
                value = "" if len(constant) > 1 else f", {self.low[constant[0]]:g}"
                holds = "hold" if len(constant) > 1 else "holds"
                text = f"{self.place.name}: {names}{more} {holds} one value in all {self.total:,} {self.place.row}s"
                yield DataFinding(fault=DataFault.CONSTANT_COLUMN, text=f"{text}{value}")

    def _is_background(self, column: int) -> bool:
        """Return whether a column may be a pixel at a picture's rim: many columns have its value as their least."""
        low = self.low
        return low is not None and len(low) >= _PICTURE_COLUMNS and bool(np.mean(low == low[column]) > 0.5)

    def _column(self, at: int) -> str:
        return self.place.column_text(self.name, self.shape, at)


class _LabelMatch:
    """The columns of an input that tell the labels: each value stands for one label, or is the label rescaled."""

    def __init__(self, columns: int, rows: int, classes: Array | None) -> None:
        self._left, self._rows, self._classes = np.arange(columns), rows, classes
        self._by_label: dict[int, Array] = {}  # the values of all columns
        self._origin: tuple[Array, float] | None = None
        self._sums: Array = np.zeros((5, columns))
        if classes is not None:
            chances = [math.lgamma(rows + 1), -sum(math.lgamma(count + 1) for count in classes if count)]
            seen = int(np.count_nonzero(classes))
            by_chance = math.lgamma(seen + 1) + math.log(max(1, columns)) - sum(chances)
            if seen < 2 or by_chance > math.log(_BY_CHANCE) or seen * columns > 1_000_000:
                self._left = self._left[:0]

    def add(self, rows: Array, labels: Array) -> None:
        if not len(self._left) or not len(rows):
            return
        if self._classes is None:
            with np.errstate(all="ignore"):
                self._add_values(rows.astype(np.float64), labels.astype(np.float64))
            return
        order = np.argsort(labels, kind="stable")
        own, values = labels[order], rows[order][:, self._left]
        starts = np.flatnonzero(np.concatenate([[True], own[1:] != own[:-1]]))
        alike = (values == np.repeat(values[starts], np.diff([*starts, len(own)]), axis=0)).all(axis=0)
        for label, first in zip(own[starts].tolist(), order[starts], strict=True):
            alike &= self._by_label.setdefault(label, np.array(rows[first]))[self._left] == rows[first][self._left]
        self._left = self._left[alike]

    def _add_values(self, x: Array, y: Array) -> None:
        if self._origin is None:
            self._origin = x[0], float(y[0])
        x, y = x - self._origin[0], np.repeat((y - self._origin[1])[:, np.newaxis], x.shape[1], axis=1)
        self._sums += np.stack([part.sum(axis=0) for part in (x, y, x * x, y * y, x * y)])

    def columns(self) -> list[int]:
        """Return the columns, once all samples were seen."""
        if self._classes is not None:
            values = np.array([row[self._left] for row in self._by_label.values()])
            distinct = [int(at) for at, own in zip(self._left, values.T, strict=True) if len(set(own)) == len(own)]
            return distinct if len(values) else []
        if self._rows < _LEAST_ROWS:
            return []
        x, y, xx, yy, xy = self._sums
        with np.errstate(all="ignore"):
            of_x, of_y, of_both = (square - a * b / self._rows for square, a, b in ((xx, x, x), (yy, y, y), (xy, x, y)))
            return np.flatnonzero(1 - of_both**2 / (of_x * of_y) < _LEAST_FIT).tolist()


def _check_finite_labels(labels: Array | None, place: DataPlace) -> list[DataFinding]:
    bad, start = _BadRows(), 0
    for piece in pieces(labels) if labels is not None and labels.dtype.kind == "f" else ():
        bad.add(start, ~np.isfinite(piece).reshape(len(piece), -1).all(axis=1))
        start += len(piece)
    if not bad.count:
        return []
    text = f"{place.name}: {place.labels_text} NaN or an infinity {bad.text(place, start)}"
    fix = "mend these labels, or leave their samples out"
    return [DataFinding(fault=DataFault.LABEL_NOT_FINITE, text=text, fix=fix, rows=tuple(bad.first))]


def check_labels(labels: Array, outputs: Sequence[TensorSpec], place: DataPlace) -> list[DataFinding]:
    """Return the faults of whole labels beside the outputs: a class that is none of theirs, one without a sample.
    Finite labels of another kind, or that belong to no output's classes, have none."""
    sizes = _class_counts(labels, outputs)
    if not sizes:
        return []
    bad, start, counts = _BadRows(), 0, np.zeros(max(sizes), np.int64)
    strangers: set[int] = set()
    for piece in pieces(labels):
        classes = as_classes(piece)
        if classes is None:
            return []
        outside = classes >= len(counts)
        bad.add(start, outside.reshape(len(piece), -1).any(axis=1))
        if len(strangers) <= len(counts):
            strangers.update(np.unique(classes[outside])[: len(counts) + 1].tolist())
        counts += np.bincount(classes[~outside & (classes >= 0)], minlength=len(counts))
        start += len(piece)
    if len(strangers) > len(counts) or np.count_nonzero(counts) + len(strangers) == start:
        return []  # numbers that are measured, or one for each sample
    if strangers:
        first = int(labels[bad.first[0]].max())
        text = f"{place.name}: {place.labels_text} {first}, which is none of {len(counts)} classes"
        fix = "mend these labels: classes count from 0, and a negative label does not count"
        text = f"{text} that count from 0, {bad.text(place, start)}"
        return [DataFinding(fault=DataFault.LABEL_OUTSIDE, text=text, fix=fix, rows=tuple(bad.first))]
    return _check_missing(counts, start, place) if len(sizes) == 1 and labels.ndim != 2 else []


def _check_missing(counts: Array, rows: int, place: DataPlace) -> list[DataFinding]:
    missing = np.flatnonzero(counts == 0).tolist()
    by_chance = len(counts) * (1 - 1 / len(counts)) ** int(counts.sum())  # of a class, where all are as frequent
    if not missing or not (place.is_learnt_from or by_chance < 0.01):
        return []
    names = ", ".join(map(str, missing[:_SHOWN]))
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    text = (
        f"{place.name}: no {place.row} has the label {names}{more}, of {len(counts)} classes in {rows:,} {place.row}s"
    )
    return [DataFinding(fault=DataFault.CLASS_MISSING, text=text)]


def _class_counts(labels: Array, outputs: Sequence[TensorSpec]) -> list[int]:
    """Return the numbers of classes that labels may belong to: of each output of scores that fits."""
    if labels.dtype.kind not in "iuf":
        return []
    own = () if labels.ndim == 2 and labels.shape[1] == 1 else labels.shape[1:]
    sizes = []
    for output in outputs:
        dims = tuple(size if isinstance(size, int) else None for size in output.shape)
        axis = class_axis(dims, (None, *own))
        size = None if axis is None else dims[axis]
        if size and 1 < size <= _MOST_CLASSES and output.dtype.startswith(("float", "bfloat")):
            sizes.append(size)
    return sizes


def _count_classes(labels: Array) -> Array | None:
    """Return how many samples have each class, the least first; None of other labels, or of as many classes as of
    a number that is measured."""
    known = LabelRange.of(labels) if _is_single(labels) else None
    if known is None or known.largest - known.least > _MOST_CLASSES:
        return None
    counts = np.zeros(known.largest - known.least + 1, np.int64)
    for piece in pieces(labels):
        counts += np.bincount(piece.reshape(-1).astype(np.int64) - known.least, minlength=len(counts))
    return None if np.count_nonzero(counts) > len(labels) / 4 else counts

"""Ranges that an input is declared to hold numbers of: `0..99`, or up to the size of an axis, `1..time`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..errors import BadRequest

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_AXIS_END = r"(?!(?i:nan|inf|infinity)\b)[A-Za-z_]\w*(?:\s*[+-]\s*\d+)?"
_VALUES = re.compile(rf"(?P<low>{_NUMBER}|{_AXIS_END})\s*\.\.\s*(?P<high>{_NUMBER}|{_AXIS_END})", re.ASCII)
_MOST_OFFSET = 1 << 31


class ValueRange(NamedTuple):
    """The numbers that an input holds, both ends included."""

    low: float  # of integers: an int
    high: float

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}" if isinstance(self.low, float) else f"{self.low}..{self.high}"


class AxisEnd(NamedTuple):
    """An end of a range that is the size of an axis, and a number more: `time-1`."""

    axis: str
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.axis}{self.offset:+d}" if self.offset else self.axis


_End: TypeAlias = "int | AxisEnd"


class AxisRange(NamedTuple):
    """The integers that an input holds, both ends included, where an end is the size of an axis of any input."""

    low: _End
    high: _End

    def __str__(self) -> str:
        return f"{self.low}..{self.high}"

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that its ends are sizes of."""
        return tuple(end.axis for end in self if isinstance(end, AxisEnd))

    def at(self, sizes: Mapping[str, int]) -> ValueRange:
        """Return the numbers at these sizes of the axes; an axis that is not there counts as 1."""
        low, high = (end if isinstance(end, int) else sizes.get(end.axis, 1) + end.offset for end in self)
        return ValueRange(low, max(low, high))

    def with_fixed(self, sizes: Mapping[str, int]) -> AxisRange | ValueRange:
        """Return the range where these axes have one size."""
        low, high = (
            end if isinstance(end, int) or end.axis not in sizes else sizes[end.axis] + end.offset for end in self
        )
        return ValueRange(low, high) if isinstance(low, int) and isinstance(high, int) else AxisRange(low, high)

    def moved(self, values: Any, before: Mapping[str, int], after: Mapping[str, int]) -> Any:
        """Return integers of the range at the sizes `before` as integers of it at the sizes `after`.
        Ends stay ends, and what lies between is spread over the range."""
        (low, high), (new_low, new_high) = self.at(before), self.at(after)
        if (low, high) == (new_low, new_high):
            return values
        own = np.clip(values.astype(np.int64), int(low), int(high)) - int(low)
        span, new_span = int(high - low), int(new_high - new_low)
        between = (own > 0) & (own < span)
        spread = np.arange(own.size).reshape(own.shape) % max(1, new_span // max(1, span))
        rescaled = own * new_span // max(1, span) + np.where(between, spread, 0)
        return np.asarray((rescaled + int(new_low)).astype(values.dtype))


def check_never_empty(name: str, values: AxisRange, bounds: Mapping[str, tuple[int, int | None, int]]) -> None:
    """Check that a range holds a number at every size within `bounds`, those of all axes. Raises BadRequest."""
    low, high = values
    if isinstance(low, AxisEnd) and isinstance(high, AxisEnd) and low.axis == high.axis:
        if low.offset > high.offset:
            raise BadRequest(f"{name} in {values} holds no number", fix=f"write {name} in {high}..{low}")
        return
    least = bounds[high.axis][0] + high.offset if isinstance(high, AxisEnd) else high
    most = low if not isinstance(low, AxisEnd) else None if (end := bounds[low.axis][1]) is None else end + low.offset
    if most is not None and most <= least:
        return
    if isinstance(high, AxisEnd):
        size = bounds[high.axis][0]
        words = f"at {high.axis}={size} no number is left, as it ends at {least}"
        fix = f"begin with a number, as in {name} in 1..{high}"
        if most is not None and most - high.offset > 0:
            fix = (
                f"give {high.axis} bounds that begin at {most - high.offset}, as in {high.axis}={most - high.offset}.."
            )
    else:
        words = f"{low} may be {'of any size' if most is None else most}"
        fix = f"give the axis an end, as in {values.axes[0]}=1..{high}"
    raise BadRequest(f"{name} is declared in {values}, and {words}", fix=fix)


Values: TypeAlias = ValueRange | AxisRange


def values_from_json(ends: list[Any]) -> Values:
    """Read what a record holds: two numbers, or texts for ends that are axes. Raises ValueError."""
    if not (isinstance(ends, list | tuple) and len(ends) == 2 and all(type(end) in (int, float, str) for end in ends)):
        raise ValueError(f"values are two numbers or axes, got {ends}")
    if not any(isinstance(end, str) for end in ends):
        return ValueRange(*ends)
    if any(isinstance(end, float) or (isinstance(end, str) and not re.fullmatch(_AXIS_END, end)) for end in ends):
        raise ValueError(f"values up to an axis are whole numbers and axes, got {ends}")
    low, high = (_end(str(end)) for end in ends)
    return AxisRange(low, high)


def values_to_json(values: Values) -> list[Any]:
    """Reverse `values_from_json`."""
    return [str(end) if isinstance(end, AxisEnd) else end for end in values]


def _end(text: str) -> _End:
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    axis, sign, offset = re.fullmatch(r"(\w+)\s*([+-]?)\s*(\d*)", text).groups()  # type: ignore[union-attr]
    return AxisEnd(axis, min(_MOST_OFFSET, int(offset or 0)) * (-1 if sign == "-" else 1))


def parse_values(range_text: str, dtype: str, text: str) -> Values:
    """Parse LOW..HIGH for an input of `dtype`; `text` is the whole of it. Raises BadRequest."""
    match, kind = _VALUES.fullmatch(range_text.strip()), np.dtype(dtype).kind
    if kind == "b" or not match:
        words = "true and false are all that a bool holds" if kind == "b" else f"{range_text!r} is no LOW..HIGH"
        fix = "leave it out" if kind == "b" else "write it as in --input 'ids=int64[batch] in 0..9'"
        raise BadRequest(f"--input {text!r}: {words}", fix=fix)
    numbers = match["low"], match["high"]
    by_axis = any(re.match(r"[A-Za-z_]", number) for number in numbers)
    if by_axis and kind == "f":
        raise BadRequest(
            f"--input {text!r}: the size of an axis is a whole number, and {dtype} holds others",
            fix="give the input an integer dtype, as lengths and indices have, or name two numbers",
        )
    wholes = numbers if not by_axis else [number for number in numbers if not re.match(r"[A-Za-z_]", number)]
    if kind != "f" and not all(re.fullmatch(r"[+-]?\d+", number) for number in wholes):
        raise BadRequest(f"--input {text!r}: {dtype} holds whole numbers", fix="write them without a point")
    limits = np.finfo(dtype) if kind == "f" else np.iinfo(dtype)
    ends = [(float if kind == "f" else int)(number) for number in wholes]
    if not all(float(limits.min) <= end <= float(limits.max) for end in ends):
        raise BadRequest(f"--input {text!r}: {dtype} holds {limits.min} to {limits.max}", fix="give values within that")
    if by_axis:
        return AxisRange(*(_end(number) for number in numbers))
    low, high = ends
    if low >= high:
        fix = f"write {numbers[1]}..{numbers[0]}" if low > high else "a number that never changes is no input"
        raise BadRequest(f"--input {text!r}: {range_text!r} leaves no two values", fix=fix)
    return ValueRange(low, high)

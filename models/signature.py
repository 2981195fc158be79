"""Signatures: names, dtypes and shapes of a model's inputs and outputs, and which axes are dynamic."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .errors import BadRequest
from .probes.value_range import AxisRange, Values, check_never_empty, parse_values, values_from_json, values_to_json
from .probes.value_range import ValueRange as ValueRange  # noqa: PLC0414  (its users import it from here)

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Axis: TypeAlias = int | str

BATCH = "batch"
_MOST_NAME = 1024  # letters, of a tensor or an axis: names stand in sentences and reports
DTYPES = (
    "float16", "float32", "float64",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
)  # fmt: skip
# TensorFlow has these too. A file with such inputs or outputs can be converted; nothing here serves or measures it.
NARROW_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4")
# Strings: numpy's name for arrays of Python's `bytes`. A SavedModel with them is served, never converted or measured.
STRINGS = "object"


def served_dtype(name: str) -> str:
    """Return the numpy name of a dtype such as "torch.float32".
    Raises ValueError where some format or runtime here cannot carry it."""
    dtype = name.removeprefix("torch.")
    if dtype not in DTYPES:
        raise ValueError(f"dtype {dtype!r} is none of {', '.join(DTYPES)}")
    return dtype


class Bounds(NamedTuple):
    """The sizes that a dynamic axis may have, both ends included; `high` None: no end is known.
    Of a `step` above 1 they are low, low + step, low + 2 * step and so on; `high` is one of them."""

    low: int = 1
    high: int | None = None
    step: int = 1

    def __str__(self) -> str:
        high, step = ("" if self.high is None else self.high), (f":{self.step}" if self.step > 1 else "")
        return f"{self.low}..{high}{step}"

    def __contains__(self, size: object) -> bool:
        if not isinstance(size, int) or size < self.low or (self.high is not None and size > self.high):
            return False
        return (size - self.low) % self.step == 0

    @property
    def filled(self) -> Bounds:
        """The same without the size 0, as every example needs: an empty axis tells nothing."""
        return self if self.low else self._replace(low=self.step)

    def nearest(self, size: int) -> int:
        """Return the allowed size that is nearest to `size`; of two, the larger."""
        return self.at_most(size + self.step // 2)

    def at_most(self, size: int) -> int:
        """Return the largest allowed size up to `size`; the least of all where there is none."""
        most = size if self.high is None else min(size, self.high)
        return most - (most - self.low) % self.step if most > self.low else self.low

    def at_least(self, size: int) -> int:
        """Return the smallest allowed size from `size` on; the largest of all where there is none."""
        return self.at_most(size + self.step - 1)

    def within(self, low: int, high: int | None) -> Bounds:
        """Return those of these sizes that lie in low..high."""
        ends = [end for end in (self.high, high) if end is not None]
        return Bounds(self.at_least(low), self.at_most(min(ends)) if ends else None, self.step)


ANY_SIZE = Bounds()


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output.
    Axes are outermost first. A str names a dynamic axis, and the same name means the same size in every spec of the
    model: ("batch", 3, 224, 224). `bounds` are of axes in `shape`, where there are any. They hold for the axis of that
    name in the whole model: Signature.bounds has them all."""

    name: str
    dtype: str  # a numpy name: "float32"
    shape: tuple[Axis, ...]
    bounds: tuple[tuple[str, Bounds], ...] = ()
    values: Values | None = None  # of an input whose numbers are declared: nothing else is asked

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a tensor needs a name")
        for text in (self.name, *self.shape):
            if isinstance(text, str) and not (text.isprintable() and len(text) <= _MOST_NAME):
                raise ValueError(f"a name is up to {_MOST_NAME} letters that can be printed, got {text[:100]!r}")
        if self.dtype not in (*DTYPES, *NARROW_DTYPES, STRINGS):
            raise ValueError(f"dtype {self.dtype!r} is none of {', '.join(DTYPES + NARROW_DTYPES)}")
        if any(isinstance(axis, int) and axis < 0 for axis in self.shape):
            raise ValueError(f"a static axis is 0 or more, got {self.shape}")
        for axis, bounds in self.bounds:
            low, high, step = bounds
            ends_well = step > 0 and (high is None or (high > bounds.filled.low and high in bounds))
            if axis not in self.shape or low < 0 or not ends_well:
                raise ValueError(f"bounds are of an axis in {self.shape}, from 0 and rising, got {axis}={bounds}")
        if isinstance(self.values, ValueRange) and not self.values.low < self.values.high:
            raise ValueError(f"values rise, got {self.values}")

    def __str__(self) -> str:
        bounds = dict(self.bounds)
        dims = (f"{axis}={bounds.pop(axis)}" if axis in bounds else str(axis) for axis in self.shape)
        values = f" in {self.values}" if self.values else ""
        return f"{self.name}={self.dtype}[{','.join(dims)}]{values}"

    @property
    def dynamic_axes(self) -> dict[int, str]:
        """Position and name of each dynamic axis."""
        return {at: axis for at, axis in enumerate(self.shape) if isinstance(axis, str)}

    def sized(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape at these sizes of its dynamic axes."""
        return tuple(sizes[axis] if isinstance(axis, str) else axis for axis in self.shape)

    def to_json(self) -> dict[str, Any]:
        """Return {name, dtype, shape}, dynamic axes as strings in `shape`, any bounds as {axis: [low, high]}, or as
        [low, high, step] where there is a step, and any values as [low, high], an end of which may be "time-1"."""
        limits = {axis: list(bounds if bounds.step > 1 else bounds[:2]) for axis, bounds in self.bounds}
        bounds = {"bounds": limits} if limits else {}
        values = {"values": values_to_json(self.values)} if self.values else {}
        return {"name": self.name, "dtype": self.dtype, "shape": list(self.shape), **bounds, **values}

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> TensorSpec:
        """Reverse `to_json`. Raises ValueError where a value has another type: a record may be anybody's."""
        _check_types(row)
        name, dtype, shape = row["name"], row["dtype"], tuple(row["shape"])
        bounds = ((axis, Bounds(*limits)) for axis, limits in dict(row.get("bounds", ())).items())
        values = values_from_json(row["values"]) if "values" in row else None
        return TensorSpec(name, dtype, shape, tuple(bounds), values)


_MOST_AXES = 64  # numpy's limit
_MOST_SIZE = 1 << 48  # of a fixed axis: no machine addresses more


def _check_types(row: Mapping[str, Any]) -> None:
    if not (isinstance(row["name"], str) and isinstance(row["dtype"], str) and isinstance(row["shape"], list | tuple)):
        raise ValueError("a tensor has a name, a dtype and a list of axes")
    if len(row["shape"]) > _MOST_AXES:
        raise ValueError(f"a tensor has at most {_MOST_AXES} axes, got {len(row['shape'])}")
    if not all(isinstance(axis, str) or (_is_integer(axis) and axis <= _MOST_SIZE) for axis in row["shape"]):
        raise ValueError(f"an axis is a name, or a size of at most 2^48, got {row['shape']}")
    for limits in dict(row.get("bounds", ())).values():
        if not (isinstance(limits, list | tuple) and len(limits) in (2, 3) and all(map(_is_integer_or_none, limits))):
            raise ValueError(f"bounds are [low, high] or [low, high, step], got {limits}")
    values_from_json(row.get("values", [0, 0]))


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_integer_or_none(value: object) -> bool:
    return value is None or _is_integer(value)


@dataclass(frozen=True, slots=True)
class Signature:
    """Inputs and outputs, in the model's own order."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    def __post_init__(self) -> None:
        for side, specs in (("inputs", self.inputs), ("outputs", self.outputs)):
            names = [spec.name for spec in specs]
            if not names or len(set(names)) != len(names):
                raise ValueError(f"{side} need names that differ, got {names}")
        check_inputs(self.inputs)

    @property
    def batch(self) -> str | None:
        """The axis that samples are gathered along, or None (batch_axis)."""
        return batch_axis(self.inputs)

    @property
    def bounds(self) -> dict[str, Bounds]:
        """The bounds of dynamic axes by name, as the inputs give them; an axis that has none may have any size."""
        return bounds_of(self.inputs)

    def to_json(self) -> dict[str, Any]:
        """Return {inputs: [spec], outputs: [spec]}."""
        return {
            "inputs": [spec.to_json() for spec in self.inputs],
            "outputs": [spec.to_json() for spec in self.outputs],
        }

    @staticmethod
    def from_json(doc: Mapping[str, Any]) -> Signature:
        """Reverse `to_json`."""
        inputs, outputs = (tuple(map(TensorSpec.from_json, doc[side])) for side in ("inputs", "outputs"))
        return Signature(inputs, outputs)


def shape_text(shape: Iterable[Axis]) -> str:
    """Write a shape as users do: "[batch,3,224,224]"."""
    return f"[{','.join(map(str, shape))}]"


def batch_axis(specs: Sequence[TensorSpec]) -> str | None:
    """Return the name of the axis that samples are gathered along; None where one call is one sample.
    It is the axis "batch", wherever it stands, or the first axis that all inputs but scalars share. An input that has
    it twice (a matrix of samples by samples) cannot be put together from samples; then there is none."""
    firsts = {spec.shape[0] for spec in specs if spec.shape}
    axis = BATCH if any(BATCH in spec.shape for spec in specs) else firsts.pop() if len(firsts) == 1 else None
    if not isinstance(axis, str) or any(spec.shape.count(axis) > 1 for spec in specs):
        return None
    return axis


def bounds_of(specs: Iterable[TensorSpec]) -> dict[str, Bounds]:
    """Return the bounds of dynamic axes by name. An axis need not have them in each of its places.
    Raises BadRequest where one axis has two."""
    known: dict[str, Bounds] = {}
    for spec in specs:
        for axis, bounds in spec.bounds:
            if known.setdefault(axis, bounds) != bounds:
                raise BadRequest(
                    f"the axis {axis} is {known[axis]} in one place and {bounds} in another",
                    fix=f"give {axis} its bounds once; one name is one axis",
                )
    return known


def check_inputs(specs: Sequence[TensorSpec]) -> None:
    """Check what inputs declare: one axis has one bounds, and a range up to an axis always holds a number.
    Raises BadRequest."""
    bounds, axes = bounds_of(specs), {axis for spec in specs for axis in spec.dynamic_axes.values()}
    for spec in specs:
        if not isinstance(spec.values, AxisRange):
            continue
        if unknown := [axis for axis in spec.values.axes if axis not in axes]:
            known = ", ".join(sorted(axes)) or "none"
            raise BadRequest(
                f"{spec.name} is declared in {spec.values}, and no input has a dynamic axis {unknown[0]}",
                fix=f"name an axis of the inputs ({known}), or a number",
            )
        own = {axis: limits if axis not in spec.shape else limits.filled
               for axis in axes for limits in (bounds.get(axis, ANY_SIZE),)}  # fmt: skip
        check_never_empty(spec.name, spec.values, own)


_MOST_TEXT = 4000  # of an --input: below what Python takes as the digits of one number
_INPUT = re.compile(r"(?P<name>[^=\s]+)=(?P<dtype>[a-z0-9]+)\[(?P<dims>[^\]]*)\](\s+in\s+(?P<values>.*))?")
_BOUNDS = r"(?P<low>\d+)\s*\.\.\s*(?P<high>\d*)(\s*:\s*(?P<step>\d+))?"
_MULTIPLE = re.compile(r"(\d+)\s*\*\s*([A-Za-z_]\w*)", re.ASCII)
_AXIS = re.compile(rf"(?P<name>[A-Za-z_]\w*)(\s*=\s*{_BOUNDS})?", re.ASCII)


def parse_input(text: str) -> TensorSpec:
    """Parse `NAME=DTYPE[dims]`, or `NAME=DTYPE[dims] in LOW..HIGH`, which says what numbers the input holds.
    LOW or HIGH is a number, an axis of any input, or `axis-1`.

    A number is a fixed size, a word a dynamic axis, `word=1..64` or `word=8..` one with bounds, `word=32..1024:32` or
    `32*word` one with a step; `word=0..`, and nothing else, is one that may be empty. Raises BadRequest."""
    fix = "write it as in --input image=float32[batch,3,224,224] (docs/convert.md)"
    if len(text) > _MOST_TEXT:
        raise BadRequest(f"--input {text[:80]!r}... has more than {_MOST_TEXT} characters", fix=fix)
    match = _INPUT.fullmatch(text.strip())
    if not match:
        raise BadRequest(f"--input {text!r} is not of the form NAME=DTYPE[dims]", fix=fix)
    if match["dtype"] not in DTYPES:
        raise BadRequest(
            f"--input {text!r}: no dtype that the formats carry is called {match['dtype']!r}",
            fix=f"use one of {', '.join(DTYPES)}",
        )
    dims = [dim.strip() for dim in match["dims"].split(",")] if match["dims"].strip() else []
    axes = [_axis(dim, text, fix) for dim in dims]
    bounded = [(axis, bounds) for axis, bounds in axes if isinstance(axis, str) and bounds]
    for axis, bounds in bounded:
        if dict(bounded)[axis] != bounds:
            raise BadRequest(f"--input {text!r}: the axis {axis} has two bounds", fix=f"give {axis} its bounds once")
    values = None if match["values"] is None else parse_values(match["values"], match["dtype"], text)
    shape = tuple(axis for axis, _ in axes)
    try:
        spec = TensorSpec(match["name"], match["dtype"], shape, tuple(dict(bounded).items()), values)
        _check_types(spec.to_json())  # it is written into a record, and read again
    except ValueError as error:
        raise BadRequest(f"--input {text!r}: {error}", fix=fix) from error
    return spec


def _axis(dim: str, text: str, fix: str) -> tuple[Axis, Bounds | None]:
    if dim.isascii() and dim.isdecimal():
        return int(dim), None
    match = _AXIS.fullmatch(_MULTIPLE.sub(r"\2=\1..:\1", dim))
    if not match:
        fix = "write a step as in height=32..1024:32 or height=32..:32" if "*" in dim else fix
        raise BadRequest(f"--input {text!r}: {dim!r} is neither a size nor the name of an axis", fix=fix)
    name, low, high = match["name"], match["low"], match["high"]
    if low is None:
        return name, None
    bounds = Bounds(int(low), int(high) if high else None, int(match["step"] or 1))
    if problem := _bounds_problem(name, bounds):
        words, fix = problem
        raise BadRequest(f"--input {text!r}: {dim!r} {words}", fix=fix)
    return name, bounds


def _bounds_problem(name: str, bounds: Bounds) -> tuple[str, str] | None:
    """Return what is wrong with the bounds of the axis `name`, and its fix; None where nothing is."""
    low, high, step = bounds
    suffix = f":{step}" if step > 1 else ""
    if step == 0:
        return "has a step of 0", f"write {name}={Bounds(low, high)}, or a step as in {name}=32..1024:32"
    if high is None:
        return None
    if low == 0 and high <= step:
        fix = "a fixed size is written 0" if high == 0 else f"write {name}=0..{suffix} or {name}=0..{2 * step}{suffix}"
        return "leaves no two sizes that hold anything", fix
    last = bounds.at_most(high)
    if last == low:
        fix = (
            f"write {name}={high}..{Bounds(high, None, step).at_most(low)}{suffix}"
            if high < low
            else f"a fixed size is written {low}"
        )
        return "leaves no two sizes", fix
    multiples = f", or {name}={step}..{high}{suffix} for multiples of {step}" if high % step == 0 else ""
    fix = f"write {name}={bounds._replace(high=last)}{multiples}"
    return None if last == high else (f"counts in steps of {step} from {low}, and does not come to {high}", fix)


def check_feeds(specs: Sequence[TensorSpec], feeds: Mapping[str, Array]) -> dict[str, int]:
    """Check feeds against the inputs: names, dtypes, ranks, static sizes, and that an axis has one size, within bounds.

    Returns the size of each named axis. Runs before any runtime sees a request: a wrong rank kills TensorFlow's
    process.
    Raises BadRequest."""
    wanted = [spec.name for spec in specs]
    if sorted(feeds) != sorted(wanted):
        raise BadRequest(
            f"the model takes the inputs {', '.join(wanted)}, got {', '.join(sorted(feeds)) or 'none'}",
            fix="give each input of the model once, by its name",
        )
    sizes: dict[str, int] = {}
    for spec in specs:
        _check_feed(spec, feeds[spec.name], sizes)
    for axis, bounds in bounds_of(specs).items():
        if (size := sizes[axis]) not in bounds:
            near = dict.fromkeys((bounds.at_most(size), bounds.at_least(size)))
            steps = f", such as {' or '.join(map(str, near))}" if bounds.step > 1 else ""
            raise BadRequest(
                f"the axis {axis} has the size {size}, and the model takes {bounds}",
                fix=f"send a size within {bounds}{steps}",
            )
    return sizes


def _check_feed(spec: TensorSpec, value: Array, sizes: dict[str, int]) -> None:
    if value.dtype.name != spec.dtype:
        sent = f"{value.dtype.name}{shape_text(value.shape)}"
        raise BadRequest(f"input {spec} got {sent}", fix=f"send {spec.name} as {spec.dtype}")
    if not value.dtype.isnative:
        raise BadRequest(
            f"input {spec} has its bytes in another order than this machine",
            fix=f"send {spec.name}.astype({spec.dtype!r})",
        )
    fits = len(value.shape) == len(spec.shape) and all(
        isinstance(axis, str) or axis == size for axis, size in zip(spec.shape, value.shape, strict=True)
    )
    if not fits:
        raise BadRequest(
            f"input {spec} got the shape {shape_text(value.shape)}",
            fix=f"send {spec.name} in the shape {shape_text(spec.shape)}",
        )
    for at, name in spec.dynamic_axes.items():
        if sizes.setdefault(name, value.shape[at]) != value.shape[at]:
            raise BadRequest(
                f"input {spec} has {name}={value.shape[at]} where another input has {sizes[name]}",
                fix=f"give the axis {name} one size in every input",
            )

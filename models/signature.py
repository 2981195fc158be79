"""What goes in and what comes out of a model: names, dtypes, shapes; which axes are dynamic."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from .errors import BadRequest

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Axis: TypeAlias = int | str

DTYPES = (
    "float16", "float32", "float64",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
)  # fmt: skip
# TensorFlow has these too. A file that takes or gives them can be converted; nothing here serves or measures it.
NARROW_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4")


def served_dtype(name: str) -> str:
    """The numpy name of a dtype, as "torch.float32" has one, that everything here can carry.

    Raises ValueError where something cannot.
    """
    found = name.removeprefix("torch.")
    if found not in DTYPES:
        raise ValueError(f"dtype {found!r} is none of {', '.join(DTYPES)}")
    return found


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output. Axes are outermost first; a str names a dynamic axis, and the same
    name means the same size in every spec of the model: ("batch", 3, 224, 224)."""

    name: str
    dtype: str  # a numpy name: "float32"
    shape: tuple[Axis, ...]

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a tensor needs a name")
        if self.dtype not in DTYPES + NARROW_DTYPES:
            raise ValueError(f"dtype {self.dtype!r} is none of {', '.join(DTYPES + NARROW_DTYPES)}")
        if any(isinstance(axis, int) and axis < 0 for axis in self.shape):
            raise ValueError(f"a static axis is 0 or more, got {self.shape}")

    def __str__(self) -> str:
        return f"{self.name}={self.dtype}[{','.join(map(str, self.shape))}]"

    @property
    def dynamic_axes(self) -> dict[int, str]:
        """Position and name of each dynamic axis."""
        return {at: axis for at, axis in enumerate(self.shape) if isinstance(axis, str)}

    def to_json(self) -> dict[str, Any]:
        """{name, dtype, shape}; dynamic axes are strings in `shape`."""
        return {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}


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

    def to_json(self) -> dict[str, Any]:
        """{inputs: [spec], outputs: [spec]}"""
        return {
            "inputs": [spec.to_json() for spec in self.inputs],
            "outputs": [spec.to_json() for spec in self.outputs],
        }

    @staticmethod
    def from_json(doc: Mapping[str, Any]) -> Signature:
        """The reverse of `to_json`."""
        return Signature(_specs(doc["inputs"]), _specs(doc["outputs"]))


def _specs(rows: Sequence[Mapping[str, Any]]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(row["name"], row["dtype"], tuple(row["shape"])) for row in rows)


_INPUT = re.compile(r"(?P<name>[^=\s]+)=(?P<dtype>[a-z0-9]+)\[(?P<dims>[^\]]*)\]")
_AXIS_NAME = re.compile(r"[A-Za-z_]\w*")


def parse_input(text: str) -> TensorSpec:
    """`NAME=DTYPE[dims]` as a TensorSpec: a number is a fixed size, a word a dynamic axis."""
    fix = "write it as in --input image=float32[batch,3,224,224]"
    found = _INPUT.fullmatch(text.strip())
    if not found:
        raise BadRequest(f"--input {text!r} is not of the form NAME=DTYPE[dims]", fix=fix)
    if found["dtype"] not in DTYPES:
        raise BadRequest(
            f"--input {text!r}: no dtype is called {found['dtype']!r}",
            fix=f"use one of {', '.join(DTYPES)}",
        )
    dims = [dim.strip() for dim in found["dims"].split(",")] if found["dims"].strip() else []
    return TensorSpec(found["name"], found["dtype"], tuple(_axis(dim, text, fix) for dim in dims))


def _axis(dim: str, text: str, fix: str) -> Axis:
    if dim.isdecimal():
        return int(dim)
    if _AXIS_NAME.fullmatch(dim):
        return dim
    raise BadRequest(f"--input {text!r}: {dim!r} is neither a size nor the name of an axis", fix=fix)


def check_feeds(specs: Sequence[TensorSpec], feeds: Mapping[str, Array]) -> dict[str, int]:
    """Hold feeds against the inputs: names, dtypes, ranks, static sizes, and that an axis name has
    one size. Returns the size of each named axis. Runs before any runtime sees a request: a wrong
    rank kills TensorFlow's process.

    Raises BadRequest.
    """
    wanted = [spec.name for spec in specs]
    if sorted(feeds) != sorted(wanted):
        raise BadRequest(
            f"the model takes the inputs {', '.join(wanted)}, got {', '.join(sorted(feeds)) or 'none'}",
            fix="give each input of the model once, by its name",
        )
    sizes: dict[str, int] = {}
    for spec in specs:
        _check_feed(spec, feeds[spec.name], sizes)
    return sizes


def _check_feed(spec: TensorSpec, value: Array, sizes: dict[str, int]) -> None:
    if value.dtype.name != spec.dtype:
        got = f"{value.dtype.name}[{','.join(map(str, value.shape))}]"
        raise BadRequest(f"input {spec} got {got}", fix=f"send {spec.name} as {spec.dtype}")
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
            f"input {spec} got the shape [{','.join(map(str, value.shape))}]",
            fix=f"send {spec.name} in the shape {list(spec.shape)}",
        )
    for at, name in spec.dynamic_axes.items():
        if sizes.setdefault(name, value.shape[at]) != value.shape[at]:
            raise BadRequest(
                f"input {spec} has {name}={value.shape[at]} where another input has {sizes[name]}",
                fix=f"give the axis {name} one size in every input",
            )

"""Targets: a format in a precision, as `--to` names them."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from ..errors import BadRequest
from .format_table import Format, formats


class Precision(StrEnum):
    """Precision of the weights, and for int8 of the arithmetic. Inputs and outputs keep their dtypes."""

    FP32 = "fp32"
    FP16 = "fp16"
    INT8_DYNAMIC = "int8-dynamic"
    INT8 = "int8"


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """A format in a precision: what `--to` names, as in `tflite:int8`."""

    format: Format
    precision: Precision = Precision.FP32

    def __str__(self) -> str:
        if self.precision is Precision.FP32:
            return str(self.format)
        return f"{self.format}:{self.precision}"

    @property
    def slug(self) -> str:
        """The target as a file name."""
        return str(self).replace(":", "-")


def parse_target(text: str) -> Target:
    """Parse `FORMAT[:PRECISION]`; an unknown word is refused with those that are known."""
    form, colon, precision = text.strip().partition(":")
    try:
        known = Format(form)
    except ValueError as error:
        written = [name for name in formats() if name.spec.is_written]
        likely = get_close_matches(form, written, n=1, cutoff=0.7)
        near = f"did you mean {likely[0]}? " if likely else ""
        raise BadRequest(
            f"unknown target {text!r}: no format is called {form!r}",
            fix=f"{near}use one of {', '.join(written)}, with a precision behind a colon if need be "
            "('transload formats')",
        ) from error
    if colon and precision not in set(Precision):
        raise BadRequest(
            f"unknown target {text!r}: no precision is called {precision!r}",
            fix=f"use one of {', '.join(Precision)}, as in {form}:{Precision.INT8}",
        )
    return Target(known, Precision(precision) if colon else Precision.FP32)

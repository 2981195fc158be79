"""What generated code may hold of a file's text: only identifiers, literals and comments that are made here.

The names of an ONNX file are whatever its author wrote, and the generated module is imported. So no text of the file
goes into the code except through these functions.
"""

from __future__ import annotations

import builtins
import keyword
import math
import re
from collections.abc import Sequence

import numpy as np

_RESERVED = frozenset(
    {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "self", "torch", "math", "nn", "F", "Tensor", "Path",
     "Model", "load", "load_file"}
)  # fmt: skip
_LONGEST = 60
# What TensorFlow and tf2onnx put around every name of a model.
_OF_TOOLS = re.compile(r"^(transload\.inner\.)?(StatefulPartitionedCall(_\d+)?/)*|:0$|/ReadVariableOp")


class IdentifierPool:
    """Identifiers, each given out once."""

    def __init__(self, reserved: Sequence[str] = ()) -> None:
        self._taken = {*_RESERVED, *reserved}

    def fresh(self, text: str, otherwise: str = "value") -> str:
        """Return an identifier that reminds of `text`, in lower-case ASCII letters, digits and underscores."""
        plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", _OF_TOOLS.sub("", text)[: 4 * _LONGEST])
        plain = re.sub(r"[^A-Za-z0-9]+", "_", plain).strip("_").lower()
        plain = _shortened(re.sub(r"_output_0$", "", plain))
        name = plain if plain[:1].isalpha() else f"{otherwise}_{plain}".rstrip("_")
        identifier, count = name, 1
        while identifier in self._taken:
            count += 1
            identifier = f"{name}_{count}"
        self._taken.add(identifier)
        return identifier


def _shortened(plain: str) -> str:
    """Return the last words of a name, as many as fit."""
    if len(plain) <= _LONGEST:
        return plain
    end = plain[-_LONGEST:]
    return end.partition("_")[2].strip("_") or end


def number(value: float, dtype: str = "float32") -> str:
    """Return the shortest text of a float in `dtype`, or in float32 if that is wider, in which PyTorch computes."""
    if math.isnan(value) or math.isinf(value):
        return "math.nan" if math.isnan(value) else "math.inf" if value > 0 else "-math.inf"
    return repr(float(value)) if dtype == "float64" else repr(float(str(np.float32(value))))


def scalar(value: object, dtype: str) -> str:
    """Return one element of an array as a literal."""
    if dtype == "bool":
        return repr(bool(value))
    if "int" in dtype:
        return repr(int(value))  # type: ignore[call-overload]
    return number(float(value), dtype)  # type: ignore[arg-type]


def comment(text: str, longest: int = 90) -> str:
    """Return one line of printable ASCII."""
    line = " ".join(re.sub(r"[^ -~]", " ", text[: 4 * longest]).split())
    return line if len(line) <= longest else f"{line[: longest - 3]}..."

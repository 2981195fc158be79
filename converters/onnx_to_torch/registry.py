"""Which operator is written by which function, for which wordings of the specification and which dtypes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from .values import Value

if TYPE_CHECKING:
    from .reader import Op

Answer: TypeAlias = "str | Value | None"  # a Python expression, or a value that the function has made
Written: TypeAlias = "Answer | Sequence[Answer]"
Writer: TypeAlias = "Callable[[Op], Written]"
Function = TypeVar("Function", bound="Callable[[Op], Written]")

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint8"})
NUMBERS = FLOATS | INTEGERS
BOOL = frozenset({"bool"})
ORDINARY = NUMBERS | BOOL  # what PyTorch computes in: of wider unsigned integers and floats of 8 bits it only moves
HELD = ORDINARY | {
    "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"
}  # fmt: skip

# The newest wording that the operators here were written against. A newer one is refused until somebody has read it.
NEWEST_READ = 25

FAMILIES = (
    "activation", "casting", "constants", "convolution", "elementwise", "fused", "indexing", "joining",
    "linear", "logic", "normalization", "padding", "pooling", "quantization", "recurrent", "reduction", "resize",
    "sampling", "selection", "shape", "slicing",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """One operator's function. `dtypes`: what its inputs may be, by the name of the type variable in the operator's
    specification; any ORDINARY one where it is not named."""

    function: Writer
    since: int
    until: int
    dtypes: Mapping[str, frozenset[str]]
    folds: bool = True


_ENTRIES: dict[tuple[str, str], list[Entry]] = {}


def writes(
    *op_types: str,
    since: int = 1,
    until: int = NEWEST_READ,
    domain: str = "",
    folds: bool = True,
    **dtypes: frozenset[str],
) -> Callable[[Function], Function]:
    """Register a function for the wordings `since` .. `until` (opset versions) of one operator, or of several."""

    def register(function: Function) -> Function:
        for op_type in op_types:
            entries = _ENTRIES.setdefault((domain, op_type), [])
            if any(each.since <= until and since <= each.until for each in entries):
                raise ValueError(f"two functions of {domain}.{op_type} for the versions {since}..{until}")
            entries.append(Entry(function, since, until, dtypes, folds))
        return function

    return register


def entries() -> Mapping[tuple[str, str], Sequence[Entry]]:
    """Every operator's functions, by domain and operator."""
    for family in FAMILIES:
        import_module(f"{__package__}.operators.{family}")
    return _ENTRIES


def find(domain: str, op_type: str, version: int) -> Entry | None:
    """The function for this wording of an operator, or None."""
    known = entries().get((domain, op_type), ())
    return next((each for each in known if each.since <= version <= each.until), None)

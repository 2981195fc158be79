"""Which operator is lowered by which function, for which wordings of the specification and which dtypes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from .values import Value

if TYPE_CHECKING:
    from .reader import Op

Lowered: TypeAlias = Value | Sequence[Value | None]
Lowering: TypeAlias = "Callable[[Op], Lowered]"
Function = TypeVar("Function", bound="Callable[[Op], Lowered]")

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
SIGNED = frozenset({"int8", "int16", "int32", "int64"})
INTEGERS = SIGNED | frozenset({"uint8", "uint16", "uint32", "uint64"})
BOOL = frozenset({"bool"})
NUMBERS = FLOATS | INTEGERS
ANY = NUMBERS | BOOL
INDICES = frozenset({"int32", "int64"})
# What TensorFlow has no arithmetic for. Such values lie in a wider dtype (values.CARRIERS), and an operator that takes
# ANY, and so only moves what it is given, takes them too.
SMALL_INTEGERS = frozenset({"int2", "int4", "uint2", "uint4"})
SMALL_FLOATS = frozenset(
    {"float4_e2m1fn", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"}
)
NARROW = SMALL_INTEGERS | SMALL_FLOATS

# The newest wording that the operators here were written against. A newer one is refused until somebody has read it.
NEWEST_READ = 25

FAMILIES = (
    "activation", "attention", "casting", "constants", "control", "convolution", "deformable", "detection",
    "einsum", "elementwise", "fused", "fused_attention", "indexing", "joining", "linear", "logic", "loops", "losses",
    "normalization", "optional", "padding", "pooling", "quantization", "quantized", "random", "recurrent", "reduction",
    "regions", "resize", "running", "sampling", "scatter", "selection", "sequences", "shape", "signal", "slicing",
    "transposed", "unpooling",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """One lowering. `dtypes`: by the name of the type variable in the operator's specification, what it takes."""

    function: Lowering
    since: int
    until: int
    dtypes: Mapping[str, frozenset[str]]
    folds: bool = True  # whether the same inputs always make the same answer


_ENTRIES: dict[tuple[str, str], list[Entry]] = {}


def lowers(
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
                raise ValueError(f"two lowerings of {domain}.{op_type} for the versions {since}..{until}")
            entries.append(Entry(function, since, until, dtypes, folds))
        return function

    return register


def entries() -> Mapping[tuple[str, str], Sequence[Entry]]:
    """Every lowering, by domain and operator. Imports the families; none of them imports a framework."""
    for family in FAMILIES:
        import_module(f"{__package__}.operators.{family}")
    return _ENTRIES


def find(domain: str, op_type: str, version: int) -> Entry | None:
    """The lowering of this wording of an operator, or None."""
    known = entries().get((domain, op_type), ())
    return next((each for each in known if each.since <= version <= each.until), None)

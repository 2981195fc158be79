"""Registers every handler of this room in tf2onnx's tables."""

from __future__ import annotations

from functools import cache

from .. import private_tf2onnx
from ..ledger import Kind, swap_for_good
from . import (
    complex_pairs,
    dilated_convolutions,
    handlers,
    integers,
    search_operators,
    segments,
    sized_transposed_convolution,
    while_loops,
)

_MODULES = (
    handlers, integers, search_operators, segments, sized_transposed_convolution, while_loops, complex_pairs,
    dilated_convolutions,
)  # fmt: skip
_PATCHES = tuple(patch for module in _MODULES for patch in module.PATCHES)
# Handlers that differ from tf2onnx's own for rare dtypes and forms alone.
_RARE = {
    "TFL_FLOOR_DIV", "Pad", "PadV2", "MirrorPad", "MaxPool", "MaxPoolV2", "If", "StatelessIf",
    "TFL_REAL", "TFL_IMAG",
}  # fmt: skip
# Operators that tf2onnx alone converts otherwise, or not at all.
REPLACED_OPERATORS = frozenset(
    {patch.name for patch in _PATCHES if patch.kind is Kind.HANDLER} - _RARE
    | complex_pairs.COMPLEX_OPERATORS
    | {"BatchToSpaceND"}
)


@cache
def register() -> None:
    """Add the handlers and swap the rewriters for the rest of this process; a second call does nothing."""
    # First: this imports tf2onnx's own handlers, which would else be registered after ours, in their place.
    swap_for_good(patch for patch in _PATCHES if patch.kind is Kind.PERMANENT)
    for patch in _PATCHES:
        if patch.kind is Kind.HANDLER:
            handler = patch.replacement()
            private_tf2onnx.tfl_op(patch.name, **getattr(handler, "options", {}))(handler)

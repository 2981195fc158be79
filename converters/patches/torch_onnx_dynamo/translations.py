"""What an export by torch's dynamo exporter is given: the translations of every module, and rewriting by equal numbers.

onnxscript's rules match constants that are near: they take `+ 1e-8` for `+ 0`, and leave it out, so that zero is
divided by; or `* (1 - 1e-6)` for `* 1`, and a logarithm has 0.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from ..ledger import ONNXSCRIPT, all_patches, always, swapped, swaps, translation_table
from .complex_numbers import COMPLEX


def translations() -> dict[Callable[..., object], Callable[..., object]]:
    """Return the translations of real numbers by operator: the exporter's argument `custom_translation_table`."""
    return translation_table(patch for patch in all_patches() if not patch.name.endswith(COMPLEX))


def exact_rewriting() -> AbstractContextManager[None]:
    """Return the context in which a model is exported."""
    return swapped(PATCHES)


class _ExactMath:
    """A stand-in for the module `math`, of which onnxscript's matcher uses isclose alone."""

    @staticmethod
    def isclose(a: float, b: float, **_tolerances: float) -> bool:
        """Return whether two numbers are equal, whatever difference is allowed."""
        return a == b


PATCHES = swaps(
    "onnxscript.rewriter._matcher",
    {"math": always(_ExactMath)},
    why="its rules match constants by math.isclose: `+ 1e-8` is taken for `+ 0` and left out",
    upstream="onnxscript/rewriter/_matcher.py: _match_constant",
    until="the rules of onnxscript's optimiser match equal numbers alone",
    seen=ONNXSCRIPT,
)

"""The rewriting that the dynamo exporter ends with, by equal numbers alone. Its own rules take what is near: `+ 1e-8`
for `+ 0`, and leave it out, so that zero is divided by; `* (1 - 1e-6)` for `* 1`, and a logarithm has 0.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from ..torch_shared.replaced import Instead, replaced


def exactly() -> AbstractContextManager[None]:
    """While a model is exported."""
    from onnxscript.rewriter import _matcher  # it compares constants by math.isclose, and with nothing else of math

    return replaced([Instead(_matcher, "math", _Exactly)])


class _Exactly:
    """What takes the place of the module math."""

    @staticmethod
    def isclose(one: float, other: float, **_: float) -> bool:
        """Whether they are one number, whatever difference is allowed."""
        return one == other

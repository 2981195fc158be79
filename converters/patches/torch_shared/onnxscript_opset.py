"""onnxscript's operators and types, for translations of the dynamo exporter's. Imported by the first that is used.

Any: its own types do not know that a number or a list stands for a constant, nor what the exporter hands over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ...lazy_import import Lazy

Translations: TypeAlias = dict[Callable[..., Any], Callable[..., Any]]  # PyTorch's operators, and what writes each


op: Any = Lazy("onnxscript", "opset18")
ir: Any = Lazy("onnxscript", "ir")


def size_of(value: Any, axis: int) -> Any:
    """How long an axis is, counted from the end or not: a number without axes."""
    at = axis % value.rank
    return op.Squeeze(op.Shape(value, start=at, end=at + 1))

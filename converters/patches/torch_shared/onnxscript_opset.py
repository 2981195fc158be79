"""onnxscript's operators and types for translations of the dynamo exporter, imported when one is first used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

from ...lazy_import import LazyLibrary
from .graph_types import DynamoOps, OnnxValue

Translations: TypeAlias = dict[Callable[..., Any], Callable[..., Any]]  # PyTorch's operators, and what writes each
op = cast("DynamoOps", LazyLibrary("onnxscript", "opset18"))
ir: Any = LazyLibrary("onnxscript", "ir")  # its types do not know that LazyLibrary is it


def size_of(value: OnnxValue, axis: int) -> OnnxValue:
    """Return the length of an axis, counted from the end or not, as a tensor of rank 0."""
    at = axis % value.rank
    return op.Squeeze(op.Shape(value, start=at, end=at + 1))

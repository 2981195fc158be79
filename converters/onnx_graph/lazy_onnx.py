"""ONNX, imported at its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_import import LazyLibrary

if TYPE_CHECKING:
    import onnx
else:
    onnx = LazyLibrary("onnx")

__all__ = ["onnx"]

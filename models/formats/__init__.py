"""The formats that a model can be kept in, one module for each, and the targets that they make with precisions."""

from __future__ import annotations

from .format_spec import FileHead, FormatSpec, Snippet
from .format_table import FORMATS, Format, formats
from .targets import Precision, Target, parse_target

__all__ = ["FORMATS", "FileHead", "Format", "FormatSpec", "Precision", "Snippet", "Target", "formats", "parse_target"]

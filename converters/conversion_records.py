"""Options and facts of conversion steps, for both sides of the process border. Steps of third parties return others."""

from __future__ import annotations

from dataclasses import dataclass

from ..models.job import Facts, JsonRecord


@dataclass(frozen=True, kw_only=True)
class OnnxExportOptions(JsonRecord):
    """The opset that an exporter of torch writes; None: the exporter's usual one."""

    opset: int | None = None


@dataclass(frozen=True, kw_only=True)
class TfliteOptions(JsonRecord):
    """Whether operators that TFLite lacks may be TensorFlow's, for a runtime with its Flex delegate."""

    flex: bool = False


@dataclass(frozen=True, kw_only=True)
class ConversionFacts(Facts):
    """The facts of an artifact that decide what becomes of it; read with `part_of`, since every step has more."""

    note: str | None = None  # a sentence for the reader of the result
    flex: tuple[str, ...] = ()  # the operators of a TFLite file that need TensorFlow's Flex delegate

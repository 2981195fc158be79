"""Options and facts of conversion steps, for both sides of the process border. Steps of third parties return others."""

from __future__ import annotations

from dataclasses import dataclass

from ..models.formats import Precision, Target
from ..models.job import Facts, JsonRecord


@dataclass(frozen=True, kw_only=True)
class OnnxExportOptions(JsonRecord):
    """The opset that an exporter of torch writes; None: the exporter's usual one."""

    opset: int | None = None


@dataclass(frozen=True, kw_only=True)
class TfliteOptions(JsonRecord):
    """The options of a conversion to TFLite."""

    flex: bool = False  # operators that TFLite lacks may be TensorFlow's, for a runtime with its Flex delegate
    keep_float: bool = False  # layers that int8 costs most stay in float32


@dataclass(frozen=True, kw_only=True)
class ConversionFacts(Facts):
    """The facts of an artifact that decide what becomes of it; read with `part_of`, since every step has more."""

    note: str | None = None  # a sentence for the reader of the result
    flex: tuple[str, ...] = ()  # the operators of a TFLite file that need TensorFlow's Flex delegate


_NARROW = {
    Precision.FP16: ("float16", "bfloat16"),
    Precision.INT8_DYNAMIC: ("int8", "uint8", "int4", "uint4"),
    Precision.INT8: ("int8", "uint8", "int4", "uint4"),
}


@dataclass(frozen=True, kw_only=True)
class StoredWeights(JsonRecord):
    """The weights of a file in one dtype: floats, or integers that stand for floats."""

    dtype: str
    tensors: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class StoredPrecision(JsonRecord):
    """The weights of a file by dtype, the most bytes first, and the dtypes that its operators compute in besides."""

    weights: tuple[StoredWeights, ...] = ()
    computed: tuple[str, ...] = ()  # of operators' results: floats narrower than float32, and quantised integers

    def is_reduced_to(self, precision: Precision) -> bool:
        """Return whether any weight, or any result of an operator, has a dtype of this precision."""
        narrow = _NARROW.get(precision)
        return narrow is None or not {*(row.dtype for row in self.weights), *self.computed}.isdisjoint(narrow)

    def why_not_reduced(self, target: Target) -> str | None:
        """Say why a copy holds nothing of its precision, and what to use instead; None where it does."""
        if self.is_reduced_to(target.precision):
            return None
        count, dtypes = sum(row.tensors for row in self.weights), " and ".join(row.dtype for row in self.weights)
        stored = f"all {count} weights are {dtypes}" if count else "it stores no weights"
        least = target.format.spec.least_quantised if target.precision is Precision.INT8_DYNAMIC else 0
        cause = (
            f", for {target.format.spec.title} quantises no weight of fewer than {least:,} elements"
            if least and count
            else ""
        )
        mends = [f"{target.format}:{Precision.INT8}"] if target.precision is not Precision.INT8 else []
        mend = " or ".join([*mends, target.format])
        return f"nothing is reduced to {target.precision}: {stored}{cause}; use {mend}"

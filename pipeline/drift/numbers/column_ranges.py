"""Columns of a float input whose ranges one int8 scale cannot serve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ....models.dataset import Dataset
from ....models.formats import Precision
from ....models.signature import TensorSpec

# One rounding of normal values to int8 costs 39 dB: a copy that agrees so well has lost nothing to its scales.
ROUNDING_DB = 40.0
_STEPS = 255  # of one scale over the whole input
_LEAST_STEPS = 8.0  # of a column: three bits
_MOST_SAMPLES = 4096
_MOST_NAMED = 3


def describe_uneven_columns(
    precision: Precision, agreement_db: float | None, data: Dataset, inputs: Sequence[TensorSpec]
) -> str:
    """Return a sentence for each input of an int8 copy whose columns differ too much in range; "" where none does.

    Columns lie along the last axis of an input of fixed width. A column that is constant in the samples does not count.
    """
    quantised = precision in (Precision.INT8, Precision.INT8_DYNAMIC)
    if not quantised or agreement_db is None or agreement_db >= ROUNDING_DB:
        return ""
    return "; ".join(_sentences(data.rows(0, _MOST_SAMPLES), inputs))


def _sentences(data: Dataset, inputs: Sequence[TensorSpec]) -> Iterator[str]:
    for spec in inputs:
        values = data.inputs[spec.name]
        if values.dtype.kind != "f" or values.ndim not in (2, 3) or not isinstance(spec.shape[-1], int):
            continue
        rows = values.reshape(-1, values.shape[-1]).astype(np.float64)
        rows = rows[np.isfinite(rows).all(axis=1)]
        widths = np.ptp(rows, axis=0) if len(rows) else np.zeros(1)
        varying = np.flatnonzero(widths)
        if not varying.size:
            continue
        widest = float(widths[varying].max())
        lost = [int(at) for at in varying if widths[at] * _STEPS < _LEAST_STEPS * widest]
        if lost:
            lost.sort(key=lambda at: (widths[at], at))
            ratio = widest / float(widths[lost[0]])
            yield (
                f"input `{spec.name}`: column ranges differ by {ratio:,.0f} x, and one int8 scale leaves "
                f"fewer than {_LEAST_STEPS:g} steps for {_columns(lost)}: scale your inputs"
            )


def _columns(numbers: Sequence[int]) -> str:
    named = ", ".join(str(number) for number in numbers[:_MOST_NAMED])
    more = f" and {len(numbers) - _MOST_NAMED} more" if len(numbers) > _MOST_NAMED else ""
    return f"column{'s' * (len(numbers) > 1)} {named}{more}"

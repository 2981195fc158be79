"""What every probe showed, as the rows of result.ProbeResultRow without `artifact`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...models.probes.probe_set import describe_values
from ...models.signature import TensorSpec
from .probe_result import CheckResult

WHOLE_SET, SAMPLES = "whole test set", "samples"
_COPIED = ("runtime", "batch", "samples", "max_abs", "sqnr_db", "non_finite", "tolerance", "derivation", "verdict")


def probe_rows(
    results: Sequence[CheckResult], specs: Sequence[TensorSpec], *, whole_set_first: bool
) -> Iterator[dict[str, Any]]:
    """Yield a row for each result."""
    for at, result in enumerate(results):
        values = describe_values(result.probe, specs).removeprefix("with ") or SAMPLES
        yield {
            **{name: result.row[name] for name in _COPIED},
            "sizes": dict(result.probe.sizes),
            "values": WHOLE_SET if whole_set_first and at == 0 else values,
            "reason": result.judgement.reason,
        }

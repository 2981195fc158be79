"""What the checks of a run asked and saw, beyond their verdicts, as rows of run.json."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache
from itertools import chain
from typing import Any

from pydantic import TypeAdapter

from ..drift.drift_records import CheckEvidence
from .schema import ErrorRow, ExercisedRow, InnerRangeRow, ProbeResultRow, WorstSampleRow


@dataclass(frozen=True)
class CheckRows:
    """Rows of one check, or of several."""

    probes: tuple[ProbeResultRow, ...] = ()
    exercised: tuple[ExercisedRow, ...] = ()
    errors: tuple[ErrorRow, ...] = ()
    worst_samples: tuple[WorstSampleRow, ...] = ()
    inner_ranges: tuple[InnerRangeRow, ...] = ()


def read_check_rows(evidence: CheckEvidence, artifact: str) -> CheckRows:
    """Return what a worker has told of its check, as rows of the artifact."""
    document = evidence.to_json()
    return _adapter().validate_python(
        {part: [{**row, "artifact": artifact} for row in rows] for part, rows in document.items()}
    )


def join_check_rows(parts: Iterable[CheckRows]) -> CheckRows:
    """Return the rows of all parts, in their order."""
    kept = tuple(parts)
    rows: dict[str, Any] = {
        part.name: tuple(chain.from_iterable(getattr(evidence, part.name) for evidence in kept))
        for part in fields(CheckRows)
    }
    return CheckRows(**rows)


@cache
def _adapter() -> TypeAdapter[CheckRows]:
    return TypeAdapter(CheckRows)

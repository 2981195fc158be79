"""What a run keeps for the releases after it: the outcomes of its source and copies, and which samples they are of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ....models.array_file import read_arrays
from ....models.store import Stored
from ...drift.metrics.outcomes import COPY, SOURCE, Outcome, Outcomes, Pair, read_outcomes
from ...drift.metrics.sample_digests import SAMPLES, digest_all, sample_order
from ..schema import SampleSetRow, SourceRow


def collect_outcomes(reference: Stored, checks: Mapping[Pair, Path]) -> Outcomes:
    """Collect the outcomes that the checks of a run kept, by artifact and runtime; the source's are those of its
    `reference`, which every check has."""
    outcomes: dict[Pair, Outcome] = {}
    for pair, folder in checks.items():
        both = read_outcomes(folder).outcomes
        if both:
            outcomes.setdefault(SOURCE, both[SOURCE])
            outcomes[pair] = both[COPY]
    return Outcomes(outcomes, read_arrays(reference.folder / SAMPLES))


def describe_source(source: Stored, outcomes: Outcomes) -> SourceRow:
    """Return the row of run.json on the source and its test set."""
    digests = outcomes.digests
    order = sample_order(digests)
    labels = digest_all(digests["labels"], order) if "labels" in digests else None
    return SourceRow(source.digest, SampleSetRow(len(order), digest_all(digests["inputs"], order), labels))

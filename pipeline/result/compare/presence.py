"""What an earlier run had and a later one has not: artifacts, runtimes, test samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...drift.metrics.outcomes import SOURCE
from ..schema import RunResult
from .change_records import Change, FigureChange, FigureKind
from .release_metric import Release

_ACCEPT = "--allow-missing accepts that"


def presence_rows(gone: Sequence[str], before: Release, after: Release) -> Iterator[FigureChange]:
    """Yield a row for each artifact, and each artifact in a runtime, that is `gone`, and one for missing samples."""
    for name in gone:
        artifact, _, runtime = name.partition(" in ")
        reason = f"the baseline has {name}, and this run has not; {_ACCEPT}"
        yield _row(artifact, runtime or None, "present", "missing", reason)
    missing = missing_samples(before, after)
    if missing:
        count = samples_asked(before.run)
        reason = f"{missing:,} of the baseline's {count:,} test samples were not asked; {_ACCEPT}"
        yield _row(SOURCE[0], None, f"{count} samples", f"{count - missing} of them", reason)


def _row(artifact: str, runtime: str | None, before: str, after: str, reason: str) -> FigureChange:
    return FigureChange(
        artifact, runtime, None, FigureKind.PRESENCE, before, after, None, None, None, Change.WORSE, reason
    )


def describe_test_sets(before: Release, after: Release) -> str | None:
    """Say in one line how the test data of two runs differ; None where they are the same, or one run does not tell."""
    old, new = before.run.source, after.run.source
    if old is None or new is None or (old.test_set == new.test_set):
        return None
    was, now = old.test_set, new.test_set
    if was.inputs_sha256 == now.inputs_sha256:
        return f"other labels than the baseline's, of the same {now.samples:,} test samples"
    counts = f"{was.samples:,} samples before, {now.samples:,} now"
    missing = missing_samples(before, after)
    same = "" if missing is None else f", {was.samples - missing:,} of them in both"
    return f"other test data than the baseline's: {counts}{same}"


def missing_samples(before: Release, after: Release) -> int | None:
    """Return how many of the earlier run's test samples the later one was not asked; None where that is not known."""
    old, new = (release.outcomes.digests.get("inputs") for release in (before, after))
    if old is None or new is None:
        was, now = (samples_asked(release.run) for release in (before, after))
        return was - now if was > now > 0 else None
    digests, counts = np.unique(old, return_counts=True)
    kept, times = np.unique(new, return_counts=True)
    at = np.searchsorted(kept, digests).clip(0, max(0, len(kept) - 1))
    in_both = np.where(kept[at] == digests, np.minimum(counts, times[at]), 0) if len(kept) else np.zeros(1, int)
    return len(old) - int(in_both.sum())


def samples_asked(run: RunResult) -> int:
    """Return how many test samples a run's models were asked."""
    return run.source.test_set.samples if run.source else max((row.samples for row in run.drift), default=0)

"""Failures of many models, grouped by cause: the kind, the step, and the operator where one was found.

Without an operator the error's own first sentence decides, with numbers, paths and quoted names left out of the
comparison: these differ from model to model. Wrong answers, time and memory limits are told apart by their step alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...result.failure_kinds import FailureKind
from ...result.list_records import FailureCause, FailurePlace, ModelRow, RowFailure

_BY_STEP = (FailureKind.WRONG, FailureKind.TIME, FailureKind.MEMORY, FailureKind.DISK)
_QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|(?<!\w)'[^']*'")
# A path, or a number that is no part of a word, as in "val_34" but not in "Conv3D" and "float32".
_OWN = re.compile(r"\S*[/\\]\S*|(?<![A-Za-z0-9])[-+]?\d[\d.,]*(?:e[-+]?\d+)?(?![A-Za-z])")


def group_causes(rows: Sequence[ModelRow]) -> tuple[FailureCause, ...]:
    """Return the causes of all failures, that of the most models first."""
    groups: dict[tuple[str, ...], list[tuple[ModelRow, RowFailure]]] = {}
    for row in rows:
        for failure in row.failures:
            groups.setdefault(_key(failure), []).append((row, failure))
    causes = [_cause(group) for group in groups.values()]
    return tuple(sorted(causes, key=lambda cause: (-cause.models, -len(cause.places))))


def _key(failure: RowFailure) -> tuple[str, ...]:
    if failure.operator:
        return failure.kind, failure.step, failure.operator
    if failure.kind in _BY_STEP:
        return failure.kind, failure.step
    return failure.kind, failure.step, "", common_sentence(failure.message)


def common_sentence(message: str) -> str:
    """Return the first sentence of an error without what differs from model to model."""
    first = re.split(r"(?<=[.;!?])\s", message.strip(), maxsplit=1)[0].rstrip(".;!?")
    return _OWN.sub("*", _QUOTED.sub("*", first))


def _cause(group: Sequence[tuple[ModelRow, RowFailure]]) -> FailureCause:
    first = group[0][1]
    places = tuple(
        FailurePlace(row.name, failure.target, _within(row, failure.log), _within(row, failure.script))
        for row, failure in group
    )
    models = len({place.model for place in places})
    return FailureCause(first.kind, first.step, first.operator, first.message, first.fix, models, places)


def _within(row: ModelRow, path: str | None) -> str | None:
    return f"{row.folder}/{path}" if path and row.folder else None

"""What `transload convert` prints for a person: a line per target, what stands in the way of others, the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ...models.formats import parse_target
from ..conversion import Converted, agreement
from ..report.format import needs_flex, size, stretch
from ..result import ArtifactRow
from ..several import ConvertedModels
from .render import table


def lines(done: Converted) -> list[str]:
    """Of one model."""
    notes = list(_notes(done))
    return [*table([_row(row) for row in done.artifacts]), *(["", *notes] if notes else []), "", _verdict(done)]


def lines_of_all(done: ConvertedModels) -> list[str]:
    """Of several, each under its name."""
    rows, notes = [], []
    for each in done.models:
        if each.converted is None:
            rows.append((each.name, "", "failed", "", "", "was not taken"))
            notes.append(f"{each.name}: {each.error.what}; {each.error.fix}" if each.error else each.name)
        else:
            rows += [(each.name, *_row(row)) for row in each.converted.artifacts]
            notes += [f"{each.name}, {note}" for note in _notes(each.converted)]
    return [*table(rows), *(["", *notes] if notes else []), "", _verdict_of_all(done)]


def _row(row: ArtifactRow) -> tuple[str, str, str, str, str]:
    if row.path is None:
        return row.name, str(row.status), "", "", "no artifact"
    route = " > ".join(row.route) or "as given"
    said = "; ".join(filter(None, (agreement(row), needs_flex(row))))
    return row.name, str(row.status), size(row.bytes), stretch(row.seconds), f"{route}: {said}"


def _notes(done: Converted) -> Iterator[str]:
    """Why a target is not there; and which routes gave wrong answers where another led to it."""
    for row in done.artifacts:
        if row.path is None:
            log = _log(done.folder, row)
            said = agreement(row)
            yield f"{row.name}: {said}{f' ({log})' if log and '.log)' not in said else ''}"
            yield from _others(row)
            yield from _smallest(done, row.name)
            continue
        for tried in row.tried:
            if tried.status == "wrong":
                yield f"{row.name}: passed over {' > '.join(tried.route)}, which answers wrongly: {tried.reason}"


def _others(row: ArtifactRow) -> Iterator[str]:
    """What other routes to the target ended in: the line of the model to mend may stand in one of theirs."""
    said = [agreement(row)]
    for tried in row.tried:
        if tried.status in ("failed", "wrong") and tried.reason not in said and len(said) < _MOST_REASONS:
            said.append(tried.reason)
            yield f"  by {' > '.join(tried.route)}: {tried.reason}"


_MOST_REASONS = 3


def _smallest(done: Converted, target: str) -> Iterator[str]:
    """Where the target's routes fail, the script that shows it, and what helps."""
    for each in done.smallest:
        if each.target == target:
            yield f"  at its smallest: {each.what}"
            yield f"  script: {done.folder / each.script}"
            yield f"  fix: {each.fix}"


def _verdict(done: Converted) -> str:
    return f"{done.decided[0].upper()}  {_count(done.artifacts)} targets verified, in {done.folder}"


def _verdict_of_all(done: ConvertedModels) -> str:
    rows = [row for each in done.models if each.converted for row in each.converted.artifacts]
    return f"{done.decided[0].upper()}  {len(done.models)} models, {_count(rows)} targets verified, in {done.folder}"


def _count(rows: Sequence[ArtifactRow]) -> str:
    return f"{sum(row.status == 'verified' for row in rows)} of {len(rows)}"


def _log(folder: Path, row: ArtifactRow) -> str | None:
    """The log of the step that the sentence on a target is about."""
    slug, said = parse_target(row.name).slug, agreement(row)
    for tried in row.tried:
        if tried.reason == said:
            name = f"{slug}.{'+'.join(tried.route)}.log"
            logs = [folder / "logs" / f"{stage}.{name}" for stage in ("verify", "convert")]
            return next((str(log) for log in logs if log.exists()), None)
    return None

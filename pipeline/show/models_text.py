"""The results of a list of models as text: cells for every form, lines for a terminal, and report.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from urllib.parse import quote

from ..result.list_records import FailureCause, ListCommand, ListResult, ModelRow, RowState, TargetRow
from ..result.schema import Status, Verdict
from . import units
from .markdown_text import escaped
from .tables.printers import to_markdown
from .tables.table import Cell, CellKind, Column, Table, Value

_COLUMNS = (
    Column("model", CellKind.NAME), Column("source", CellKind.CODE), Column("target", CellKind.PHRASE),
    Column("status", CellKind.VERDICT), Column("drift", CellKind.NUMBER), Column("route", CellKind.NOTE),
    Column("note", CellKind.NOTE, is_optional=True),
)  # fmt: skip
_RECORDS = {ListCommand.CONVERT: "convert.json", ListCommand.VALIDATE: "validate.json", ListCommand.RUN: "run.json"}
_MOST_NAMES = 6  # of models in a sentence on a cause


def target_table(result: ListResult) -> Table:
    """Return a row for each target of each model, and one for a model without any."""
    rows: list[tuple[Value, ...]] = [
        (_name(row, result.command), _source(row), *cells) for row in result.models for cells in _targets(row)
    ]
    return Table.of(_COLUMNS, rows)


def _name(row: ModelRow, command: ListCommand) -> Cell:
    """Return a model's name with the addresses of its results."""
    if row.folder is None:
        return Cell(row.name)
    paths = {"report": row.report} if row.report else {"results": f"{row.folder}/"}
    paths |= {name: f"{row.folder}/{name}" for name in ([_RECORDS[command]] if row.targets else [])}
    paths |= {"logs": f"{row.folder}/logs/", "repeat": f"{row.folder}/repeat/"}
    return Cell(row.name, links=tuple((word, quote(units.plain(path))) for word, path in paths.items()))


def _source(row: ModelRow) -> str:
    return f"{row.source} on {row.device}" if row.device else row.source


def _targets(row: ModelRow) -> list[tuple[str, ...]]:
    if row.targets:
        return [_target(target) for target in row.targets]
    state = "failed" if row.state is RowState.DONE else str(row.state)
    return [(units.NONE, state, units.NONE, "", row.failures[0].message if row.failures else "")]


def _target(target: TargetRow) -> tuple[str, ...]:
    name = f"{target.target} in {target.runtime}" if target.runtime else target.target
    route = " > ".join(target.route) or ("" if target.path is None else "as given")
    return name, str(target.status), drift_cell(target), route, target.note


def drift_cell(target: TargetRow) -> str:
    """Return the least agreement of a target."""
    if target.sqnr_db is None:
        return "identical" if target.max_abs == 0 else units.NONE
    return units.decibel(target.sqnr_db)


def list_headline(result: ListResult) -> str:
    """Say how many models and targets are what."""
    states = Counter(row.state for row in result.models)
    verdicts = Counter(row.verdict for row in result.models if row.verdict)
    statuses = Counter(target.status for row in result.models for target in row.targets)
    parts = [f"{verdicts[Verdict.PASS]} of {len(result.models)} models pass"]
    parts += [f"{verdicts[verdict]} {word}" for verdict, word in _WORDS.items() if verdicts[verdict]]
    parts += [f"{states[state]} {state}" for state in (RowState.STOPPED, RowState.NOT_STARTED) if states[state]]
    total = sum(statuses.values())
    return f"{', '.join(parts)}; {statuses[Status.VERIFIED]} of {total} targets verified"


_WORDS = {Verdict.FAIL: "fail", Verdict.INCONCLUSIVE: "are inconclusive"}


def cause_title(cause: FailureCause) -> str:
    """Name a cause: its kind, the step, and the operator where there is one."""
    operator = f" at {units.plain(cause.operator)}" if cause.operator else ""
    return f"{cause.kind}: {units.plain(cause.step)}{operator}"


def cause_count(cause: FailureCause) -> str:
    """Say how many models and targets a cause keeps from passing."""
    targets = len(cause.places)
    return f"{_number(cause.models, 'model')}, {_number(targets, 'place')}" if targets > cause.models else _number(
        cause.models, "model"
    )  # fmt: skip


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def places_by_model(cause: FailureCause) -> dict[str, list[str]]:
    """Return the targets that a cause was met at, by model."""
    models: dict[str, list[str]] = {}
    for place in cause.places:
        models.setdefault(place.model, []).extend([place.target] if place.target else [])
    return models


def cause_lines(result: ListResult) -> Iterator[str]:
    """Yield the lines of a terminal on the causes of failures, each cause once."""
    for cause in result.causes:
        models = places_by_model(cause)
        names = [f"{name} ({', '.join(targets)})" if targets else name for name, targets in models.items()]
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        yield f"{cause_count(cause)}, {cause_title(cause)}: {units.plain(cause.message)}"
        yield f"  in {', '.join(names[:_MOST_NAMES])}{more}"
        yield f"  fix: {units.plain(cause.fix)}"


def render_models_markdown(result: ListResult) -> str:
    """Return report.md, for a pull request or an issue."""
    parts = [
        f"## transload {result.command}: {result.verdict}",
        f"{escaped(list_headline(result))}.",
        *(["### Why some failed", *_cause_parts(result)] if result.causes else []),
        "### Every model",
        to_markdown(target_table(result).without("source", "note")),
        f"<sub>{units.instant(result.started_at)}, {units.stretch(result.seconds)}, "
        f"transload {escaped(result.transload_version)}</sub>",
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _cause_parts(result: ListResult) -> Iterator[str]:
    for cause in result.causes:
        yield f"**{escaped(cause_title(cause))}** ({cause_count(cause)})"
        yield f"{escaped(cause.message)}  \nfix: {escaped(cause.fix)}"
        yield "\n".join(
            f"- {escaped(' '.join(filter(None, (place.model, place.target))))}{_links(place.log, place.script)}"
            for place in cause.places
        )


def _links(log: str | None, script: str | None) -> str:
    parts = [f"[{word}]({quote(path)})" for word, path in (("log", log), ("script", script)) if path]
    return f": {', '.join(parts)}" if parts else ""

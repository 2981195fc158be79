"""What `transload convert` prints for a person: a line per target, what stands in the way of others, the verdict.

For `--explain`, the routes of a plan in the order they would be tried, and what closes others here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from ...commands.convert import ConvertManyResult, ConvertResult, agreement
from ...minimal_repro.search import MinimalRepro
from ...plan.run_plan import Plan, Route, TargetPlan
from ...result.schema import ArtifactRow, RouteStatus, Status, TriedRow
from ...show.units import needs_flex, size, stored_weights, stretch
from .render import page, table


def lines(done: ConvertResult) -> list[str]:
    """Of one model."""
    verdict = f"{done.decided[0].upper()}  {_count(done.artifacts)} targets verified, in {done.folder}"
    return page([_row(row) for row in done.artifacts], [*_notes(done), *done.doubts], verdict)


def lines_of_all(done: ConvertManyResult) -> list[str]:
    """Of several, each under its name."""
    rows, notes = [], []
    doubts = dict.fromkeys(doubt for model in done.models if model.converted for doubt in model.converted.doubts)
    for model in done.models:
        if model.converted is None:
            rows.append((model.name, "", "failed", "", "", "was not taken"))
            notes.append(f"{model.name}: {model.error.what}; {model.error.fix}" if model.error else model.name)
        else:
            rows += [(model.name, *_row(row)) for row in model.converted.artifacts]
            notes += [note if note.startswith(" ") else f"{model.name}: {note}" for note in _notes(model.converted)]
    count = _count([row for model in done.models if model.converted for row in model.converted.artifacts])
    verdict = f"{done.decided[0].upper()}  {len(done.models)} models, {count} targets verified, in {done.folder}"
    return page(rows, [*notes, *doubts], verdict)


def _row(row: ArtifactRow) -> tuple[str, str, str, str, str]:
    if row.path is None:
        return row.name, str(row.status), "", "", "no artifact"
    route = " > ".join(row.route) or "as given"
    said = "; ".join(filter(None, (agreement(row), stored_weights(row), needs_flex(row))))
    return row.name, str(row.status), size(row.bytes), stretch(row.seconds), f"{route}: {said}"


def _notes(done: ConvertResult) -> Iterator[str]:
    """Why targets are not there, each cause once; and which routes gave no right answers where another led to one."""
    lost: dict[str, list[ArtifactRow]] = {}
    for row in done.artifacts:
        if row.path is None:
            lost.setdefault(_cause(agreement(row), row), []).append(row)
    failed = {row.format for row in done.artifacts if row.path is None}
    failed -= {row.format for row in done.artifacts if row.path is not None}
    for rows in lost.values():
        names = [row.name for row in rows]
        pieces = [piece for piece in done.smallest if piece.target in names]
        yield from (_cut(_left(line, failed)) for line in _why(done.folder, rows, pieces))
    yield from map(_cut, _passed_over([row for row in done.artifacts if row.path is not None]))


def _passed_over(rows: Sequence[ArtifactRow]) -> Iterator[str]:
    """Return the cheaper routes to finished targets that gave no right answers, each cause once."""
    wrong: dict[str, list[tuple[str, TriedRow]]] = {}
    for row in rows:
        for tried in row.tried:
            if tried.status is RouteStatus.WRONG:
                wrong.setdefault(_cause(tried.reason, row), []).append((row.name, tried))
    for group in wrong.values():
        names, tried = ", ".join(dict.fromkeys(name for name, _ in group)), group[0][1]
        failure = "does not answer" if _NO_ANSWER in tried.reason else "answers wrongly"
        yield f"{names}: passed over {' > '.join(tried.route)}, which {failure}: {tried.reason}"


_NO_ANSWER = " gave no answer to "  # serving/checked_session.py


def _why(folder: Path, rows: Sequence[ArtifactRow], pieces: Sequence[MinimalRepro]) -> Iterator[str]:
    """Describe one cause that keeps some targets from being made, where their routes fail, and what helps."""
    said = agreement(rows[0])
    log = next((row.log for row in rows[0].tried if row.log and row.reason == said), None)
    fixes = [piece.fix for piece in pieces]
    yield f"{', '.join(row.name for row in rows)}: {_before(said, '; ', fixes)}" + (
        f" ({folder / log})" if log and ".log)" not in said else ""
    )
    failures = list(_other_failures(rows))
    for tried in failures:
        yield f"  by {' > '.join(tried.route)}: {_before(tried.reason, '; ', fixes)}"
    if pieces:
        cause = _before(pieces[0].message, ": ", [said, *(tried.reason for tried in failures)])
        yield f"  at its smallest: {cause}"
        yield from dict.fromkeys(f"  script: {folder / piece.script}" for piece in pieces)
        yield f"  fix: {pieces[0].fix}"


def _other_failures(rows: Sequence[ArtifactRow]) -> Iterator[TriedRow]:
    """Return the routes to the targets that failed otherwise: the line of the model to mend may stand there."""
    seen = {_cause(agreement(rows[0]), rows[0])}
    for row in rows:
        new = 0
        for tried in row.tried:
            cause = _cause(tried.reason, row)
            if tried.status in (RouteStatus.FAILED, RouteStatus.WRONG) and cause not in seen and new < _MOST_OTHERS:
                seen.add(cause)
                new += 1
                yield tried


_MOST_OTHERS = 2  # of a target


def _cause(reason: str, row: ArtifactRow) -> str:
    """Return how a route ended, without its step, opset and log, which differ if the cause is the same."""
    for step in {step for tried in row.tried for step in tried.route}:
        reason = reason.removeprefix(f"{step}: ")
    return _ASIDE.sub("", reason)


_ASIDE = re.compile(r" \(logs/\S+\.log\)$| to ONNX opset version \d+")


def _before(text: str, mark: str, said: Iterable[str]) -> str:
    """Cut a text before a mark, if what follows it is said anyway."""
    ends = (match.start() for match in re.finditer(re.escape(mark), text))
    return next((text[:end] for end in ends if any(text[end + len(mark) :] in text_said for text_said in said)), text)


def _left(line: str, failed: Collection[str]) -> str:
    """Keep a line from recommending a format that failed in this command, if it names another."""

    def named(match: re.Match[str]) -> str:
        left = [name for name in match.groups() if _FORMATS[name] not in failed]
        return f"serve this model as {' or '.join(left or match.groups())}"

    return _SERVED.sub(named, line)


_SERVED = re.compile(r"serve this model as (SavedModel) or (ONNX|TFLite)\b")
_FORMATS = {"SavedModel": "saved-model", "ONNX": "onnx", "TFLite": "tflite"}


def _cut(line: str) -> str:
    """Cut a long line of code; convert.json has all of it."""
    return _CODE.sub(lambda match: match[0] if len(match[1]) < _LONG else f"`{match[1][:_SHOWN]}...`", line)


_CODE = re.compile(r"`([^`]*)`")  # short ones too: what lies between two of them is no code
_SHOWN, _LONG = 80, 88


def _count(rows: Sequence[ArtifactRow]) -> str:
    return f"{sum(row.status in (Status.VERIFIED, Status.DEGRADED) for row in rows)} of {len(rows)}"


MOST = 6  # routes to a target that are shown to a person
_ORDER = "Routes are tried in this order until one verifies. Nothing was run."


def plan_lines(plan: Plan) -> list[str]:
    """Return the lines for a person: a block for each target, and what holds for all of them."""
    steps = [step for planned in plan.targets for route in planned.routes for step in route.steps]
    twins = {step.stands_in_for: step.name for step in steps if step.stands_in_for}
    notes = [f"Where {name} gives nothing, {twin} is tried in its place." for name, twin in twins.items()]
    blocks = [line for planned in plan.targets for line in _block(plan, planned)]
    return [*blocks, "", _ORDER, *notes, *_closed(plan)]


def plan_rows(plan: Plan) -> list[dict[str, object]]:
    """Return the rows of `--json`: every route."""
    return [
        {"target": str(planned.target), **plan.route_json(route)}
        for planned in plan.targets
        for route in planned.routes
    ]


def _closed(plan: Plan) -> Iterator[str]:
    """Yield the steps that keep routes from being taken, each once with its reason."""
    routes = [route for planned in plan.targets for route in _plain(planned)]
    reasons = {name: plan.missing[name] for route in routes for name in route.names if name in plan.missing}
    if reasons:
        yield from ("", "Closed here:", *table(list(reasons.items()), indent="  "))


def _block(plan: Plan, planned: TargetPlan) -> Iterator[str]:
    routes = _plain(planned)
    if not routes:
        yield f"{planned.target}: no route leads there"
        return
    yield f"{planned.target}:"
    open_routes = [route for route in routes if not plan.missing_for(route)][:MOST]
    closed = _cheapest_of_each_reason(plan, [route for route in routes if plan.missing_for(route)])
    shown = [(str(number), _text(route), "") for number, route in enumerate(open_routes, 1)]
    shown += [("-", _text(route), "closed here") for route in closed[: max(1, MOST - len(open_routes))]]
    yield from table(shown, indent="  ")
    if hidden := len(routes) - len(shown):
        yield f"  and {hidden} more (--json lists them)"


def _plain(planned: TargetPlan) -> list[Route]:
    """Return the routes without stand-ins."""
    return [route for route in planned.routes if not route.stands_in]


def _text(route: Route) -> str:
    names = [f"{step.name} ({step.package})" if step.package else step.name for step in route.steps]
    return " > ".join(names) or "as given"


def _cheapest_of_each_reason(plan: Plan, closed: Sequence[Route]) -> list[Route]:
    """Return the cheapest route of each reason: ten that lack the same library say no more than one."""
    return list({plan.missing_for(route): route for route in reversed(closed)}.values())[::-1]

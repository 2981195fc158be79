"""report.md, for a pull request: the verdict, a short table, what stands in the way; the rest folded away."""

from __future__ import annotations

from pathlib import Path

from ...models.atomic_files import write_whole
from ..result.schema import RunResult
from . import exercise_view, probe_view, served_view, units, view
from .compare_text import render_baseline_markdown
from .doubt_view import split_doubts
from .markdown_text import escaped
from .tables.artifact_tables import decision_table
from .tables.printers import to_markdown


def write_markdown(result: RunResult, path: Path, *, logs: view.Links | None = None) -> None:
    """Write report.md at `path`, whole or not at all. `logs` as for report.html."""
    write_whole(path, render_markdown(result, logs=logs))


def render_markdown(result: RunResult, *, logs: view.Links | None = None) -> str:
    """Return the report in GitHub's Markdown. Names and sentences cannot break out of their cell."""
    notes = *view.remarks(result), view.weights(result)
    parts = [
        f"## transload: {result.verdict}",
        f"{escaped(view.headline(result))}.",
        *(f"**{escaped(doubt)}**" for doubt in result.doubts),
        to_markdown(decision_table(result)),
        _note(result),
        to_markdown(served_view.served_table(result)),
        *(f"<sub>{escaped(note)}</sub>" for note in notes if note),
        f"<sub>{escaped(probes)}</sub>" if (probes := probe_view.describe(result)) else "",
        *(f"<sub>{escaped(exercise.sentence)}</sub>" for exercise in exercise_view.exercises(result.exercised)),
        _recommendation(result),
        _findings(result, logs or {}),
        render_baseline_markdown(result.baseline),
        _doubts(result),
        f"<sub>run {escaped(result.id)}, {units.instant(result.started_at)}, {units.stretch(result.seconds)}, "
        f"transload {escaped(result.transload_version)}</sub>",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _note(result: RunResult) -> str:
    main = view.main_condition(result)
    if main is None:
        return ""
    note = f"<sub>p50 of a call on {escaped(str(main))}, and its ratio to the reference (below 1 is faster)."
    left = len(view.elsewhere(result))
    apart = f" {left} latencies under other conditions are not comparable and stand in report.html." if left else ""
    return f"{note} {escaped(view.servers(result))}".rstrip() + f"{apart}</sub>"


def _recommendation(result: RunResult) -> str:
    sentences = view.recommendations(result)
    if not sentences:
        return ""
    constraint = view.constraint(result)
    head = f"### To release{f', with {escaped(constraint)}' if constraint else ''}"
    return "\n".join([head, "", *(f"- {escaped(sentence)}" for sentence in sentences)])


def _findings(result: RunResult, logs: view.Links) -> str:
    findings = view.findings(result, logs)
    if not findings:
        return ""
    rows = [
        f"- **{finding.verdict}**, {escaped(finding.subject)}: {escaped(finding.sentence)}"
        + (f"; at its smallest: {escaped(finding.smallest.message)}" if finding.smallest else "")
        + (f"; located: {escaped(finding.located)}" if finding.located else "")
        + (f" (log: {escaped(finding.log)})" if finding.log else "")
        for finding in findings
    ]
    return "### What stands in the way\n\n" + "\n".join(rows)


def _doubts(result: RunResult) -> str:
    doubts = split_doubts(result.latency)
    machine = f"<sub>{escaped(doubts.machine)}.</sub>\n\n" if doubts.machine else ""
    rows = []
    for doubt in doubts.rows:
        named = escaped(", ".join(f"{units.where(row)} at batch {row.batch}" for row in doubt.rows))
        rows.append(f"- {escaped(doubt.text)}: {named}")
    count = sum(len(doubt.rows) for doubt in doubts.rows)
    folded = f"<details><summary>{count} doubts about latencies</summary>\n\n" + "\n".join(rows) + "\n\n</details>"
    return machine + (folded if rows else "")

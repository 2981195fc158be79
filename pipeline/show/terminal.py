"""The result on a terminal: one table to decide from, what stands in the way, the verdict last.

Narrow terminals get the same facts in fewer columns with more lines, very narrow ones in no columns at all. Colour only
says again what a word says. No word is broken: what is longer than a line, as a path, is left to the terminal to wrap.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..progress.terminal_text import wrap_words
from ..result.gate import answered, is_reference
from ..result.schema import DriftRow, LatencyRow, RunResult
from . import exercise_view, load_view, probe_view, served_view, units, view
from .compare_text import baseline_lines
from .doubt_view import split_doubts
from .tables.printers import to_text

WIDE = 116  # columns from which each fact has a column of its own
NARROW = 76  # columns below which a table would break words
_STYLES = {
    "pass": "green", "verified": "green", "fail": "red", "failed": "red",
    "inconclusive": "yellow", "unverified": "yellow", "degraded": "yellow", "reference": "dim",
}  # fmt: skip
_MOST_DOUBTS = 3


def print_result(
    result: RunResult, console: Console, *, logs: view.Links | None = None, report: str | None = None
) -> None:
    """Print the result. `logs` names the log of "ARTIFACT in RUNTIME" or of "ARTIFACT"; `report` is where
    report.html lies."""
    _print_artifacts(result, console)
    _print_tables(result, console)
    for doubt in load_view.load_doubts(result.load, _MOST_DOUBTS):
        _print(Text(doubt, style="yellow"), console, "  ")
    probes, exercises = probe_view.describe(result), exercise_view.exercises(result.exercised)
    for sentence in (*([probes] if probes else []), *(exercise.sentence for exercise in exercises)):
        _print(Text(sentence, style="dim"), console)
    _print_recommendation(result, console)
    for finding in view.findings(result, logs or {}):
        _print_finding(finding, console)
    if result.baseline:
        console.print()
        for line in baseline_lines(result.baseline, console.width):
            console.print(Text(line), soft_wrap=True)
    _print_doubts(result, console)
    for doubt in result.doubts:
        console.print()
        _print(Text(doubt, style="yellow"), console)
    if report:
        console.print(Text(f"\nreport: {report}"), soft_wrap=True)
    console.print()
    _print_verdict(result, console)


def _print_verdict(result: RunResult, console: Console) -> None:
    verdict = Text(f"{result.verdict}".upper(), style=f"bold {_STYLES[result.verdict]}")
    verdict.append(f"  {view.headline(result)}", style="not bold default")
    if console.is_terminal:
        _print(verdict, console)
    else:  # the last line of a file is the verdict
        console.print(verdict, soft_wrap=True)


def _print(text: Text, console: Console, indent: str = "") -> None:
    """Print a paragraph, wrapped at words."""
    end = 0
    for line in wrap_words(text.plain, console.width - len(indent)):
        start = text.plain.index(line.strip(), end)
        end = start + len(line.strip())
        console.print(Text(indent).append_text(text[start:end]), soft_wrap=True)


def _print_tables(result: RunResult, console: Console) -> None:
    """Print what was served behind one protocol, and what was measured under load."""
    for table in filter(None, (served_view.served_table(result), load_view.load_table(result.load))):
        console.print()
        for line in to_text(table):
            _print(Text(line), console)
        for note in table.notes:
            _print(Text(note, style="dim"), console)


def _print_artifacts(result: RunResult, console: Console) -> None:
    """Print the table, in the form that the width allows, and what belongs to it."""
    console.print()
    if not result.artifacts:
        console.print("nothing was made")
    elif console.width < NARROW:
        _print_blocks(result, console)
    else:
        console.print(_table(result, console.width))
    for note in _notes(result):
        _print(Text(note, style="dim"), console)


def _table(result: RunResult, width: int) -> Table:
    wide = width >= WIDE
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold", expand=False)
    for name, right in _columns(result, wide=wide):
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for at, line in enumerate(view.lines(result)):
        if at and not wide:
            table.add_row()
        _add_line(table, line, result, wide=wide)
    return table


def _print_blocks(result: RunResult, console: Console) -> None:
    """Print the facts of the table in a paragraph for each artifact."""
    for line in view.lines(result):
        facts = [units.size(line.row.bytes), line.status] if line.row else [line.status]
        facts += [f"gate {line.verdict}"] if line.verdict else []
        name = Text(units.plain(line.name), style="bold")
        _print(name.append("  ").append(", ".join(facts), style="not bold"), console)
        task = _task(line.metric) if line.row else Text(view.reference_score(result))
        _print(Text(f"{units.sqnr(line.worst)}  ").append(" ".join(task.plain.split("\n"))), console, "  ")
        for speed in line.speeds:
            text = Text(units.plain(speed.runtime))
            for batch in view.batches(result):
                time = Text(" ").join(part for part in _speed(speed.by_batch.get(batch)).split(" ") if part.plain)
                text.append(f"  batch {batch}: ").append_text(time)
            _print(text, console, "  ")
    console.print()


def _columns(result: RunResult, *, wide: bool) -> list[tuple[str, bool]]:
    """Headings, and whether the column is set to the right."""
    metric = view.metric_name(result)
    speeds = [("runtime", False), *((f"p50, batch {batch}", True) for batch in view.batches(result))]
    if not wide:
        return [("artifact", False), ("agreement", True), *speeds]
    facts = [("artifact", False), ("size", True), ("gate", False), ("status", False), ("min SQNR", True)]
    return [*facts, (units.plain(metric), True), *speeds]


def _add_line(table: Table, line: view.Line, result: RunResult, *, wide: bool) -> None:
    verdict = Text(str(line.verdict or ""), style=_STYLES.get(str(line.verdict), ""))
    status = Text(line.status, style=_STYLES.get(line.status, ""))
    name = Text(units.plain(line.name), style="bold")
    size = Text(units.size(line.row.bytes if line.row else None))
    noise = Text(units.sqnr(line.worst))
    task = _task(line.metric) if line.row else Text(view.reference_score(result))
    speeds = _speeds(line, result)
    if wide:
        table.add_row(name, size, verdict, status, noise, task, *speeds)
        return
    cell = Text(", ").join([size, status]) if line.row else status
    judged = [Text("gate ").append_text(verdict)] if line.verdict else []
    identity = Text("\n").join([name, cell, *judged])
    table.add_row(identity, Text("\n").join([noise, task]), *speeds)


def _task(row: DriftRow | None) -> Text:
    """Return the metric, and below it the difference with its interval if there is one."""
    if row is None or row.metric is None:
        return Text(units.NONE)
    text = Text(f"{units.score(row.metric)} {units.change(row.metric)}")
    text.append(f"\n{units.change_interval(row.metric)}" if any(row.metric.ci95) else "", style="dim")
    detectable = units.detectable(row.metric)
    return text.append(f"\n{detectable}" if detectable else "", style="dim")


def _speeds(line: view.Line, result: RunResult) -> list[Text]:
    """One line for each runtime: its name, then p50 and ratio at each batch size."""
    runtimes = Text("\n").join([Text(units.plain(speed.runtime)) for speed in line.speeds])
    cells = [
        Text("\n").join([_speed(speed.by_batch.get(batch)) for speed in line.speeds]) for batch in view.batches(result)
    ]
    return [runtimes, *cells]


def _speed(row: LatencyRow | None) -> Text:
    if row is None:
        return Text(units.NONE)
    if not answered(row):
        return Text("no answer", style="red")
    ratio = "  ref" if is_reference(row) else units.ratio(row.ratio_to_reference)
    return Text(units.duration(row.p50_s)).append(f" {ratio:>5}", style="dim")


def _notes(result: RunResult) -> list[str]:
    """Describe what the latencies of the table have in common, and what is not in it."""
    needs = [sentence for sentence in view.remarks(result) if sentence]
    main = view.main_condition(result)
    if main is None:
        return ["no latency was measured", *needs]
    common = f"p50 of a call on {main}, and its ratio to the reference (below 1 is faster)."
    notes = [" ".join(part for part in (common, view.servers(result)) if part)]
    notes += [
        f"not comparable: {units.where(row)} at batch {row.batch} on {view.condition(row)}: {units.duration(row.p50_s)}"
        for row in view.elsewhere(result)
    ]
    return [*notes, *needs]


def _print_recommendation(result: RunResult, console: Console) -> None:
    sentences = view.recommendations(result)
    if not sentences:
        return
    constraint = view.constraint(result)
    title = Text("to release", style="bold").append(f"  with {constraint}" if constraint else "", style="not bold dim")
    console.print()
    _print(title, console)
    for sentence in sentences:
        _print(Text(sentence), console, "  ")


def _print_finding(finding: view.Finding, console: Console) -> None:
    word = Text(f"{finding.verdict}", style=_STYLES[finding.verdict])
    console.print()
    _print(word.append(f"  {finding.subject}", style="bold default"), console)
    _print(Text(finding.sentence), console, "  ")
    if finding.smallest:
        _print(Text(f"at its smallest: {units.plain(finding.smallest.message)}"), console, "  ")
        console.print(Text(f"  script: {units.plain(finding.smallest.script)}", style="dim"), soft_wrap=True)
        _print(Text(f"fix: {units.plain(finding.smallest.fix)}"), console, "  ")
    if finding.located:
        _print(Text(f"located: {finding.located}"), console, "  ")
    if finding.log:
        console.print(Text(f"  log: {finding.log}", style="dim"), soft_wrap=True)


def _print_doubts(result: RunResult, console: Console) -> None:
    doubts = split_doubts(result.latency)
    if doubts.machine:
        console.print()
        _print(Text(doubts.machine, style="yellow"), console)
    if not doubts.rows:
        return
    rows = {id(row) for doubt in doubts.rows for row in doubt.rows}
    timed = sum(answered(row) for row in result.latency)
    console.print(Text(f"\ndoubts on {len(rows)} of {timed} latencies", style="yellow"))
    for doubt in doubts.rows[:_MOST_DOUBTS]:
        _print(Text(f"{doubt.who}: {doubt.text}"), console, "  ")
    rest = len(doubts.rows) - _MOST_DOUBTS
    if rest > 0:
        _print(Text(f"{rest} lighter {'kind' if rest == 1 else 'kinds'} in the report"), console, "  ")

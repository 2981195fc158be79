"""`transload doctor`: what works here, and what closes the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import typer

from ...models.errors import Exit
from ..commands.doctor import Diagnosis, State, examine, exit_code
from ..settings import LocalSettings
from .options import Json, Store
from .render import print_json, print_lines, table

MARKS = {State.OK: "ok", State.NOTE: "--", State.WARN: "!!", State.FAIL: "NO"}


def command(
    store: Store = None,
    json: Json = False,
) -> None:
    """Say what works on this machine, and what closes the rest.

    Ends with 0 where 'transload run' can work, with 2 where something that it needs is missing.
    """
    findings = examine(LocalSettings.with_defaults(store).store)
    status = exit_code(findings)
    if json:
        print_json({"exit_code": int(status), "findings": [asdict(each) for each in findings]})
    else:
        print_lines([*_lines(findings), "", _verdict(findings, status)])
    raise typer.Exit(status)


def _lines(findings: Sequence[Diagnosis]) -> list[str]:
    """A block for each part. Libraries that are as they should be share a line."""
    lines: list[str] = []
    for part in dict.fromkeys(each.part for each in findings):
        rows = [each for each in findings if each.part == part]
        if part == "libraries":
            fine = [each for each in rows if each.state is State.OK]
            rows = [each for each in rows if each.state is not State.OK]
            rows.insert(0, Diagnosis(part, f"{len(fine)} as tested", State.OK, "'--json' lists them"))
        lines += ["", f"{part}:", *table([_row(each) for each in rows], indent="  ")]
    return lines[1:]


def _row(found: Diagnosis) -> tuple[str, str, str]:
    mend = f"  (fix: {found.fix})" if found.fix else ""
    return MARKS[found.state], found.name, f"{found.text}{mend}"


def _verdict(findings: Sequence[Diagnosis], status: Exit) -> str:
    if status is Exit.PASS:
        return "'transload run' can work here."
    count = sum(each.state is State.FAIL for each in findings)
    return (
        f"'transload run' cannot work here: {count} {'thing' if count == 1 else 'things'} marked {MARKS[State.FAIL]}."
    )

"""`transload doctor`: what works here, and what closes the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from ...models.errors import Exit
from ..commands.doctor import Diagnosis, State, examine, exit_code
from ..options import shared_options as shared
from ..options.option import CommandOptions
from ..plan.context import LocalSettings
from .output.render import finish, table

MARKS = {State.OK: "ok", State.NOTE: "--", State.WARN: "!!", State.FAIL: "NO"}


class DoctorOptions(CommandOptions):
    """Say what works on this machine, and what closes the rest.

    Ends with 0 where 'transload run' can work, with 2 where something that it needs is missing.
    """

    store: shared.Store = None
    json_: shared.Json = False


def command(options: DoctorOptions) -> None:
    """Examine this machine, and print what was found."""
    findings = examine(LocalSettings.with_defaults(options.store).store)
    status = exit_code(findings)
    document = {"exit_code": int(status), "findings": [asdict(finding) for finding in findings]}
    finish(document, [*_lines(findings), "", _verdict(findings, status)], status, json=options.json_)


def _lines(findings: Sequence[Diagnosis]) -> list[str]:
    """Return a block for each part. Libraries that are as they should be share a line."""
    lines: list[str] = []
    for part in dict.fromkeys(finding.part for finding in findings):
        rows = [finding for finding in findings if finding.part == part]
        if part == "libraries":
            fine = [finding for finding in rows if finding.state is State.OK]
            rows = [finding for finding in rows if finding.state is not State.OK]
            rows.insert(0, Diagnosis(part, f"{len(fine)} as tested", State.OK, "'--json' lists them"))
        lines += ["", f"{part}:", *table([_row(finding) for finding in rows], indent="  ")]
    return lines[1:]


def _row(finding: Diagnosis) -> tuple[str, str, str]:
    mend = f"  (fix: {finding.fix})" if finding.fix else ""
    return MARKS[finding.state], finding.name, f"{finding.text}{mend}"


def _verdict(findings: Sequence[Diagnosis], status: Exit) -> str:
    if status is Exit.PASS:
        return "'transload run' can work here."
    count = sum(finding.state is State.FAIL for finding in findings)
    return (
        f"'transload run' cannot work here: {count} {'thing' if count == 1 else 'things'} marked {MARKS[State.FAIL]}."
    )

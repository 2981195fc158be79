"""SARIF 2.1.0 (OASIS): a result for each row that does not pass, with the line that it comes from.

Code scanning of GitHub and GitLab, Jenkins' Warnings plugin and editors read it. GitHub refuses a whole file in which
a result has no location (github/codeql-action#1738), or a command is said not to have succeeded (#1316).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from .... import __version__
from .ci_rows import CiOutcome, CiRow
from .source_places import SourcePlace

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {CiOutcome.FAIL: "error", CiOutcome.INCONCLUSIVE: "warning"}
_DESCRIPTIONS = {
    "target": "A wanted target is made, and verified against its model.",
    "drift": "The answers of a copy keep the tolerance of its model (docs/validate.md).",
    "answers": "A copy answers in every runtime that takes it.",
    "request": "The command can begin, and a model can be taken.",
    "model": "Every model of a list is done, and passes.",
}
_OF_GATE = "A release rule of the pipeline file (docs/gate.md)."
_OF_COMPARE = "A figure is no worse than that of the earlier run (docs/compare.md)."


def sarif_text(rows: Sequence[CiRow], command: str, exit_code: int) -> str:
    """Return the file for the rows of a command. `exit_code`: the command's."""
    shown = [row for row in rows if row.outcome in _LEVELS]
    has_verdict = all(row.suite != "command" for row in rows)
    rules = list(dict.fromkeys(row.rule for row in shown))
    document = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "transload", "version": __version__, "rules": list(map(_rule, rules))}},
                "automationDetails": {"id": f"transload/{command}/"},
                "invocations": [{"executionSuccessful": has_verdict, "exitCode": exit_code}],
                "results": [_result(row, rules.index(row.rule)) for row in shown],
            }
        ],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _rule(name: str) -> dict[str, Any]:
    text = _DESCRIPTIONS.get(name, _OF_COMPARE if name.startswith("compare ") else _OF_GATE)
    return {"id": name, "shortDescription": {"text": text}}


def _result(row: CiRow, index: int) -> dict[str, Any]:
    return {
        "ruleId": row.rule,
        "ruleIndex": index,
        "level": _LEVELS[row.outcome],
        "message": {"text": f"{row.name}: {row.message}"},
        "partialFingerprints": {"transloadRow/v1": _fingerprint(row)},
        "locations": [{"physicalLocation": _location(row.place)}],
    }


def _location(place: SourcePlace | None) -> dict[str, Any]:
    """Return the line of a result; of one that comes from no file, as of a recipe of the zoo, a name that says so."""
    base = {} if place and place.in_repository is None else {"uriBaseId": "%SRCROOT%"}
    uri = place.uri if place else "no%20file%20for%20this%20result"
    return {"artifactLocation": {"uri": uri, **base}, "region": {"startLine": place.line if place else 1}}


def _fingerprint(row: CiRow) -> str:
    """Return what an alert is known by from run to run, whatever its numbers are."""
    return hashlib.sha256(f"{row.suite}\0{row.rule}\0{row.name}".encode()).hexdigest()[:32]

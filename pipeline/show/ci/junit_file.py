"""JUnit XML: a suite for each kind of row, a test case for each row.

The form that Jenkins, GitLab and pytest agree on. What is inconclusive is an `error`, since the command ends with a
status that is not 0; what was not compared is `skipped`.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

from .ci_rows import CiOutcome, CiRow, count_outcomes

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML 1.0 does not take
_ELEMENTS = {CiOutcome.FAIL: "failure", CiOutcome.INCONCLUSIVE: "error", CiOutcome.SKIPPED: "skipped"}


def junit_text(rows: Sequence[CiRow], command: str) -> bytes:
    """Return the file for the rows of a command, as UTF-8."""
    totals = {name: value for name, value in _counts(rows).items() if name != "skipped"}  # the root has none
    root = ET.Element("testsuites", {"name": f"transload {command}", **totals})
    for name in dict.fromkeys(row.suite for row in rows):
        suite_rows = [row for row in rows if row.suite == name]
        suite = ET.SubElement(root, "testsuite", {"name": name, **_counts(suite_rows)})
        for row in suite_rows:
            _add_case(suite, row, command)
    ET.indent(root, " ")
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _counts(rows: Sequence[CiRow]) -> dict[str, str]:
    counts = count_outcomes(rows)
    return {
        "tests": str(len(rows)),
        "failures": str(counts[CiOutcome.FAIL]),
        "errors": str(counts[CiOutcome.INCONCLUSIVE]),
        "skipped": str(counts[CiOutcome.SKIPPED]),
        "time": _seconds(sum(row.seconds for row in rows)),
    }


def _add_case(suite: ET.Element, row: CiRow, command: str) -> None:
    names = {"classname": f"transload.{command}.{row.suite}", "name": _xml_safe(row.name)}
    case = ET.SubElement(suite, "testcase", {**names, "time": _seconds(row.seconds)})
    message = _xml_safe(row.message)
    if element := _ELEMENTS.get(row.outcome):
        outcome = ET.SubElement(case, element, {"message": message, "type": str(row.outcome)})
        outcome.text = _xml_safe(f"{message}\n{row.place.path}:{row.place.line}") if row.place else message
    else:
        ET.SubElement(case, "system-out").text = message


def _seconds(value: float) -> str:
    return f"{value:.3f}"


def _xml_safe(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)

"""The rows of the benchmark: one artifact each, with the truth and what every check said."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from build import Artifact
from kinds import BY_NAME
from product import Answer
from truth import Measured

Row = dict[str, Any]


def make_row(
    artifact: Artifact, measured: Measured, validated: Answer, verified: Answer | None, tools: Mapping[str, str]
) -> Row:
    """Return the row of an artifact. --locate adds `places`, `located_operator` and `located_source`."""
    row: Row = {
        "name": artifact.name,
        "model": artifact.model,
        "format": artifact.form,
        "route": artifact.route,
        "right": artifact.right,
        "shown_by": measured.shown_by,
        "excess": measured.to_json(),
        "validate": validated.to_json(),
        "convert": verified.to_json() if verified else None,
        "tools": dict(tools),
    }
    if not artifact.right:
        kind = BY_NAME[artifact.mutant.kind if artifact.mutant else artifact.kind]
        row |= {
            "kind": kind.name,
            "group": str(kind.group),
            "thread": kind.thread,
            "sites": [vars(site) for site in artifact.sites],
        }
    return row


@dataclass
class Rows:
    """Rows by name in a file, written after each: a run that ends early goes on where it was."""

    path: Path
    rows: dict[str, Row] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Rows:
        """Read the rows that there are."""
        return cls(path, json.loads(path.read_text()) if path.exists() else {})

    def keep(self, row: Row) -> None:
        """Add or replace a row, and write all."""
        self.rows[row["name"]] = row
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self.rows, indent=1, sort_keys=True) + "\n")
        new.replace(self.path)


def without_places(text: str) -> str:
    """Return a sentence that names no folder of this machine."""
    return re.sub(r"(/[\w.+-]+){2,}/", "../", text)

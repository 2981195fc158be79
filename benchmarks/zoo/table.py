"""Rows of the zoo's table: what one model became in one column, and what may be said of all of them together."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

LEAST_VARIATION = 0.01  # answers that differ by less than this share of their size between samples are no evidence
VERIFIED, UNVERIFIED, WRONG, REFUSED = "verified", "unverified", "wrong", "refused"
COLUMNS = ("saved-model", "tflite", "onnx2tf:saved-model", "onnx2tf:tflite")
INT8 = "tflite:int8"


class Named(Protocol):
    """What a row takes of an entry of the catalogue."""

    @property
    def name(self) -> str:
        """Family and model."""
        ...

    @property
    def family(self) -> str:
        """By which the table is ordered."""
        ...


@dataclass(frozen=True)
class Row:
    """One model in one column.

    Verified: at every size and batch the copy, opened anew, agrees with the reference, whose answers vary. Wrong: a
    copy was made and disagrees. Refused: no copy was made. Unverified: it agrees, and that is no evidence.
    """

    model: str
    family: str
    column: str  # onnx, one of COLUMNS, or one of reduced.COLUMNS
    status: str
    reason: str
    sqnr_db: float | None = None  # the least over all sizes; None: no noise, or no copy
    variation: float | None = None
    seconds: float | None = None  # of the steps of the route that made it, imports aside
    route: tuple[str, ...] = ()
    tried: tuple[Mapping[str, Any], ...] = ()
    counted: Mapping[str, Any] = field(default_factory=dict)  # of a reduced precision: what delegated.py tells
    code: str = field(default="", compare=False)  # the digest of what made it

    @staticmethod
    def failed(entry: Named, column: str, reason: str) -> Row:
        """The row of a model that could not be taken in at all."""
        return Row(entry.name, entry.family, column, REFUSED, f"model: {reason}")

    def to_json(self) -> dict[str, Any]:
        """The row as JSON values, without the folders of this machine."""
        tried = [{**each, "reason": _no_folders(each["reason"])} for each in self.tried]
        return {**asdict(self), "reason": _no_folders(self.reason), "tried": tried}

    @staticmethod
    def from_json(doc: Mapping[str, Any]) -> Row:
        """The reverse of `to_json`."""
        return Row(**{**doc, "route": tuple(doc["route"]), "tried": tuple(doc["tried"])})


def _no_folders(text: str) -> str:
    """A sentence with files by their names alone; nodes of a graph, whose names look like paths, keep theirs."""
    return re.sub(r"/([\w.+-]+)/(?:[\w.+-]+/)*", lambda found: "" if Path("/", found[1]).is_dir() else found[0], text)


def variation(calls: Sequence[Mapping[str, Any]]) -> float:
    """How much answers to single samples differ: root mean square around the mean over the samples, as a share of the
    root mean square itself; of the output that varies most. 0: all alike. Shapes that differ count as 1."""
    return max(_variation([call[name] for call in calls]) for name in calls[0])


def _variation(answers: Sequence[Any]) -> float:
    if len({answer.shape for answer in answers}) > 1:
        return 1.0
    stack = np.stack(answers).astype(np.float64)
    stack = np.where(np.isfinite(stack), stack, 0.0)
    size = float(np.sqrt(np.mean(stack**2))) if stack.size else 0.0
    return float(np.sqrt(np.mean((stack - stack.mean(axis=0)) ** 2))) / size if size else 0.0


def row_of(entry: Named, column: str, made: Any, checks: Sequence[Mapping[str, Any]], varies: float) -> Row:
    """The row of a router's result. `checks`: the facts of drift's `verify` at every size."""
    tried = tuple({"route": list(each.route), "status": each.status, "reason": each.reason} for each in made.tried)
    if made.route is None:
        status, reason = _failure(tried)
        return Row(entry.name, entry.family, column, status, reason, tried=tried, variation=varies)
    status, reason = _verdict(checks, varies)
    noise = [check["sqnr_db"] for check in checks if check["sqnr_db"] is not None]
    return Row(
        entry.name,
        entry.family,
        column,
        status,
        reason,
        sqnr_db=min(noise, default=None),
        variation=varies,
        seconds=made.seconds,
        route=tuple(made.route.names),
        tried=tried,
    )


def _failure(tried: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """What a target that no route reaches is, and why: by the first route that came as far as its last step."""
    reached = [each for each in tried if not _ended_before(each)]
    wrong = any(each["status"] == WRONG for each in reached)
    told = next((each for each in reached or tried if each["status"] != "missing"), tried[0] if tried else None)
    return WRONG if wrong else REFUSED, told["reason"] if told else "no route leads there"


def _ended_before(tried: Mapping[str, Any]) -> bool:
    """Whether a step before the last ended the route: its reason begins with that step's name then."""
    return any(tried["reason"].startswith(f"{step}: ") for step in tried["route"][:-1])


def _verdict(checks: Sequence[Mapping[str, Any]], varies: float) -> tuple[str, str]:
    for status in (WRONG, UNVERIFIED):
        for check in checks:
            if check["status"] == status:
                return status, check["reason"]
    if varies < LEAST_VARIATION:
        return UNVERIFIED, f"the reference's answers differ by {varies:.2%} of their size between samples: no evidence"
    return VERIFIED, ""


def counts(rows: Iterable[Row], column: str) -> Counter[str]:
    """How many models of a column have which status."""
    return Counter(row.status for row in rows if row.column == column)


def share_verified(rows: Iterable[Row], column: str) -> float:
    """Of all models of the column; 0 where there are none."""
    found = counts(rows, column)
    return found[VERIFIED] / found.total() if found else 0.0


def exported(rows: Iterable[Row]) -> set[str]:
    """The models that one of torch's exporters, or a package, gives as an ONNX file that agrees with the reference."""
    return {row.model for row in rows if row.column == "onnx" and row.status in (VERIFIED, UNVERIFIED)}


def causes(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    """Rows that are not verified, by what they have in common, the most frequent first."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.status != VERIFIED:
            groups[f"{row.status}: {common(row.reason)}"].append(row)
    return sorted(groups.items(), key=lambda each: (-len(each[1]), each[0]))


def common(reason: str) -> str:
    """A reason without what differs from model to model: names of nodes and values, shapes, paths, sizes."""
    text = re.sub(r"\(logs/[^)]*\)", "", reason)
    text = re.sub(r"\"[^\"]*\"|'[^']*'|`[^`]*`", "'..'", text)
    text = re.sub(r"\bnode_\w+|\b\w+_\d+\w*|/[\w./]+", "..", text)
    text = re.sub(r"\[[\d, .x]*\]|\([\d, ]+\)", "[..]", text)
    return re.sub(r"-?\d+(\.\d+)?", "#", text).strip()[:160]

"""The matrix of formats, as a page and as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from report import libraries
from table import VERIFIED, WRONG, Row

_TITLES = {"pytorch": "PyTorch", "torchscript": "TorchScript", "onnx": "ONNX", "saved-model": "SavedModel",
           "tflite": "TFLite"}  # fmt: skip
_HEAD = """# Every format to every format

Models of the [zoo](zoo.md), each made in every format from PyTorch, and from every one of those copies again in each
other: what `transload convert made/onnx --to tflite` does. What comes out is held against **PyTorch's** answers, at the
batches 1, 3 and 5 and at every size of the other dynamic axes, names, order, layout and dtypes included. `make routes`
makes this page anew (`benchmarks/routes/`); each row stands in `benchmarks/results/routes.json`. Only the product's own
steps and TensorFlow's, tf2onnx's and torch's converters are in it; onnx2tf and litert-torch are not.

A cell: how many models are verified, of how many that came so far as to have the format that the row starts from; the
least decibels of the verified ones. Wrong: a copy was made, and the check refused it, with the reason below. An empty
cell: no step leads there.
"""


def write_json(path: Path, rows: Sequence[Row]) -> None:
    """benchmarks/results/routes.json."""
    document = {
        "environment": {"cores": os.cpu_count(), "libraries": libraries()},
        "matrix": {column: _count(rows, column) for column in _columns(rows)},
        "rows": [{key: value for key, value in row.to_json().items() if key != "tried"} for row in rows],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def page(rows: Sequence[Row]) -> str:
    """docs/evidence/routes.md."""
    starts = list(dict.fromkeys(column.split(" > ")[0] for column in _columns(rows)))
    ends = list(dict.fromkeys(column.split(" > ")[1] for column in _columns(rows)))
    lines = [_HEAD, f"{len({row.model for row in rows})} models.", ""]
    lines += [f"| from \\ to | {' | '.join(map(_title, ends))} |", f"|---{'|---' * len(ends)}|"]
    for start in starts:
        lines.append(f"| {_title(start)} | {' | '.join(_cell(rows, f'{start} > {end}') for end in ends)} |")
    lines += ["", "## What is not verified, and why", ""]
    failed = [row for row in rows if row.status != VERIFIED]
    lines += [f"- {row.model}, {row.column}: {row.status}: {_one_line(row.reason)}" for row in failed] or ["Nothing."]
    return "\n".join(lines) + "\n"


def _columns(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.column for row in rows))


def _count(rows: Sequence[Row], column: str) -> dict[str, object]:
    own = [row for row in rows if row.column == column]
    noise = [row.sqnr_db for row in own if row.status == VERIFIED and row.sqnr_db is not None]
    return {
        "models": len(own),
        "verified": sum(row.status == VERIFIED for row in own),
        "wrong": sum(row.status == WRONG for row in own),
        "least_sqnr_db": min(noise, default=None),
    }


def _cell(rows: Sequence[Row], column: str) -> str:
    found = _count(rows, column)
    if not found["models"]:
        return ""
    noise = found["least_sqnr_db"]
    least = f", {noise:.0f} dB" if isinstance(noise, float) else ""
    wrong = f", **{found['wrong']} wrong**" if found["wrong"] else ""
    return f"{found['verified']} of {found['models']}{least}{wrong}"


def _title(name: str) -> str:
    return _TITLES.get(name, name)


def _one_line(text: str) -> str:
    return " ".join(text.replace("|", "/").split())[:300]

"""The zoo's rows as files: JSON with the machine in it, a page for docs/, and the failures by cause."""

from __future__ import annotations

import json
import os
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from table import (
    COLUMNS,
    INT8,
    REFUSED,
    UNVERIFIED,
    VERIFIED,
    WRONG,
    Row,
    causes,
    common,
    counts,
    exported,
    share_verified,
)

_TITLES = {
    "saved-model": "SavedModel",
    "tflite": "TFLite",
    "onnx2tf:saved-model": "SavedModel by onnx2tf",
    "onnx2tf:tflite": "TFLite by onnx2tf",
}
_LIBRARIES = ("torch", "tensorflow", "onnx", "onnxruntime", "onnxscript", "onnx2tf", "ai-edge-litert", "numpy")


def write_json(path: Path, rows: Sequence[Row], packages: str) -> None:
    """benchmarks/results/zoo.json."""
    document = {
        "environment": {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "libraries": libraries(),
            "packages": [line for line in packages.splitlines() if line and not line.startswith("#")],
        },
        "summary": {column: summary(rows, column) for column in ("onnx", *COLUMNS, INT8)},
        "rows": [row.to_json() for row in rows],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


def libraries() -> dict[str, str]:
    """The versions that decide what becomes of a model."""
    return {name: version(name) for name in _LIBRARIES}


def summary(rows: Sequence[Row], column: str) -> Mapping[str, Any]:
    """Counts of a column, and the share that is verified."""
    found = counts(rows, column)
    shares = {"share_verified": share_verified(rows, column), "share_of_exported": share_of_exported(rows, column)}
    return {"models": found.total(), **found, **{name: round(share, 4) for name, share in shares.items()}}


def share_of_exported(rows: Sequence[Row], column: str) -> float:
    """The share that is verified, of those models only that torch itself exports right."""
    models = exported(rows)
    return share_verified([row for row in rows if row.model in models], column)


def page(rows: Sequence[Row]) -> str:
    """docs/evidence/zoo.md."""
    rows = [Row.from_json(row.to_json()) for row in rows]  # as they are published
    reduced = [row for row in rows if row.column == INT8]
    families = {row.family for row in reduced}
    there_are = len({row.model for row in rows if row.family in families})
    rows = [row for row in rows if row.column in ("onnx", *COLUMNS)]
    by_model: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_model.setdefault(row.model, {})[row.column] = row
    return (
        "\n".join(
            [
                _HEAD,
                *_totals(rows),
                *_out_of_time(rows),
                "",
                "## By model",
                "",
                *_table(by_model),
                "",
                *_failures(rows),
                *_int8(reduced, there_are),
            ]
        )
        + "\n"
    )


_HEAD = """# The zoo

Models of many kinds, carried to SavedModel and TFLite by transload's own lowering, and the same ONNX files by onnx2tf
beside it. `make zoo` makes this page anew (`benchmarks/zoo/`); the figures are in `benchmarks/results/zoo.json`.

A copy is **verified** when, opened in another process than the one that made it, it has the model's names, order,
layout and dtypes, and agrees with PyTorch (with ONNX Runtime where a package brings the model as ONNX) to 60 dB at the
batches 1, 3 and 5, and at every size of the other dynamic axes: one file for all of them. It is **wrong** where it
was made and disagrees, and **refused** where none was made. It is **unverified** where the reference gives nearly the
same answer to every sample (less than 1 % of its size apart): to agree with that proves nothing.

onnx2tf's TFLite is made of its SavedModel, as the product makes one: where that is wrong, none is made.

Weights are random with the statistics of trained ones (`benchmarks/zoo/nets/zoo_weights.py`), except in the family
`packaged`, which has the weights that its package brings. Pictures are small, and a few families have fewer layers
than their published smallest: the operators are the same. Seconds are those of the steps that made the copy, from
PyTorch on, in a process that had its libraries loaded, on two cores that had other work to do: read them with that in
mind. The number of decibels is the least over all batches and sizes.
"""


def _out_of_time(rows: Sequence[Row]) -> list[str]:
    """How many refusals of onnx2tf are the clock's."""
    late = [row for row in rows if row.column == COLUMNS[2] and "gave no answer in" in row.reason]
    if not late:
        return []
    return ["", f"{len(late)} of onnx2tf's refusals are the limit of three or four minutes, on cores with other work."]


def _totals(rows: Sequence[Row]) -> list[str]:
    lines = [
        "## Together",
        "",
        "| column | models | verified | wrong | refused | unverified | share verified | of what torch exports right |",
    ]
    lines.append("|---|---|---|---|---|---|---|---|")
    for column in COLUMNS:
        found = counts(rows, column)
        numbers = " | ".join(str(found[status]) for status in (VERIFIED, WRONG, REFUSED, UNVERIFIED))
        share = share_verified(rows, column)
        able = share_of_exported(rows, column)
        lines.append(f"| {_TITLES[column]} | {found.total()} | {numbers} | {share:.1%} | {able:.1%} |")
    return lines


def _table(by_model: Mapping[str, Mapping[str, Row]]) -> list[str]:
    titles = " | ".join(_TITLES[column] for column in COLUMNS)
    lines = [f"| model | exporter | {titles} |", "|---|---|---|---|---|---|"]
    for model, found in by_model.items():
        cells = " | ".join(cell(found.get(column)) for column in COLUMNS)
        lines.append(f"| {model} | {_exporter(found.get('onnx'))} | {cells} |")
    return lines


def cell(row: Row | None) -> str:
    """A row in few words: status, decibels, seconds."""
    if row is None:
        return "not run"
    if row.status != VERIFIED:
        return f"**{row.status}**" if row.status == WRONG else row.status
    noise = "exact" if row.sqnr_db is None else f"{row.sqnr_db:.0f} dB"
    return f"{noise}, {row.seconds or 0:.1f} s"


def _exporter(row: Row | None) -> str:
    if row is None:
        return "not run"
    if row.status not in (VERIFIED, UNVERIFIED):
        return row.status
    return row.route[-1].removeprefix("torch.onnx-") if row.route else "given"


_INT8_HEAD = """
## Full int8

TFLite with weights and arithmetic in int8, made of the ONNX file, opened under XNNPACK in another process, and held
against PyTorch in float as above; the floor is 10 dB. Of the families that convolve or attend, the models that were
run: `benchmarks/zoo/run.py --columns tflite:int8 --publish` runs those that are missing. Six samples calibrate each,
and are what it is checked on: with random weights and so few of them the decibels tell whether the arithmetic is
right, and not how well a trained net would do.

*In float*: operators that stay in float, because 8 bits would ruin them (the variance of a normalisation, scores that
a mask of -3.4e38 was added to) or TFLite has no other. *Left by XNNPACK*: what TFLite's own kernels compute, at batch
1; most of it works on shapes and indices.

What stays in float was mended while these rows were made; the digest of the code in a row of
`benchmarks/results/zoo.json` tells which were made before. Of the models below the floor one was looked into:
in transformers/mobilenet_v2 no kind of operator is at fault alone (each of them in float gains at most 2 dB, the first
quarter of the net gains 8), so it is the noise of 8 bits in many thin layers of random weights.
"""


def _int8(rows: Sequence[Row], there_are: int) -> list[str]:
    """The section of full int8, of so many models that there are; nothing where none was run."""
    if not rows:
        return []
    found = Counter(row.status for row in rows)
    ran = sum(bool(row.counted.get("operators")) for row in rows)
    all_taken = sum(row.counted.get("operators", 0) > 0 and not row.counted.get("left") for row in rows)
    lines = [
        *_INT8_HEAD.splitlines(),
        "",
        f"{len(rows)} of {there_are} models were run: {ran} run under XNNPACK, {all_taken} of them with every operator "
        f"its own; {found[VERIFIED]} are verified, {found[WRONG]} below the floor or wrong otherwise, "
        f"{found[REFUSED]} refused, {found[UNVERIFIED]} unverified.",
        "",
        "| model | status | dB | operators | in float | left by XNNPACK |",
        "|---|---|---|---|---|---|",
    ]
    return lines + [_int8_line(row) for row in rows]


def _int8_line(row: Row) -> str:
    noise = "" if row.sqnr_db is None else f"{row.sqnr_db:.0f}"
    status = row.status if row.status == VERIFIED else f"**{row.status}**: {_one_line(row.reason)}"
    cells = (_told(row.counted.get(key, {})) for key in ("float", "left"))
    return f"| {row.model} | {status} | {noise} | {row.counted.get('operators', '')} | {' | '.join(cells)} |"


def _told(counts_by_name: Mapping[str, int]) -> str:
    """How many, and the most frequent by name."""
    most = ", ".join(name for name, _ in Counter(counts_by_name).most_common(4))
    return f"{sum(counts_by_name.values())} ({most})" if most else "0"


def _failures(rows: Sequence[Row]) -> list[str]:
    """What is not verified by our own lowering, and why."""
    lines = ["## What is not verified, and why", ""]
    own = [row for row in rows if row.column in ("saved-model", "tflite") and row.status != VERIFIED]
    lines += [f"- {row.model}, {_TITLES[row.column]}: {row.status}: {_one_line(row.reason)}" for row in own]
    return lines if own else [*lines, "Nothing."]


def _one_line(text: str) -> str:
    return " ".join(text.replace("|", "/").split())[:400]


def failures(rows: Sequence[Row]) -> str:
    """Everything that is not verified, by cause, for whoever mends it."""
    lines = []
    for column in ("onnx", *COLUMNS):
        found = [row for row in rows if row.column == column]
        lines.append(f"# {column}: {dict(counts(rows, column))}")
        for cause, members in causes(found):
            lines.append(f"\n## {len(members)}: {cause}")
            for row in members:
                lines.append(f"- {row.model}: {_one_line(row.reason)}")
                lines += [
                    f"    - {' > '.join(each['route'])}: {each['status']}: {_one_line(each['reason'])}"
                    for each in row.tried
                    if each["status"] != "not tried" and common(each["reason"]) != common(row.reason)
                ]
        lines.append("")
    return "\n".join(lines)

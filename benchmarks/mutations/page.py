"""The published results: benchmarks/results/mutations.json and docs/evidence/mutations.md."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from comparators import TOOLS
from kinds import KINDS, Group
from rows import Row, Rows, without_places

ROOT = Path(__file__).resolve().parents[2]
RESULTS, PAGE = ROOT / "benchmarks" / "results" / "mutations.json", ROOT / "docs" / "evidence" / "mutations.md"
_LIBRARIES = ("torch", "onnx", "onnxscript", "onnxruntime", "tensorflow", "ai-edge-litert", "numpy", "onnxsim")
Said = Callable[[Row], str]
_CONVERTED = "wrong as a converter made it"

_HEAD = """# Mutations: wrong copies that must be found, and right ones that must pass

Made by `make mutations`; do not edit. {models} models of different families, {right} right copies of them by many
routes, and {mutants} mutants: {kinds} kinds of mistakes, each from a thread of a converter's or a runtime's tracker,
not from what transload's check catches. Every copy is measured against the model in float64 first, at inputs drawn
from the declaration and at stress inputs (`benchmarks/mutations/declarations.py`, `truth.py`): a copy is wrong where it
lies further from that truth than 8 times what float32 rounding makes of the model itself. {converted} copies that were
meant to be right are wrong by this rule, as a plain exporter makes them: they count as mutants.

| shown by | what it means | mutants |
|---|---|---|
| random | random inputs of ordinary sizes show it | {random} |
| declared | only some sizes, batches or ids that the declaration allows show it | {declared} |
| stress | only stress inputs show it: magnitudes, saturation, ties, masks, NaN, infinities | {stress} |
| never | no input of the benchmark shows it: not counted | {never} |

"""


_SAMPLE = """## Samples of 28 November 2026

Not of the rows above: a part of each kind, by `validate` alone. "Caught" of wrong copies that can be shown; "named" is
a wrong second function of a SavedModel of which `validate` says that it was not asked. Three of four variants of
`axis-pairs` in SavedModel and TFLite are left out: no copy of the faulty LSTM was made. A copy of the classifier by
TensorFlow's int8 converter is left out, too: it is wrong as it was made, and fails.

| kind | forms | caught | right copies failed |
|---|---|---|---|
{rows}

`locate` named the operator first, and the source line where one is known:

| form | operator | source line |
|---|---|---|
{located}

"""
_SAMPLED = (
    ("unlike-columns", "saved-model, tflite, torchscript", "18 of 18", "0 of 6"),
    (
        "imputation",
        "saved-model, tflite, torchscript",
        "21 of 24; the rest after a mend, in onnx and saved-model",
        "0 of 6",
    ),
    ("mask-shapes", "saved-model, tflite, torchscript", "30 of 30", "0 of 6"),
    ("beyond-data", "saved-model, tflite, torchscript", "18 of 18", "0 of 6"),
    ("axis-pairs", "saved-model, tflite, torchscript", "6 of 6", "0 of 6"),
    ("half-overflow", "onnx:fp16", "18 of 18", "0 of 11"),
    ("half-overflow", "tflite:fp16", "8 of 8", "0 of 4"),
    ("int8-scale", "onnx:int8", "6 of 6", "0 of 6"),
    ("int8-scale", "tflite:int8", "4 of 5", "0 of 3"),
    ("other-functions", "saved-model", "12 of 12", "0 of 16"),
)
_SAMPLED_PLACES = (
    ("torchscript", "21 of 21", "17 of 17"), ("saved-model", "13 of 13", "13 of 13"),
    ("tflite", "12 of 12", "12 of 12"),
    ("onnx:fp16", "12 of 15", "12 of 15"), ("onnx:int8", "6 of 6", "4 of 6"), ("tflite:fp16", "4 of 7", "0 of 3"),
    ("tflite:int8", "4 of 4", "-"),
)  # fmt: skip


def publish(work: Path, names: set[str]) -> None:
    """Write both files from the rows of all shards. What they lack stays as it was published, with its revision."""
    former = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
    published = {row["name"]: row for row in former if row["name"] in names}
    measured: dict[str, Row] = {}
    for path in sorted(work.glob("rows-*.json")):
        measured |= {name: _clean(row) for name, row in Rows.read(path).rows.items() if name in names}
    rows = {name: _with_places(row, published.get(name, {})) for name, row in {**published, **measured}.items()}
    document: Row = {
        "measured_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "revision": ", ".join(sorted({row["revision"] for row in rows.values()})),
        "machine": {"platform": platform.platform(terse=True), "python": platform.python_version()},
        "libraries": {name: _version(name) for name in _LIBRARIES},
        "rows": [rows[name] for name in sorted(rows)],
    }
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")
    PAGE.write_text(page(document["rows"], document))


def summary(rows: Sequence[Row]) -> str:
    """Return what `validate` caught of each kind, what slipped through, and the right copies that it refused."""
    lines: list[str] = []
    wrong = [row for row in rows if not row["right"] and _shown(row) != "never"]
    for kind in sorted({row["kind"] for row in wrong}):
        mine = [row for row in wrong if row["kind"] == kind]
        missed = [row for row in mine if not _is_caught(row, row["validate"]["verdict"])]
        lines.append(f"{kind}: {len(mine) - len(missed)} of {len(mine)} wrong copies caught")
        lines += [f"  slipped through: {row['name']} ({row['validate']['verdict']})" for row in missed]
    right = [row for row in rows if row["right"] and _is_right(row)]
    refused = [row for row in right if row["validate"]["verdict"] != "pass"]
    lines.append(f"right copies: {len(refused)} false alarms of {len(right)}")
    lines += [f"  refused: {row['name']} ({row['validate']['verdict']})" for row in refused]
    never = [row["name"] for row in rows if not row["right"] and _shown(row) == "never"]
    lines += [f"not counted, no input shows it: {name}" for name in never]
    return "\n".join(lines)


def _with_places(row: Row, former: Row) -> Row:
    """Return a row with what `locate` said of it before, where it was not asked this time."""
    columns = () if "locate" in row else ("locate", "locate_revision", "places", "located_operator", "located_source")
    return {**row, **{column: former[column] for column in columns if column in former}}


def _clean(row: Row) -> Row:
    row = {**{key: value for key, value in row.items() if key != "of"}, "revision": row["of"].partition(" ")[0]}
    if row.get("places"):
        row["places"] = json.loads(without_places(json.dumps(row["places"])))
    for check in ("validate", "convert", "locate"):
        if row.get(check):
            row[check] = {**row[check], "reason": without_places(row[check]["reason"])[:300]}
    return row


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def page(rows: Sequence[Row], document: Row) -> str:
    """Return the page."""
    rows = [{**row, "right": row["right"] and row["shown_by"] in ("never", "nan")} for row in rows]
    right, mutants = [row for row in rows if row["right"]], [row for row in rows if not row["right"]]
    shown = {kind: sum(_shown(row) == kind for row in mutants) for kind in ("random", "declared", "stress", "never")}
    head = _HEAD.format(
        models=len({row["model"] for row in rows}), right=len(right), mutants=len(mutants),
        kinds=len({row["kind"] for row in mutants if "kind" in row}),
        converted=sum("kind" not in row for row in mutants), **shown,
    )  # fmt: skip
    parts = [
        head, _table(rows), _sample(), _located(mutants), _by_group(mutants), _by_format(mutants), _false_alarms(right),
        _misses(mutants), _kinds(mutants), _environment(document),
    ]  # fmt: skip
    return "\n".join(part.rstrip() + "\n" for part in parts if part)


def _shown(row: Row) -> str:
    return "stress" if row["shown_by"] == "nan" else str(row["shown_by"])


def _tools() -> dict[str, Said]:
    """Return by column how a row's verdict is read; "fail" and "error" count as caught."""
    ours: dict[str, Said] = {
        "`transload validate`": lambda row: str(row["validate"]["verdict"]),
        "check in `convert`": lambda row: str((row["convert"] or {}).get("verdict", "not run")),
    }
    return {**ours, **{tool: lambda row, tool=tool: str(row["tools"].get(tool, "not run")) for tool in TOOLS}}  # type: ignore[misc]


def _caught(rows: Iterable[Row], said: Said) -> str:
    known = [row for row in rows if said(row) not in ("not run", "not installed")]
    if not known:
        return "-"
    caught = sum(_is_caught(row, said(row)) for row in known)
    return f"{caught} of {len(known)}"


def _is_caught(row: Row, answer: str) -> bool:
    """Whether an answer tells that a copy is wrong: `degraded` does where it loses NaN or infinities and no more."""
    return answer in ("fail", "error") or (answer == "degraded" and row["shown_by"] == "nan")


def _is_right(row: Row) -> bool:
    """Whether a right copy is right in the runtime's own arithmetic too: some runtimes lose NaN."""
    return bool(row["shown_by"] == "never")


def _table(rows: Sequence[Row]) -> str:
    """Caught by what shows it, and false alarms, for each check."""
    mutants = [row for row in rows if not row["right"]]
    right = [row for row in rows if row["right"] and _is_right(row)]
    lines = ["## Found", "", "| check | random | declared | stress | all | false alarms |", "|---|---|---|---|---|---|"]
    for name, said in _tools().items():
        cells = [
            _caught([row for row in mutants if _shown(row) == kind], said) for kind in ("random", "declared", "stress")
        ]
        every = _caught([row for row in mutants if _shown(row) != "never"], said)
        lines.append(f"| {name} | {' | '.join(cells)} | {every} | {_caught(right, said)} |")
    lines += [
        "",
        "Targets: all of what random or declared inputs show, at least 99 % with the stress set, the check in",
    ]
    lines += ["`convert` no weaker than `validate`, false alarms at most 1 %. An inconclusive answer is no catch,"]
    lines += ["and a note, where a copy loses NaN or infinities and no more, is counted apart:"]
    inconclusive = [row for row in mutants if row["validate"]["verdict"] == "inconclusive"]
    lines += [f"`validate` gave {len(inconclusive)} of them to mutants.", ""]
    return "\n".join(lines)


def _sample() -> str:
    rows, located = ("\n".join(f"| {' | '.join(row)} |" for row in part) for part in (_SAMPLED, _SAMPLED_PLACES))
    return _SAMPLE.format(rows=rows, located=located)


def _located(mutants: Sequence[Row]) -> str:
    """How often `locate` names the operator and the source line first, and the mutants where it does not."""
    asked = [row for row in mutants if row.get("locate")]
    if not asked:
        return ""
    with_source = [row for row in asked if row["located_source"] is not None]
    operators = sum(row["located_operator"] for row in asked)
    sources = sum(row["located_source"] for row in with_source)
    revision = asked[0]["locate_revision"]
    lines = [
        "## Located", "",
        f"`transload locate` (revision {revision}) was asked of {len(asked)} mutants that `validate` failed.",
        f"The first place that it names has the operator that was edited in **{operators} of {len(asked)}**,",
        f"and its source line in **{sources} of {len(with_source)}** that have one. Targets: 95 % and 90 %.", "",
        *_located_by_format(asked), "",
    ]  # fmt: skip
    wrong = [row for row in asked if not row["located_operator"] or row["located_source"] is False]
    if wrong:
        lines += ["| mutant | is wrong at | `locate` says |", "|---|---|---|"]
    for row in wrong:
        site = row["sites"][0]
        place = f"{site['op_type']} ({site['operator']}), {site['source'] or 'no line'}"
        said = without_places(row["locate"]["reason"])[:120].replace("|", "\\|") or row["locate"]["verdict"]
        lines.append(f"| `{row['name']}` | {place} | {said} |")
    return "\n".join([*lines, ""])


def _located_by_format(asked: Sequence[Row]) -> list[str]:
    """Of the mutants that `locate` was asked of, how many it named the operator and the line of, by format."""
    lines = ["| format | operator | source line |", "|---|---|---|"]
    for form in sorted({row["format"] for row in asked}):
        rows = [row for row in asked if row["format"] == form]
        lined = [row for row in rows if row["located_source"] is not None]
        operators, sources = (sum(bool(row[key]) for row in rows) for key in ("located_operator", "located_source"))
        lines.append(f"| {form} | {operators} of {len(rows)} | {sources} of {len(lined)} |")
    return lines


def _by_group(mutants: Sequence[Row]) -> str:
    tools = _tools()
    lines = ["## By group of kinds", "", f"| group | {' | '.join(tools)} |", f"|---|{'---|' * len(tools)}"]
    for group in (*Group, _CONVERTED):
        rows = [row for row in mutants if row.get("group", _CONVERTED) == group and _shown(row) != "never"]
        lines.append(f"| {group} | {' | '.join(_caught(rows, said) for said in tools.values())} |")
    return "\n".join([*lines, ""])


def _by_format(mutants: Sequence[Row]) -> str:
    tools = _tools()
    lines = ["## By format", "", f"| format | {' | '.join(tools)} |", f"|---|{'---|' * len(tools)}"]
    for form in sorted({row["format"] for row in mutants}):
        rows = [row for row in mutants if row["format"] == form and _shown(row) != "never"]
        lines.append(f"| {form} | {' | '.join(_caught(rows, said) for said in tools.values())} |")
    return "\n".join([*lines, ""])


def _false_alarms(right: Sequence[Row]) -> str:
    """Right copies that a check of ours did not pass, and those whose runtime loses NaN."""
    lines = ["## Right copies", ""]
    sound = [row for row in right if _is_right(row)]
    for name, check in (("validate", "validate"), ("the check in `convert`", "convert")):
        failed = [row for row in sound if row[check] and row[check]["verdict"] != "pass"]
        lines.append(f"- {name}: {len(failed)} of {len(sound)} not passed" + ("" if failed else "."))
        lines += [f"  - `{row['name']}`: {row[check]['verdict']}, {row[check]['reason'][:160]}" for row in failed]
    lost = [row for row in right if row["shown_by"] == "nan"]
    judged = sum(row["validate"]["verdict"] == "degraded" for row in lost)
    lines.append(f"- {len(lost)} copies are right for numbers and lose NaN or infinities in their runtime;")
    lines.append(f"  `validate` passed {judged} of them with a note.")
    return "\n".join([*lines, ""])


def _misses(mutants: Sequence[Row]) -> str:
    """Every mutant that validate passed although some input shows it, the clearest first."""
    missed = [row for row in mutants if _shown(row) != "never" and not _is_caught(row, row["validate"]["verdict"])]
    order = {"random": 0, "declared": 1, "stress": 2}
    missed.sort(key=lambda row: (order[_shown(row)], row["name"]))
    lines = ["## Missed by `validate`", ""]
    if not missed:
        return "\n".join([*lines, "None.", ""])
    lines += [
        "| mutant | shown by | times the tolerance of rounding | `validate` | check in `convert` |",
        "|---|---|---|---|---|",
    ]
    for row in missed:
        excess = row["excess"][row["shown_by"]]
        times = "no number" if excess["times"] is None else f"{excess['times']:.3g}"
        verified = (row["convert"] or {}).get("verdict", "not run")
        lines.append(
            f"| `{row['name']}` | {_shown(row)}: {excess['call']} | {times} | {row['validate']['verdict']} "
            f"| {verified} |"
        )
    return "\n".join([*lines, ""])


def _kinds(mutants: Sequence[Row]) -> str:
    lines = ["## The kinds", "", "| kind | group | what | thread | found by `validate` |", "|---|---|---|---|---|"]
    for kind in KINDS:
        rows = [row for row in mutants if row.get("kind") == kind.name and _shown(row) != "never"]
        found = _caught(rows, lambda row: str(row["validate"]["verdict"]))
        owner, _, number = kind.thread.partition("#")
        thread = f"[{kind.thread}](https://github.com/{owner}/issues/{number})"
        lines.append(f"| {kind.name} | {kind.group} | {kind.summary} | {thread} | {found} |")
    return "\n".join([*lines, ""])


def _environment(document: Row) -> str:
    libraries = ", ".join(f"{name} {number}" for name, number in document["libraries"].items())
    machine = document["machine"]
    measured = f"Measured {document['measured_at']} on revision {document['revision']}"
    return f"""## Environment

{measured}, {machine["platform"]}, Python {machine["python"]};
{libraries}.

TorchScript, SavedModel and TFLite run in their own runtimes on the CPU; `validate` was asked in one runtime for each
format. The tools beside transload are run by their documented rules on inputs as their users make them
(`benchmarks/mutations/comparators.py`).
"""

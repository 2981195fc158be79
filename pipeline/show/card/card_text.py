"""The words of a card: README.md in an artifact's folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....models.artifact import CARD, DIGESTS, PROVENANCE, RECORD, REQUIREMENTS
from ....models.formats import parse_target
from ....models.signature import Bounds, TensorSpec
from ..markdown_text import escaped
from ..tables.printers import to_markdown
from ..tables.table import CellKind, Table, Value, columns
from ..units import decibel, plain, size
from .card_records import Card, CardCheck
from .snippets import snippet

_CALLED = {
    "torch": "PyTorch", "torchscript": "PyTorch", "onnxruntime": "ONNX Runtime", "tensorflow": "TensorFlow",
    "tflite": "LiteRT", "tflite-flex": "TensorFlow's interpreter with its Flex delegate", "keras": "Keras",
}  # fmt: skip


def card_text(card: Card) -> str:
    """Return README.md."""
    target = parse_target(card.target)
    lines = [f"# {escaped(card.name)}: {target.format.spec.title}, {target.precision}", ""]
    if card.model.summary:
        lines += [f"{escaped(card.model.summary)}.", ""]
    lines += [_markdown(("", ""), list(_facts(card))), ""]
    lines += [*_signature(card), *_meaning(card), *_checks(card), *_call(card), *_files(card)]
    return "\n".join(lines).rstrip() + "\n"


def _facts(card: Card) -> Iterator[tuple[str, str]]:
    yield "file", f"`{card.file}`, {size(card.bytes)}"
    yield "sha256", f"`{card.sha256}`"
    yield "status", f"**{escaped(card.status)}**: {escaped(card.agreement)}"
    known = card.provenance
    if known:
        yield (
            "made from",
            f"{escaped(known.model)}, whose {escaped(known.kind)} has the sha256 `{escaped(known.sha256)}`",
        )
    if card.model.commit:
        yield "commit", commit_text(card)
    if card.route:
        yield "route", escaped(" > ".join(card.route))
    yield "made with", escaped(made_with(card))
    if card.weights:
        yield "weights", escaped("; ".join(card.weights))
    if card.flex:
        yield "needs", escaped(f"TensorFlow's Flex delegate, for {', '.join(card.flex)}")


def commit_text(card: Card) -> str:
    """Return the commit with what was changed since, as a phrase."""
    state = card.model.commit
    if state is None:
        return ""
    if state.changed is None:
        return f"{plain(state.commit)}; whether files were changed since is not known"
    if not state.changed:
        return f"{plain(state.commit)}; no tracked file was changed since"
    return f"{plain(state.commit)}, with changes since in {', '.join(map(plain, state.changed))}"


def made_with(card: Card) -> str:
    """Return transload's version and those of every step, each once."""
    versions: dict[str, str] = {}
    for step in card.provenance.steps if card.provenance else ():
        versions |= step.made_with
    parts = [f"transload {card.transload}", *(f"{name} {version}" for name, version in versions.items())]
    return plain(", ".join(parts))


def _signature(card: Card) -> list[str]:
    rows = []
    for side, specs in (("input", card.signature.inputs), ("output", card.signature.outputs)):
        rows += [(side, escaped(spec.name), spec.dtype, escaped(_shape(spec)), _values(spec)) for spec in specs]
    bounds = [f"`{axis}` is {_sizes(limits)}" for axis, limits in sorted(card.signature.bounds.items())]
    allowed = ["", f"Sizes: {'; '.join(bounds)}."] if bounds else []
    return ["## Inputs and outputs", "", _markdown(("", "name", "dtype", "shape", "numbers"), rows), *allowed, ""]


def _shape(spec: TensorSpec) -> str:
    return f"({', '.join(map(str, spec.shape))}{',' if len(spec.shape) == 1 else ''})"


def _values(spec: TensorSpec) -> str:
    return str(spec.values) if spec.values else ""


def _sizes(bounds: Bounds) -> str:
    return f"{bounds.low} or more" if bounds.high is None and bounds.step == 1 else str(bounds)


def _meaning(card: Card) -> Iterator[str]:
    """Yield what the numbers mean, where somebody has said so."""
    model = card.model
    if model.preprocessing:
        yield from ("## Preprocessing", "", *(f"- {escaped(sentence)}" for sentence in model.preprocessing), "")
    if model.labels:
        shown = ", ".join(
            f"{escaped(number)}: {escaped(name)}" for number, name in list(model.labels.items())[:_MOST_LABELS]
        )
        more = f" and {len(model.labels) - _MOST_LABELS} more ({CARD})" if len(model.labels) > _MOST_LABELS else ""
        yield from ("## Labels", "", f"{shown}{more}. By {escaped(model.labels_from)}.", "")


_MOST_LABELS = 50


def _checks(card: Card) -> Iterator[str]:
    if not card.checks:
        return
    yield from (
        "## Verified",
        "",
        "Loaded anew in another process, and compared with the model that it was made from.",
        "",
    )
    yield from (to_markdown(check_table(card.checks)), "")
    sentences = dict.fromkeys(text for check in card.checks for text in check.exercised)
    yield from (*(f"- {escaped(text)}" for text in sentences), *([""] if sentences else []))
    yield "Agreement is the signal-to-noise ratio of the worst output. Other inputs were not asked."
    yield ""


def check_table(checks: Sequence[CardCheck]) -> Table:
    """Return how an artifact was compared with its model: a row for each runtime."""
    heads = columns(
        CellKind.TEXT, "verified in", "batches", "samples", "agreement", "asked for", "largest error", "metric"
    )
    return Table.of(heads, [_check_cells(check) for check in checks])


def _check_cells(check: CardCheck) -> tuple[Value, ...]:
    agreement = "identical" if check.sqnr_db is None and check.max_abs == 0 else decibel(check.sqnr_db)
    least = "" if check.tolerance_db is None else f"{decibel(check.tolerance_db)} or more"
    error = "" if check.max_abs is None else f"{check.max_abs:.3g}"
    return check.runtime, ", ".join(map(str, check.batches)), check.samples, agreement, least, error, check.metric


def _call(card: Card) -> list[str]:
    runtime = _CALLED.get(card.runtime.name, plain(card.runtime.name))
    text = snippet(parse_target(card.target).format, card.signature, flex=bool(card.flex), named=bool(card.route))
    after = f"In this folder, after `pip install -r {REQUIREMENTS}` (Python {card.runtime.python}):"
    return [f"## Call it with {runtime}", "", after, "", "```python", text.rstrip(), "```", ""]


def _files(card: Card) -> list[str]:
    rows = [
        (f"`{card.file}`", "the model"),
        (f"`{RECORD}`", "its signature, and what made it, as transload reads them"),
        (f"`{CARD}`", "the facts of this page"),
        (f"`{REQUIREMENTS}`", "the runtime that it was verified in"),
        (
            f"`{PROVENANCE}`",
            "the statement of its source, steps and verdict (in-toto), which `transload verify` checks",
        ),
        (f"`{DIGESTS}`", f"`sha256sum -c {DIGESTS}` checks all of these"),
    ]
    return ["## Files", "", _markdown(("file", ""), rows)]


def _markdown(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of cells that are Markdown already."""
    return to_markdown(Table.of(columns(CellKind.MARKDOWN, *titles), rows))

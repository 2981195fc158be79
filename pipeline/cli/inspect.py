"""`transload inspect`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from ..options import shared_options as shared
from ..options.option import CommandOptions, Option
from .output.render import finish, table

if TYPE_CHECKING:
    from ...converters.readers.reader_records import FileDescription
    from ..commands.inspect import InspectedArtifact, InspectedFile
    from ..show.card.card_folder import DigestCheck

_MOST_OPERATORS = 8
_MOST_LABELS = 12


class InspectOptions(CommandOptions):
    """Show what an artifact's folder, or the file of a model of anybody, says of itself.

    Of a folder that transload wrote: its card, and whether every file is as it was. Ends with 1 where one has changed.
    Of other files: format, versions, signature, operators, weights and metadata, read in a worker. None of it is run.
    """

    place: Annotated[
        str, Option(metavar="ARTIFACT", help="An artifact's folder, a model's file, or a SavedModel's folder.")
    ]
    json_: shared.Json = False
    quiet: shared.Quiet = False


def command(options: InspectOptions) -> None:
    """Print what an artifact, or a file of a model, says of itself."""
    from ..commands.inspect import InspectedArtifact, inspect
    from ..progress.progress import Progress

    result = inspect(options.place, Progress(quiet=options.quiet))
    lines = _artifact_lines(result) if isinstance(result, InspectedArtifact) else _file_lines(result)
    finish(result.document, list(lines), result.status, json=options.json_)


def _artifact_lines(result: InspectedArtifact) -> Iterator[str]:
    from ..show.card.card_text import check_table
    from ..show.tables.printers import to_text
    from ..show.units import plain

    yield from table([(f"{name}:", plain(text)) for name, text in _artifact_rows(result)])
    if result.card is not None and result.card.checks:
        yield from ("", *to_text(check_table(result.card.checks)))
    yield ""
    if result.digests is None:
        yield "no SHA256SUMS: nothing tells whether a file has changed"
    else:
        yield from _digest_lines(result.digests)
    if result.payload_changed:
        yield f"CHANGED  {result.artifact.path.name} is not the one that the card describes"


def _artifact_rows(result: InspectedArtifact) -> Iterator[tuple[str, str]]:
    from ..show.card.card_text import commit_text, made_with
    from ..show.units import size

    card, artifact = result.card, result.artifact
    yield "artifact", f"{card.name} as {card.target}" if card else str(artifact.target)
    yield "file", f"{artifact.path.name}, {size(result.bytes)}, sha256 {result.sha256}"
    if card:
        yield "status", f"{card.status}: {card.agreement}"
        yield "route", " > ".join(card.route) or "as given"
    if known := artifact.provenance:
        yield "made from", f"{known.model} (sha256 of the {known.kind}: {known.sha256})"
    if card:
        if card.model.commit:
            yield "commit", commit_text(card)
        yield "made with", made_with(card)
        yield "runtime", f"{', '.join(card.runtime.requirements)} in Python {card.runtime.python}"
    yield from (("input", str(spec)) for spec in artifact.signature.inputs)
    yield from (("output", str(spec)) for spec in artifact.signature.outputs)
    yield "statement", _statement(result)
    if card:
        yield from (("weights", text) for text in card.weights)
        yield from (("preprocessing", text) for text in card.model.preprocessing)
        if labels := list(card.model.labels.items()):
            more = f" and {len(labels) - _MOST_LABELS} more" if len(labels) > _MOST_LABELS else ""
            yield "labels", f"{', '.join(f'{number} = {name}' for number, name in labels[:_MOST_LABELS])}{more}"


def _statement(result: InspectedArtifact) -> str:
    if result.statement is None:
        return "none: there is no provenance.json"
    envelope = result.statement.envelope
    keys = ", ".join(key_id[:16] for key_id in envelope.key_ids) if envelope else ""
    return f"{f'signed by key {keys}' if envelope else 'not signed'} (transload verify)"


def _digest_lines(digests: DigestCheck) -> Iterator[str]:
    from ..show.units import plain

    yield from (f"CHANGED  {plain(name)}" for name in digests.changed)
    yield from (f"MISSING  {plain(name)}" for name in digests.missing)
    yield from (f"not listed in SHA256SUMS: {plain(name)}" for name in digests.unlisted)
    if digests.is_sound:
        yield f"{digests.files} files are as SHA256SUMS lists them"


def _file_lines(result: InspectedFile) -> Iterator[str]:
    from ..show.units import plain

    yield from table([(f"{name}:", plain(text)) for name, text in _file_rows(result)])


def _file_rows(result: InspectedFile) -> Iterator[tuple[str, str]]:
    from ...converters.embedded_metadata import KEY
    from ..show.units import size

    description = result.description
    yield "format", ", ".join([str(result.format), *description.versions])
    if description.producer:
        yield "written by", description.producer
    yield "size", f"{size(result.bytes)}, sha256 {result.sha256}"
    yield from (("input", text) for text in description.inputs)
    yield from (("output", text) for text in description.outputs)
    yield "operators", _operators(description)
    yield "weights", _weights(description)
    for name, text in description.metadata.items():
        if name == KEY:
            yield from _embedded_rows(description)
        else:
            yield f"metadata {name}", text
    yield from (("note", text) for text in description.notes)


def _embedded_rows(description: FileDescription) -> Iterator[tuple[str, str]]:
    """Yield what transload has put into the file when it made it."""
    from ...converters.embedded_metadata import KEY
    from ...models.provenance import Provenance
    from ..commands.inspect import embedded_facts

    try:
        known = Provenance.part_of(embedded_facts(description, KEY))
    except (ValueError, TypeError, AttributeError, LookupError):
        yield f"metadata {KEY}", description.metadata[KEY]
        return
    yield "made from", f"{known.model} (sha256 of the {known.kind}: {known.sha256})"
    for step in known.steps:
        versions = ", ".join(f"{name} {version}" for name, version in step.made_with.items())
        yield f"step to {step.target}", versions
    yield "transload", f"{known.transload}; whether it was verified, the card beside the file says"


def _operators(description: FileDescription) -> str:
    counts = list(description.operators.items())
    total = sum(description.operators.values())
    shown = ", ".join(f"{name} {count}" for name, count in counts[:_MOST_OPERATORS])
    more = f", {len(counts) - _MOST_OPERATORS} more kinds" if len(counts) > _MOST_OPERATORS else ""
    return f"{total}: {shown}{more}" if total else "none"


def _weights(description: FileDescription) -> str:
    from ..show.units import size

    parts = (f"{row.tensors} {row.dtype} ({size(row.bytes)})" for row in description.weights)
    return ", ".join(parts) or "none"

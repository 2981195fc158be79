"""`transload verify`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ...models.artifact import TUNING
from ..options import shared_options as shared
from ..options.option import CommandOptions, Option
from .output.render import finish, table

if TYPE_CHECKING:
    from ..commands.verify import VerifyResult


class VerifyOptions(CommandOptions):
    """Check an artifact against its statement: files, signature, verdict.

    Every file has to be as the statement in provenance.json has it, and no other file or link may stand beside. The
    exit status: 0 all holds, 1 something differs or the artifact failed, 3 there is no statement, no signature for the
    key, or no verdict.
    """

    artifact: Annotated[Path, Option(metavar="ARTIFACT", help="An artifact's folder.")]
    key: Annotated[
        Path | None, Option("--key", "PUB.pem", "The public key that the statement must be signed with.")
    ] = None
    model: Annotated[
        str | None, Option("--model", "NAME", "The model it must be made from: a name, or the digest of a part.")
    ] = None
    version: Annotated[
        str | None, Option("--version", "V", "The version it must be: of --model-version, a run's id, or a commit.")
    ] = None
    replay: Annotated[
        bool, Option("--replay", help="Ask it its golden samples, and compare with the answers of its model.")
    ] = False
    json_: shared.Json = False


def verify(options: VerifyOptions) -> VerifyResult:
    """Check the artifact. Raises BadRequest where it is none, or the statement or the key cannot be read."""
    from ..commands.verify import verify as check

    return check(options.artifact, options.key, model=options.model, version=options.version, replay=options.replay)


def command(options: VerifyOptions) -> None:
    """Check an artifact against its statement, and print what holds."""
    result = verify(options)
    finish(result.document, list(_lines(result)), result.decided[1], json=options.json_)


def _lines(result: VerifyResult) -> Iterator[str]:
    from ..show.units import plain

    yield from table([(f"{name}:", plain(text)) for name, text in _rows(result)])
    yield ""
    differences = {
        "CHANGED": result.changed, "MISSING": result.missing, "NOT STATED": result.unlisted,
        "SHA256SUMS DIFFERS": result.relisted, "LINK": result.linked,
    }  # fmt: skip
    for word, names in differences.items():
        yield from (f"{word}  {plain(name)}" for name in names)
    yield from (f"NOT EXPECTED  {plain(sentence)}" for sentence in result.unexpected)
    if result.replayed is not None:
        yield f"replayed: {plain(result.replayed) or 'it answers its golden samples as its model does'}"
    if TUNING in result.unlisted:
        yield f"  fix: {TUNING} is of one machine, as bench --tune leaves it; remove it, or verify before that"
    yield f"{result.decided[0].upper()}  {_sentence(result)}"


def _rows(result: VerifyResult) -> Iterator[tuple[str, str]]:
    from ..commands.verify import SignatureState

    yield "artifact", str(result.folder)
    if result.statement is None:
        return
    stated, envelope = result.statement.verdict, result.statement.envelope
    if stated:
        yield "status", f"{stated.status}: {stated.agreement}"
        yield "verdict", str(stated.verdict)
    yield from (("made from", text) for text in result.statement.dependencies)
    yield "made with", ", ".join(result.statement.versions)
    if envelope:
        names = ", ".join(key_id[:16] or "without a name" for key_id in envelope.key_ids)
        hint = "; --key PUB.pem checks it" if result.signature is SignatureState.UNCHECKED else ""
        yield "signature", f"{result.signature}, by key {names}{hint}"
    else:
        yield "signature", "none: who changes a file can change the statement"
    yield "files", f"{len(result.statement.digests)} in the statement"


def _sentence(result: VerifyResult) -> str:
    """Return why the verdict is what it is: the weightiest reason."""
    from ..commands.verify import SignatureState
    from ..result.schema import Verdict

    if result.statement is None:
        return "there is no provenance.json: nothing says what made it"
    stated = result.statement.verdict
    reasons = (
        (result.signature is SignatureState.WRONG, "the statement is not signed by this key"),
        (not result.is_as_stated, "the folder is not as its statement has it"),
        (bool(result.unexpected), "the statement is of another model or version"),
        (bool(result.replayed), "it does not answer as the model that it was made from"),
        (stated is None, "the statement has no verdict of transload's"),
        (
            stated is not None and stated.verdict is not Verdict.PASS,
            f"the artifact's own verdict is {stated.verdict if stated else ''}",
        ),
        (result.decided[0] is not Verdict.PASS, "the statement is not signed"),
        (
            result.replayed == "" and result.signature is SignatureState.VALID,
            "every file is as the statement has it, the key signed that, and it answers as its model does",
        ),
        (result.signature is SignatureState.VALID, "every file is as the statement has it, and the key signed that"),
    )
    return next((reason for holds, reason in reasons if holds), "every file is as the statement has it")

"""The command `verify`: hold an artifact's folder against the statement in it, and the statement against a key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from ...models.artifact import DIGESTS, GOLDEN, LOCAL, PROVENANCE, RECORD
from ...models.errors import BadRequest, Exit
from ...models.store import digest_of
from ...models.untrusted_files import check_plain
from ..extras.provenance.statement_file import StatementFile, read_statement
from ..result.schema import Verdict
from ..result.signing_keys import PublicKey, read_public_key
from ..show.card.card_folder import read_digests

NOT_STATED = (PROVENANCE, DIGESTS)  # the statement itself, and the list that has it
_HEX = re.compile(r"[0-9a-f]+")


class SignatureState(StrEnum):
    """What is known of the signature of a statement."""

    NONE = "not signed"
    UNCHECKED = "not checked"
    VALID = "valid"
    WRONG = "wrong"


@dataclass(frozen=True)
class VerifyResult:
    """How an artifact's folder compares with its statement."""

    folder: Path
    statement: StatementFile | None
    signature: SignatureState
    key_wanted: bool  # whether a key was named, so that an unsigned statement is not enough
    changed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()  # files that the statement does not name
    relisted: tuple[str, ...] = ()  # files of which SHA256SUMS says something else than the statement
    linked: tuple[str, ...] = ()  # names that lead to files elsewhere, which another may change
    unexpected: tuple[str, ...] = ()  # sentences on a model or a version that is not the one that was asked for
    replayed: str | None = None  # how its answers differ from the golden ones, "" where they agree; None: not asked

    @property
    def is_as_stated(self) -> bool:
        """Whether every file is as the statement has it, and no file stands beside."""
        return not (self.changed or self.missing or self.unlisted or self.relisted or self.linked)

    @property
    def decided(self) -> tuple[Verdict, Exit]:
        """Fail where something differs or the artifact failed; inconclusive where something is not said."""
        stated = self.statement.verdict if self.statement else None
        is_failed = stated is not None and stated.verdict is Verdict.FAIL
        if not self.is_as_stated or self.signature is SignatureState.WRONG or is_failed:
            return Verdict.FAIL, Exit.FAIL
        if self.unexpected or self.replayed:
            return Verdict.FAIL, Exit.FAIL
        if stated is None or stated.verdict is not Verdict.PASS:
            return Verdict.INCONCLUSIVE, Exit.INCONCLUSIVE
        if self.key_wanted and self.signature is SignatureState.NONE:
            return Verdict.INCONCLUSIVE, Exit.INCONCLUSIVE
        return Verdict.PASS, Exit.PASS

    @property
    def document(self) -> dict[str, Any]:
        """The result as JSON values."""
        verdict, status = self.decided
        statement = self.statement
        envelope = statement.envelope if statement else None
        return {
            "path": str(self.folder), "verdict": str(verdict), "exit_code": int(status),
            "signature": str(self.signature), "keys": list(envelope.key_ids) if envelope else [],
            "files": len(statement.digests) if statement else 0, "changed": list(self.changed),
            "missing": list(self.missing), "unlisted": list(self.unlisted), "relisted": list(self.relisted),
            "linked": list(self.linked), "unexpected": list(self.unexpected), "replayed": self.replayed,
            "statement": statement.document if statement else None,
        }  # fmt: skip


def verify(
    folder: Path, key: Path | None = None, *, model: str | None = None, version: str | None = None, replay: bool = False
) -> VerifyResult:
    """Check the files of an artifact's folder against its statement, and the statement's signature against a public
    `key` in PEM; the statement has to be of this `model` and `version`. Reads files and runs nothing, but with `replay`
    and where all that holds: the artifact is asked its golden samples again, in a worker.
    Raises BadRequest where the folder is no artifact's, or the statement or the key cannot be read."""
    public = read_public_key(key) if key is not None else None
    if not folder.is_dir() or not any((folder / name).exists() for name in (RECORD, PROVENANCE)):
        raise BadRequest(f"{folder} is no artifact's folder", fix="name made/TARGET or runs/ID/artifacts/TARGET")
    check_plain(folder)
    statement = read_statement(folder)
    signature = _signature_state(statement, public)
    if statement is None:
        return VerifyResult(folder, None, signature, public is not None)
    present = _present(folder)
    digests = statement.digests
    result = VerifyResult(
        folder,
        statement,
        signature,
        public is not None,
        changed=tuple(name for name in digests if name in present and digest_of(folder / name) != digests[name]),
        missing=tuple(name for name in digests if name not in present and name not in LOCAL),
        unlisted=tuple(name for name in present if name not in digests and name not in NOT_STATED),
        relisted=_relisted(folder, digests),
        linked=tuple(name for name in present if (folder / name).is_symlink()),
        unexpected=tuple(_unexpected(statement, model, version)),
    )
    if not replay or result.decided[0] is not Verdict.PASS:
        return result
    if GOLDEN not in digests:
        fix = "leave --replay out, or let 'transload convert' make it again, which keeps samples beside it"
        raise BadRequest(f"{folder} holds no golden samples", fix=fix)
    from .golden import replay_answers

    return replace(result, replayed=replay_answers(folder))


def _unexpected(statement: StatementFile, model: str | None, version: str | None) -> Iterator[str]:
    """Yield what is another than was asked for. A digest may be cut to 12 digits, a commit to 7."""
    for subject, wanted, known, least in (
        ("model", model, statement.models, 12), ("version", version, statement.releases, 7)
    ):  # fmt: skip
        if wanted is not None and not _is_among(wanted, known, least):
            yield f"the {subject} is {' or '.join(known) or 'not stated'}, and {wanted} was expected"


def _is_among(wanted: str, known: tuple[str, ...], least: int) -> bool:
    """Return whether a text is among those that are known; a digest of `least` digits or more may be cut."""
    is_cut = len(wanted) >= least and _HEX.fullmatch(wanted)
    return wanted in known or (bool(is_cut) and any(name.startswith(wanted) for name in known))


def _signature_state(statement: StatementFile | None, public: PublicKey | None) -> SignatureState:
    envelope = statement.envelope if statement else None
    if envelope is None:
        return SignatureState.NONE
    if public is None:
        return SignatureState.UNCHECKED
    return SignatureState.VALID if envelope.is_signed_by(public) else SignatureState.WRONG


def _present(folder: Path) -> list[str]:
    """Return the files of a folder; a link to a folder counts as one, since what is behind it is not read."""
    paths = (path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def _relisted(folder: Path, digests: Mapping[str, str]) -> tuple[str, ...]:
    """Return the files of which SHA256SUMS says something else: its readers would be told another story."""
    listed = read_digests(folder)
    if listed is None:
        return ()
    expected = {name: digest for name, digest in digests.items() if name not in LOCAL}
    expected[PROVENANCE] = digest_of(folder / PROVENANCE)
    names = sorted(expected.keys() | listed.keys())
    return tuple(name for name in names if expected.get(name) != listed.get(name))

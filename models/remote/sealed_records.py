"""Records of a store as anybody may have written them: checked for form, and sealed by who made them.

A seal is the HMAC-SHA256 of a record with its place. Each record has one with the empty key, a checksum, and one with
the key of its machine, or with that which machines share: TRANSLOAD_STORE_KEY (hex) or the file that
TRANSLOAD_STORE_KEY_FILE names. Where such a key is named, or a statement is signed, a result counts only if the key has
sealed it: who writes to the store cannot say which object an action has made.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ERRORS, BadRequest
from ..untrusted_files import read_json, read_plain

KEY_VARIABLE, KEY_FILE_VARIABLE = "TRANSLOAD_STORE_KEY", "TRANSLOAD_STORE_KEY_FILE"
RECORDS = ("actions", "refusals")
_SEALS = "seals"
_KEY = re.compile(r"(?:[0-9a-f]{2}){16,64}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_HOW_TO_MAKE = "'transload store init --key FILE' makes one"


class NotSealed(ValueError):
    """A record that the key in question has not sealed."""


@dataclass(frozen=True, slots=True)
class Sealing:
    """The key that seals what is kept, and whether what it has not sealed counts as never made."""

    secret: bytes = b""
    is_required: bool = False
    is_shared: bool = False  # the environment names it, so that other machines may have it, too


def read_sealing(*, signs: bool = False) -> Sealing:
    """Return the key that the environment names, which is required, else the machine's own, which is required where
    statements are signed. Raises BadRequest where the environment names none that can be used."""
    text, file = os.environ.get(KEY_VARIABLE), os.environ.get(KEY_FILE_VARIABLE)
    if not text and not file:
        return Sealing(_machine_secret(), signs)
    try:
        text = text or read_plain(Path(file or "")).decode()
    except (OSError, ValueError) as error:
        raise BadRequest(f"the store's key in {file} cannot be read: {error}", fix=_HOW_TO_MAKE) from error
    if not _KEY.fullmatch(text.strip()):
        raise BadRequest("the store's key is no 32 to 128 hexadecimal digits", fix=_HOW_TO_MAKE)
    return Sealing(bytes.fromhex(text.strip()), is_required=True, is_shared=True)


def write_key(path: Path) -> None:
    """Write a new key to a file that its owner alone reads. Raises FileExistsError where there is one, and OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(handle, f"{secrets.token_hex(32)}\n".encode())
        os.link(beside, path)
    finally:
        os.close(handle)
        beside.unlink()


def _machine_secret() -> bytes:
    """Return the key of this machine's user, made at its first use; none where it cannot be kept."""
    with suppress(OSError, RuntimeError, ValueError):
        home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        path = Path(home) / "transload" / "store.key"
        if not path.exists():
            with suppress(FileExistsError):
                write_key(path)
        return bytes.fromhex(path.read_text().strip())
    return b""


def record_text(place: str, record: Mapping[str, Any], sealing: Sealing) -> str:
    """Return the text of the record that lies at `place` ("actions/KEY"), with its seals."""
    plain = json.loads(json.dumps(dict(record)))
    seals = {_name_of(secret): _seal(place, plain, secret) for secret in (b"", sealing.secret)}
    return json.dumps({**plain, _SEALS: seals}, indent=1)


def read_record(path: Path, sealing: Sealing | None = None) -> dict[str, Any]:
    """Read a record of `actions/` or `refusals/`; without `sealing` for its form alone.
    Raises FileNotFoundError, and OSError or ValueError that say why it cannot be used."""
    record = read_json(path)
    if not isinstance(record, dict):
        raise ValueError("it is no JSON object")
    seals = record.pop(_SEALS, None)
    fault = _fault_of_refusal(record) if path.parent.name == "refusals" else _fault_of_action(record)
    if fault:
        raise ValueError(fault)
    if sealing is None:
        return record
    place = f"{path.parent.name}/{path.stem}"
    if not _is_sealed(place, record, seals, b""):
        raise ValueError("it is not as it was written, or of an older transload")
    if sealing.is_required and not (sealing.secret and _is_sealed(place, record, seals, sealing.secret)):
        raise NotSealed("it is not sealed with the key of the store, or of this machine")
    return record


def _is_sealed(place: str, record: Mapping[str, Any], seals: object, secret: bytes) -> bool:
    seal = seals.get(_name_of(secret)) if isinstance(seals, dict) else None
    return isinstance(seal, str) and hmac.compare_digest(seal.encode(), _seal(place, record, secret).encode())


def _seal(place: str, record: Mapping[str, Any], secret: bytes) -> str:
    message = json.dumps([place, record], sort_keys=True, separators=(",", ":"))
    return hmac.new(secret, message.encode(), hashlib.sha256).hexdigest()


def _name_of(secret: bytes) -> str:
    """Return what a key is called in the seals; it says nothing of the key."""
    return hmac.new(secret, b"name of a store's key", hashlib.sha256).hexdigest()[:16] if secret else "checksum"


def _fault_of_action(record: Mapping[str, Any]) -> str:
    """Return what is wrong with the form of an action's record; nothing where it can be used."""
    digest, seconds, read = record.get("digest"), record.get("seconds"), record.get("read")
    if not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
        return "its digest is no sha256"
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 1e12:
        return "its seconds are no time"
    if not (isinstance(read, dict) and all(isinstance(part, str) for part in read.values())):
        return "what it has read are no digests"
    if not isinstance(record.get("facts"), dict):
        return "its facts are no object"
    is_text = all(isinstance(record.get(name, ""), str) for name in ("step", "model"))
    return "" if is_text and type(record.get("bytes", 0)) is int else "its step, model or size is of another type"


def _fault_of_refusal(record: Mapping[str, Any]) -> str:
    """Return what is wrong with the form of a refusal; nothing where it can be used."""
    if not all(isinstance(record.get(name), str) for name in ("kind", "what", "fix")):
        return "it lacks its kind, sentence or fix"
    return "" if record["kind"] in ERRORS else f"its kind {record['kind'][:40]!r} is unknown"

"""A DSSE envelope: a payload, and signatures of it together with its type.

https://github.com/secure-systems-lab/dsse/blob/master/protocol.md and envelope.md, version 1.0. cosign and the
verifiers of in-toto read it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...result.signing_keys import PublicKey, Signer

PAYLOAD_TYPE = "application/vnd.in-toto+json"
_MOST_SIGNATURES = 100


@dataclass(frozen=True)
class Envelope:
    """A payload with its signatures, each with the name of its key, which may be empty."""

    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]

    def is_signed_by(self, key: PublicKey) -> bool:
        """Return whether one of the signatures is by that key. The names of keys are hints and decide nothing."""
        message = _encoded_message(self.payload)
        return any(key.is_signed(message, signature) for _, signature in self.signatures)

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The names of the keys, as the envelope has them."""
        return tuple(key_id for key_id, _ in self.signatures)


def sign_envelope(payload: bytes, signer: Signer) -> dict[str, Any]:
    """Return the envelope of a payload as JSON values."""
    signature = signer.sign(_encoded_message(payload))
    return {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": signer.key_id, "sig": base64.b64encode(signature).decode()}],
    }


def read_envelope(document: Mapping[str, Any]) -> Envelope:
    """Read an envelope from JSON values. Raises ValueError where it is none, or holds another kind of payload."""
    try:
        if document["payloadType"] != PAYLOAD_TYPE:
            raise ValueError(f"its payload is {str(document['payloadType'])[:100]!r}, and no in-toto statement")
        entries = document["signatures"]
        if not 0 < len(entries) <= _MOST_SIGNATURES:
            raise ValueError(f"an envelope has 1 to {_MOST_SIGNATURES} signatures")
        signatures = tuple((str(entry.get("keyid") or ""), _decoded(entry["sig"])) for entry in entries)
        return Envelope(_decoded(document["payload"]), signatures)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError("it is no DSSE envelope") from error


def _encoded_message(payload: bytes) -> bytes:
    """Return what is signed: DSSE's pre-authentication encoding of type and payload."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _decoded(text: str) -> bytes:
    """Decode base64 of the usual or of the URL-safe alphabet: DSSE allows both."""
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error as error:
        raise ValueError("it is not base64 where an envelope has base64") from error

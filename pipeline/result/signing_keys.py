"""Keys that sign and check statements: ECDSA on P-256, as cosign has them, and Ed25519, both in PEM files.

The package cryptography does all of it (the extra `sign`); it is imported where a key is used.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...models.errors import BadRequest, ToolMissing
from ...models.untrusted_files import check_plain
from ..workers.extras import install_command

PASSPHRASE_VARIABLE = "TRANSLOAD_SIGN_PASSPHRASE"  # noqa: S105  (the name of a variable)
_MOST_BYTES = 64 << 10  # of a file with a key
_COSIGN = (b"ENCRYPTED SIGSTORE PRIVATE KEY", b"ENCRYPTED COSIGN PRIVATE KEY")
_HOW_TO_MAKE = "docs/verify.md shows how to make a pair of keys"


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key, and the name of its public half."""

    key: Any  # of the package cryptography
    key_id: str  # sha256 of the public key in DER: 64 hex characters

    def sign(self, message: bytes) -> bytes:
        """Return the signature: DER for ECDSA, 64 bytes for Ed25519. Signing twice gives the same bytes."""
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.hashes import SHA256

        if not isinstance(self.key, ec.EllipticCurvePrivateKey):
            return bytes(self.key.sign(message))
        try:
            return self.key.sign(message, ec.ECDSA(SHA256(), deterministic_signing=True))
        except UnsupportedAlgorithm:  # OpenSSL before 3.2: a random nonce, so the bytes differ and are as valid
            return self.key.sign(message, ec.ECDSA(SHA256()))


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key, and its name."""

    key: Any  # of the package cryptography
    key_id: str  # sha256 of the key in DER: 64 hex characters

    def is_signed(self, message: bytes, signature: bytes) -> bool:
        """Return whether the private half of this key made `signature` of `message`."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.hashes import SHA256

        try:
            if isinstance(self.key, ec.EllipticCurvePublicKey):
                self.key.verify(signature, message, ec.ECDSA(SHA256()))
            else:
                self.key.verify(signature, message)
        except InvalidSignature:
            return False
        return True


def read_signer(path: Path) -> Signer:
    """Read a private key in PEM; the passphrase of an encrypted one stands in TRANSLOAD_SIGN_PASSPHRASE.
    Raises BadRequest where it is none that signs, ToolMissing where cryptography is not installed."""
    text = _read_pem(path, "signing")
    if b"PUBLIC KEY" in text:
        raise BadRequest(f"{path} holds a public key, and signing needs the private one", fix="name that file")
    if any(head in text for head in _COSIGN):
        raise BadRequest(
            f"{path} is encrypted in cosign's own way",
            fix=f"name the PEM key that 'cosign import-key-pair' was given; {_HOW_TO_MAKE}",
        )
    key = _private_key(path, text, os.environ.get(PASSPHRASE_VARIABLE))
    return Signer(key, _checked_key_id(path, key.public_key()))


def read_public_key(path: Path) -> PublicKey:
    """Read a public key in PEM. Raises BadRequest where it is none that checks a signature, ToolMissing where
    cryptography is not installed."""
    text = _read_pem(path, "checking a signature")
    if b"PRIVATE KEY" in text:
        raise BadRequest(
            f"{path} holds a private key, which checks nothing", fix="name the public one; keep this secret"
        )
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(text)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise BadRequest(f"{path} is no public key in PEM", fix=_HOW_TO_MAKE) from error
    return PublicKey(key, _checked_key_id(path, key))


def _read_pem(path: Path, purpose: str) -> bytes:
    if find_spec("cryptography") is None:
        raise ToolMissing(f"{purpose} needs cryptography, which is not installed", fix=install_command(["sign"]))
    check_plain(path)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BadRequest(f"{path} is too large for a key", fix=_HOW_TO_MAKE)
        return path.read_bytes()
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}", fix="name a key in PEM") from error


def _private_key(path: Path, text: bytes, passphrase: str | None) -> Any:
    """Return the key of a PEM text. A passphrase that is set for another key does no harm."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    is_encrypted = b"ENCRYPTED" in text
    if is_encrypted and not passphrase:
        raise BadRequest(f"{path} is encrypted", fix=f"set {PASSPHRASE_VARIABLE} to its passphrase")
    try:
        return load_pem_private_key(text, passphrase.encode() if is_encrypted and passphrase else None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if is_encrypted:
            fix = f"check {PASSPHRASE_VARIABLE}; {_HOW_TO_MAKE}"
            raise BadRequest(f"{path} does not open with the passphrase, or is broken", fix=fix) from error
        raise BadRequest(f"{path} is no private key in PEM", fix=_HOW_TO_MAKE) from error


def _checked_key_id(path: Path, public: Any) -> str:
    """Return the sha256 of a public key in DER. Raises BadRequest for a kind of key that is not taken."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    is_p256 = isinstance(public, ec.EllipticCurvePublicKey) and isinstance(public.curve, ec.SECP256R1)
    if not (is_p256 or isinstance(public, ed25519.Ed25519PublicKey)):
        raise BadRequest(f"{path} is neither an ECDSA key on P-256 nor an Ed25519 key", fix=_HOW_TO_MAKE)
    return hashlib.sha256(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()

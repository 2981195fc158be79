"""Keys that sign, keys that check, and files that are neither."""

from __future__ import annotations

import base64
import hashlib
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from transload.models.errors import BadRequest, Exit, ToolMissing
from transload.pipeline.cli import main
from transload.pipeline.commands.verify import SignatureState, verify
from transload.pipeline.plan.context import LocalSettings
from transload.pipeline.result import signing_keys
from transload.pipeline.result.signing_keys import PASSPHRASE_VARIABLE, read_public_key, read_signer

from ..extras.provenance.statement_samples import write_stated

pytest.importorskip("cryptography", reason="the extra sign is not installed")

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)


def write_pair(folder: Path, key: Any, encryption: KeySerializationEncryption | None = None) -> tuple[Path, Path]:
    """Write key.pem and key.pub of a key; return both."""
    private, public = folder / "key.pem", folder / "key.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


@pytest.fixture(params=["p256", "ed25519"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    p256 = request.param == "p256"
    return write_pair(
        tmp_path, ec.generate_private_key(ec.SECP256R1()) if p256 else ed25519.Ed25519PrivateKey.generate()
    )


def test_a_signer_signs_for_its_public_key_and_goes_to_no_other_process(pair: tuple[Path, Path]) -> None:
    signer, public = read_signer(pair[0]), read_public_key(pair[1])
    assert signer.key_id == public.key_id
    assert public.is_signed(b"message", signer.sign(b"message"))
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(signer)


def test_a_signed_statement_passes_with_its_key_alone(pair: tuple[Path, Path], tmp_path: Path) -> None:
    folder = write_stated(tmp_path / "onnx", read_signer(pair[0]))
    assert verify(folder).signature is SignatureState.UNCHECKED
    result = verify(folder, pair[1])
    assert (result.signature, result.decided[1]) == (SignatureState.VALID, Exit.PASS)
    (tmp_path / "other").mkdir()
    _, stranger = write_pair(tmp_path / "other", ec.generate_private_key(ec.SECP256R1()))
    result = verify(folder, stranger)
    assert (result.signature, result.decided[1]) == (SignatureState.WRONG, Exit.FAIL)


def test_signing_twice_gives_the_same_bytes(pair: tuple[Path, Path], tmp_path: Path) -> None:
    texts = {(write_stated(tmp_path / n, read_signer(pair[0])) / "provenance.json").read_bytes() for n in "ab"}
    assert len(texts) == 1


def test_an_edited_payload_is_not_signed(pair: tuple[Path, Path], tmp_path: Path) -> None:
    """The statement is written anew to fit an edited file, and keeps the signature of the old one."""
    folder = write_stated(tmp_path / "onnx", read_signer(pair[0]))
    (folder / "model.onnx").write_bytes(b"another")
    (folder / "SHA256SUMS").unlink()
    envelope = json.loads((folder / "provenance.json").read_text())
    statement = json.loads(base64.b64decode(envelope["payload"]))
    for subject in statement["subject"]:
        if subject["name"] == "model.onnx":
            subject["digest"]["sha256"] = hashlib.sha256(b"another").hexdigest()
    envelope["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()
    (folder / "provenance.json").write_text(json.dumps(envelope))
    assert verify(folder).decided[1] is Exit.PASS  # without a key nothing tells
    assert verify(folder, pair[1]).decided[1] is Exit.FAIL


def test_a_signature_that_was_stripped_is_missed(pair: tuple[Path, Path], tmp_path: Path) -> None:
    folder = write_stated(tmp_path / "onnx")
    assert verify(folder, pair[1]).decided[1] is Exit.INCONCLUSIVE


def test_the_envelope_is_dsse(tmp_path: Path) -> None:
    """The message that is signed, put together here by hand from DSSE's protocol, version 1."""
    key = ec.generate_private_key(ec.SECP256R1())
    private, _ = write_pair(tmp_path, key)
    envelope = json.loads((write_stated(tmp_path / "onnx", read_signer(private)) / "provenance.json").read_text())
    payload = base64.b64decode(envelope["payload"])
    message = b"DSSEv1 28 application/vnd.in-toto+json %d " % len(payload) + payload
    (signature,) = envelope["signatures"]
    key.public_key().verify(base64.b64decode(signature["sig"]), message, ec.ECDSA(SHA256()))
    der = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert signature["keyid"] == hashlib.sha256(der).hexdigest()
    assert envelope["payloadType"] == "application/vnd.in-toto+json"


def test_an_encrypted_key_needs_its_passphrase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private, public = write_pair(tmp_path, ed25519.Ed25519PrivateKey.generate(), BestAvailableEncryption(b"secret"))
    monkeypatch.delenv(PASSPHRASE_VARIABLE, raising=False)
    with pytest.raises(BadRequest) as caught:
        read_signer(private)
    assert str(caught.value) == (f"{private} is encrypted\n  fix: set TRANSLOAD_SIGN_PASSPHRASE to its passphrase")
    monkeypatch.setenv(PASSPHRASE_VARIABLE, "wrong")
    with pytest.raises(BadRequest, match="does not open with the passphrase"):
        read_signer(private)
    monkeypatch.setenv(PASSPHRASE_VARIABLE, "secret")
    assert read_signer(private).key_id == read_public_key(public).key_id


def test_a_passphrase_of_another_key_does_no_harm(pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSPHRASE_VARIABLE, "of another key")
    assert read_signer(pair[0]).key_id == read_public_key(pair[1]).key_id


def test_files_that_are_no_key_for_the_purpose(pair: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "rsa").mkdir()
    other, other_public = write_pair(tmp_path / "rsa", rsa.generate_private_key(65537, 2048))
    text = tmp_path / "text.pem"
    text.write_text("no key")
    cosign = tmp_path / "cosign.key"
    cosign.write_text("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nx\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----")
    sentences = {
        pair[1]: "holds a public key, and signing needs the private one",
        other: "is neither an ECDSA key on P-256 nor an Ed25519 key",
        text: "is no private key in PEM",
        cosign: "is encrypted in cosign's own way",
        tmp_path / "none": "cannot be read: No such file or directory",
    }
    for path, sentence in sentences.items():
        with pytest.raises(BadRequest) as caught:
            read_signer(path)
        assert caught.value.what == f"{path} {sentence}"
    for path, sentence in {
        pair[0]: "holds a private key, which checks nothing",
        other_public: "is neither an ECDSA key on P-256 nor an Ed25519 key",
        text: "is no public key in PEM",
    }.items():
        with pytest.raises(BadRequest) as caught:
            read_public_key(path)
        assert caught.value.what == f"{path} {sentence}"


def test_a_key_that_cannot_sign_stops_the_command_before_it_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "key.pem").write_text("no key")
    key, out = str(tmp_path / "key.pem"), str(tmp_path / "made")
    assert main(["convert", "zoo:breast-cancer-mlp", "--to", "onnx", "--out", out, "--sign-key", key]) == 2
    assert capsys.readouterr().err.startswith(f"error: {key} is no private key in PEM\n")
    assert not Path(out).exists()


def test_without_cryptography_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing_keys, "find_spec", lambda name: None)
    with pytest.raises(ToolMissing) as caught:
        LocalSettings.with_defaults(None, sign_key=tmp_path / "key.pem")
    assert str(caught.value) == (
        "signing needs cryptography, which is not installed\n  fix: pip install 'transload[sign]'"
    )

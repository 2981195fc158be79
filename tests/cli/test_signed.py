"""A signed artifact: its verdict is made here, and its answers can be asked again where it is used."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from transload.models.remote.sealed_records import Sealing, record_text
from transload.models.store import digest_of

from .command_line import run

pytestmark = pytest.mark.usefixtures("loaded_once")
pytest.importorskip("cryptography", reason="the extra sign is not installed")

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 4)
        with torch.no_grad():
            self.layer.weight.fill_({weight})
            self.layer.bias.zero_()

    def forward(self, x):
        return torch.relu(self.layer(x))
"""
CONVERT = ("convert", "net.py:Net", "--input", "x=float32[batch,3]", "--to", "onnx")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a pair of keys, a signed artifact and, in another store, a copy of another model."""
    here = tmp_path_factory.mktemp("signed")
    make = "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out sign.pem"
    for words in (make, "pkey -in sign.pem -pubout -out sign.pub"):
        subprocess.run(["openssl", *words.split()], cwd=here, check=True, capture_output=True)
    (here / "net.py").write_text(NET.format(weight="0.5"))
    run(here, *CONVERT, "--out", "made", "--sign-key", "sign.pem", "--model-version", "1.4", "--store", "store")
    (here / "evil").mkdir()
    (here / "evil" / "net.py").write_text(NET.format(weight="0.75"))
    run(here / "evil", *CONVERT, "--out", "made", "--store", "store")
    return here


def verified(here: Path, *words: str, status: int = 0) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        run(here, "verify", *words, "--key", "sign.pub", "--json", status=status).stdout
    )
    return document


def test_the_answers_are_asked_again_and_the_release_is_pinned(here: Path) -> None:
    assert verified(here, "made/onnx", "--replay", "--version", "1.4")["replayed"] == ""
    assert verified(here, "made/onnx", "--replay", "--version", "1.3", status=1)["replayed"] is None
    listed = {row["name"] for row in verified(here, "made/onnx")["statement"]["subject"]}
    assert {"golden.json", "made_from.json"} <= listed


def test_a_copy_that_a_hostile_converter_made_does_not_replay(here: Path) -> None:
    """The key has signed it, with the golden samples of the model: all but the answers is right."""
    from transload.pipeline.extras.provenance.envelope import sign_envelope
    from transload.pipeline.result.signing_keys import read_signer

    shutil.rmtree(here / "hostile", ignore_errors=True)
    shutil.copytree(here / "made" / "onnx", here / "hostile")
    shutil.copy(here / "evil" / "made" / "onnx" / "model.onnx", here / "hostile")
    path = here / "hostile" / "provenance.json"
    statement = json.loads(base64.b64decode(json.loads(path.read_text())["payload"]))
    for row in statement["subject"]:
        row["digest"]["sha256"] = digest_of(here / "hostile" / row["name"])
    path.write_text(json.dumps(sign_envelope(json.dumps(statement).encode(), read_signer(here / "sign.pem"))))
    (here / "hostile" / "SHA256SUMS").unlink()
    assert verified(here, "hostile")["verdict"] == "pass"
    assert "golden samples" in verified(here, "hostile", "--replay", status=1)["replayed"]


def test_who_writes_to_the_store_gets_no_signed_pass_for_another_model(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record of the store says what it says of the other model, with right checksums."""
    others = {json.loads(path.read_text())["step"]: path for path in (here / "evil/store/actions").glob("*.json")}
    store = here / "tampered"
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(here / "store", store)
    for path in (here / "evil" / "store" / "objects").iterdir():
        shutil.copytree(path, store / "objects" / path.name, dirs_exist_ok=True)
    for path in (store / "actions").glob("*.json"):
        record = json.loads(path.read_text())
        if record["step"] in others:
            record = json.loads(others[record["step"]].read_text())
        record.pop("seals")
        record["read"] = {}
        path.write_text(record_text(f"actions/{path.stem}", record, Sealing()))
    words = (*CONVERT, "--store", "tampered", "--quiet")
    before = digest_of(here / "made" / "onnx" / "model.onnx")
    run(here, *words, "--out", "unsigned")
    evil = digest_of(here / "evil" / "made" / "onnx" / "model.onnx")
    assert digest_of(here / "unsigned" / "onnx" / "model.onnx") == evil  # what the attack is
    monkeypatch.setenv("XDG_CONFIG_HOME", os.fspath(here / "another machine"))
    run(here, *words, "--out", "signed", "--sign-key", "sign.pem")
    assert digest_of(here / "signed" / "onnx" / "model.onnx") == before
    assert verified(here, "signed/onnx", "--replay")["verdict"] == "pass"

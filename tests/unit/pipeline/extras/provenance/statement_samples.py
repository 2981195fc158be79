"""An artifact's folder with its statement, and pairs of keys."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from transload.models.artifact import write_artifact
from transload.models.formats import parse_target
from transload.models.provenance import ConversionStep, Provenance
from transload.models.signature import Signature, TensorSpec
from transload.models.store import digest_of, size_of
from transload.pipeline.extras.provenance.statement import BuildFacts, statement_text
from transload.pipeline.result.schema import Environment, GateRow
from transload.pipeline.result.signing_keys import Signer
from transload.pipeline.show.card.card_folder import write_card
from transload.pipeline.show.card.card_records import CARD_SCHEMA, Card, CardRuntime

SIGNATURE = Signature((TensorSpec("x", "float32", ("batch", 4)),), (TensorSpec("y", "float32", ("batch", 2)),))
PROVENANCE = Provenance(
    model="net.py:Net", sha256="a" * 64, transload="0.1.0",
    steps=(ConversionStep(target="onnx", made_with={"torch": "2.13.0"}),),
)  # fmt: skip
BUILD = BuildFacts(
    command="convert",
    parameters={"convert": {"targets": ["onnx"]}},
    dependencies=({"name": "w.pt", "digest": {"sha256": "b" * 64}, "annotations": {"role": "weights file"}},),
    environment=Environment("3.11.7", "Linux", "a CPU", 2, 8 << 30),
)


def card(folder: Path, **changes: Any) -> Card:
    """Write an artifact without a card; return the card for it."""
    folder.mkdir(parents=True)
    target = parse_target("onnx")
    payload = folder / target.format.spec.payload
    payload.write_bytes(b"the model")
    write_artifact(folder, target, SIGNATURE, provenance=PROVENANCE)
    values: dict[str, Any] = {
        "schema": CARD_SCHEMA, "name": "net.py:Net", "target": "onnx", "file": payload.name,
        "sha256": digest_of(payload), "bytes": size_of(payload), "status": "verified", "agreement": "agrees to 120 dB",
        "route": ("torch.export", "torch.onnx-dynamo"), "signature": SIGNATURE, "transload": "0.1.0",
        "runtime": CardRuntime(name="onnxruntime", python="3.11.7", requirements=("onnxruntime==1.31.1",)),
        "provenance": PROVENANCE,
    }  # fmt: skip
    return Card(**{**values, **changes})


def write_stated(
    folder: Path,
    signer: Signer | None = None,
    gate: tuple[GateRow, ...] = (),
    build: BuildFacts = BUILD,
    **changes: Any,
) -> Path:
    """Write an artifact's folder with card, statement and digests."""
    own = card(folder, **changes)
    write_card(folder, own, partial(statement_text, card=own, build=build, gate=gate, signer=signer))
    return folder

"""A card, and the folder of an artifact that it belongs to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transload.models.artifact import write_artifact
from transload.models.formats import parse_target
from transload.models.provenance import ConversionStep, Provenance
from transload.models.signature import Bounds, Signature, TensorSpec, ValueRange
from transload.models.store import digest_of, size_of
from transload.pipeline.show.card.card_records import CARD_SCHEMA, Card, CardCheck, CardRuntime, CommitState, ModelFacts

SIGNATURE = Signature(
    (
        TensorSpec("image", "float32", ("batch", 4), (("batch", Bounds(2, 8, 2)),), ValueRange(0.5, 1.0)),
        TensorSpec("ids", "int64", ("batch",), values=ValueRange(3, 9)),
    ),
    (TensorSpec("y", "float32", ("batch", 4)),),
)
PROVENANCE = Provenance(
    model="net.py:Net", sha256="a" * 64, transload="0.1.0",
    steps=(ConversionStep(target="onnx", made_with={"torch": "2.13.0", "onnx": "1.23.2"}),),
)  # fmt: skip
FACTS = ModelFacts(
    summary="A net",
    commit=CommitState(commit="c" * 40, changed=("net.py",)),
    labels={"0": "cat", "1": "dog"},
    labels_from="the data photos",
    preprocessing=("An image becomes image: its bytes as they are",),
)
CHECK = CardCheck(
    runtime="onnxruntime", batches=(1, 2), samples=64, sqnr_db=120.0, max_abs=1e-6, tolerance_db=60.0,
    exercised=("Asked: 64 samples", "Not asked: batch 9 and larger"),
)  # fmt: skip


def write_folder(folder: Path, target: str = "onnx", content: bytes = b"the model", **changes: Any) -> Card:
    """Write an artifact without a card; return the card for it."""
    folder.mkdir(parents=True, exist_ok=True)
    parsed = parse_target(target)
    payload = folder / parsed.format.spec.payload
    if not payload.exists():
        payload.write_bytes(content)
    signature = changes.get("signature", SIGNATURE)
    write_artifact(folder, parsed, signature, provenance=PROVENANCE)
    runtime = CardRuntime(name="onnxruntime", python="3.11.7", requirements=("onnxruntime==1.31.1",))
    values: dict[str, Any] = {
        "schema": CARD_SCHEMA, "name": "net.py:Net", "target": target, "file": payload.name,
        "sha256": digest_of(payload), "bytes": size_of(payload), "status": "verified",
        "agreement": "agrees to 120 dB at batches 1, 2", "route": ("torch.export", "torch.onnx-dynamo"),
        "signature": signature, "runtime": runtime,
        "transload": "0.1.0", "provenance": PROVENANCE, "model": FACTS, "checks": (CHECK,),
    }  # fmt: skip
    return Card(**{**values, **changes})

"""Records of bundles: the systems, what a bundle is made from, and the files that it has."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ...models.artifact import TUNING, Artifact
from ...models.signature import Array, Signature, TensorSpec


class System(StrEnum):
    """Every serving system that a bundle can be written for. Text becomes a System once, at the edge."""

    TFSERVING = "tfserving"
    DOCKER = "docker"
    TRITON = "triton"
    TORCHSERVE = "torchserve"
    KSERVE = "kserve"
    MLSERVER = "mlserver"
    RAY_SERVE = "ray-serve"
    SAGEMAKER = "sagemaker"
    VERTEX = "vertex"


ARTIFACT = "artifact"  # the folder of the artifact, in the bundles that open it by its record


class Dialect(StrEnum):
    """How the check writes tensors as JSON (standalone/endpoint_check.py)."""

    V2 = "v2"  # the Open Inference Protocol
    COLUMNS = "columns"  # TF Serving, the whole batch of each input
    ROWS = "rows"  # TF Serving and Vertex AI, one element for each sample


class ArchiveKind(StrEnum):
    """The kinds of archives in bundles."""

    ZIP = "zip"
    TAR_GZ = "tar.gz"


@dataclass(frozen=True, slots=True)
class Archive:
    """One file of a bundle that holds several: text, or what lies at a path, by the name inside."""

    kind: ArchiveKind
    members: Mapping[str, str | Path]


# A file of a bundle: its text, its bytes, what lies at a path (a file or a folder), or an archive.
Content: TypeAlias = str | bytes | Path | Archive
Files: TypeAlias = dict[str, Content]  # by the path in the bundle, with "/"


@dataclass(frozen=True, slots=True)
class GoldenCall:
    """Inputs and the verified artifact's answers, by name."""

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class AnswerLimit:
    """How far an endpoint's answers may lie from the artifact's."""

    least_db: float  # signal to noise of each output
    most_unequal: float  # share of an integer output

    def __post_init__(self) -> None:
        if not (math.isfinite(self.least_db) and 0 <= self.most_unequal < 1):
            raise ValueError(f"a tolerance is a number of dB and a share below 1, got {self}")


@dataclass(frozen=True, slots=True)
class GoldenSamples:
    """A few calls and what the verified artifact answers to them."""

    calls: tuple[GoldenCall, ...]
    tolerance: AnswerLimit

    def __post_init__(self) -> None:
        if not self.calls:
            raise ValueError("golden samples need at least one call")


@dataclass(frozen=True, slots=True)
class BundleSource:
    """What a bundle is made from: an artifact, its golden samples, and how clients call the model."""

    artifact: Artifact
    golden: GoldenSamples
    name: str = "model"
    version: int = 1
    tuning: str | None = None  # tuning.json, for what reads it where it runs, and checks that it holds there
    max_batch: int | None = None  # rows of a request, where the system needs a limit and the model has none
    bound_batch: int | None = None  # that keeps the latency bound of a search, on the machine that was searched on

    @property
    def artifact_files(self) -> Files:
        """The folder `artifact`, with its tuning."""
        tuning: Files = {} if self.tuning is None else {f"{ARTIFACT}/{TUNING}": self.tuning}
        return {ARTIFACT: self.artifact.folder, **tuning}

    @property
    def batch_first(self) -> bool:
        """Whether the batch is the first axis of every input and output, so that a server may batch or split calls."""
        signature = self.artifact.signature
        return signature.batch is not None and all(
            spec.shape[:1] == (signature.batch,) for spec in (*signature.inputs, *signature.outputs)
        )

    @property
    def limit(self) -> int | None:
        """The most rows of a request: of `max_batch` and the declared range the less; None where neither says one."""
        bounds = self.artifact.signature.bounds.get(self.artifact.signature.batch or "")
        limits = (self.max_batch, bounds.high if bounds is not None else None)
        return min((rows for rows in limits if rows is not None), default=None)


def golden_document(
    golden: GoldenSamples, signature: Signature, wire: Signature, *, dialect: Dialect, url: str, path: str
) -> dict[str, Any]:
    """Return golden.json: the calls with their tensors in base64, the tolerance, and where and how to ask.
    `wire` has the names that clients use."""
    calls = [
        {
            "inputs": _tensor_rows(call.inputs, signature.inputs, wire.inputs),
            "outputs": _tensor_rows(call.outputs, signature.outputs, wire.outputs),
        }
        for call in golden.calls
    ]
    tolerance = {"least_db": golden.tolerance.least_db, "most_unequal": golden.tolerance.most_unequal}
    return {"dialect": str(dialect), "url": url, "path": path, "tolerance": tolerance, "calls": calls}


def _tensor_rows(
    arrays: Mapping[str, Array], specs: Sequence[TensorSpec], named: Sequence[TensorSpec]
) -> list[dict[str, Any]]:
    return [_tensor_row(wire.name, arrays[spec.name]) for spec, wire in zip(specs, named, strict=True)]


def _tensor_row(name: str, array: Array) -> dict[str, Any]:
    content = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return {
        "name": name,
        "dtype": np.dtype(array.dtype).name,
        "shape": list(array.shape),
        "base64": base64.b64encode(content).decode(),
    }

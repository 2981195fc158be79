"""Options and facts of the intake jobs (artifact_import.py), for both sides of the process border."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...models.job import Facts, JsonRecord
from ...models.job_records import RecipeFacts
from ...models.signature import Signature, TensorSpec
from ..conversion_records import StoredWeights


@dataclass(frozen=True, kw_only=True)
class CodeFacts(Facts):
    """What a model that is code says of itself: only a recipe does."""

    recipe: RecipeFacts | None


@dataclass(frozen=True, kw_only=True)
class FileOptions(JsonRecord):
    """A file or a folder of the user's, with what the user says of it."""

    path: str  # absolute
    sha256: str  # of the file, or of the whole folder
    # Names or sizes for dynamic axes; of TorchScript, which records none, all inputs.
    inputs: tuple[TensorSpec, ...] = ()
    external: Mapping[str, str] = field(default_factory=dict)  # digests of an ONNX file's data files, where known
    trust: bool = False  # the model may do more than compute
    strings: bool = False  # a SavedModel may take and give them: it is served, and not copied
    format: str = ""  # of a file that is only described


@dataclass(frozen=True, kw_only=True)
class FileFacts(Facts):
    """A model that was taken in."""

    signature: Signature
    external: Mapping[str, str] | None = None  # an ONNX file's data files by name, with their digests
    notes: tuple[str, ...] = ()  # sentences for the user
    calibrated: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # inputs of an int8 file


@dataclass(frozen=True, kw_only=True)
class ArtifactFacts(Facts):
    """An artifact that was taken in."""

    target: str
    signature: Signature
    flex: tuple[str, ...]  # the operators of a TFLite file that need TensorFlow's Flex delegate
    calibrated: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # inputs of an int8 file


@dataclass(frozen=True, kw_only=True)
class FileDescription(Facts):
    """What a model's file says of itself. Texts are the file's own, as far as they can be printed."""

    producer: str = ""  # name and version of what wrote it
    versions: tuple[str, ...] = ()  # of the format: "IR 10", "opset 18"
    inputs: tuple[str, ...] = ()  # as "image=float32[batch,3,224,224]"
    outputs: tuple[str, ...] = ()
    operators: Mapping[str, int] = field(default_factory=dict)  # counts by name, the most first
    weights: tuple[StoredWeights, ...] = ()  # by dtype, the most bytes first
    metadata: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what could not be told, and why

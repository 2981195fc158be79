"""Options and facts of the jobs of this layer: describing, loading and training a model, and preparing its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from .data_checks.data_findings import DataFinding
from .data_sources.source_options import ImageOptions, TableOptions
from .job import Facts, JsonRecord
from .signature import Signature, TensorSpec
from .sources import CodeRef
from .user_python.interpreter import UserPython


@dataclass(frozen=True, kw_only=True)
class CodeOptions(JsonRecord):
    """The place of a model's code, and the settings that it is called with."""

    ref: str
    root: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    python: UserPython | None = None  # the user's interpreter that the model lives in; None: ours

    @property
    def code_ref(self) -> CodeRef:
        """The place as a CodeRef."""
        return CodeRef(self.ref, self.root, self.settings, python=self.python)

    @classmethod
    def of(cls, ref: CodeRef, **options: Any) -> Self:
        """Return the options that name `ref`, with further ones of a subclass."""
        return cls(ref=ref.text, root=ref.root, settings=ref.settings, python=ref.python, **options)


@dataclass(frozen=True, kw_only=True)
class RecipeFacts(Facts):
    """A recipe's description of itself."""

    name: str
    summary: str
    signature: Signature
    metric: str
    allowed_loss: float
    requires: tuple[str, ...]
    labels: tuple[str, ...] = ()
    preprocessing: str = ""
    metric_unit: str = ""  # empty: none, or the scores tell
    higher_is_better: bool = True


@dataclass(frozen=True, kw_only=True)
class SourceOptions(CodeOptions):
    """A model that is code, and the weights for it."""

    weights: str | None = None  # an absolute path; None: as the code makes them
    sha256: str | None = None  # of that file, where it is known
    key: str | None = None  # the part of a checkpoint that holds the weights
    signature: Signature | None = None  # this, or the inputs alone, where the code is no recipe and has no example
    inputs: tuple[TensorSpec, ...] = ()
    copy_inputs: tuple[TensorSpec, ...] = ()  # of a copy of the model, for where nothing else tells them
    data: SourceSamplesOptions | None = None  # that inputs are inferred from


@dataclass(frozen=True, kw_only=True)
class SourceFacts(Facts):
    """A source that was written out of code and weights."""

    signature: Signature
    parameters: int
    weights: str | None  # the file that they came from
    notes: tuple[str, ...]  # sentences for the user
    examples: int = 0  # samples of its example inputs that lie beside it, where it refuses random ones
    labels: tuple[str, ...] = ()  # of the weights that a library publishes for it
    preprocessing: str = ""
    labels_from: str = ""  # who says both


@dataclass(frozen=True, kw_only=True)
class TrainOptions(CodeOptions):
    """A recipe, and how it is trained."""

    seed: int = 0
    epochs: int | None = None  # instead of the recipe's own number
    precision: str = "32-true"
    accelerator: str = "cpu"
    devices: int = 1
    gpu: int | None = None  # the index, where it is one GPU
    threads: int | None = None  # of each process


@dataclass(frozen=True, kw_only=True)
class TrainFacts(Facts):
    """A finished training, with the metric of the best weights in fp32 on the CPU."""

    metric: str
    validation: float
    test: float
    epochs: int
    stopped: str  # "early" or "epochs"
    parameters: int
    train_seconds: float  # over all processes that a kill has cut it into


@dataclass(frozen=True, kw_only=True)
class RandomSamplesOptions(JsonRecord):
    """A model that random samples are drawn for."""

    signature: Signature


@dataclass(frozen=True, kw_only=True)
class SourceSamplesOptions(JsonRecord):
    """A user's samples for a model of these inputs (models/data_sources/data_argument.py)."""

    inputs: tuple[TensorSpec, ...]
    kind: str  # a DataKind
    place: str  # an absolute path, or a reference to code
    sha256: str = ""  # of the file; code has none
    root: str | None = None  # the folder that code imports from
    samples: int | None = None  # the first of them, at most
    images: ImageOptions = field(default_factory=ImageOptions)
    table: TableOptions = field(default_factory=TableOptions)


@dataclass(frozen=True, kw_only=True)
class DataFacts(Facts):
    """A data folder: the numbers of its test and calibration samples."""

    test: int
    calibration: int
    labels: bool | None = None  # None: a recipe's, which always has them
    random: bool = False
    label_names: Mapping[str, str] = field(default_factory=dict)  # by their numbers, where the data names them
    label_source: str = ""  # who names them
    preprocessing: tuple[str, ...] = ()  # how the inputs were made of the data: sentences
    findings: tuple[DataFinding, ...] = ()  # its faults

    @property
    def is_of_user(self) -> bool:
        """Whether they are the user's own samples, and not those of a recipe or random ones."""
        return self.labels is not None and not self.random

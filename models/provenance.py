"""What an artifact was made from and with, as far as it was known when it was made.

It stands in `artifact.json` and in the model's own file (converters/embedded_metadata.py). It holds nothing but what
the key of the step depends on: a result that is found in the store says the same as one that is made anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .job import JsonRecord

_MOST_STEPS = 100
_MOST_TEXT = 1024  # letters: a record may be anybody's, and its texts stand in a card


@dataclass(frozen=True, kw_only=True)
class ConversionStep(JsonRecord):
    """A step that led to an artifact: the target that it made, and the versions of what made it."""

    target: str
    made_with: Mapping[str, str] = field(default_factory=dict)  # by module: {"torch": "2.9.0"}


@dataclass(frozen=True, kw_only=True)
class Provenance(JsonRecord):
    """The model that an artifact was made from, and the steps from there.
    `model` is the text of a model that is code, or the name of a file; never a path, which may say who made it."""

    model: str
    sha256: str  # of the code that builds the model, or of the file
    kind: str = "code"  # or "file"
    transload: str = ""  # the version that made the last step; empty for a file as it was given
    steps: tuple[ConversionStep, ...] = ()

    def __post_init__(self) -> None:
        texts = [self.model, self.sha256, self.kind, self.transload]
        for step in self.steps:
            texts += [step.target, *step.made_with, *step.made_with.values()]
        if len(self.steps) > _MOST_STEPS or not all(text.isprintable() and len(text) <= _MOST_TEXT for text in texts):
            raise ValueError(f"provenance has up to {_MOST_STEPS} steps, and texts of up to {_MOST_TEXT} letters")

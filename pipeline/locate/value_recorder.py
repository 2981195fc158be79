"""Open an artifact of any format whose operators and values can be recorded. Worker only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ...models.artifact import Artifact
from ...models.errors import BadRequest
from ...models.extensible_table import load_entry
from ...models.formats import Format, formats
from ...models.signature import Array


def locatable() -> list[Format]:
    """Return the formats whose operators and values can be recorded."""
    return [form for form in formats() if form.spec.recorder]


class ValueRecorder(Protocol):
    """The operators of an artifact in a topological order, and the values of one call of it."""

    @property
    def operators(self) -> Sequence[tuple[str, str]]:
        """The type and the name of each operator."""

    @property
    def reads(self) -> Sequence[Sequence[str]]:
        """The values that each operator reads."""

    @property
    def writes(self) -> Sequence[Sequence[str]]:
        """The values that each operator writes."""

    @property
    def values(self) -> Mapping[str, Array]:
        """The recorded values."""

    @property
    def constants(self) -> Mapping[str, Array]:
        """The weights and other constants that operators read; quantised ones as the numbers that they stand for."""

    def record(self, feeds: Mapping[str, Array]) -> None:
        """Run the artifact once, unoptimised, and keep every value that an array can hold."""

    def record_until_failure(self, feeds: Mapping[str, Array]) -> int | None:
        """Keep every value that can be computed, and return the first operator that fails; None if none is known."""

    def output_values(self, names: Sequence[str]) -> dict[str, str]:
        """Return the value of each output of the model."""

    def describe(self, index: int) -> tuple[str, str, str | None]:
        """Return an operator's type, a description of it for a user, and the model's line of it, if known."""


def open_recorder(artifact: Artifact) -> ValueRecorder:
    """Open the graph of an artifact.
    Raises BadRequest for a format whose values cannot be recorded."""
    form = artifact.target.format
    if not form.spec.recorder:
        raise BadRequest(
            f"no values inside {form} can be captured", fix=f"locate the error in {', '.join(locatable())}"
        )
    recorder: ValueRecorder = load_entry(form.spec.recorder)(artifact)
    return recorder

"""Check a server's reply against the artifact's record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...models.errors import WrongOutputs
from ...models.signature import Array, TensorSpec


def check_answers(address: str, specs: Sequence[TensorSpec], answers: Mapping[str, Array]) -> None:
    """Whether a server gives the outputs that the record names, in their dtypes.
    Raises WrongOutputs: the server serves another model."""
    fix = "serve the artifact that this record belongs to"
    if not {spec.name for spec in specs} <= set(answers):
        wanted = ", ".join(spec.name for spec in specs)
        raise WrongOutputs(f"{address} answers with {', '.join(answers)}, and the record names {wanted}", fix=fix)
    for spec in specs:
        if answers[spec.name].dtype.name != spec.dtype:
            raise WrongOutputs(
                f"{address} answers with {spec.name} as {answers[spec.name].dtype.name}, and the record has {spec}",
                fix=fix,
            )

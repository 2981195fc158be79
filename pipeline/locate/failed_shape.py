"""A value with the model's numbers in a shape that the model never has, which the candidate's next operator refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...models.signature import Array
from ...serving.tracing.operator_trace import OperatorCall
from .divergence import Divergence


@dataclass(frozen=True)
class FailedShape:
    """A candidate's operator whose result has another shape, and the reference's call that has these numbers last."""

    operator: int
    call: OperatorCall
    words: str

    @classmethod
    def find(cls, divergence: Divergence, values: Mapping[str, Array]) -> FailedShape | None:
        """Return the first such value that the candidate's diverging operators read; None without any."""
        answer, flow = divergence.answer, divergence.flow
        for name in dict.fromkeys(name for at in divergence.candidate for name in flow.reads[at]):
            operator = flow.producer(name)
            numbers = [number for number, names in answer.names.items() if name in names]
            producers = [at for at in map(answer.flow.producer, numbers) if at is not None]
            shapes = {answer.arrays[number].shape for number in numbers}
            if operator is None or not producers or _plain(values[name].shape) in map(_plain, shapes):
                continue
            call = answer.calls[max(producers)]
            shape = next(answer.arrays[number].shape for number in numbers if number in call.writes)
            words = f"it gives the shape {values[name].shape} where the model has {shape}"
            return cls(operator, call, words)
        return None


def _plain(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without axes of one, in any order: neither fails by itself."""
    return tuple(sorted(size for size in shape if size != 1))

"""A session that computes nothing: what is left of a measurement with it is the cost of the measuring."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..models.signature import Array, Signature
from .checked_session import CheckedSession

NAME = "noop"


class NoopSession(CheckedSession):
    """Answers zeros in the dtypes and shapes of a signature. An axis that no input has is of size 1."""

    def __init__(self, signature: Signature) -> None:
        super().__init__(NAME, signature, "cpu")
        self._sizes: list[tuple[int, ...]] = []  # of the last call
        self._answers: list[Array] = []

    def _answer(self, values: Sequence[Array]) -> Sequence[Array]:
        sizes = [value.shape for value in values]
        if sizes != self._sizes:
            self._sizes, self._answers = sizes, self._zeros(sizes)
        return [answer.copy() for answer in self._answers]

    def _zeros(self, sizes: Sequence[tuple[int, ...]]) -> list[Array]:
        axes = {
            axis: size
            for spec, shape in zip(self.signature.inputs, sizes, strict=True)
            for axis, size in zip(spec.shape, shape, strict=True)
        }
        return [
            np.zeros([axis if isinstance(axis, int) else axes.get(axis, 1) for axis in spec.shape], dtype=spec.dtype)
            for spec in self.signature.outputs
        ]

    def _release(self) -> None:
        self._answers = []

"""Feeds of runtimes that compute int64 in int32 and do not say so: what int32 does not hold is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...models.errors import BadRequest
from ...models.signature import Array, TensorSpec
from ..checked_session import FeedCheck

_INT32 = np.iinfo(np.int32)
_WIDER = ("int64", "uint32", "uint64")


class Int32FeedCheck(FeedCheck):
    """A check of feeds that looks at the numbers of the wider integers, too. What is computed from them inside may
    still leave int32: validate's integers show it."""

    def __init__(self, runtime: str, specs: Sequence[TensorSpec]) -> None:
        super().__init__(specs)
        self._runtime = runtime
        self._wide = [(at, spec.name) for at, spec in enumerate(specs) if spec.dtype in _WIDER]

    def __call__(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Return the feeds in the signature's order. Raises BadRequest where they do not fit it, or int32."""
        values = super().__call__(feeds)
        for at, name in self._wide:
            value = values[at]
            if value.size and not (_INT32.min <= value.min() and value.max() <= _INT32.max):
                raise BadRequest(
                    f"{self._runtime} computes integers in int32, and {name} holds larger ones",
                    fix="send integers within int32, or use the runtime onnxruntime",
                )
        return values

"""Answers of the reference, call by call, as they came; and which samples each call was fed.

A file holds one or more series of calls of one batch size each, under the keys `BATCH/CALL/OUTPUT`. Calls are not
joined: an output need not have the samples along axis 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from ...models.dataset import Dataset, read_arrays, write_arrays
from ...models.errors import BadRequest
from ...models.signature import Array, Signature

ANSWERS = "answers.npz"  # the whole test set, one series; the last call may be shorter
PROBES = "probes.npz"  # the first samples at each probe batch size
PROBE_SAMPLES = 20  # that a probe sees, at least, where there are so many

Answers: TypeAlias = Mapping[str, Array]
Series: TypeAlias = Mapping[int, Sequence[Answers]]  # calls by batch size


def write_calls(path: Path, series: Series) -> None:
    """Write series of calls; the outputs keep their order."""
    write_arrays(
        path,
        {
            f"{batch}/{at}/{name}": array
            for batch, calls in series.items()
            for at, call in enumerate(calls)
            for name, array in call.items()
        },
    )


def read_calls(path: Path) -> Series:
    """What `write_calls` wrote.

    Raises BadRequest where it is no such file.
    """
    series: dict[int, dict[int, dict[str, Array]]] = {}
    for key, array in read_arrays(path).items():
        batch, _, rest = key.partition("/")
        at, slash, name = rest.partition("/")
        if not (slash and batch.isdecimal() and at.isdecimal()):
            raise BadRequest(f"{path} holds no recorded answers", fix="make the reference again")
        series.setdefault(int(batch), {}).setdefault(int(at), {})[name] = array
    return {batch: [calls[at] for at in sorted(calls)] for batch, calls in series.items()}


def whole(samples: int, batch: int) -> Iterator[Array]:
    """The samples of each call, so that every sample is seen once."""
    for start in range(0, samples, batch):
        yield np.arange(start, min(start + batch, samples))


def probe(samples: int, batch: int) -> Iterator[Array]:
    """The samples of each call of exactly `batch`: the first 20 or so, from the start again where there are fewer."""
    calls = max(1, min(-(-PROBE_SAMPLES // batch), samples // batch))
    for at in range(calls):
        yield np.arange(at * batch, (at + 1) * batch) % samples


def feeds_of(data: Dataset, rows: Array, signature: Signature) -> dict[str, Array]:
    """The inputs that a model takes, of these samples, each in memory of its own.

    Raises BadRequest where the data has no input of that name.
    """
    lacking = [spec.name for spec in signature.inputs if spec.name not in data.inputs]
    if lacking:
        raise BadRequest(
            f"the model takes the inputs {', '.join(spec.name for spec in signature.inputs)}, "
            f"and the data has {', '.join(data.inputs)}",
            fix="name the arrays of the data as the model's inputs are named",
        )
    return {spec.name: np.ascontiguousarray(data.inputs[spec.name][rows]) for spec in signature.inputs}

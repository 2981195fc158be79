"""What a version has to do before it is switched to: take and give the tensors of the version that it takes over from,
answer, and answer its golden samples as when it was verified.

`golden.json` in a version's folder is what `transload convert`, `run` and `bundle` write.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ....models.artifact import GOLDEN
from ....models.errors import BadRequest, SessionLost, TransloadError
from ....models.signature import ANY_SIZE, Array, Axis, Signature, TensorSpec
from ....models.untrusted_files import read_plain
from ...checked_session import smallest_feeds
from ...session import Session

_MOST_BYTES = 256 << 20
# What a JSON of another form leads to; numpy reads a dtype as Python's literals, which raises SyntaxError, too.
_BROKEN = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, SyntaxError, OverflowError)


def check_version(session: Session, folder: Path, former: Signature | None = None) -> None:
    """Warm a session up, and hold it against the golden samples of its version's folder and the `former` signature.
    Raises SessionLost where an answer lies beyond their tolerance, BadRequest where a file cannot be read, or where
    clients of the former version would be refused or get other tensors."""
    if former is not None:
        _check_signature(session.signature, former)
    if (folder / GOLDEN).is_file():
        _check_calls(session, _read_golden(folder / GOLDEN))
    else:
        with suppress(TransloadError):  # they may be no sensible input
            session.run(smallest_feeds(session.signature))


def _check_signature(signature: Signature, former: Signature) -> None:
    """Hold the signature of a version against that of the one which it takes over from. Names and dtypes have to be the
    same, and every size that was taken has to be taken on. Raises BadRequest where a client would notice."""
    for side, specs, former_specs in (
        ("input", signature.inputs, former.inputs), ("output", signature.outputs, former.outputs)
    ):  # fmt: skip
        ours, theirs = {spec.name: spec for spec in specs}, {spec.name: spec for spec in former_specs}
        for name in sorted({*ours} ^ {*theirs}):
            raise _other_signature(f"has the {side} {name}" if name in ours else f"lacks the {side} {name}")
        for name, spec in ours.items():
            before = theirs[name]
            fits = _takes_sizes if side == "input" else _may_give_sizes
            axes = zip(spec.shape, before.shape, strict=False)
            alike = spec.dtype == before.dtype and len(spec.shape) == len(before.shape)
            if not alike or not all(fits(axis, signature, other, former) for axis, other in axes):
                raise _other_signature(f"has the {side} {spec}, the one that answers has {before}")


def _takes_sizes(axis: Axis, signature: Signature, other: Axis, former: Signature) -> bool:
    """Whether an axis may have all sizes that another may have."""
    if isinstance(axis, int):
        return axis == other
    sizes = signature.bounds.get(axis, ANY_SIZE)
    if isinstance(other, int):
        return other in sizes
    needed = former.bounds.get(other, ANY_SIZE)
    return (
        needed.low in sizes
        and needed.step % sizes.step == 0
        and (sizes.high is None or (needed.high is not None and needed.high <= sizes.high))
    )


def _may_give_sizes(axis: Axis, _signature: Signature, other: Axis, _former: Signature) -> bool:
    """Whether an output's axis is not known to have another size; that of a TorchScript file is not known at all."""
    return axis == other or isinstance(axis, str) or isinstance(other, str)


class SignatureChanged(BadRequest):
    """A version whose signature is not that of the version that answers."""


def _other_signature(how: str) -> SignatureChanged:
    return SignatureChanged(
        f"its signature is not that of the version that answers: it {how}",
        fix="serve it as a model of another name, or start the server with --allow-signature-change",
    )


def answers_rows_alike(session: Session, folder: Path) -> bool:
    """Whether the first row of each golden sample is answered alone as it is beside the others; True without samples.
    Raises as `check_version`."""
    if not (folder / GOLDEN).is_file():
        return True
    document = _read_golden(folder / GOLDEN)
    first_rows = [
        tuple({name: array[:1] for name, array in tensors.items() if array.ndim} for tensors in call)
        for call in document["calls"]
    ]
    try:
        _check_calls(session, {**document, "calls": first_rows})
    except TransloadError:
        return False
    return True


def _check_calls(session: Session, document: Mapping[str, Any]) -> None:
    """Raises SessionLost where an answer is beyond the document's tolerance, or was not recorded."""
    sums = {spec.name: _GoldenAgreement(spec) for spec in session.signature.outputs}
    for inputs, outputs in document["calls"]:
        if missing := sorted({*sums} - {*outputs}):
            raise BadRequest(f"{GOLDEN} has no answer {missing[0]}", fix="make the bundle again")
        answers = session.run(inputs)
        for name, agreement in sums.items():
            agreement.add(outputs[name], answers[name])
    for agreement in sums.values():
        agreement.check(document["least_db"], document["most_unequal"])


def _read_golden(path: Path) -> dict[str, Any]:
    """Return {calls, least_db, most_unequal}. Raises BadRequest."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES} bytes")
        document = json.loads(read_plain(path))
        calls = [(_arrays(call["inputs"]), _arrays(call["outputs"])) for call in document["calls"]]
        tolerance = document["tolerance"]
        return {
            "calls": calls,
            "least_db": float(tolerance["least_db"]),
            "most_unequal": float(tolerance["most_unequal"]),
        }
    except _BROKEN as error:
        raise BadRequest(f"{path} holds no golden samples: {error}", fix="make the bundle again") from error


def _arrays(rows: list[dict[str, Any]]) -> dict[str, Array]:
    if not all(isinstance(row["name"], str) for row in rows):
        raise TypeError("the name of a tensor is no text")
    return {
        row["name"]: np.frombuffer(base64.b64decode(row["base64"]), np.dtype(row["dtype"]).newbyteorder("<"))
        .reshape(row["shape"])
        .astype(row["dtype"])
        for row in rows
    }


class _GoldenAgreement:
    """How the answers of one output agree with the golden ones, over all calls."""

    def __init__(self, spec: TensorSpec) -> None:
        self._name = spec.name
        self._signal = self._noise = 0.0
        self._unequal = self._count = 0

    def add(self, expected: Array, answer: Array) -> None:
        """Compare one answer. Raises SessionLost where its shape differs, or another number is NaN or infinite."""
        if expected.shape != answer.shape:
            raise self._failed(f"has the shape {list(answer.shape)}, expected {list(expected.shape)}")
        self._count += expected.size
        if not np.issubdtype(expected.dtype, np.floating):
            self._unequal += int(np.count_nonzero(expected != answer))
            return
        finite = np.isfinite(expected)
        same = np.array_equal(expected[~finite], answer[~finite], equal_nan=True)
        if not (same and np.isfinite(answer[finite]).all()):
            raise self._failed("is NaN or infinite elsewhere")
        wanted = expected[finite].astype(np.float64)
        self._signal += float(np.sum(wanted**2))
        self._noise += float(np.sum((answer[finite].astype(np.float64) - wanted) ** 2))

    def check(self, least_db: float, most_unequal: float) -> None:
        """Raises SessionLost where the answers lie beyond the tolerance."""
        if self._unequal > most_unequal * self._count:
            raise self._failed(f"differs in {self._unequal} of {self._count} integers")
        decibels = math.inf
        if self._noise:
            decibels = 10 * math.log10(self._signal / self._noise) if self._signal else -math.inf
        if decibels < least_db:
            raise self._failed(f"agrees to {decibels:.1f} dB, at least {least_db:.1f} dB are needed")

    def _failed(self, how: str) -> SessionLost:
        return SessionLost(
            f"its answers are not those of its golden samples: {self._name} {how}",
            fix="verify the artifact again: transload validate",
        )

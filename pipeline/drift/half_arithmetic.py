"""Ask a copy that holds float16 in float16 arithmetic, which most processors never compute.

ONNX Runtime computes float16 in float32 on x86, and TFLite's CPU kernels know float16 weights alone: a copy whose
values leave float16's range inside answers there, and is NaN on a GPU. Here each operator's results are rounded to
float16 before the next one reads them; inside an operator sums are float32, as in a GPU's kernels. docs/design/drift.md
compares the verdicts with those of onnx's reference evaluator, which takes a hundred times as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...converters.stored_weights import stored_precision
from ...models.artifact import Artifact
from ...models.dataset import Dataset, telling_rows
from ...models.errors import TransloadError
from ...models.extensible_table import load_entry
from ...models.formats import Precision
from ...models.probes.feeds import make_feeds
from ...models.probes.probe_set import Probe
from ...serving.session import Session
from .mismatch_hints import structure
from .numbers.numeric import combine
from .probe_result import CheckResult, ProbeCalls
from .probe_tally import ProbeTally
from .rules import FAIL, Rule, judge

if TYPE_CHECKING:
    from ...converters.minimal_repro.onnx_pieces import OnnxCutter
    from ...converters.minimal_repro.tflite_pieces import TfliteCutter
    from .check import Check

_FIRST, _LARGEST = 4, 4  # samples: the first, and those with the largest numbers
_MOST = float(np.finfo(np.float16).max)
_MOST_BFLOAT16 = (2.0 - 2.0**-7) * 2.0**127
_NEAR = 0.5  # of the range, from which the largest value is told
_LISTED = 10  # tensors in the row
_NESTED = frozenset({"If", "Loop", "Scan", "IF", "WHILE"})  # their graphs run as a whole
_FILLERS = frozenset({"Where", "ConstantOfShape", "Expand", "SELECT_V2", "FILL"})  # an infinity there is a mask's


@dataclass
class _InnerValue:
    """A value that an operator writes, with the largest finite number of all calls."""

    tensor: str
    operator: str  # a description, with its line where that is known
    largest: float = 0.0
    beyond: bool = False  # NaN or infinite
    is_first: bool = False  # beyond, although what the operator reads is finite

    def told_size(self) -> float:
        """Return the largest number, or 0 where that is float16's own end: a mask is filled with it."""
        return 0.0 if self.largest == _MOST else self.largest

    @property
    def row(self) -> dict[str, Any]:
        """result.InnerValueRow."""
        return {"tensor": self.tensor, "operator": self.operator, "largest": self.largest, "beyond": self.beyond}


@dataclass(frozen=True)
class HalfResult:
    """The row (result.InnerRangeRow without `artifact`), what is close to the limit, and the fail if it is one."""

    row: Mapping[str, Any]
    note: str | None
    failed: CheckResult | None


def ask_in_half(check: Check, artifact: Artifact, session: Session, data: Dataset) -> HalfResult | None:
    """Hold a copy's answers in float16 arithmetic against those of its session.
    A row without numbers says why a copy was not asked; None for one that holds no floats of 16 bits."""
    stored = stored_precision(artifact)
    dtypes = {*(row.dtype for row in stored.weights), *stored.computed} if stored else set()
    if dtypes.isdisjoint({"float16", "bfloat16"}):
        return None
    if "float16" not in dtypes:
        return _not_asked(check, "bfloat16", "it is computed as the runtime does")
    try:
        cutter = load_entry(artifact.target.format.spec.cutter)(artifact)
        run = _HalfRun(check, cutter, data, is_typed=cutter.is_typed)
        if not run.ask(session):
            return _not_asked(check, "float16", "its operators cannot be run one by one")
    except TransloadError as error:  # the file is too large to be run operator by operator, or its own session fails
        return _not_asked(check, "float16", error.what)
    drift, values = combine(run.tally.drifts), list(run.values.values())
    judgement = judge(drift, Rule.of(Precision.FP16))
    is_right = judgement.verdict != FAIL or (check.options.allowed_loss is not None and not drift.non_finite)
    largest = max(values, key=_InnerValue.told_size, default=None)
    failed, notes = None, []
    if not is_right:
        reason = f"in float16 arithmetic, as GPUs compute it: {judgement.reason}{_explain(values, artifact)}"
        failed = check.result(run.calls, drift, replace(judgement, reason=reason), None)
    elif largest and largest.told_size() > _NEAR * _MOST:
        notes.append(f"largest inner value {largest.largest:,.0f} of float16's {_MOST:,.0f}, in {largest.operator}")
    if nested := sorted(_NESTED.intersection(kind for kind, _ in cutter.operators)):
        notes.append(f"what is inside {', '.join(nested)} was not asked in float16 arithmetic")
    listed = sorted(values, key=lambda value: (not value.beyond, -value.largest))[:_LISTED]
    note = "; ".join(notes) or None
    row = {
        "runtime": check.runtime, "arithmetic": "float16", "limit": _MOST, "samples": run.calls.samples,
        "sqnr_db": drift.sqnr_db, "non_finite": drift.non_finite,
        "note": note, "beyond": sum(value.beyond for value in values), "tensors": [value.row for value in listed],
    }  # fmt: skip
    return HalfResult(row, note, failed)


def _not_asked(check: Check, arithmetic: str, reason: str) -> HalfResult:
    note = f"not asked in {arithmetic} arithmetic: {reason}"
    limit = _MOST if arithmetic == "float16" else _MOST_BFLOAT16
    row = {
        "runtime": check.runtime, "arithmetic": arithmetic, "limit": limit, "samples": 0, "sqnr_db": None,
        "non_finite": 0, "note": note, "beyond": 0, "tensors": [],
    }  # fmt: skip
    return HalfResult(row, note, None)


class _HalfRun:
    """Some samples in float16 arithmetic: the differences from a session's answers, and every inner value."""

    def __init__(self, check: Check, cutter: OnnxCutter | TfliteCutter, data: Dataset, *, is_typed: bool) -> None:
        self._signature, self._cutter = check.record.signature, cutter
        self._is_typed = is_typed
        axis = self._signature.batch
        chosen = telling_rows(data, _FIRST, _LARGEST)
        bounds = check.agreement.bounds.get(axis or "", check.record.batches)
        batch = bounds.filled.at_most(len(chosen))
        rows = [np.resize(np.roll(chosen, -start), batch) for start in range(0, len(chosen), batch)]
        self.calls = ProbeCalls(Probe(batch), "", data, rows, ())
        self.tally = ProbeTally(batched=axis is not None)
        self.values: dict[str, _InnerValue] = {}  # in the order of the operators

    def ask(self, session: Session) -> bool:
        """Ask both; return whether there are answers to compare."""
        names = self._cutter.output_values([spec.name for spec in self._signature.outputs])
        for rows in self.calls.rows:
            feeds = make_feeds(self.calls.data, rows, self._signature)
            expected = session.run(feeds)
            if not self._cutter.record_in_half(feeds):
                return False
            recorded = self._cutter.values
            answers = {name: recorded[names[name]] for name in expected if names.get(name) in recorded}
            if structure(answers, expected):
                return False
            self.tally.add(answers, expected, len(rows))
            self._note_values()
        return True

    def _note_values(self) -> None:
        """Keep the largest numbers of the call's values that float16 holds, or would hold."""
        recorded, narrow = self._cutter.values, np.float16 if self._is_typed else np.float32
        finite = {name: bool(np.isfinite(array).all()) for name, array in recorded.items() if array.dtype.kind == "f"}
        for at, (kind, _) in enumerate(self._cutter.operators):
            is_first = kind not in _FILLERS and all(finite.get(name, True) for name in self._cutter.reads[at])
            for name in self._cutter.writes[at]:
                array = recorded.get(name)
                if array is None or array.dtype != narrow:
                    continue
                if name not in self.values:
                    self.values[name] = _InnerValue(name, self._cutter.describe(at)[1])
                value, sizes = self.values[name], np.abs(array)
                value.largest = max(value.largest, float(np.max(sizes, where=np.isfinite(sizes), initial=0.0)))
                value.beyond |= not finite[name]
                value.is_first |= is_first and not finite[name]


def _explain(values: Sequence[_InnerValue], artifact: Artifact) -> str:
    """Name the first operator that leaves the range, and the mend."""
    first = next((value for value in values if value.is_first), None)
    where = f"; {first.operator} goes beyond {_MOST:,.0f} in {first.tensor}" if first else ""
    return f"{where}; keep that part in float32, or use {artifact.target.format}"

"""An int8 copy far below transload's own quantisation is doubted, with and without a metric."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from transload.models.errors import StepFailed
from transload.models.formats import Format, Precision, Target
from transload.models.job_records import DataFacts
from transload.models.store import Stored
from transload.pipeline.commands.stages import own_int8
from transload.pipeline.measure.validate_stage import ValidationRows
from transload.pipeline.plan.router import TargetResult
from transload.pipeline.result.schema import DriftRow, Tolerance, Verdict

ANY = cast("Any", None)
OWN_DB = 35.5
NAME = "copy.onnx"
FLOOR, METRIC = Tolerance(10.0, None), Tolerance(None, 0.02)


def row(
    sqnr_db: float | None, tolerance: Tolerance, name: str = NAME, verdict: Verdict = Verdict.PASS, batch: int = 300
) -> DriftRow:
    return DriftRow(name, "onnxruntime", batch, batch, 0.1, 0.1, 0.9, sqnr_db, 0, tolerance, verdict, None)


def inputs_of(*, random: bool) -> Any:
    facts = DataFacts(test=300, calibration=100, random=random).to_json()
    return SimpleNamespace(data=Stored("", "", Path(), facts, Path(), 0.0, cached=True), start=ANY)


def target_of(precision: Precision) -> TargetResult:
    return TargetResult(Target(Format.ONNX), None, None, label=NAME, judged_as=precision)


def compare(
    monkeypatch: pytest.MonkeyPatch, *rows: DriftRow, random: bool = False, precision: Precision = Precision.INT8
) -> tuple[list[str], list[str]]:
    own = (row(OWN_DB, FLOOR, "onnx:int8"), row(12.0, FLOOR, "onnx:int8", batch=1))  # the whole test set comes first
    monkeypatch.setattr(own_int8, "plan_routes", lambda *_: ())
    monkeypatch.setattr(own_int8, "convert_all", lambda *_: ())
    monkeypatch.setattr(own_int8, "validate_all", lambda *_: SimpleNamespace(rows=own))
    return own_int8.compare_with_own(ANY, inputs_of(random=random), [target_of(precision)], rows, ANY)


@pytest.mark.parametrize(("tolerance", "allows"), [(FLOOR, "int8's floor"), (METRIC, "the metric")])
def test_a_copy_20_db_below_is_doubted_by_what_let_it_pass(
    monkeypatch: pytest.MonkeyPatch, tolerance: Tolerance, allows: str
) -> None:
    doubts, notes = compare(monkeypatch, row(13.3, tolerance), row(31.0, tolerance, batch=1))
    assert not notes
    assert doubts == [
        "copy.onnx in onnxruntime agrees to 13.3 dB, and transload's own quantisation of this model to 35.5 dB: "
        f"{allows} allows what is lost; look for a layer with a wrong scale, "
        "or for products of bytes that saturate on this processor"
    ]


def test_a_copy_10_db_below_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    doubts, notes = compare(monkeypatch, row(25.0, FLOOR))
    assert not doubts
    assert notes == [
        "copy.onnx in onnxruntime agrees to 25.0 dB, and transload's own quantisation of this model to 35.5 dB"
    ]


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        ((row(26.0, FLOOR),), {}),
        ((row(None, FLOOR),), {}),
        ((row(8.0, FLOOR, verdict=Verdict.FAIL),), {}),
        ((row(13.0, FLOOR),), {"random": True}),
        ((row(13.0, FLOOR),), {"precision": Precision.FP16}),
        ((row(13.0, FLOOR, "another.onnx"),), {}),
    ],
)
def test_of_others_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, rows: tuple[DriftRow, ...], options: dict[str, Any]
) -> None:
    assert compare(monkeypatch, *rows, **options) == ([], [])


def test_a_model_that_cannot_be_quantised_is_no_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise StepFailed("no route is left", fix="see the log")

    monkeypatch.setattr(own_int8, "steps_for", fail)
    assert compare(monkeypatch, row(13.0, FLOOR)) == ([], [])


FAILED = row(7.0, FLOOR, verdict=Verdict.FAIL)


@pytest.mark.parametrize(
    ("failed", "random", "precision", "verdict"),
    [
        (FAILED, True, Precision.INT8, Verdict.INCONCLUSIVE),
        (FAILED, False, Precision.INT8, Verdict.FAIL),
        (FAILED, True, Precision.FP16, Verdict.FAIL),
        (replace(FAILED, non_finite=3), True, Precision.INT8, Verdict.FAIL),
        (replace(FAILED, max_abs=None), True, Precision.INT8, Verdict.FAIL),
        (replace(FAILED, mismatch="the shape differs"), True, Precision.INT8, Verdict.FAIL),
    ],
)
def test_numbers_of_random_samples_fail_no_int8_copy(
    failed: DriftRow, random: bool, precision: Precision, verdict: Verdict
) -> None:
    pair = (NAME, "onnxruntime")
    rows = ValidationRows((failed,), reasons={pair: "agrees to 7.0 dB"})
    judged = own_int8.leave_open(inputs_of(random=random), [target_of(precision)], rows)
    assert judged.rows[0].verdict is verdict
    is_open = verdict is Verdict.INCONCLUSIVE
    assert judged.reasons[pair].endswith("give samples of yours, --data FILE.npz") == is_open

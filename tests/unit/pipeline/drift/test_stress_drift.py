"""Answers to blank and stressed inputs are held to what the reference's own rounding lets them keep."""

from __future__ import annotations

import numpy as np
import pytest

from transload.models.probes.masks import Fill
from transload.models.probes.probe_set import NEAR, Probe
from transload.pipeline.drift.noise_floor import Cause, Limit
from transload.pipeline.drift.numbers.numeric import compare
from transload.pipeline.drift.stress_drift import drifts_to_judge, settle_undefined

ROWS = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
BLANK = Probe(2, fills={"x": Fill.BLANK})
NEAR_ROWS = Probe(2, source=f"{NEAR} up to 10")


@pytest.mark.parametrize(("truth_db", "is_held"), [(140.0, True), (12.0, False)])
def test_rows_in_the_order_of_equal_scores_are_held_where_rounding_keeps_them(truth_db: float, is_held: bool) -> None:
    drifts = {"boxes": compare(ROWS[::-1], ROWS)}
    judged = drifts_to_judge(BLANK, drifts, [{"boxes": ROWS}], {}, {"boxes": truth_db}, limits={})
    assert (judged["boxes"].sqnr_db is not None) is is_held


def test_elements_that_are_finite_on_one_side_only_count_in_any_order() -> None:
    broken = ROWS.copy()
    broken[0, 0] = np.nan
    judged = drifts_to_judge(BLANK, {"boxes": compare(broken, ROWS)}, [{"boxes": ROWS}], {}, {"boxes": 12.0}, limits={})
    assert judged["boxes"].non_finite == 1


def test_a_copy_may_answer_numbers_to_nan_where_the_model_answers_nan_and_nowhere_else() -> None:
    feeds = {"x": np.array([[1.0], [np.nan], [2.0]], np.float32)}
    model = {"y": np.array([[1.0], [np.nan], [np.nan]], np.float32)}
    copy = {"y": np.array([[1.0], [7.0], [8.0]], np.float32)}
    settled, lost = settle_undefined(copy, model, feeds)
    np.testing.assert_array_equal(settled["y"], np.array([[1.0], [np.nan], [8.0]], np.float32))
    assert lost == "answers numbers where the model answers NaN (1 element)"
    imputed = {"y": np.array([[1.0], [5.0], [2.0]], np.float32)}
    assert settle_undefined(copy, imputed, feeds)[0]["y"][1] == 7.0


@pytest.mark.parametrize(
    ("floor_db", "agreement_db", "is_held"),
    [
        (120.0, 90.0, True),  # a steady answer keeps its limit
        (66.0, 40.0, True),
        (39.0, 28.9, False),  # right copies of four networks, where the model's own rounding decides
        (31.0, 28.8, False),
        (18.0, 17.1, False),
        (60.0, 20.0, True),  # further off than rounding takes anybody
        (31.0, -6.0, True),  # another function
    ],
)
def test_near_constants_rounding_is_held_against_no_copy_and_another_function_is(
    floor_db: float, agreement_db: float, is_held: bool
) -> None:
    off = np.random.default_rng(1).standard_normal(ROWS.shape)
    off *= np.sqrt(np.mean(np.square(ROWS)) / np.mean(np.square(off))) * 10 ** (-agreement_db / 20)
    drifts = {"y": compare((ROWS + off).astype(np.float32), ROWS)}
    judged = drifts_to_judge(NEAR_ROWS, drifts, (), {}, {}, limits={"y": Limit(30.0, floor_db, Cause.FLOAT64)})
    assert (judged["y"].sqnr_db is not None) is is_held

"""Which settings are tried, and which are measured to the end."""

from __future__ import annotations

import pytest

from transload.pipeline.measure.bench.comparison import VERDICT_CONFIDENCE
from transload.pipeline.measure.bench.settings_search import (
    ScreenedSettings,
    choose_finalists,
    confidence_of_each,
    in_heats,
    joined_best,
    single_changes,
)


def test_every_change_of_one_setting_is_tried() -> None:
    assert single_changes("tflite", "cpu", 2, {}, threads=None) == [
        {"threads": 2},
        {"kernels": "BUILTIN_WITHOUT_DEFAULT_DELEGATES"},
        {"xnnpack_latest": True},
        {"delegate_clustering": False},
    ]


def test_threads_that_the_user_named_stay() -> None:
    assert {"threads": 2} not in single_changes("tflite", "cpu", 2, {}, threads=1)


def test_around_a_base_the_other_settings_change() -> None:
    changes = single_changes("tflite", "cpu", 2, {"threads": 2}, threads=None)
    assert changes[0] == {"threads": 2, "kernels": "BUILTIN_WITHOUT_DEFAULT_DELEGATES"}
    assert all(change["threads"] == 2 for change in changes)


def test_a_runtime_without_settings_has_no_changes() -> None:
    assert single_changes("openvino-of-tomorrow", "cpu", 2, {}, threads=None) == []


SCREENED = [
    ScreenedSettings({"threads": 2}, 0.7),
    ScreenedSettings({"threads": 4}, 0.6),
    ScreenedSettings({"onednn": False}, 0.99),  # the same
    ScreenedSettings({"channels_last": True}, 0.9),
    ScreenedSettings({"freeze": False}, None, lost="it died"),
]


def test_the_best_values_are_put_together() -> None:
    assert joined_best(SCREENED, {}) == {"threads": 4, "channels_last": True}


def test_the_fastest_are_measured_to_the_end() -> None:
    more = [*SCREENED, ScreenedSettings({"threads": 4, "channels_last": True}, 0.5)]
    assert choose_finalists(more) == [{"threads": 4, "channels_last": True}, {"threads": 4}, {"threads": 2}]
    assert choose_finalists([ScreenedSettings({"threads": 2}, 1.2)]) == []


def test_what_adds_nothing_is_left_out() -> None:
    whole = ScreenedSettings({"threads": 4, "onednn": False}, 0.595)
    assert choose_finalists([ScreenedSettings({"threads": 4}, 0.6), whole]) == [{"threads": 4}]


def test_the_confidence_is_shared_by_all_finalists() -> None:
    assert confidence_of_each(1) == VERDICT_CONFIDENCE
    assert 1 - confidence_of_each(3) == pytest.approx((1 - VERDICT_CONFIDENCE) / 3)


def test_a_few_are_screened_at_once() -> None:
    assert [len(heat) for heat in in_heats([{}] * 6)] == [4, 2]

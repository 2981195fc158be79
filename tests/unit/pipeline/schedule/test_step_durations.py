"""What former runs say of a step, of the chain behind it, and of a model that nobody has done yet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from transload.models.store import Store
from transload.pipeline.schedule.step_durations import StepDurations, StepRecord, kind_of_model, read_durations

STEPS = {
    "weights": 3.0, "data": 1.0, "reference": 2.0,
    "convert.pt2.a": 10.0, "verify.pt2.a": 2.0,
    "convert.onnx.a+b": 20.0, "verify.onnx.a+b": 40.0,
    "convert.tflite.a+b+c": 5.0, "verify.tflite.a+b+c": 6.0,
    "convert.saved-model.ab": 7.0,
}  # fmt: skip


@pytest.fixture
def durations() -> StepDurations:
    other = [StepRecord("timm:small", "convert.pt2.a", 1.0), StepRecord("timm:smaller", "convert.pt2.a", 0.5)]
    return StepDurations([*(StepRecord("net.py:Net", step, seconds) for step, seconds in STEPS.items()), *other])


def test_a_step_counts_with_its_median_and_of_another_model_with_its_longest(durations: StepDurations) -> None:
    twice = StepDurations(StepRecord("m", "data", seconds) for seconds in (1.0, 9.0, 2.0))
    assert twice.step_s("m", "data") == 2.0
    assert durations.step_s("timm:small", "convert.pt2.a") == 1.0
    assert durations.step_s("timm:new", "convert.pt2.a") == 10.0
    assert durations.step_s("timm:new", "convert.keras.x") is None


def test_the_rest_of_a_step_is_the_longest_chain_of_routes_that_go_on_from_it(durations: StepDurations) -> None:
    rest = {step: durations.rest_s("net.py:Net", step) for step in STEPS}
    assert rest == {
        "weights": 76.0, "data": 76.0, "reference": 76.0,
        "convert.pt2.a": 70.0, "verify.pt2.a": 2.0,
        "convert.onnx.a+b": 60.0, "verify.onnx.a+b": 40.0,
        "convert.tflite.a+b+c": 11.0, "verify.tflite.a+b+c": 6.0,
        "convert.saved-model.ab": 7.0,
    }  # fmt: skip
    assert durations.rest_s("net.py:Net", "verify.keras.z") == 0.0


def test_a_model_is_as_long_as_its_longest_chain_to_a_wanted_target(durations: StepDurations) -> None:
    assert durations.model_s("net.py:Net") == 76.0
    assert durations.model_s("net.py:Net", {"tflite"}) == 6.0 + 10.0 + 20.0 + 5.0 + 6.0
    assert durations.model_s("net.py:Net", {"saved-model"}) == 13.0


def test_a_model_that_was_not_done_is_as_long_as_the_median_of_its_kind(durations: StepDurations) -> None:
    assert durations.model_s("timm:new") == 0.75
    assert durations.model_s("other/place.py:Large") == 76.0
    assert durations.model_s("file.onnx") is None
    assert durations.rest_s("timm:new", "convert.pt2.a") == 1.0 + 2.0 + 20.0 + 40.0 - 2.0


def test_kinds_are_libraries_and_endings_of_files() -> None:
    texts = ("timm:resnet18", "a/net.py:Net", "a/net.onnx", "hf:google/bert", "package.mod:f")
    assert [kind_of_model(text) for text in texts] == ["timm", ".py", ".onnx", "hf", ".mod"]


def test_the_records_of_a_store_are_read_and_broken_ones_left_out(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", model="timm:net")
    for key, seconds in (("a" * 64, 4.0), ("b" * 64, 2.0)):
        with store.workspace() as work:
            (work / "out").mkdir()
            (work / "out" / "file").write_text(key)
            store.commit(key, work / "out", {}, seconds, step="convert.pt2.a")
    actions = tmp_path / "store" / "actions"
    (actions / "broken.json").write_text("{")
    (actions / "older.json").write_text(json.dumps({"digest": "0"}))
    (actions / "list.json").write_text("[]")
    (actions / "lost.json").symlink_to("nowhere")
    durations = read_durations(tmp_path / "store")
    assert durations.step_s("timm:net", "convert.pt2.a") == 3.0
    assert read_durations(tmp_path / "none").model_s("timm:net") is None

"""The longest first, short ones between; by what former runs say of a model, or of its kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from transload.models.store import Store
from transload.pipeline.commands.model_list.model_order import (
    ModelDurations,
    kind_of_model,
    longest_first,
    read_durations,
)

STEPS = {
    "weights": 3.0, "data": 1.0, "reference": 2.0,
    "convert.pt2.a": 10.0, "verify.pt2.a": 2.0,
    "convert.onnx.a+b": 20.0, "verify.onnx.a+b": 40.0,
    "convert.tflite.a+b+c": 5.0, "verify.tflite.a+b+c": 6.0,
    "convert.saved-model.ab": 7.0,
}  # fmt: skip


@pytest.fixture
def durations() -> ModelDurations:
    other = [("timm:small", "convert.pt2.a", 1.0), ("timm:smaller", "convert.pt2.a", 0.5)]
    return ModelDurations([*(("net.py:Net", step, seconds) for step, seconds in STEPS.items()), *other])


def test_a_step_counts_as_it_was_last_done() -> None:
    assert ModelDurations(("m", "data", seconds) for seconds in (2.0, 9.0, 1.0)).model_s("m") == 2.0


def test_a_model_is_as_long_as_its_longest_chain_to_a_wanted_target(durations: ModelDurations) -> None:
    assert durations.model_s("net.py:Net") == 76.0
    assert durations.model_s("net.py:Net", {"tflite"}) == 6.0 + 10.0 + 20.0 + 5.0 + 6.0
    assert durations.model_s("net.py:Net", {"saved-model"}) == 13.0


def test_a_model_that_was_not_done_is_as_long_as_the_median_of_its_kind(durations: ModelDurations) -> None:
    assert durations.model_s("timm:new") == 0.75
    assert durations.model_s("other/place.py:Large") == 76.0
    assert durations.model_s("file.onnx") is None


def test_kinds_are_libraries_and_endings_of_files() -> None:
    texts = ("timm:resnet18", "a/net.py:Net", "a/net.onnx", "hf:google/bert", "package.mod:f")
    assert [kind_of_model(text) for text in texts] == ["timm", ".py", ".onnx", "hf", ".mod"]


def test_the_records_of_a_store_are_read_and_broken_ones_left_out(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", model="timm:net")
    for key, step, seconds in (("a" * 64, "convert.pt2.a", 4.0), ("b" * 64, "verify.pt2.a", 2.0)):
        with store.workspace() as work:
            (work / "out").mkdir()
            (work / "out" / "file").write_text(key)
            store.commit(key, work / "out", {}, seconds, step=step)
    actions = tmp_path / "store" / "actions"
    (actions / "broken.json").write_text("{")
    (actions / "older.json").write_text(json.dumps({"digest": "0"}))
    (actions / "list.json").write_text("[]")
    (actions / "lost.json").symlink_to("nowhere")
    assert read_durations(tmp_path / "store").model_s("timm:net") == 6.0
    assert read_durations(tmp_path / "none").model_s("timm:net") is None


def test_the_longest_are_first_with_the_shortest_between_them_and_equal_ones_keep_their_order() -> None:
    seconds = {"a": 1.0, "b": 5.0, "c": 5.0, "d": 2.0, "e": 3.0, "f": 4.0, "g": 0.5}
    assert longest_first(list(seconds), seconds.get) == ["b", "c", "g", "f", "e", "a", "d"]
    assert longest_first([], seconds.get) == []


def test_unknown_models_are_first_by_the_size_of_their_weights() -> None:
    seconds, sizes = {"known": 100.0}, {"small": 1, "large": 9}
    order = longest_first(["known", "small", "large"], seconds.get, lambda model: sizes.get(model, 0))
    assert order == ["large", "small", "known"]
    assert longest_first(["known", "plain"], seconds.get) == ["plain", "known"]

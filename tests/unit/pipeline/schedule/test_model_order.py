"""The longest first; what nobody knows before all others, the largest of it first."""

from __future__ import annotations

from transload.pipeline.schedule.model_order import longest_first


def test_the_longest_is_first_and_equal_ones_keep_their_order() -> None:
    seconds = {"a": 1.0, "b": 5.0, "c": 5.0, "d": 2.0}
    assert longest_first(list(seconds), seconds.get) == ["b", "c", "d", "a"]


def test_unknown_models_are_first_by_the_size_of_their_weights() -> None:
    seconds, sizes = {"known": 100.0}, {"small": 1, "large": 9}
    order = longest_first(["known", "plain", "small", "large"], seconds.get, lambda model: sizes.get(model, 0))
    assert order == ["large", "small", "plain", "known"]

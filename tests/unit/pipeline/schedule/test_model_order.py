"""The longest first, short ones between; what nobody knows before all others, the largest of it first."""

from __future__ import annotations

from transload.pipeline.schedule.model_order import longest_first


def test_the_longest_are_first_with_the_shortest_between_them_and_equal_ones_keep_their_order() -> None:
    seconds = {"a": 1.0, "b": 5.0, "c": 5.0, "d": 2.0, "e": 3.0, "f": 4.0, "g": 0.5}
    assert longest_first(list(seconds), seconds.get) == ["b", "c", "g", "f", "e", "a", "d"]
    assert longest_first([], seconds.get) == []


def test_unknown_models_are_first_by_the_size_of_their_weights() -> None:
    seconds, sizes = {"known": 100.0}, {"small": 1, "large": 9}
    order = longest_first(["known", "small", "large"], seconds.get, lambda model: sizes.get(model, 0))
    assert order == ["large", "small", "known"]
    assert longest_first(["known", "plain"], seconds.get) == ["plain", "known"]

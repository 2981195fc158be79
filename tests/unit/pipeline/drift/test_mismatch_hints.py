"""What a wrong answer looks like."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from transload.models.signature import Array
from transload.pipeline.drift.mismatch_hints import explain, structure

RNG = np.random.default_rng(7)
SQUARE = RNG.normal(size=(6, 4, 4)).astype(np.float32)
DISTINCT = RNG.normal(size=(6, 3, 5)).astype(np.float32)
LOGITS = RNG.normal(size=(6, 10)).astype(np.float32) * 3


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


LOOKS: list[tuple[str, Callable[[Array], Array], Array]] = [
    ("equals the reference after the axes permutation (0, 2, 1): the layout was lost (to the last bit)",
     lambda x: x.transpose(0, 2, 1), SQUARE),
    ("equals the reference after the axes permutation (0, 2, 1): the layout was lost (to the last bit)",
     lambda x: x.transpose(0, 2, 1), DISTINCT),
    ("holds the reference's values in the shape [6, 15] instead of [6, 3, 5]", lambda x: x.reshape(6, 15), DISTINCT),
    ("holds the samples in another order: sample 0 got the answer to sample 1",
     lambda x: x[[1, 2, 3, 4, 5, 0]], LOGITS),
    ("gives every sample the answer to sample 0: the batch was lost", lambda x: x[[0] * 6], LOGITS),
    ("gives some samples the answers to others: the batch was mixed up", lambda x: x[[0, 1, 0, 1, 0, 1]], LOGITS),
    ("equals the reference with axis 1 reversed (to the last bit)", lambda x: x[:, ::-1], LOGITS),
    ("is the reference with the opposite sign", lambda x: -x, LOGITS),
    ("is the reference times 0.5", lambda x: x / 2, LOGITS),
    ("is the reference plus 3", lambda x: x + 3, LOGITS),
    ("is the reference times 2 plus 1", lambda x: 2 * x + 1, LOGITS),
    ("equals the softmax of the reference", softmax, LOGITS),
    ("lacks the softmax that the reference has", np.log, softmax(LOGITS)),
    ("equals the sigmoid of the reference", lambda x: 1 / (1 + np.exp(-x)), LOGITS),
]  # fmt: skip


@pytest.mark.parametrize(("words", "wrong", "want"), LOOKS)
def test_a_known_mistake_is_named(words: str, wrong: Callable[[Array], Array], want: Array) -> None:
    assert explain({"y": wrong(want)}, {"y": want}) == f"output y {words}"


@pytest.mark.parametrize("want", [SQUARE, LOGITS, np.zeros((3, 3)), np.ones((1, 1)), np.zeros((0, 2)), np.array(1.0)])
def test_what_agrees_is_not_explained(want: Array) -> None:
    assert explain({"y": want + np.float32(0)}, {"y": want}) is None


def test_noise_is_not_explained() -> None:
    noise = np.random.default_rng(1).normal(size=LOGITS.shape)
    assert explain({"y": noise}, {"y": LOGITS}) is None
    assert explain({"y": LOGITS + noise}, {"y": LOGITS}) is None
    assert explain({"y": np.full_like(LOGITS, np.nan)}, {"y": LOGITS}) is None


def test_samples_of_few_distinct_numbers_that_are_one_off_are_not_said_to_be_mixed_up() -> None:
    want = np.array([[0, 9, 40], [0, 10, 40], [60, 0, 3], [0, 30, 0]])
    got = want + np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]])
    assert explain({"y": got}, {"y": want}) is None


def test_two_numbers_are_too_few_for_a_line() -> None:
    assert explain({"y": np.array([[3.0, 9.0]])}, {"y": np.array([[1.0, 2.0]])}) is None


def test_exchanged_outputs_are_named_whether_or_not_the_names_are_kept() -> None:
    a, b = LOGITS, LOGITS[:, ::-1] * 2 + SQUARE.reshape(6, 16)[:, :10]
    kept = explain({"a": b, "b": a}, {"a": a, "b": b})
    assert kept == "the outputs are exchanged: a holds the reference's b, b holds the reference's a"
    renamed = explain({"x": a, "y": b}, {"a": a, "b": b})
    assert renamed == "the outputs go by other names: x holds the reference's a, y holds the reference's b"


STRUCTURES = [
    ({"b": LOGITS}, "the outputs are called b, the reference's a"),
    ({}, "the outputs are called nothing, the reference's a"),
    ({"a": LOGITS[:, :9]}, "output a has the shape [6, 9], the reference's [6, 10]"),
    ({"a": LOGITS.astype(np.float64)}, "output a is float64, the reference's float32"),
    ({"a": LOGITS + 1}, None),
]


@pytest.mark.parametrize(("got", "words"), STRUCTURES)
def test_names_shapes_and_dtypes_are_held_against_the_reference(got: dict[str, Array], words: str | None) -> None:
    assert structure(got, {"a": LOGITS}) == words


def test_the_order_of_outputs_is_held_against_the_reference() -> None:
    found = structure({"b": LOGITS, "a": LOGITS}, {"a": LOGITS, "b": LOGITS})
    assert found == "the outputs come in the order b, a, the reference's in a, b"

"""Equal values are found by their numbers, in any layout; unequal ones are not."""

from __future__ import annotations

import numpy as np
import pytest

from transload.pipeline.locate.value_match import EXACT_DB, CandidateValues, agreement_db, is_telling, plain_key

RNG = np.random.default_rng(5)
IMAGE = RNG.normal(size=(2, 3, 5, 7)).astype(np.float32)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (1, 2, 3, 0), (3, 2, 1, 0)])
def test_a_value_is_found_whatever_the_order_of_its_axes(order: tuple[int, ...]) -> None:
    values = CandidateValues(
        {"other": RNG.normal(size=IMAGE.shape), "same": np.ascontiguousarray(IMAGE.transpose(order))}
    )
    best = values.matches(IMAGE)[0]
    assert (best.name, best.agreement_db) == ("same", EXACT_DB)
    np.testing.assert_array_equal(best.array, IMAGE)


def test_a_value_is_found_under_another_shape() -> None:
    values = CandidateValues(
        {"rows": IMAGE.reshape(2, 105), "channels last": IMAGE.transpose(0, 2, 3, 1).reshape(2, 35, 3)}
    )
    assert {match.name for match in values.matches(IMAGE) if match.agreement_db == EXACT_DB} == {
        "rows",
        "channels last",
    }
    flat = IMAGE.reshape(2, 3, 35)
    assert {match.name for match in values.matches(flat) if match.agreement_db == EXACT_DB} == {"rows", "channels last"}


def test_a_drifting_value_is_found_with_its_noise() -> None:
    values = CandidateValues({"drift": IMAGE * np.float32(1.001)})
    (match,) = values.matches(IMAGE)
    assert match.agreement_db == pytest.approx(60, abs=0.1)


def test_agreement_counts_no_number_where_other_elements_are_finite() -> None:
    broken = IMAGE.copy()
    broken[0, 0, 0, 0] = np.nan
    assert agreement_db(broken, IMAGE) == -np.inf
    assert agreement_db(broken, broken) == EXACT_DB
    assert agreement_db(np.array([1, 2]), np.array([1, 3])) == -np.inf


@pytest.mark.parametrize(
    ("array", "telling"),
    [
        (np.ones(9, np.float32), False),
        (np.full(9, 0.1, np.float32), True),
        (np.full(9, -10000.0, np.float32), False),
        (np.arange(4), False),
        (np.array([1_700_000_000]), True),
        (np.arange(40), True),
        (IMAGE, True),
        (IMAGE[:0], False),
    ],
)
def test_plain_constants_and_few_small_integers_tell_nothing(array: np.ndarray, telling: bool) -> None:
    assert is_telling(array) is telling


def test_equal_values_that_tell_nothing_have_one_key() -> None:
    mask = np.array([True, True, False])
    assert plain_key(mask) == plain_key(mask.astype(np.float32)[None]) == plain_key(mask.astype(np.int64))
    assert plain_key(np.ones(5)) != plain_key(np.ones(6))
    assert plain_key(np.array([1, 2])) != plain_key(np.array([2, 1]))

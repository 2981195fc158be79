"""Rows beside the numbers that a graph compares its values with."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from transload.models.dataset import Dataset
from transload.models.probes.threshold_rows import ThresholdRows, Watch, find_threshold_rows
from transload.models.probes.thresholds import Hear
from transload.models.signature import Array, Signature, TensorSpec, ValueRange

SAMPLES = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
WEIGHTS = np.random.default_rng(1).normal(size=(6, 4))


def compared(kind: str, *numbers: float, column: int | None = None) -> Watch:
    """A graph with one operator on a hidden value, or on a column of the input."""

    def watch(feeds: Mapping[str, Array], hear: Hear) -> None:
        x = feeds["x"]
        hear("0", kind, [x @ WEIGHTS if column is None else x[:, column : column + 1]], numbers)

    return watch


def searched(watch: Watch, spec: TensorSpec | None = None, samples: Array = SAMPLES) -> ThresholdRows:
    spec = spec or TensorSpec("x", "float32", ("batch", 6))
    signature = Signature((spec,), (TensorSpec("y", "float32", ("batch", 4)),))
    return find_threshold_rows(signature, Dataset({"x": samples}), watch)


def inputs_of(found: ThresholdRows) -> Array:
    return np.concatenate([rows.inputs["x"] for rows in found.rows.values()])


@pytest.mark.parametrize("number", [37.5, -60.0, 613.0])
def test_rows_lie_close_to_a_threshold_on_one_input_from_both_sides(number: float) -> None:
    found = searched(compared("Greater", number, column=2))
    values = inputs_of(found)[:, 2]
    assert (found.thresholds, found.unreached) == (1, 0)
    for sign in (-1, 1):
        distances = sign * (values - number)
        assert 0.01 * abs(number) < distances[distances > 0].min() < 0.05 * abs(number)


@pytest.mark.parametrize("kind", ["Clip", "aten::clamp", "Minimum", "MAXIMUM", "GreaterOrEqual", "LESS"])
def test_hidden_values_reach_a_limit_in_every_format(kind: str) -> None:
    hidden = inputs_of(searched(compared(kind, 25.0))) @ WEIGHTS
    assert 25 < hidden.max(1).max() < 27
    assert ((hidden.max(1) > 24) & (hidden.max(1) < 25)).any()


def test_the_tail_of_an_activation_is_reached_and_that_of_no_other_operator() -> None:
    found = searched(compared("Sigmoid"))
    assert (found.thresholds, found.unreached) == (6, 0)
    assert (inputs_of(found) @ WEIGHTS).min() < -100
    assert searched(compared("Neg", 3.0)) == ThresholdRows()


def test_a_normalised_row_is_brought_to_its_epsilon() -> None:
    def watch(feeds: Mapping[str, Array], hear: Hear) -> None:
        hear("0", "LayerNormalization", [feeds["x"]], [1e-8])

    variances = inputs_of(searched(watch)).astype(np.float64).var(1)
    assert ((variances > 0.5e-8) & (variances < 2e-8)).any()


def test_no_row_leaves_the_declaration_and_what_it_keeps_out_of_reach_is_counted() -> None:
    declared = TensorSpec("x", "float32", ("batch", 6), values=ValueRange(-5, 40))
    found = searched(compared("Clip", 30.0, 50.0, column=0), declared, np.clip(SAMPLES, -5, 40))
    assert (found.thresholds, found.unreached) == (2, 1)
    assert (inputs_of(found).min(), inputs_of(found).max()) >= (-5, 30)
    assert inputs_of(found).max() <= 40
    assert str(found).endswith("1 of them reached by no input")


def test_a_number_that_every_sample_lies_around_needs_no_rows() -> None:
    def watch(feeds: Mapping[str, Array], hear: Hear) -> None:
        hear("0", "Max", [np.concatenate([feeds["x"] ** 2, -(feeds["x"] ** 2)], 1)], [0.0])

    assert not searched(watch).rows


def test_known_rows_beside_a_number_are_not_sought_again() -> None:
    watch = compared("Clip", 50.0)
    found = searched(watch)
    signature = Signature((TensorSpec("x", "float32", ("batch", 6)),), (TensorSpec("y", "float32", ("batch", 4)),))
    again = find_threshold_rows(signature, Dataset({"x": SAMPLES}), watch, known=[*found.rows.values()])
    assert found.rows
    assert (again.rows, again.thresholds, again.unreached) == ({}, 1, 0)

"""Stress: floats that random samples do not hold, the same in every interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from transload.models.dataset import Dataset
from transload.models.probes.masks import STRESS, Fill
from transload.models.probes.probe_set import Probe
from transload.models.probes.stress_floats import apply_stress
from transload.models.signature import Array

DATA = Dataset({"x": np.linspace(-2, 3, 20 * 24).reshape(20, 4, 6).astype(np.float32), "ids": np.arange(20)})


def stressed(fill: Fill) -> Array:
    probe = Probe(2, fills={"x": fill})
    samples = probe.of(DATA)
    assert samples.inputs["ids"] is not None
    assert [rows.tolist() for rows in probe.rows(samples)] == [[0, 1]], "one call"
    x = samples.inputs["x"][:2]
    assert x.dtype == np.float32
    assert x.shape == (2, 4, 6)
    return x


def test_the_tails_of_activations_are_asked_in_every_call() -> None:
    tails = stressed(Fill.TAILS)
    for exactly in (1, 6, 10, 3, -18.5, 40, -40, 0):
        assert exactly in tails
    assert (tails[0] != tails[1]).mean() > 0.9
    assert (tails.min(), tails.max()) < (-99, 101)


def test_magnitudes_ones_and_ties() -> None:
    assert abs(stressed(Fill.LARGE)).max() == pytest.approx(2000)
    assert abs(stressed(Fill.TINY)).max() == pytest.approx(2e-4)
    assert set(stressed(Fill.ONES).ravel()) == {1}
    whole, between = stressed(Fill.TIES)
    assert not (whole % 1).any()
    assert {0, 0.5, 0.25, 0.125} <= set((abs(between) % 1).ravel())


def test_every_second_sample_is_finite() -> None:
    nan, infinite = stressed(Fill.NAN), stressed(Fill.INFINITE)
    assert np.isnan(nan[0]).sum() == 1
    assert sorted(infinite[0][np.isinf(infinite[0])]) == [-np.inf, np.inf]
    assert np.isfinite(nan[1]).all()
    assert np.isfinite(infinite[1]).all()


@pytest.mark.parametrize("fill", STRESS)
def test_inputs_of_one_number_can_be_stressed(fill: Fill) -> None:
    data = Dataset({"x": np.arange(4, dtype=np.float16)})
    assert Probe(2, fills={"x": fill}).of(data).inputs["x"].shape == (4,)


@pytest.mark.parametrize("width", [5, 6])
def test_columns_over_rows_miss_some_values_and_all(width: int) -> None:
    days = Dataset({"x": np.ones((2, 4, width), np.float32)}, None)
    missing = np.isnan(apply_stress(days, {"x": Fill.MISSING}).inputs["x"]).sum(axis=1)
    assert all(2 in column for column in missing.T)
    assert 4 in missing


def test_a_table_misses_each_column_once() -> None:
    table = Dataset({"x": np.ones((4, 7), np.float32)}, None)
    missing = np.isnan(apply_stress(table, {"x": Fill.MISSING}).inputs["x"])
    assert (missing[0] ^ missing[1]).all()
    assert (missing[:2] == missing[2:]).all()

"""Probes: their keys, and the rows of their calls."""

from __future__ import annotations

import numpy as np

from transload.models.dataset import Dataset
from transload.models.probes.feeds import CallRows
from transload.models.probes.masks import Fill
from transload.models.probes.probe_set import Probe


def test_a_probe_is_what_its_key_says() -> None:
    probe = Probe(5, {"length": 3}, {}, {"mask": Fill.ALL})
    assert Probe.of_key(probe.key) == probe


def test_a_probe_larger_than_the_test_set_begins_again_one_further() -> None:
    three, five = (Dataset({"x": np.zeros((samples, 1))}) for samples in (3, 5))
    assert [rows.tolist() for rows in Probe(5).rows(three)] == [[0, 1, 2, 1, 2]]
    assert [rows.tolist() for rows in Probe(2).rows(five)] == [[0, 1], [2, 3]]
    assert [rows.tolist() for rows in CallRows(5, 2)] == [[0, 1], [2, 3], [4]]

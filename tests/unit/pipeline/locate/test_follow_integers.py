"""A pair of values from which the model cannot go on, as an index beyond its table, is a trial and no failure."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from transload.pipeline.locate.divergence import PairTrial
from transload.pipeline.locate.followed_answer import ValuePair


@pytest.mark.parametrize("error", [IndexError("index out of range in self"), RuntimeError("size mismatch")])
def test_a_pair_that_the_model_cannot_go_on_from_explains_nothing(error: Exception) -> None:
    def fail(*_arguments: Any) -> None:
        raise error

    values = SimpleNamespace(matches=lambda _array: [])
    reference: Any = SimpleNamespace(least_db=100.0, values=values, run=fail)
    answer = SimpleNamespace(calls=[SimpleNamespace(writes=[0])], names={})
    divergence: Any = SimpleNamespace(answer=answer, unequal=frozenset({"index"}))
    trial = PairTrial(reference, divergence, (), math.inf)
    assert trial.first_explaining([ValuePair(0, 0, "index", np.asarray([11]), 3.0)]) is None

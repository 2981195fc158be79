"""Limits that follow from how well a reference agrees with itself and with float64."""

from __future__ import annotations

import numpy as np
import pytest

from transload.models.signature import Array
from transload.pipeline.drift.noise_floor import (
    EXACT_DB,
    Cause,
    Limit,
    derive_limits,
    measure_batch_split,
    measure_noise,
)
from transload.pipeline.drift.numbers.numeric import Drift
from transload.pipeline.drift.rules import Rule, judge

RNG = np.random.default_rng(0)
ANSWERS = RNG.standard_normal((20, 4)).astype(np.float32)


@pytest.mark.parametrize(
    ("noise", "limit_db", "cause"),
    [
        ({Cause.FLOAT64: 138.0}, 103.0, Cause.FLOAT64),
        ({Cause.FLOAT64: 138.0, Cause.LAST_BITS: 131.0}, 96.0, Cause.LAST_BITS),
        ({Cause.FLOAT64: 149.5}, 114.5, Cause.FLOAT64),
        ({Cause.FLOAT64: EXACT_DB}, 120.0, Cause.FLOAT64),  # it rounds nothing, and a copy may round a little
        ({Cause.FLOAT64: 69.0}, 34.0, Cause.FLOAT64),
        ({Cause.FLOAT64: 20.0, Cause.LAST_BITS: 45.0}, 30.0, Cause.FLOAT64),
        # Without float64, rounding inside the model is not seen: the floor is no higher than 130 dB.
        ({Cause.LAST_BITS: 141.0}, 95.0, Cause.LAST_BITS),
        ({Cause.LAST_BITS: 95.0, Cause.BATCH_SPLIT: 99.0}, 60.0, Cause.LAST_BITS),
        # A model that computes something else in float64 is held to its own steadiness.
        ({Cause.FLOAT64: 12.0, Cause.LAST_BITS: 135.0}, 95.0, Cause.LAST_BITS),
    ],
)
def test_a_limit_lies_35_db_below_the_floor(noise: dict[Cause, float], limit_db: float, cause: Cause) -> None:
    limit = derive_limits({known: {"y": noise_db} for known, noise_db in noise.items()})["y"]
    assert (limit.sqnr_db, limit.cause) == (limit_db, cause)


def test_answers_that_agree_with_themselves_exactly_tell_nothing_of_rounding() -> None:
    assert derive_limits({Cause.LAST_BITS: {"y": EXACT_DB}, Cause.BATCH_SPLIT: {"y": EXACT_DB}}) == {}
    assert derive_limits({}) == {}


def test_each_output_has_a_limit_of_its_own() -> None:
    limits = derive_limits({Cause.FLOAT64: {"logits": 138.0, "boxes": 95.0}})
    assert {name: limit.sqnr_db for name, limit in limits.items()} == {"logits": 103.0, "boxes": 60.0}
    drift = Drift(1e-3, 1e-4, 1.0, {"logits": 100.0, "boxes": 70.0}, 0, 0, 0, 100, True, ())
    judgement = judge(drift, Rule(Rule.of("fp32").precision, 60.0, limits=limits))
    assert (judgement.verdict, judgement.reason) == ("fail", "output logits agrees to 100.0 dB, below 103 dB")
    assert judgement.tolerance == {"sqnr_db": 103.0, "metric_loss": None}
    assert judgement.derivation == "the model itself agrees to 138 dB beside float64"


def test_noise_is_measured_by_output_of_floats() -> None:
    nudged = ANSWERS * np.float32(1 + 1e-4)
    noise = measure_noise({"y": nudged, "n": np.arange(4)}, {"y": ANSWERS, "n": np.arange(4)})
    assert noise == {"y": pytest.approx(80.0, abs=0.1)}
    assert measure_noise({"y": ANSWERS}, {"y": ANSWERS}) == {"y": EXACT_DB}


def test_a_batch_is_compared_with_its_samples_one_by_one() -> None:
    batched: list[dict[str, Array]] = [{"y": ANSWERS[at : at + 5], "loss": np.ones(())} for at in range(0, 20, 5)]
    single = [{"y": np.multiply(ANSWERS[at : at + 1], np.float32(1 + 1e-6)), "loss": np.zeros(())} for at in range(10)]
    assert measure_batch_split(batched, single) == {"y": pytest.approx(120, abs=1)}


def test_samples_that_influence_each_other_are_no_rounding() -> None:
    batched = [{"y": ANSWERS[:5] - ANSWERS[:5].mean(axis=0)}]
    assert measure_batch_split(batched, [{"y": ANSWERS[at : at + 1]} for at in range(5)]) == {}


def test_a_limit_is_lower_where_sums_are_longer() -> None:
    limit = Limit(100.0, 135.0, Cause.FLOAT64)
    assert [limit.for_inputs(times).sqnr_db for times in (0.1, 1, 10, 100)] == [100, 100, 90, 80]
    assert limit.for_inputs(1e30).sqnr_db == 30

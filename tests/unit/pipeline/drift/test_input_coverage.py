"""What a session was asked: sizes, numbers and stress, and the ends of the declaration that were left out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from transload.models.probes.masks import Fill
from transload.models.probes.probe_set import Probe
from transload.models.probes.stress_values import IntegerRange
from transload.models.signature import Array, Bounds, Signature, TensorSpec, ValueRange
from transload.pipeline.drift.input_coverage import ObservedSession, describe_exercise
from transload.pipeline.drift.probe_result import CheckResult
from transload.pipeline.drift.recorded_answers import ReferenceRecord
from transload.pipeline.drift.rules import PASS, Judgement

SIGNATURE = Signature(
    (
        TensorSpec("ids", "int64", ("batch", "seq"), (("seq", Bounds(1, 64, 3)),), ValueRange(0, 99)),
        TensorSpec("x", "float32", ("batch",)),
        TensorSpec("empty", "float32", ("batch", 0)),
    ),
    (TensorSpec("y", "float32", ("batch",)),),
)


class Silent:
    """A session whose answers nobody reads."""

    signature, device = SIGNATURE, "cpu"

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"y": feeds["x"]}

    def close(self) -> None:
        self.device = "closed"


def result(probe: Probe) -> CheckResult:
    return CheckResult(probe, {"samples": 2 * probe.batch}, Judgement(PASS, None, {}))


def test_sizes_and_numbers_are_those_of_the_calls() -> None:
    session = ObservedSession(Silent(), SIGNATURE)
    x = np.array([0.0, -4.0, 0.25], np.float32)
    session.run({"ids": np.array([[3, 7]] * 3), "x": x, "empty": np.zeros((3, 0))})
    session.run({"ids": np.full((1, 16), 42), "x": np.array([np.nan], np.float32)})
    probes = Probe(1), Probe(3, {}, {}, {"x": Fill.NAN}), Probe(3, {}, {"ids": IntegerRange(0, 5)})
    record = ReferenceRecord(SIGNATURE, (*probes, Probe(3, {}, {}, {"x": Fill.LARGE})), refused={"seq": [64, 0]})
    row = describe_exercise(session, record, [result(probe) for probe in probes], "tflite")
    assert (row["runtime"], row["samples"], row["calls"]) == ("tflite", 2, 2)
    assert row["axes"] == [
        {"axis": "batch", "declared": [1, None], "sizes": [1, 3], "refused": [], "not_asked": [[4, None]]},
        {"axis": "seq", "declared": [1, 64], "sizes": [2, 16], "refused": [0, 64], "not_asked": []},
    ]
    ids, floats, empty = row["inputs"]
    assert (ids["least"], ids["most"], ids["least_magnitude"]) == (3, 42, None)
    assert (ids["declared"], ids["not_asked"]) == ([0, 99], [[0, 3], [42, 99]])
    assert (floats["least"], floats["most"], floats["least_magnitude"], floats["non_finite"]) == (
        -4.0,
        0.25,
        0.25,
        True,
    )
    assert (empty["least"], empty["most"]) == (None, None)
    assert row["stress"] == ["x nan", "ids integers"]
    assert row["stress_not_asked"] == ["x large"]


def test_an_end_that_was_never_reached_is_left_out() -> None:
    session = ObservedSession(Silent(), SIGNATURE)
    session.run({"ids": np.zeros((2, 7), int), "x": np.zeros(2, np.float32)})
    row = describe_exercise(session, ReferenceRecord(SIGNATURE, ()), [], "torch")
    assert row["axes"][1]["not_asked"] == [[1, 4], [10, 64]]
    session.close()
    assert session.device == "closed"

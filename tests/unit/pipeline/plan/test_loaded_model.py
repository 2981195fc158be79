"""Random samples for int8 files lie within what these were calibrated on."""

from __future__ import annotations

from transload.models.formats import Format, Target
from transload.models.signature import Signature, TensorSpec, ValueRange
from transload.models.store import Stored
from transload.pipeline.plan.loaded_model import LoadedModel, ModelDescription, common_ranges, ranges_of, within_ranges

SIGNATURE = Signature((TensorSpec("x", "float32", ("batch", 4)),), (TensorSpec("y", "float32", ("batch", 4)),))


def loaded(**ranges: ValueRange) -> LoadedModel:
    stored = Stored.__new__(Stored)  # nothing of it is asked
    return LoadedModel(ModelDescription("net", SIGNATURE), stored, Target(Format.ONNX), calibrated=ranges)


def test_only_ranges_that_usual_random_samples_leave_are_kept() -> None:
    assert ranges_of({"x": (0.0, 1.0), "wide": (-4.0, 4.0), "none": (0.0, 0.0)}) == {"x": ValueRange(0.0, 1.0)}


def test_samples_lie_within_the_ranges_of_every_copy_unless_values_are_declared() -> None:
    common = common_ranges([loaded(x=ValueRange(0.0, 2.0)), loaded(x=ValueRange(-1.0, 1.0))])
    assert common == {"x": ValueRange(0.0, 1.0)}
    assert within_ranges(SIGNATURE, common).inputs[0].values == ValueRange(0.0, 1.0)
    declared = TensorSpec("x", "float32", ("batch", 4), values=ValueRange(-3.0, 3.0))
    assert within_ranges(Signature((declared,), SIGNATURE.outputs), common).inputs == (declared,)

"""Failures of many models are grouped by their typed cause, and by the wording only where nothing else is known."""

from __future__ import annotations

from transload.pipeline.commands.model_list.failure_causes import common_sentence, group_causes
from transload.pipeline.result.failure_kinds import FailureKind

from .list_samples import failure, row


def test_one_cause_for_one_kind_step_and_sentence() -> None:
    rows = [
        row("a", failure("cannot convert node '/conv/Conv': Resize of opset 18. More of it"), status=4),
        row("b", failure("cannot convert node '/head/x': Resize of opset 20", target="saved-model"),
            failure("cannot convert node '/head/y': Resize of opset 20", target="tflite"), status=4),
        row("c", failure("cannot convert node '/conv/Conv': TopK of opset 18"), status=4),
        row("d", failure("cannot convert node '/conv/Conv': Resize of opset 18", step="lowering"), status=4),
        row("e"),
    ]  # fmt: skip
    causes = group_causes(rows)
    places = [[(place.model, place.target) for place in cause.places] for cause in causes]
    assert places == [
        [("a", "tflite"), ("b", "saved-model"), ("b", "tflite")], [("c", "tflite")], [("d", "tflite")],
    ]  # fmt: skip
    assert (causes[0].models, causes[0].places[0].log) == (2, "a/logs/a.log")


def test_an_operator_counts_more_than_the_wording() -> None:
    rows = [row("a", failure("off by 3", operator="aten.log1p")), row("b", failure("to 2 dB", operator="aten.log1p")),
            row("c", failure("off by 3", operator="aten.sort"))]  # fmt: skip
    assert [(cause.operator, cause.models) for cause in group_causes(rows)] == [("aten.log1p", 2), ("aten.sort", 1)]


def test_wrong_answers_and_limits_are_told_apart_by_their_step_alone() -> None:
    for kind in (FailureKind.WRONG, FailureKind.TIME, FailureKind.MEMORY):
        rows = [row("a", failure("first", kind=kind)), row("b", failure("second", kind=kind)),
                row("c", failure("first", kind=kind, step="tf2onnx"))]  # fmt: skip
        assert [cause.models for cause in group_causes(rows)] == [2, 1]
    rows = [row("a", failure("same", kind=FailureKind.TIME)), row("b", failure("same", kind=FailureKind.MEMORY))]
    assert len(group_causes(rows)) == 2


def test_names_of_operators_and_dtypes_stay_in_the_common_sentence() -> None:
    assert (
        common_sentence("Conv3D of float32 at /a/b.py:12 is not 'x y'. Then more") == "Conv3D of float32 at * is not *"
    )
    assert common_sentence("val_34 needs 3 inputs, got (1, 3, 224)") == common_sentence(
        "val_7 needs 4 inputs, got (8, 1, 64)"
    )

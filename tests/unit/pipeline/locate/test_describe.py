"""What `locate` says beside the places."""

from __future__ import annotations

import pytest

from transload.pipeline.locate.describe import describe_places
from transload.pipeline.locate.locate_records import CaptureFacts, Cure

COLUMNS = "input `features`: column ranges differ by 50 x: scale your inputs"


@pytest.mark.parametrize("departs", [False, True])
def test_columns_that_one_scale_cannot_serve_come_last(departs: bool) -> None:
    facts = CaptureFacts(calls=21, agreement_db=16.0, departs=departs, call="batch 1", columns=COLUMNS)
    lines = describe_places(facts, None)
    assert len(lines) == 2
    assert lines[-1] == COLUMNS


@pytest.mark.parametrize(
    ("cure", "sentence"),
    [
        (
            Cure(agrees=True, change="without XNNPACK", setting="Interpreter(...)", agreement_db=134.2),
            "this call agrees to 134 dB without XNNPACK: set Interpreter(...)",
        ),
        (
            Cure(agrees=True, change="in a new session"),
            "this call agrees exactly in a new session: its answer to one call is not always the same",
        ),
        (
            Cure(agrees=False, tried=("in a new session", "without XNNPACK")),
            "no change of the runtime restores agreement (tried: in a new session, without XNNPACK)",
        ),
    ],
)
def test_a_change_that_restores_agreement_is_named(cure: Cure, sentence: str) -> None:
    facts = CaptureFacts(calls=21, agreement_db=16.0, departs=True, call="batch 1", vanishes=True, cure=cure)
    assert describe_places(facts, None)[2:] == [sentence]


def test_a_copy_that_agrees_needs_no_change() -> None:
    assert len(describe_places(CaptureFacts(calls=21, agreement_db=130.0, departs=False), None)) == 1

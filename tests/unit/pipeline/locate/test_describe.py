"""What `locate` says beside the places."""

from __future__ import annotations

import pytest

from transload.pipeline.locate.describe import describe_places
from transload.pipeline.locate.locate_records import CaptureFacts

COLUMNS = "input `features`: column ranges differ by 50 x: scale your inputs"


@pytest.mark.parametrize("departs", [False, True])
def test_columns_that_one_scale_cannot_serve_come_last(departs: bool) -> None:
    facts = CaptureFacts(calls=21, agreement_db=16.0, departs=departs, call="batch 1", columns=COLUMNS)
    lines = describe_places(facts, None)
    assert len(lines) == 2
    assert lines[-1] == COLUMNS

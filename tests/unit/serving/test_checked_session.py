"""What all sessions share: feeds are held against the signature."""

from __future__ import annotations

import pytest

from transload.models.errors import BadRequest
from transload.models.signature import parse_input
from transload.serving.checked_session import FeedCheck


def test_a_first_request_without_inputs_is_refused() -> None:
    with pytest.raises(BadRequest, match="x"):
        FeedCheck((parse_input("x=float32[batch,2]"),))({})

"""Errors of the user's code as one sentence, with what helps against them."""

from __future__ import annotations

import pytest

from transload.models.errors import BadRequest
from transload.models.job import WALLED
from transload.models.loading.user_code import user_code
from transload.models.sources import CodeRef


@pytest.mark.parametrize("walled", [True, False])
def test_trust_is_advised_where_it_was_not_given(walled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WALLED, "1" if walled else "")
    with pytest.raises(BadRequest) as caught, user_code("calling Net", CodeRef(__file__, None)):
        raise PermissionError(13, "Permission denied", "/elsewhere/file")
    assert ("give --trust" in caught.value.fix) is walled

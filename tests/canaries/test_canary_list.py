"""Every patch has a canary, and every canary a patch. The canaries themselves run by `make canaries`."""

from __future__ import annotations

import pytest

from transload.converters.patches.ledger import all_patches


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_record_has_a_canary_and_every_canary_a_record() -> None:
    from .canary_cases import CASES, NOT_SHOWN  # some are compiled by torch.jit.script as they are imported

    assert set(CASES) == {patch.id for patch in all_patches()}
    assert set(CASES) >= NOT_SHOWN

"""One canary per patch: the unpatched library is still wrong. Run by `make canaries`, not by `make test`.

A canary that fails says that the library is right by now: take its patch out, and see whether the tests pass.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from canary_cases import CASES
from canary_harness import capture, dynamo_export, torchscript_export

from transload.converters.patches.ledger import all_patches
from transload.models.patch import Patch

PATCHES = all_patches()
SAMPLES = [torch.randn(3, 4)], [torch.randn(2, 5)]


@pytest.mark.parametrize("check", [capture, dynamo_export, torchscript_export])
def test_what_is_right_is_seen_as_right(check: Callable[..., str | None]) -> None:
    assert check(lambda x: x.relu() + 1, *SAMPLES) is None
    assert check(lambda x: x * len(x.shape) * x.shape[0], *SAMPLES) is None


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.id)
def test_the_unpatched_library_is_still_wrong(patch: Patch) -> None:
    canary: Callable[[], str | None] = CASES[patch.id]
    wrong = canary()
    print(f"{patch.id}: {wrong}")
    assert wrong, f"{patch.owner} is right without the patch of {patch.name}; it is unnecessary once {patch.until}"

"""One canary per patch: the unpatched library is still wrong. Run by `make canaries`, not by `make test`.

A canary that fails says that the library is right by now: take its patch out, and see whether the tests pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from _pytest.mark import ParameterSet

from transload.converters.patches.ledger import Patch, all_patches

from .canary_cases import CASES, NOT_SHOWN
from .canary_harness import capture, dynamo_export, torchscript_export

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own; they are asked as they are
PATCHES = all_patches()
SAMPLES = [torch.randn(3, 4)], [torch.randn(2, 5)]


@pytest.mark.parametrize("check", [capture, dynamo_export, torchscript_export])
def test_what_is_right_is_seen_as_right(check: Callable[..., str | None]) -> None:
    assert check(lambda x: x.relu() + 1, *SAMPLES) is None
    assert check(lambda x: x * len(x.shape) * x.shape[0], *SAMPLES) is None


def cases() -> Iterator[ParameterSet]:
    for patch in PATCHES:
        marks = [pytest.mark.xfail(strict=True, reason="no case shows it yet")] if patch.id in NOT_SHOWN else []
        yield pytest.param(patch, id=patch.id, marks=marks)


@pytest.mark.parametrize("patch", cases())
def test_the_unpatched_library_is_still_wrong(patch: Patch) -> None:
    canary: Callable[[], str | None] = CASES[patch.id]
    wrong = canary()
    print(f"{patch.id}: {wrong}")
    assert wrong, f"{patch.owner} is right without the patch of {patch.name}; it is unnecessary once {patch.until}"

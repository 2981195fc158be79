"""The scripts of the mutation benchmark, importable for the tests that ask for them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[3] / "benchmarks" / "mutations"
MODULES = tuple(path.stem for folder in (HOME, HOME / "nets") for path in folder.glob("*.py"))


@pytest.fixture(scope="module")
def mutations_on_path() -> Iterator[None]:
    """The scripts import each other by bare names; nothing of that stays behind."""
    path, before = list(sys.path), set(sys.modules)
    sys.path[:0] = [str(HOME), str(HOME / "nets")]
    yield
    sys.path[:] = path
    for name in MODULES:
        if name not in before:
            sys.modules.pop(name, None)

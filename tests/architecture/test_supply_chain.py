"""The lock names the same set as the constraints, each with the hash of its file, and no place that it came from."""

from __future__ import annotations

import re
from pathlib import Path


def pins(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name.lower().replace("_", "-"): rest for name, _, rest in (line.partition("==") for line in lines)}


def test_the_lock_has_the_tested_set_with_hashes(root: Path) -> None:
    """Else: make lock"""
    tested = pins((root / "constraints.txt").read_text())
    locked = pins((root / "constraints.lock").read_text())
    assert {name: rest.split(" ")[0] for name, rest in locked.items()} == tested
    assert [name for name, rest in locked.items() if not re.fullmatch(r"\S+ --hash=sha256:[0-9a-f]{64}", rest)] == []
    assert "://" not in (root / "constraints.lock").read_text()

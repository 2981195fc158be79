"""What images and the action are made of is named by digests and hashes, and holds all that is needed."""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import yaml
from packaging.requirements import Requirement


def test_the_base_of_the_images_and_the_steps_of_the_action_are_pinned(root: Path) -> None:
    lines = (root / "Dockerfile").read_text().splitlines()
    bases = [line.split()[1] for line in lines if line.startswith("FROM ")]
    stages = [line.split()[3] for line in lines if line.startswith("FROM ")]
    assert bases
    for base in bases:
        assert base in stages or re.fullmatch(r"python:3\.11\.\d+-slim-bookworm@sha256:[0-9a-f]{64}", base)
    steps = yaml.safe_load((root / "action.yml").read_text())["runs"]["steps"]
    uses = [step["uses"] for step in steps if "uses" in step]
    assert uses
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", text) for text in uses)


def _needed(name: str, extras: frozenset[str], seen: dict[str, frozenset[str]]) -> None:
    """Add a package and all that it requires here, by what is installed."""
    if extras <= seen.get(name, frozenset({""})) and name in seen:
        return
    seen[name] = seen.get(name, frozenset()) | extras
    try:
        rows = requires(name) or ()
    except PackageNotFoundError:
        return
    for row in map(Requirement, rows):
        if row.marker is None or any(row.marker.evaluate({"extra": extra}) for extra in (extras or {""})):
            _needed(re.sub(r"[-_.]+", "-", row.name).lower(), frozenset(row.extras), seen)


def test_the_locked_set_holds_all_that_the_cpu_image_needs(root: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/bash\nfor word; do [[ -f $word ]] && cat "$word"; done\necho "$@"\n')
    python.chmod(0o755)
    done = subprocess.run([root / ".ci/install-locked", python], check=True, capture_output=True, text=True)
    rows = [line for line in done.stdout.splitlines() if "==" in line]
    assert all(re.fullmatch(r"[\w.-]+==\S+ --hash=sha256:[0-9a-f]{64}", row) for row in rows)
    names = {re.sub(r"[-_.]+", "-", row.partition("==")[0]) for row in rows}
    seen: dict[str, frozenset[str]] = {}
    _needed("transload", frozenset({"cpu"}), seen)
    assert len(seen) > 50
    assert sorted(set(seen) - names - {"transload"}) == []
    assert not any(name.startswith(("nvidia-", "onnxruntime-", "pytest", "ruff")) for name in names)
    assert "--require-hashes --no-deps" in done.stdout

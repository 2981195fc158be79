"""What a worker imports must do without the parent's libraries: a GPU machine may have neither."""

from __future__ import annotations

import subprocess
import sys

import pytest

WORKER_SIDE = ("transload.pipeline.drift.jobs", "transload.pipeline.measure.bench.subject")
HEAVY = ("pydantic", "scipy", "torch", "tensorflow", "onnxruntime", "typer", "rich")


def loaded(code: str) -> set[str]:
    """Which of HEAVY a fresh interpreter holds after `code`."""
    show = f"{code}; import sys; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-P", "-c", show], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", WORKER_SIDE)
def test_the_worker_side_imports_numpy_alone(module: str) -> None:
    assert loaded(f"import {module}") == set()


def test_the_check_can_fail() -> None:
    assert loaded("import transload.pipeline.result.schema") >= {"pydantic"}

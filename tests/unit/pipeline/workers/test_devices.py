"""A GPU is taken only where everything that would run on it is built for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from transload.models.errors import ToolMissing
from transload.pipeline.workers.devices import list_gpus, resolve_device


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose driver shows two GPUs."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho NVIDIA One\necho NVIDIA Two\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


@pytest.mark.usefixtures("gpus")
def test_auto_is_a_gpu_only_with_the_builds_for_it() -> None:
    assert list_gpus() == ("NVIDIA One", "NVIDIA Two")
    assert resolve_device("auto", lambda: True) == "cuda"
    assert resolve_device("auto", lambda: False) == "cpu"


@pytest.mark.usefixtures("gpus")
def test_a_gpu_that_is_asked_for_is_taken_or_missed_by_number() -> None:
    assert resolve_device("cuda:1") == "cuda:1"
    with pytest.raises(ToolMissing) as caught:
        resolve_device("cuda:2")
    assert caught.value.what == "the device cuda:2 was asked for and 2 GPUs are here"


def test_without_a_driver_there_is_only_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert resolve_device("auto", lambda: True) == resolve_device("cpu") == "cpu"
    with pytest.raises(ToolMissing) as caught:
        resolve_device("cuda")
    assert str(caught.value) == (
        "the device cuda was asked for and no NVIDIA GPU is here\n"
        "  fix: use --device cpu, or --device auto to take what there is"
    )

"""The benchmark of releases draws what it says, starts, and has four pairs of each kind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

RELEASE = Path(__file__).parents[3] / "benchmarks" / "release"


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(RELEASE), *arguments], capture_output=True, text=True, check=False, timeout=300
    )


def test_it_says_what_it_does() -> None:
    assert "twelve pairs of real trainings" in call("--help").stdout


def test_equal_models_are_not_called_worse_and_losses_are_found(tmp_path: Path) -> None:
    done = call("resampling", "--only", "accuracy 95", "--draws", "20", "--out", str(tmp_path / "out.json"))
    assert done.stdout.count("equal_called_worse=0.0") == 6
    assert done.stdout.count("loss_found=1.0") == 6
    assert (tmp_path / "out.json").is_file()


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(RELEASE))


@pytest.mark.usefixtures("modules")
def test_models_differ_as_often_as_they_are_meant_to() -> None:
    from resampling import KINDS  # type: ignore[import-not-found]

    rng = np.random.default_rng(0)
    for kind, right in ((KINDS[0], 0.95), (KINDS[1], 0.7)):
        old, new = kind.draw(rng, 400_000, 0.05)
        assert old.mean() == pytest.approx(right, abs=0.003)
        assert old.mean() - new.mean() == pytest.approx(0.05, abs=0.003)


@pytest.mark.usefixtures("modules")
def test_four_of_twelve_pairs_are_worse() -> None:
    from pairs import PAIRS  # type: ignore[import-not-found]

    assert (len(PAIRS), sum(pair.worse for pair in PAIRS)) == (12, 4)
    assert {pair.data for pair in PAIRS} == {"digits", "classes", "imbalanced", "friedman"}

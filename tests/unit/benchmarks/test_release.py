"""The script of `make release`: its pairs are whole recipes, and its draws have the metric that they are drawn with."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from transload.pipeline.compare.change_records import Change
from transload.pipeline.request import read_request

HOME = Path(__file__).resolve().parents[3] / "benchmarks" / "release"


@pytest.fixture
def release_pairs(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(HOME)
    yield importlib.import_module("release_pairs")
    sys.modules.pop("release_pairs")


@pytest.fixture
def resampling(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(HOME)
    yield importlib.import_module("resampling")
    sys.modules.pop("resampling")


def test_the_script_starts() -> None:
    done = subprocess.run([sys.executable, "-P", HOME, "--help"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.startswith("usage:")) == (0, True), done.stderr


def test_there_are_twelve_pairs_of_both_kinds_of_metric_and_several_seeds(release_pairs: ModuleType) -> None:
    pairs = release_pairs.PAIRS
    assert Counter(pair.truth for pair in pairs) == {"worse": 4, "within": 4, "no worse": 4}
    assert {pair.task.outputs == 1 for pair in pairs} == {True, False}
    assert len({pair.old.seed for pair in pairs}) > 6
    assert any("weights=" in pair.task.source for pair in pairs)
    assert len({pair.name for pair in pairs}) == 12


def test_every_pair_is_two_recipes_that_a_run_takes(release_pairs: ModuleType, tmp_path: Path) -> None:
    for pair in release_pairs.PAIRS:
        files = pair.write(tmp_path)
        assert list(files) == ["old", "new"]
        for side, file in files.items():
            request = read_request(file)
            assert request.train.seed == getattr(pair, side).seed
            recipe = file.parent / request.model.recipe
            words = recipe.read_text()
            assert f"epochs={getattr(pair, side).epochs}," in words
            compile(words, str(recipe), "exec")


@pytest.mark.parametrize(
    ("truth", "right"), [("worse", {1, 3, 4}), ("within", {0, 3}), ("no worse", {0, 3})]
)  # 4: a tool failed, which is no pass, and no answer for a good one either
def test_a_worse_release_never_passes_and_another_never_fails(
    truth: str, right: set[int], release_pairs: ModuleType
) -> None:
    assert {status for status in (0, 1, 3, 4) if release_pairs.is_right(truth, status)} == right


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_draws_have_the_loss_that_they_are_drawn_with(loss: float, resampling: ModuleType) -> None:
    for case in resampling.CASES:
        large = type(case)(case.is_share, case.is_paired, 400_000)
        old, new = (float(scores.mean()) for scores in large.draw(np.random.default_rng(1), loss))
        worse = old - new if case.is_share else new - old
        assert worse == pytest.approx(loss, abs=0.03 if not case.is_share else 0.004), case.name


def test_the_same_draws_twice_are_no_loss_and_a_clear_one_is(resampling: ModuleType) -> None:
    for case in resampling.CASES:
        random = np.random.default_rng(2)
        old, _ = case.draw(random, 0.0)
        assert case.judge(old, old, None)[0] is not Change.WORSE
        assert case.judge(*case.draw(random, 0.5 if case.is_share else 3.0), None)[0] is Change.WORSE


def test_a_broken_promise_is_told(resampling: ModuleType) -> None:
    assert resampling.keeps_promise({"equal_called_worse": 0.01, "twice_called_worse": 0.95})
    assert not resampling.keeps_promise({"equal_called_worse": 0.015, "twice_called_worse": 1.0})
    assert not resampling.keeps_promise({"equal_called_worse": 0.0, "twice_called_worse": 0.94})

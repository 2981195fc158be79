"""Latency rows, and the file that keeps the samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from transload.models.array_file import write_arrays
from transload.models.errors import BadRequest
from transload.pipeline.bench.latency_rows import About, failed_row, latency_rows, read_samples, write_samples
from transload.pipeline.bench.rounds import Series

RNG = np.random.default_rng(9)
TORCH, ONNX = ("pt2", "torch"), ("onnx", "onnxruntime")


def series(pair: tuple[str, str], mean_s: float, batch: int = 8) -> Series:
    rounds = {at: RNG.normal(mean_s, mean_s / 100, size=40) for at in range(30)}
    return Series(pair, batch, "cpu", first_call_s=mean_s, calls=40, rounds=rounds)


ABOUT = {TORCH: About("cpu"), ONNX: About("cpu", peak_rss_bytes=7)}


def test_rows_hold_the_numbers_and_the_ratio_to_the_reference() -> None:
    reference, fast = latency_rows([series(TORCH, 2e-3), series(ONNX, 1e-3)], TORCH, ABOUT)
    assert (reference.ratio_to_reference, reference.ratio_ci95) == (1.0, (1.0, 1.0))
    assert fast.ratio_to_reference == pytest.approx(0.5, rel=0.01)
    assert fast.ratio_ci95 is not None
    assert fast.ratio_ci95[0] < 0.5 < fast.ratio_ci95[1] or fast.ratio_ci95[1] - fast.ratio_ci95[0] < 0.01
    assert (fast.artifact, fast.runtime, fast.batch, fast.rounds, fast.samples) == (*ONNX, 8, 30, 1200)
    assert fast.throughput_per_s == pytest.approx(8000, rel=0.01)
    assert fast.peak_rss_bytes == 7
    assert fast.doubts == ()


def test_batches_are_held_against_their_own_reference() -> None:
    rows = latency_rows(
        [series(TORCH, 1e-3, 1), series(ONNX, 1e-3, 1), series(TORCH, 4e-3, 8), series(ONNX, 1e-3, 8)], TORCH, ABOUT
    )
    assert [row.ratio_to_reference for row in rows] == pytest.approx([1, 1, 1, 0.25], rel=0.01)


def test_without_a_reference_there_is_no_ratio() -> None:
    dead = replace(series(TORCH, 1e-3), lost="torch died")
    for rows in (
        latency_rows([series(ONNX, 1e-3)], None, ABOUT),
        latency_rows([series(ONNX, 1e-3), dead], TORCH, ABOUT),
    ):
        assert (rows[0].ratio_to_reference, rows[0].ratio_ci95) == (None, None)
        assert rows[0].p50_s is not None


def test_a_lost_subject_has_its_sentence_and_no_numbers() -> None:
    dead = replace(series(ONNX, 1e-3), lost="the worker was killed by SIGSEGV")
    (row,) = latency_rows([dead], TORCH, ABOUT)
    assert row == failed_row(ONNX, 8, "the worker was killed by SIGSEGV", ABOUT[ONNX], "cpu")
    assert (row.p50_s, row.samples, row.doubts) == (None, 0, ("the worker was killed by SIGSEGV",))


@pytest.mark.parametrize(
    ("asked", "ran", "fine"),
    [("cpu", "cpu", True), ("cuda", "cuda:0", True), ("auto", "cuda:1", True), ("cuda", "cpu", False),
     ("cuda:1", "cuda:0", False)],
)  # fmt: skip
def test_a_row_says_where_it_did_not_run(asked: str, ran: str, fine: bool) -> None:
    measured = replace(series(ONNX, 1e-3), device=ran)
    (row,) = latency_rows([measured], None, {ONNX: About(asked)})
    assert row.device == ran
    words = f"it was asked to run on {asked} and ran on {ran}: transload doctor says what is missing"
    assert row.doubts == (() if fine else (words,))


def test_every_sample_is_kept_with_its_round(tmp_path: Path) -> None:
    kept = [series(TORCH, 1e-3, 1), replace(series(ONNX, 1e-3, 8), lost="died"), Series(ONNX, 1, lost="died")]
    del kept[0].rounds[3]
    write_samples(tmp_path / "latency.npz", kept)
    found = read_samples(tmp_path / "latency.npz")
    assert list(found) == [(*TORCH, 1), (*ONNX, 8)]
    for one in kept[:2]:
        rounds = found[(*one.pair, one.batch)]
        assert list(rounds) == list(one.rounds)
        for at, samples in one.rounds.items():
            np.testing.assert_array_equal(rounds[at], samples)


def test_another_npz_is_no_latency_file(tmp_path: Path) -> None:
    write_arrays(tmp_path / "x.npz", {"x": np.zeros(3)})
    with pytest.raises(BadRequest, match="holds no samples of a bench"):
        read_samples(tmp_path / "x.npz")

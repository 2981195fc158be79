"""Latency rows, and the file that keeps the samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from transload.models.array_file import read_arrays, write_arrays
from transload.models.errors import BadRequest
from transload.pipeline.measure.bench.latency_rows import (
    About,
    Conditions,
    failed_row,
    latency_rows,
    read_series,
    write_samples,
)
from transload.pipeline.measure.bench.rounds import ProcessSamples, Series

RNG = np.random.default_rng(9)
TORCH, ONNX = ("pt2", "torch"), ("onnx", "onnxruntime")


def series(pair: tuple[str, str], mean_s: float, batch: int = 8, processes: int = 5) -> Series:
    return Series(pair, batch, "cpu", {number: samples(mean_s) for number in range(processes)})


def samples(mean_s: float) -> ProcessSamples:
    rounds = {at: RNG.normal(mean_s, mean_s / 100, size=40) for at in range(6)}
    windows = [(3 * mean_s, 3 * mean_s), (8 * mean_s, mean_s)]
    return ProcessSamples(
        load_s=2.0, first_call_s=mean_s, steady_bytes=3, calls=40, rounds=rounds, warm_windows=windows
    )


ABOUT = {TORCH: About("cpu", reference=TORCH), ONNX: About("cpu", peak_rss_bytes=7, size_bytes=9, reference=TORCH)}


def test_rows_hold_the_numbers_and_the_ratio_to_the_reference() -> None:
    reference, fast = latency_rows([series(TORCH, 2e-3), series(ONNX, 1e-3)], ABOUT)
    assert (reference.ratio_to_reference, reference.ratio_ci95) == (1.0, (1.0, 1.0))
    assert fast.ratio_to_reference == pytest.approx(0.5, rel=0.01)
    assert fast.ratio_ci95 is not None
    assert fast.ratio_ci95[0] < 0.5 < fast.ratio_ci95[1] or fast.ratio_ci95[1] - fast.ratio_ci95[0] < 0.01
    assert (fast.artifact, fast.runtime, fast.batch, fast.processes, fast.rounds, fast.samples) == (
        *ONNX,
        8,
        5,
        30,
        1200,
    )
    assert (fast.comparison, fast.reference, fast.settling_s) == ("faster", "pt2 in torch", None)
    assert (fast.load_s, fast.first_call_s, fast.steady_rss_bytes, fast.size_bytes) == (2.0, 1e-3, 3, 9)
    assert fast.throughput_per_s == pytest.approx(8000, rel=0.01)
    assert fast.peak_rss_bytes == 7
    assert fast.doubts == ()


def test_the_energy_of_a_sample_is_the_median_over_processes() -> None:
    told = series(TORCH, 1e-3, batch=8, processes=4)
    for process, energy_j in zip(told.processes.values(), (8.0, 80.0, 16.0, None), strict=True):
        process.energy_j = energy_j
    row, silent = latency_rows([told, series(ONNX, 1e-3)], ABOUT)
    assert (row.energy_j, silent.energy_j) == (2.0, None)


def test_batches_are_held_against_their_own_reference() -> None:
    rows = latency_rows(
        [series(TORCH, 1e-3, 1), series(ONNX, 1e-3, 1), series(TORCH, 4e-3, 8), series(ONNX, 1e-3, 8)], ABOUT
    )
    assert [row.ratio_to_reference for row in rows] == pytest.approx([1, 1, 1, 0.25], rel=0.01)


def test_without_a_reference_there_is_no_ratio() -> None:
    dead = replace(series(TORCH, 1e-3), lost="torch died")
    alone = {ONNX: replace(ABOUT[ONNX], reference=None)}
    for rows in (
        latency_rows([series(ONNX, 1e-3)], alone),
        latency_rows([series(ONNX, 1e-3), dead], ABOUT),
    ):
        assert (rows[0].ratio_to_reference, rows[0].ratio_ci95, rows[0].comparison) == (None, None, None)
        assert rows[0].p50_s is not None


def test_an_open_comparison_says_how_long_it_would_take() -> None:
    wide = {number: samples(1e-3 * factor) for number, factor in enumerate((1.0, 1.3, 0.9))}
    measured = [Series(TORCH, 8, "cpu", {number: samples(1e-3) for number in range(3)}), Series(ONNX, 8, "cpu", wide)]
    row = latency_rows(measured, ABOUT, Conditions(seconds_per_process=2.0))[1]
    assert row.comparison == "inconclusive"
    assert row.settling_s is not None
    assert row.settling_s > 6


def test_answers_far_from_the_references_are_doubted() -> None:
    answers = {"outputs": [[1.0, 2.0, 3.0]], "shapes": [[1, 3]]}
    reference = replace(series(TORCH, 1e-3), answers=answers)
    for ours, words in (
        ({"outputs": [[3.0, 2.0, 1.0]], "shapes": [[1, 3]]}, "its answers lie 2 dB from the reference's"),
        (
            {"outputs": [[1.0, 2.0, 3.0]], "shapes": [[3]]},
            "it answers with shapes [[3]] and the reference with [[1, 3]]",
        ),
    ):
        _, row = latency_rows([reference, replace(series(ONNX, 1e-3), answers=ours)], ABOUT)
        assert [doubt for doubt in row.doubts if doubt.startswith(words)]
    _, row = latency_rows([reference, replace(series(ONNX, 1e-3), answers=answers)], ABOUT)
    assert row.doubts == ()


def test_a_lost_subject_has_its_sentence_and_no_numbers() -> None:
    dead = replace(series(ONNX, 1e-3), lost="the worker was killed by SIGSEGV")
    (row,) = latency_rows([dead], ABOUT)
    assert row == failed_row(ONNX, 8, "the worker was killed by SIGSEGV", ABOUT[ONNX], "cpu")
    assert (row.p50_s, row.samples, row.doubts) == (None, 0, ("the worker was killed by SIGSEGV",))


@pytest.mark.parametrize(
    ("asked", "ran", "fine"),
    [("cpu", "cpu", True), ("cuda", "cuda:0", True), ("auto", "cuda:1", True), ("cuda", "cpu", False),
     ("cuda:1", "cuda:0", False)],
)  # fmt: skip
def test_a_row_says_where_it_did_not_run(asked: str, ran: str, fine: bool) -> None:
    measured = replace(series(ONNX, 1e-3), device=ran)
    (row,) = latency_rows([measured], {ONNX: About(asked)})
    assert row.device == ran
    words = f"it was asked to run on {asked} and ran on {ran}: transload doctor says what is missing"
    assert row.doubts == (() if fine else (words,))


def test_more_threads_than_cores_are_doubted_and_the_weightiest_doubt_is_first() -> None:
    crowded = {ONNX: About("cuda", threads=4, note="served elsewhere")}
    (row,) = latency_rows([series(ONNX, 1e-3)], crowded, Conditions(cores=1.5))
    assert row.doubt_kinds == ("device", "oversubscribed", "network")
    assert row.doubts[1] == "4 threads take turns on 1.5 cores: use --threads 1, or a larger machine"
    (row,) = latency_rows([series(ONNX, 1e-3)], {ONNX: About("cpu", threads=2)}, Conditions(cores=2.0))
    assert row.doubts == ()


def test_every_sample_is_kept_with_its_round_and_process(tmp_path: Path) -> None:
    kept = [series(TORCH, 1e-3, 1), replace(series(ONNX, 1e-3, 8), lost="died"), Series(ONNX, 1, lost="died")]
    del kept[0].processes[1].rounds[3]
    write_samples(tmp_path / "latency.npz", kept)
    found = {(*entry.pair, entry.batch): entry for entry in read_series(tmp_path / "latency.npz")}
    assert list(found) == [(*TORCH, 1), (*ONNX, 8)]
    for one in kept[:2]:
        same = found[(*one.pair, one.batch)]
        np.testing.assert_array_equal(same.samples_s, one.samples_s)
        assert {number: [*process.rounds] for number, process in same.processes.items()} == {
            number: [*process.rounds] for number, process in one.processes.items()
        }
        assert [process.warm_windows for process in same.processes.values()] == [
            process.warm_windows for process in one.processes.values()
        ]
    arrays = read_arrays(tmp_path / "latency.npz")
    rounds, processes = (arrays[f"pt2|torch|1|{name}"] for name in ("round", "process"))
    assert sorted({(int(p), int(r)) for p, r in zip(processes, rounds, strict=True)}) == [
        (p, r) for p in range(5) for r in range(6) if (p, r) != (1, 3)
    ]


def test_another_npz_is_no_latency_file(tmp_path: Path) -> None:
    write_arrays(tmp_path / "x.npz", {"x": np.zeros(3)})
    with pytest.raises(BadRequest, match="holds no samples of a bench"):
        read_series(tmp_path / "x.npz")

"""Rows of the result from samples, and the file that keeps the samples (parent side: this reaches pydantic).

latency.npz holds arrays for each row that has samples: `ARTIFACT|RUNTIME|BATCH|seconds`, float64, every call in
order, and `ARTIFACT|RUNTIME|BATCH|round` and `...|process`, int32, the round and the set of processes of each.
`...|warmup`, float64 of shape (windows, 3), has the windows of the warm-ups: the set of processes, the seconds from the
first call to the window's end, and its median call in seconds. The first call of each process is a window of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ....models.array_file import read_arrays, write_arrays
from ....models.errors import BadRequest
from ....models.signature import Array
from ....serving.runtimes.provider_check import runs_on
from ...result.doubt_kinds import DoubtKind, LatencyDoubt, by_weight
from ...result.ratio import SAME_WITHIN, Comparison, Ratio
from ...result.schema import LatencyRow
from .answer_agreement import doubt_answers
from .comparison import compare
from .rounds import Pair, ProcessSamples, Series
from .statistics import Load, find_doubts, median_of, summary
from .throttling import Throttling
from .tuned_settings import DEFAULTS, TunedSettings

Server = Literal["embedded", "binary", "remote"]


@dataclass(frozen=True, slots=True)
class About:
    """What a row says that samples do not."""

    device: str  # that was asked for
    threads: int = 1
    server: Server | None = None
    peak_rss_bytes: int | None = None
    size_bytes: int | None = None  # of the artifact
    reference: Pair | None = None  # what its ratio is held against; None: nothing
    note: str | None = None  # a doubt that every row of the subject has
    tuned: TunedSettings = DEFAULTS


@dataclass(frozen=True, slots=True)
class Conditions:
    """What all rows of a measurement share."""

    load: Load | None = None
    throttling: Throttling | None = None
    cores: float | None = None  # that the processes may use; None: not known
    same_within: float = SAME_WITHIN
    seconds_per_process: float | None = None  # of one set of processes


def latency_rows(
    series: Iterable[Series], about: Mapping[Pair, About], conditions: Conditions = Conditions()
) -> list[LatencyRow]:
    """One row for each series, a reference's too (its ratio is 1). A subject that was lost has no numbers, and its
    sentence as the first doubt."""
    by_pair = {(entry.pair, entry.batch): entry for entry in series}
    references = {pair: subject.reference for pair, subject in about.items()}
    return [
        _row(entry, reference_of(entry, by_pair, references), about[entry.pair], conditions)
        for entry in by_pair.values()
    ]


def reference_of(
    series: Series, by_pair: Mapping[tuple[Pair, int], Series], references: Mapping[Pair, Pair | None]
) -> Series | None:
    """Return the series that this one's ratio is held against; None where there is none that was measured."""
    pair = references[series.pair]
    reference = None if pair is None else by_pair.get((pair, series.batch))
    return reference if reference and reference.lost is None and reference.processes else None


def _row(series: Series, reference: Series | None, about: About, conditions: Conditions) -> LatencyRow:
    if series.lost is not None or not series.processes:
        return failed_row(series.pair, series.batch, series.lost or "it was not measured", about, series.device)
    ratio = None if reference is None else compare(series, reference, same_within=conditions.same_within)
    device = series.device or about.device
    doubts = by_weight(
        (
            *_doubt_device(device, about),
            *(LatencyDoubt(DoubtKind.ANSWERS, text) for text in doubt_answers(series, reference)),
            *([LatencyDoubt(DoubtKind.NETWORK, about.note)] if about.note else []),
            *_doubt_threads(about.threads, conditions.cores),
            *find_doubts(
                series,
                None if ratio is None else ratio.ci95,
                load=conditions.load,
                throttling=conditions.throttling,
            ),
        )
    )
    return replace(
        failed_row(series.pair, series.batch, "", about, device),
        processes=len(series.processes),
        rounds=len(series.chunks),
        samples=len(series.samples_s),
        **asdict(summary(series.samples_s, series.batch)),
        load_s=median_of(series, lambda process: process.load_s),
        first_call_s=median_of(series, lambda process: process.first_call_s),
        steady_rss_bytes=int(median_of(series, lambda process: process.steady_bytes)) if about.server is None else None,
        energy_j=_energy_j(series),
        **_comparison(ratio, series is reference, about, conditions),
        doubts=tuple(doubt.text for doubt in doubts),
        doubt_kinds=tuple(doubt.kind for doubt in doubts),
    )


def _energy_j(series: Series) -> float | None:
    """Return the energy of a sample, median over processes; None where no GPU told it."""
    energies = [process.energy_j for process in series.processes.values() if process.energy_j is not None]
    return float(np.median(energies)) / series.batch if energies else None


def _comparison(ratio: Ratio | None, is_reference: bool, about: About, conditions: Conditions) -> dict[str, Any]:
    """Return the fields of a row that say how it compares."""
    if ratio is None:
        return {}
    settling_s = None
    if ratio.settling_processes is not None and conditions.seconds_per_process is not None:
        settling_s = ratio.settling_processes * conditions.seconds_per_process
    return {
        "reference": None if about.reference is None else " in ".join(about.reference),
        "ratio_to_reference": ratio.center,
        "ratio_ci95": (1.0, 1.0) if is_reference else ratio.ci95,
        "comparison": Comparison.SAME if is_reference else ratio.comparison,
        "settling_s": None if is_reference else settling_s,
        "comparison_interval": (1.0, 1.0) if is_reference else ratio.verdict_interval,
    }


def failed_row(pair: Pair, batch: int, why: str, about: About, device: str | None = None) -> LatencyRow:
    """Return the row of a subject that could not be opened or was lost: no numbers, one sentence."""
    # What is served takes longer than the call that was tuned.
    ratio_to_default, default_ci95 = about.tuned.ratio_at(batch) if about.server is None else (None, None)
    return LatencyRow(
        artifact=pair[0],
        runtime=pair[1],
        server=about.server,
        device=device or about.device,
        threads=about.threads,
        batch=batch,
        rounds=0,
        samples=0,
        p50_s=None,
        p90_s=None,
        p99_s=None,
        throughput_per_s=None,
        ratio_to_reference=None,
        ratio_ci95=None,
        peak_rss_bytes=about.peak_rss_bytes,
        size_bytes=about.size_bytes,
        doubts=(why,),
        settings=dict(about.tuned.settings),
        ratio_to_default=ratio_to_default,
        ratio_to_default_ci95=default_ci95,
        doubt_kinds=(DoubtKind.NO_ANSWER,),
    )


def _doubt_device(device: str, about: About) -> tuple[LatencyDoubt, ...]:
    if runs_on(device, about.device):
        return ()
    where = f"it was asked to run on {about.device} and ran on {device}"
    return (LatencyDoubt(DoubtKind.DEVICE, f"{where}: transload doctor says what is missing"),)


def _doubt_threads(threads: int, cores: float | None) -> tuple[LatencyDoubt, ...]:
    """Doubt a subject with more threads than may run at a time; one subject is called at a time."""
    if cores is None or threads <= cores:
        return ()
    text = f"{threads} threads take turns on {cores:.3g} cores: use --threads {max(1, int(cores))}, or a larger machine"
    return (LatencyDoubt(DoubtKind.OVERSUBSCRIBED, text),)


def write_samples(path: Path, series: Iterable[Series]) -> None:
    """Keep every sample, of subjects that were lost on the way as well."""
    arrays: dict[str, Array] = {}
    for entry in series:
        if not entry.chunks:
            continue
        key = "|".join((*entry.pair, str(entry.batch)))
        places = [
            (number, at, len(chunk))
            for number, process in entry.processes.items()
            for at, chunk in process.rounds.items()
        ]
        counts = [count for _, _, count in places]
        arrays[f"{key}|seconds"] = entry.samples_s
        arrays[f"{key}|round"] = np.repeat(np.array([at for _, at, _ in places], dtype=np.int32), counts)
        arrays[f"{key}|process"] = np.repeat(np.array([number for number, _, _ in places], dtype=np.int32), counts)
        windows = [(number, *window) for number, process in entry.processes.items() for window in process.warm_windows]
        arrays[f"{key}|warmup"] = np.array(windows, dtype=np.float64).reshape(-1, 3)
    write_arrays(path, arrays)


def read_series(path: Path) -> list[Series]:
    """Read the samples that `write_samples` kept; files from before several processes hold one.
    Raises BadRequest where the file is no such one."""
    arrays = read_arrays(path)
    keys = [key.rpartition("|")[0] for key in arrays]
    parts = {key: key.split("|") for key in dict.fromkeys(keys)}
    if any(len(part) != 3 or not part[2].isdecimal() or f"{key}|round" not in arrays for key, part in parts.items()):
        raise BadRequest(f"{path} holds no samples of a bench", fix="name the latency.npz of a run")
    return [_read_series(arrays, key, (part[0], part[1]), int(part[2])) for key, part in parts.items()]


def _read_series(arrays: Mapping[str, Array], key: str, pair: Pair, batch: int) -> Series:
    seconds, rounds = arrays[f"{key}|seconds"], arrays[f"{key}|round"]
    numbers = arrays.get(f"{key}|process", np.zeros_like(rounds))
    warm_ups = arrays.get(f"{key}|warmup", np.zeros((0, 3)))
    series = Series(pair, batch)
    for number in dict.fromkeys(numbers.tolist()):
        inside = numbers == number
        chunks = {at: seconds[inside & (rounds == at)] for at in dict.fromkeys(rounds[inside].tolist())}
        windows = [(float(end_s), float(call_s)) for at, end_s, call_s in warm_ups if at == number]
        series.processes[number] = ProcessSamples(rounds=chunks, warm_windows=windows)
    return series

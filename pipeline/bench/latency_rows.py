"""Rows of the result from samples, and the file that keeps the samples (parent side: this reaches pydantic).

latency.npz holds two arrays for each row that has samples: `ARTIFACT|RUNTIME|BATCH|seconds`, float64, every call in
order, and `ARTIFACT|RUNTIME|BATCH|round`, int32, the round that each belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from ...models.array_file import read_arrays, write_arrays
from ...models.errors import BadRequest
from ...models.signature import Array
from ...serving.runtimes.provider_check import runs_on
from ..result.schema import LatencyRow
from .rounds import Pair, Series
from .statistics import Load, doubts, ratio, summary

Server = Literal["embedded", "binary", "remote"]


@dataclass(frozen=True, slots=True)
class About:
    """What a row says that samples do not."""

    device: str  # that was asked for
    threads: int = 1
    server: Server | None = None
    peak_rss_bytes: int | None = None
    note: str | None = None  # a doubt that every row of the subject has


def latency_rows(
    series: Iterable[Series], reference: Pair | None, about: Mapping[Pair, About], *, load: Load | None = None
) -> list[LatencyRow]:
    """One row for each series, the reference's too (its ratio is 1). A subject that was lost has no numbers, and its
    sentence as the first doubt."""
    series = list(series)
    held = {entry.batch: entry for entry in series if entry.pair == reference and entry.lost is None and entry.rounds}
    return [_row(entry, held.get(entry.batch), about[entry.pair], load) for entry in series]


def _row(series: Series, reference: Series | None, about: About, load: Load | None) -> LatencyRow:
    if series.lost is not None or not series.rounds:
        return failed_row(series.pair, series.batch, series.lost or "it was not measured", about, series.device)
    ratio_to_reference = None if reference is None else ratio(series, reference)
    interval = None if ratio_to_reference is None else ratio_to_reference[1]
    device = series.device or about.device
    return replace(
        failed_row(series.pair, series.batch, "", about, device),
        rounds=len(series.rounds),
        samples=len(series.samples_s),
        **asdict(summary(series.samples_s, series.batch)),
        ratio_to_reference=None if ratio_to_reference is None else ratio_to_reference[0],
        ratio_ci95=interval,
        doubts=(*_doubt_device(device, about), *filter(None, [about.note]), *doubts(series, interval, load=load)),
    )


def failed_row(pair: Pair, batch: int, why: str, about: About, device: str | None = None) -> LatencyRow:
    """Return the row of a subject that could not be opened or was lost: no numbers, one sentence."""
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
        doubts=(why,),
    )


def _doubt_device(device: str, about: About) -> tuple[str, ...]:
    if runs_on(device, about.device):
        return ()
    return (f"it was asked to run on {about.device} and ran on {device}: transload doctor says what is missing",)


def write_samples(path: Path, series: Iterable[Series]) -> None:
    """Keep every sample, of subjects that were lost on the way as well."""
    arrays: dict[str, Array] = {}
    for entry in series:
        if entry.rounds:
            key = "|".join((*entry.pair, str(entry.batch)))
            arrays[f"{key}|seconds"] = entry.samples_s
            counts = [len(samples) for samples in entry.rounds.values()]
            arrays[f"{key}|round"] = np.repeat(np.array(list(entry.rounds), dtype=np.int32), counts)
    write_arrays(path, arrays)


def read_samples(path: Path) -> dict[tuple[str, str, int], dict[int, Array]]:
    """Seconds by (artifact, runtime, batch) and round, as `write_samples` kept them.
    Raises BadRequest where the file is no such one."""
    arrays = read_arrays(path)
    samples: dict[tuple[str, str, int], dict[int, Array]] = {}
    for key, seconds in arrays.items():
        parts = key.split("|")
        if len(parts) != 4 or not parts[2].isdecimal() or "|".join((*parts[:3], "round")) not in arrays:
            raise BadRequest(f"{path} holds no samples of a bench", fix="name the latency.npz of a run")
        if parts[3] == "seconds":
            rounds = arrays["|".join((*parts[:3], "round"))]
            numbers = [int(at) for at in dict.fromkeys(rounds.tolist())]
            samples[parts[0], parts[1], int(parts[2])] = {at: seconds[rounds == at] for at in numbers}
    return samples

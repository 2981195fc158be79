"""The settings that a model was tuned to on this machine: read from beside it, and looked up nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ....models.processors import core_count, cpu_model
from ....serving.runtimes.runtime_table import Runtime
from ....serving.runtimes.tuning_file import (
    BatchInBound,
    TuningEntry,
    TuningPlace,
    find_entry,
    keep_entry,
    payload_digest,
    tuning_path,
)
from ....serving.runtimes.tuning_space import THREADS, Value
from ...workers.toolchain import version_of

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class TunedSettings:
    """Settings of a runtime, and how much faster than the defaults they were at the batch where they were tuned."""

    settings: Mapping[str, Value] = field(default_factory=dict)
    ratio_to_default: float | None = None
    ratio_ci95: tuple[float, float] | None = None
    batch: int | None = None
    in_bound: BatchInBound | None = None  # of a search with a latency bound, under these settings

    def batch_in_bound(self, threads: int) -> int | None:
        """Return the batch size that kept the latency bound with so many threads; None where there was no such
        search."""
        return self.in_bound.batch if self.in_bound and self.in_bound.threads == threads else None

    def ratio_at(self, batch: int) -> tuple[float | None, tuple[float, float] | None]:
        """Return the ratio to the defaults and its interval; None at a batch where it was not measured."""
        return (self.ratio_to_default, self.ratio_ci95) if batch == self.batch else (None, None)


DEFAULTS = TunedSettings()


def place_of(model: Path, runtime: Runtime, device: str) -> TuningPlace:
    """Return what settings of this model in this runtime hold for, here and now."""
    libraries = {name: version_of(name) or "absent" for name in runtime.requires}
    return TuningPlace(
        runtime=runtime.name,
        device=device,
        cpu=cpu_model(),
        cores=core_count(),
        libraries=libraries,
        sha256=payload_digest(model),
    )


def tuned_settings(model: Path, runtime: Runtime, device: str, threads: int | None) -> TunedSettings:
    """Return the settings kept beside a model, where they hold here; else the defaults.
    `threads` are those that the user named: settings of another number of threads do not hold.
    Raises BadRequest where the file is broken."""
    if runtime.served or not tuning_path(model).is_file():
        return DEFAULTS
    entry = find_entry(model, place_of(model, runtime, device))
    if entry is None:
        return DEFAULTS
    if not entry.settings:
        return replace(DEFAULTS, in_bound=entry.in_bound)
    if threads not in (None, entry.settings.get(THREADS, 1)):
        return DEFAULTS
    return TunedSettings(
        dict(entry.settings), entry.ratio_to_default, entry.ratio_ci95, entry.batch, entry.in_bound
    )  # fmt: skip


def keep_settings(
    model: Path, place: TuningPlace, tuned: TunedSettings, batch: int, in_bound: BatchInBound | None = None
) -> Path:
    """Keep settings beside a model, as tuned at a batch size for this place. Returns the file.
    `in_bound` was measured with these settings."""
    entry = TuningEntry(
        place=place,
        settings=dict(tuned.settings),
        batch=batch,
        ratio_to_default=tuned.ratio_to_default,
        ratio_ci95=tuned.ratio_ci95,
        in_bound=in_bound,
    )
    return keep_entry(model, entry)

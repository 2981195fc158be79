"""The search for the settings of a runtime: which are tried, which are measured to the end, and what may be said.

Every change of one setting is screened beside the defaults, in one process each. What looked faster is put together,
and screened again with the other settings changed around it. A few finalists are then measured anew, in new processes.
Samples of the screening are not used again, so only the number of finalists corrects the confidence (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ....serving.runtimes.tuning_space import SPACES, THREADS, Value
from ...result.ratio import SAME_WITHIN
from .comparison import VERDICT_CONFIDENCE

MOST_FINALISTS = 3
HEAT = 4  # candidates that are screened at once, each in a process of its own beside that of the defaults


@dataclass(frozen=True, slots=True)
class ScreenedSettings:
    """Settings and the ratio that one process of each gave; None where they gave no answer, for the reason `lost`."""

    settings: Mapping[str, Value]
    ratio: float | None
    p50_s: float | None = None
    lost: str | None = None


def single_changes(
    runtime: str, device: str, cores: int, base: Mapping[str, Value], *, threads: int | None
) -> list[dict[str, Value]]:
    """Return the settings that differ from `base` in one setting. `threads` that the user named are not changed."""
    return list(_changes(runtime, device, cores, base, threads))


def _changes(
    runtime: str, device: str, cores: int, base: Mapping[str, Value], threads: int | None
) -> Iterator[dict[str, Value]]:
    for setting in SPACES.get(runtime, ()):
        if setting.name == THREADS and threads is not None:
            continue
        current = base.get(setting.name, setting.default)
        for value in setting.candidates(device, cores):
            if value not in (current, setting.default):
                yield {**base, setting.name: value}


def joined_best(
    screened: Sequence[ScreenedSettings], base: Mapping[str, Value], *, same_within: float = SAME_WITHIN
) -> dict[str, Value]:
    """Return `base` with the best value of each setting that looked faster on its own."""
    best: dict[str, tuple[float, Value]] = {}
    for candidate in looked_faster(screened, same_within=same_within):
        for name, value in candidate.settings.items():
            if base.get(name) != value and (name not in best or (candidate.ratio or 0) < best[name][0]):
                best[name] = candidate.ratio or 0, value
    return {**base, **{name: value for name, (_, value) in best.items()}}


def looked_faster(screened: Sequence[ScreenedSettings], *, same_within: float = SAME_WITHIN) -> list[ScreenedSettings]:
    """Return those that looked faster than the same, the fastest first."""
    faster = [row for row in screened if row.ratio is not None and row.ratio < 1 / (1 + same_within)]
    return sorted(faster, key=lambda candidate: candidate.ratio or 0)


def choose_finalists(
    screened: Sequence[ScreenedSettings], *, same_within: float = SAME_WITHIN
) -> list[Mapping[str, Value]]:
    """Return the settings that are measured to the end, the fastest of the screening first.
    Settings of which a part looked as fast are left to that part: what adds nothing is not kept."""
    faster = looked_faster(screened, same_within=same_within)
    chosen = [row.settings for row in faster if not any(_is_enough(part, row, same_within) for part in faster)]
    return chosen[:MOST_FINALISTS]


def _is_enough(part: ScreenedSettings, larger: ScreenedSettings, same_within: float) -> bool:
    """Return whether settings are a part of others, and looked as fast."""
    is_part = part.settings.items() < larger.settings.items()
    return is_part and (part.ratio or 0) <= (larger.ratio or 0) * (1 + same_within)


def confidence_of_each(finalists: int) -> float:
    """Return the confidence of each verdict with which all finalists together raise a false alarm in at most 1 % of
    searches, over all looks (Bonferroni)."""
    return 1 - (1 - VERDICT_CONFIDENCE) / max(1, finalists)


def in_heats(settings: Sequence[Mapping[str, Value]]) -> Iterator[Sequence[Mapping[str, Value]]]:
    """Yield the settings a few at a time: each holds the model once more in memory."""
    for start in range(0, len(settings), HEAT):
        yield settings[start : start + HEAT]

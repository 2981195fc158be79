"""What a shell completes behind an option: targets, runtimes, metrics, recipes. Reads tables; imports no framework."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def complete_targets(incomplete: str) -> list[str]:
    """Complete the last of several targets."""
    from ...converters.steps import STEPS

    return _complete_list(incomplete, sorted({str(step.target) for step in STEPS}))


def complete_runtimes(incomplete: str) -> list[str]:
    """Complete the last of several runtimes."""
    from ...serving.runtimes.runtime_table import RUNTIMES

    return _complete_list(incomplete, sorted(RUNTIMES))


def complete_metrics(incomplete: str) -> list[str]:
    """Complete the name of a metric; one that the user wrote is FILE.py:NAME, which the shell completes."""
    from ..drift.metrics.metric_kinds import KINDS

    return _beginning_with(incomplete, KINDS)


def complete_models(incomplete: str) -> list[str]:
    """Complete a recipe of the zoo. Everything else is a file, which the shell completes where nothing comes back."""
    from ...models.loading.code_refs import RECIPES

    return _beginning_with(incomplete, [f"zoo:{name}" for name in RECIPES]) if incomplete else []


def complete_devices(incomplete: str) -> list[str]:
    """Complete a device."""
    return _beginning_with(incomplete, ("auto", "cpu", "cuda"))


def _complete_list(incomplete: str, names: Sequence[str]) -> list[str]:
    head, comma, last = incomplete.rpartition(",")
    named = head.split(",")
    return [f"{head}{comma}{name}" for name in _beginning_with(last, names) if name not in named]


def _beginning_with(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]

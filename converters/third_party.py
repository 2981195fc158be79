"""The steps of transload, and those of other packages by the entry point group `transload.steps` (docs/steps.md)."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from ..models.extensible_table import ExtensibleTable, UnfitRow, check_entry, check_requires
from ..models.formats import Precision, Target
from .steps import STEPS, Step


def check_step(row: Step, known: Mapping[str, Step]) -> None:
    """Raise UnfitRow where a step of a package cannot be one."""
    if not isinstance(row.target, Target) or not (row.source is None or isinstance(row.source, Target)):
        raise UnfitRow(f"{row.name} goes from {row.source!r} to {row.target!r}, and one of them is no Target")
    if row.source == row.target:
        raise UnfitRow(f"{row.name} ends where it starts, at {row.target}")
    if row.source and row.source.precision is not Precision.FP32:
        raise UnfitRow(f"{row.name} starts from {row.source}; nothing is built on a reduced precision")
    if not isinstance(row.cost, int | float) or not isfinite(row.cost) or row.cost <= 0:
        raise UnfitRow(f"the cost of {row.name} is {row.cost!r} and must be a number above 0")
    check_requires(row.name, row.requires)
    check_entry(row.name, row.entry)
    if row.stands_in_for and row.stands_in_for not in known:
        raise UnfitRow(f"{row.name} stands in for {row.stands_in_for}, which is no step")


KNOWN_STEPS: ExtensibleTable[Step] = ExtensibleTable("step", Step, STEPS, check_step)

"""The command `history`: several runs over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import __version__
from ...models.whole_files import write_whole
from ..compare.history_records import RunHistory
from ..compare.run_history import read_history
from ..report.history_page import render_history_page
from ..result.schema import SCHEMA
from .workspace import check_writable, report_disk_full, to_json


@dataclass(frozen=True)
class HistoryResult:
    """Runs over time, and the page that was written, if any."""

    history: RunHistory
    batch: int
    page: Path | None = None

    @property
    def document(self) -> dict[str, Any]:
        """What --json prints."""
        head: dict[str, Any] = {"schema": SCHEMA, "transload_version": __version__, "batch": self.batch}
        rows: dict[str, Any] = to_json(self.history)
        return head | rows


def history(places: Sequence[Path], *, batch: int = 1, out: Path | None = None) -> HistoryResult:
    """Read the runs in these folders and in folders of runs, in the order of time; leaves a page at `out`, where named.
    Raises BadRequest where there is no finished run among them."""
    result = HistoryResult(read_history(places, batch), batch, out)
    if out:
        check_writable(out.parent)
        with report_disk_full(out.parent):
            write_whole(out, render_history_page(result.history, batch))
    return result

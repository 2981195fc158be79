"""The command `history`: several runs over time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ... import __version__
from ...models.atomic_files import write_whole
from ...models.errors import BadRequest
from ...models.store_ledger import read_uses
from ..extras.store.store_items import check_store, run_folders
from ..extras.tracking.logged_runs import LoggedRuns, read_logged_runs
from ..extras.tracking.tracking_server import connect, experiment_of
from ..result.compare.history_records import RunHistory
from ..result.compare.run_history import read_history
from ..result.schema import SCHEMA
from ..show.history_page import render_history_page
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


def history(
    places: Sequence[Path],
    *,
    batch: int = 1,
    out: Path | None = None,
    store: Path | None = None,
    mlflow: str | None = None,
    experiment: str | None = None,
) -> HistoryResult:
    """Read the runs in these folders and in folders of runs, those that a store knows of, and those of an experiment in
    MLflow, in the order of time; leaves a page at `out`, where named.
    Raises BadRequest where there is no finished run among them, or no such store, server or experiment."""
    if experiment is not None and mlflow is None:
        raise BadRequest("--experiment is one in MLflow", fix="give --mlflow URI, too")
    logged = LoggedRuns((), ())
    if mlflow is not None:
        with connect(mlflow) as server:
            logged = read_logged_runs(server, experiment or experiment_of(os.environ))
    folders = [*places, *(_runs_of_store(store) if store else ())]
    runs = read_history(folders, batch, elsewhere=logged.runs)
    result = HistoryResult(replace(runs, skipped=(*runs.skipped, *logged.skipped)), batch, out)
    if out:
        check_writable(out.parent)
        with report_disk_full(out.parent):
            write_whole(out, render_history_page(result.history, batch))
    return result


def _runs_of_store(store: Path) -> list[Path]:
    """Return the folders of the finished runs that a store knows of: commands write down where they leave theirs.
    Raises BadRequest where there is no store, or it knows of none."""
    root = check_store(store)
    folders = sorted(folder for folder in run_folders(root, read_uses(root), ()) if (folder / "run.json").is_file())
    if not folders:
        raise BadRequest(f"the store at {store} knows of no finished run", fix="name folders of runs")
    return folders

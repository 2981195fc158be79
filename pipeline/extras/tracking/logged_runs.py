"""Runs that MLflow has, read back: the run.json of each."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ....models.errors import BadRequest
from ...result.schema import RunResult, read_result
from .run_figures import RUN_FILE, RUN_TAG, run_page
from .tracking_server import TrackingServer

if TYPE_CHECKING:
    from mlflow.entities import Experiment, Run

_OF_OURS = f"tags.`{RUN_TAG}` != '' and attributes.status = 'FINISHED'"


@dataclass(frozen=True)
class LoggedRuns:
    """The runs of an experiment, each with its page; and a sentence for each that cannot be read."""

    runs: tuple[tuple[str, RunResult], ...]
    skipped: tuple[str, ...]


def read_logged_runs(server: TrackingServer, experiment: str | None) -> LoggedRuns:
    """Read the runs that transload has recorded in an experiment; without its name in the only one that has some.
    Raises BadRequest where there is no such experiment."""
    chosen = _experiment(server, experiment)
    runs: list[tuple[str, RunResult]] = []
    skipped: list[str] = []
    for run in _runs_of(server, chosen.experiment_id):
        page = run_page(server.address, chosen.experiment_id, run.info.run_id)
        with tempfile.TemporaryDirectory(prefix="transload-mlflow-") as folder:
            server.client.download_artifacts(run.info.run_id, RUN_FILE, folder)
            try:
                runs.append((page, read_result(Path(folder) / RUN_FILE)))
            except BadRequest as error:
                skipped.append(f"{page}: {error.what.replace(f'{folder}/', '')}")
    return LoggedRuns(tuple(runs), tuple(skipped))


def _experiment(server: TrackingServer, name: str | None) -> Experiment:
    if name is not None:
        known = server.client.get_experiment_by_name(name)
        if known is None:
            raise BadRequest(
                f"MLflow at {server.address} has no experiment {name!r}", fix="name another one with --experiment"
            )
        return known
    having = [row for row in server.client.search_experiments() if _runs_of(server, row.experiment_id, most=1)]
    if len(having) == 1:
        return having[0]
    names = ", ".join(sorted(row.name for row in having)[:20])
    problem = f"several experiments with runs of transload: {names}" if having else "no run of transload"
    raise BadRequest(
        f"MLflow at {server.address} has {problem}",
        fix="name one with --experiment" if having else "send one with transload record RUN --mlflow URI",
    )


def _runs_of(server: TrackingServer, experiment_id: str, most: int | None = None) -> list[Run]:
    """Return the finished runs of transload in an experiment, at most so many, in the order in which they started."""
    runs: list[Run] = []
    token = None
    while True:
        page = server.client.search_runs(
            [experiment_id],
            _OF_OURS,
            max_results=most or 1000,
            order_by=["attributes.start_time ASC"],
            page_token=token,
        )
        runs += page
        token = page.token
        if not token or most:
            return runs

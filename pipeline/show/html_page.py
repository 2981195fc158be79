"""report.html: one file that opens offline and asks nothing of anybody.

The page carries plotly, compressed, and its plots' data; a Content-Security-Policy lets it run these two scripts,
named by their digests, and load nothing else. So what a model is called can neither run nor fetch anything.
"""

from __future__ import annotations

from pathlib import Path

from ...models.atomic_files import write_whole
from ...models.errors import Exit
from ..result.schema import RunResult
from . import exercise_view, figures, probe_view, served_view, view
from .compare_text import view_baseline
from .doubt_view import split_doubts
from .offline_page import render_page
from .tables.artifact_tables import artifact_table, decision_table, route_table
from .tables.check_tables import drift_table, exercise_table, gate_table, probe_table, sample_table
from .tables.latency_table import latency_table
from .time_figures import WarmUps

_ELSEWHERE = ("artifact", "runtime", "device", "threads", "batch", "p50", "p99")


def write_html(
    result: RunResult,
    samples: figures.Samples,
    path: Path,
    *,
    warm_ups: WarmUps | None = None,
    logs: view.Links | None = None,
    repeat: view.Links | None = None,
) -> None:
    """Write report.html at `path`, whole or not at all.
    `samples` are the raw latencies, (artifact, runtime, batch) -> seconds, one-dimensional; rows without samples are
    left out of the plots and stay in the tables. `warm_ups` has each process's warm-up, by the same keys. `logs` names
    the log of "ARTIFACT in RUNTIME" or of "ARTIFACT", `repeat` the script of each step; both as paths relative to the
    folder of `path`."""
    write_whole(path, render_html(result, samples, warm_ups=warm_ups, logs=logs, repeat=repeat))


def render_html(
    result: RunResult,
    samples: figures.Samples,
    *,
    warm_ups: WarmUps | None = None,
    logs: view.Links | None = None,
    repeat: view.Links | None = None,
) -> str:
    """Return the page as text. See `write_html`."""
    recommended = result.recommendation
    return render_page(
        "report.html.j2",
        figures.plots(result, samples, warm_ups, result.load),
        version=result.transload_version,
        result=result,
        headline=view.headline(result),
        choices=recommended.choices if recommended else (),
        constraint=view.constraint(result),
        condition=view.main_condition(result),
        remarks=(view.servers(result), *view.remarks(result), view.weights(result)),
        decision=decision_table(result),
        elsewhere=latency_table(view.elsewhere(result)).only(*_ELSEWHERE),
        findings=view.findings(result, logs or {}),
        doubts=split_doubts(result.latency),
        baseline=view_baseline(result.baseline),
        exercises=exercise_table(exercise_view.exercises(result.exercised)),
        probe_tables=[
            (table, probe_table(table.rows), sample_table(table.worst)) for table in probe_view.probe_tables(result)
        ],
        not_passed=gate_table(result.gate, passed=False),
        passed=gate_table(result.gate, passed=True),
        exit_words=Exit(result.exit_code).name.lower(),
        routes=route_table(result),
        artifacts=artifact_table(result),
        drift=drift_table(result.drift),
        served=served_view.served_table(result),
        latency=latency_table(result.latency, recommended.price_per_hour if recommended else None),
        repeat=repeat or {},
    )

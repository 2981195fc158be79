"""report.html: one file that opens offline and asks nothing of anybody.

The page carries plotly, compressed, and its plots' data; a Content-Security-Policy lets it run these two scripts,
named by their digests, and load nothing else. So what a model is called can neither run nor fetch anything.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from ...models.atomic_files import write_whole
from ...models.errors import Exit
from ..result.gate import WORST_FIRST, answered, is_reference
from ..result.schema import RunResult
from . import exercise_view, figures, probe_view, served_view, units, view
from .compare_text import view_baseline
from .doubt_view import split_doubts
from .offline_page import inert_json, packed_plotly, plotly_script, policy
from .recommendation import cost_per_million
from .time_figures import WarmUps

_HERE = files(__package__)


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
    plots = figures.plots(result, samples, warm_ups, result.load)
    recommended = result.recommendation
    data = {plot.key: {"data": plot.data, "layout": plot.layout} for plot in plots}
    drawing = (_HERE / "report.js").read_text(encoding="utf-8")
    return _template().render(
        result=result,
        lines=view.lines(result),
        batches=view.batches(result),
        condition=view.main_condition(result),
        elsewhere=view.elsewhere(result),
        metric_name=view.metric_name(result),
        served=served_view.served_table(result),
        served_note=served_view.NOTE,
        reference_score=view.reference_score(result),
        headline=view.headline(result),
        choices=recommended.choices if recommended else (),
        constraint=view.constraint(result),
        price=recommended.price_per_hour if recommended else None,
        servers=view.servers(result),
        flex=view.flex(result),
        lost=view.lost(result),
        detectable=view.detectable(result),
        weights=view.weights(result),
        left_out=view.left_out(result),
        findings=view.findings(result, logs or {}),
        gate=sorted(result.gate, key=lambda row: WORST_FIRST.index(row.verdict)),
        doubts=split_doubts(result.latency),
        probe_tables=probe_view.probe_tables(result),
        baseline=view_baseline(result.baseline),
        exercises=exercise_view.exercises(result.exercised),
        plots=plots,
        plot_data=Markup(inert_json(data)),  # noqa: S704  (nothing in it can end the element)
        plotly=packed_plotly() if plots else "",
        drawing=Markup(drawing),  # noqa: S704  (our own)
        style=Markup((_HERE / "report.css").read_text(encoding="utf-8")),  # noqa: S704  (our own)
        policy=policy((plotly_script(), drawing) if plots else ()),
        exit_words=Exit(result.exit_code).name.lower(),
        repeat=repeat or {},
    )


@cache
def _template() -> Template:
    loader = FunctionLoader(lambda name: (_HERE / name).read_text(encoding="utf-8"))
    env = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    env.globals |= {"units": units, "probes": probe_view, "answered": answered, "is_reference": is_reference}
    env.globals |= {"tried_routes": view.tried_routes, "cost_per_million": cost_per_million}
    return env.get_template("report.html.j2")

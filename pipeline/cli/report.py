"""`transload report`: the report of a finished run, made again from its run.json."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from ...models.errors import BadRequest
from ...models.untrusted_files import read_plain
from ..measure.bench.latency_rows import read_series
from ..measure.bench.rounds import Series
from ..options import shared_options as shared
from ..options.option import CommandOptions, Option
from ..result.run_folder import links
from ..result.schema import RunResult, read_result, to_json
from ..show.recommendation import ReleaseConstraint, recommend
from .output.render import print_lines, printable_json

RUNS = Path("runs")


class Form(StrEnum):
    """What to make."""

    TERMINAL = "terminal"
    HTML = "html"
    MD = "md"


class ReportOptions(CommandOptions):
    """Write the report of a finished run again.

    From run.json and the raw samples beside it: nothing is measured, and nothing of the numbers changes. Under another
    constraint the recommendation is another one; run.json keeps that of the run.
    """

    run: Annotated[Path | None, Option(metavar="[RUN]", help="A folder under runs/; without it, the newest one.")] = (
        None
    )
    form: Annotated[
        Form, Option("--format", help="terminal prints; html and md write the run's report.html or report.md.")
    ] = Form.TERMINAL
    latency_bound_s: shared.LatencyBound = None
    metric_loss: shared.MetricLoss = None
    price_per_hour: shared.PricePerHour = None
    json_: shared.Json = False


def command(options: ReportOptions) -> None:
    """Print the report, or write it."""
    folder = options.run or newest(RUNS)
    finished = read_result(folder / "run.json")
    result = _under_constraint(finished, options.sections().get("release", {}))
    if options.json_ and result is not finished:
        sys.stdout.write(printable_json(to_json(result).decode()))
    elif options.json_ or options.form is Form.TERMINAL:
        print_run(folder, result, json=options.json_)
    else:
        print_lines([f"wrote {_write(folder, result, options.form)}"])


def _under_constraint(result: RunResult, changes: Mapping[str, float]) -> RunResult:
    """Return the result with what is recommended under these options in place of those of the run."""
    if not changes:
        return result
    before = result.recommendation
    constraint = (
        ReleaseConstraint(before.latency_bound_s, before.metric_loss_points, before.price_per_hour)
        if before
        else ReleaseConstraint()
    )
    return replace(result, recommendation=recommend(result, replace(constraint, **changes)))


def newest(runs: Path) -> Path:
    """Return the newest finished run: a run's name begins with its time. Raises BadRequest where there is none."""
    folders = sorted(path.parent for path in runs.glob("*/run.json"))
    if not folders:
        raise BadRequest(
            f"no finished run lies under {runs}/", fix="name the folder of a run, or do one: transload run"
        )
    return folders[-1]


def print_run(folder: Path, result: RunResult, *, json: bool) -> None:
    """Print the result of a run on stdout: the document alone, or the table with the verdict last."""
    from rich.console import Console

    from ..show.terminal import print_result

    if json:
        sys.stdout.write(printable_json(read_plain(folder / "run.json").decode()))
        return
    logs, _ = links(folder, result)
    page = folder / "report.html"
    print_result(result, Console(), logs=logs, report=str(page) if page.is_file() else None)


def _write(folder: Path, result: RunResult, form: Form) -> Path:
    from ..show.html_page import write_html
    from ..show.markdown import write_markdown

    logs, repeat = links(folder, result)
    path = folder / f"report.{form}"
    if form is Form.HTML:
        series = _series(folder)
        samples = {(*entry.pair, entry.batch): entry.samples_s for entry in series}
        warm_ups = {(*entry.pair, entry.batch): entry.warm_ups for entry in series}
        write_html(result, samples, path, warm_ups=warm_ups, logs=logs, repeat=repeat)
    else:
        write_markdown(result, path, logs=logs)
    return path


def _series(folder: Path) -> list[Series]:
    """Return the samples of each row; none where the run did not measure."""
    path = folder / "latency.npz"
    return read_series(path) if path.is_file() else []

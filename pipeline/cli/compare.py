"""`transload compare`."""

from __future__ import annotations

from pathlib import Path
from shutil import get_terminal_size
from typing import Annotated

import typer

from ...models.errors import BadRequest
from ..result.compare.compare_limits import CompareLimits
from ..show.ci.ci_files import ci_files
from . import options
from .option_values import parse_batches, parse_duration, parse_runtimes
from .output.render import finish

_LIMITS = CompareLimits()

DriftDb = Annotated[float, typer.Option("--drift-db", min=0, metavar="DB", help="Agreement it may lose.")]
MetricLoss = Annotated[
    float | None,
    typer.Option(
        "--metric-loss", min=0, metavar="LOSS",
        help="Metric it may lose, in its own unit; else 0.01 of a score, 2 % of an error.",
    ),
]  # fmt: skip
Latency = Annotated[float, typer.Option("--latency", min=0, metavar="SHARE", help="Share by which it may be slower.")]
Size = Annotated[float, typer.Option("--size", min=0, metavar="SHARE", help="Share by which it may grow.")]
Memory = Annotated[float, typer.Option("--memory", min=0, metavar="SHARE", help="Share by which its peak may grow.")]
Remeasure = Annotated[
    bool, typer.Option("--remeasure", help="Measure the artifacts of both runs now, in the same rounds.")
]
Budget = Annotated[str | None, typer.Option("--budget", metavar="TIME", help="The most that measuring takes: 60s, 5m.")]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Where compare.json, compare.md and compare.html go.")
]


def command(
    before: Annotated[Path, typer.Argument(metavar="RUN_A", help="The earlier run: a folder under runs/.")],
    after: Annotated[Path, typer.Argument(metavar="RUN_B", help="The later run.")],
    *,
    drift_db: DriftDb = _LIMITS.drift_db,
    metric_loss: MetricLoss = None,
    latency: Latency = _LIMITS.latency,
    size: Size = _LIMITS.size,
    memory: Memory = _LIMITS.memory,
    allow_missing: options.AllowMissing = False,
    remeasure: Remeasure = False,
    runtime: options.RuntimeNames = None,
    batch: options.Batch = None,
    threads: options.Threads = None,
    processes: options.Processes = None,
    budget: Budget = None,
    device: options.Device = None,
    data: options.Data = None,
    out: Out = None,
    store: options.Store = None,
    jobs: options.Jobs = None,
    junit: options.Junit = None,
    sarif: options.Sarif = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare a run with an earlier one: status, drift, metric, size, latency and memory.

    The new source is compared with the old one, each new copy with the old copy of its target, and what each copy loses
    on its own source. Latencies of unlike machines are not compared; --remeasure measures the artifacts of both side by
    side, on this one.
    The options from --runtime to --data belong to it. The exit status is 0 where nothing is worse, 1 where something
    is, 3 where something cannot be decided.
    """
    from ..api import compare
    from ..show.compare_text import terminal_lines

    measuring = {
        "--runtime": runtime, "--batch": batch, "--threads": threads, "--processes": processes, "--budget": budget,
        "--device": device, "--data": data,
    }  # fmt: skip
    if not remeasure and (named := [name for name, value in measuring.items() if value is not None]):
        raise BadRequest(f"{named[0]} says how to measure, and nothing is measured", fix="add --remeasure")
    with ci_files("compare", junit, sarif) as files:
        done = compare(
            before, after, drift_db=drift_db, metric_loss=metric_loss, latency=latency, size=size, memory=memory,
            out=out, allow_missing=allow_missing, remeasure=remeasure, runtimes=parse_runtimes(runtime) or None,
            batches=parse_batches(batch) or None, threads=threads, processes=processes,
            budget_s=parse_duration(budget), device=device, data=data, store=store, jobs=jobs, quiet=quiet,
        )  # fmt: skip
    if files.wanted:
        from ..show.ci.ci_rows import rows_of_comparison

        files.write(list(rows_of_comparison(done.comparison)), int(done.decided[1]))
    lines = terminal_lines(done.comparison, get_terminal_size().columns)
    if done.folder:
        lines[-1:-1] = [f"written to {done.folder}", ""]
    finish(done.document, lines, done.decided[1], json=json)

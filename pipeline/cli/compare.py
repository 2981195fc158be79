"""`transload compare`."""

from __future__ import annotations

from pathlib import Path
from shutil import get_terminal_size
from typing import Annotated

import typer

from ..compare.compare_limits import CompareLimits
from . import options
from .render import finish

_LIMITS = CompareLimits()


def command(
    before: Annotated[Path, typer.Argument(metavar="RUN_A", help="The earlier run: a folder under runs/.")],
    after: Annotated[Path, typer.Argument(metavar="RUN_B", help="The later run.")],
    *,
    drift_db: Annotated[
        float, typer.Option("--drift-db", min=0, metavar="DB", help="Agreement it may lose.")
    ] = _LIMITS.drift_db,
    metric_loss: Annotated[
        float, typer.Option("--metric-loss", min=0, metavar="LOSS", help="Metric it may lose, in its own unit.")
    ] = _LIMITS.metric_loss,
    latency: Annotated[
        float, typer.Option("--latency", min=0, metavar="SHARE", help="Share by which it may be slower.")
    ] = _LIMITS.latency,
    size: Annotated[
        float, typer.Option("--size", min=0, metavar="SHARE", help="Share by which it may grow.")
    ] = _LIMITS.size,
    memory: Annotated[
        float, typer.Option("--memory", min=0, metavar="SHARE", help="Share by which its peak may grow.")
    ] = _LIMITS.memory,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where compare.json and compare.md go.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Compare a run with an earlier one: status, drift, metric, size, latency and memory.

    Latencies of unlike machines are not compared. The exit status is 0 where nothing is worse, 1 where something is,
    3 where something cannot be decided.
    """
    from ..api import compare
    from ..report.compare_text import terminal_lines

    done = compare(
        before, after, drift_db=drift_db, metric_loss=metric_loss, latency=latency, size=size, memory=memory, out=out
    )
    lines = terminal_lines(done.comparison, get_terminal_size().columns)
    if out:
        lines[-1:-1] = [f"written to {out}", ""]
    finish(done.document, lines, done.decided[1], json=json)

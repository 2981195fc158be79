"""`transload run`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from . import options


def command(
    pipeline: Annotated[
        Path | None, typer.Argument(metavar="[PIPELINE.toml]", help="What to run; without it, the digits recipe.")
    ] = None,
    *,
    recipe: Annotated[
        str | None, typer.Option("--recipe", metavar="RECIPE", help="zoo:NAME or FILE.py, in place of the file's.")
    ] = None,
    weights: Annotated[
        Path | None, typer.Option("--weights", metavar="FILE", help="Start from these weights; do not train.")
    ] = None,
    to: options.To = None,
    runtime: options.RuntimeNames = None,
    batch: options.Batch = None,
    device: options.Device = None,
    threads: options.Threads = None,
    no_bench: Annotated[bool, typer.Option("--no-bench", help="Leave latency out.")] = False,
    tfserving_url: Annotated[
        str | None, typer.Option("--tfserving-url", metavar="HOST:PORT", help="A running TF Serving to use.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where runs go.")] = Path("runs"),
    store: options.Store = None,
    jobs: options.Jobs = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train, convert, validate, measure, and say what may be released.

    Leaves runs/ID/ with run.json, report.html, report.md, the artifacts, the logs and a script per step. What a former
    run finished is not done again. The exit status is the verdict: 0 pass, 1 fail, 3 inconclusive, 4 no route left.
    """
    from ..places import Places
    from ..progress import Progress
    from ..request import read_request
    from ..run import run

    changes: dict[str, Any] = {
        "model": _given(recipe=recipe, weights=str(weights.absolute()) if weights else None),
        "convert": _given(targets=options.split(to) or None),
        "validate": _given(runtimes=options.split(runtime) or None),
        "bench": _given(
            runtimes=options.split(runtime) or None,
            batches=options.parse_batches(batch) or None,
            threads=threads,
            enabled=False if no_bench else None,
        ),
        **_given(device=device, tfserving_url=tfserving_url),
    }
    request = read_request(pipeline, changes)
    outcome = run(request, Places.given(store, out, jobs), Progress(quiet=quiet))
    if json:
        sys.stdout.buffer.write((outcome.folder / "run.json").read_bytes())
    else:
        _show(outcome)
    raise typer.Exit(outcome.result.exit_code)


def _given(**values: Any) -> dict[str, Any]:
    """Those of the options that were given."""
    return {name: value for name, value in values.items() if value is not None}


def _show(outcome: Any) -> None:
    from rich.console import Console

    from ..folder import links
    from ..report.terminal import print_result

    logs, _ = links(outcome.folder, outcome.result)
    print_result(outcome.result, Console(), logs=logs, report=str(outcome.folder / "report.html"))

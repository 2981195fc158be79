"""`transload bundle`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...models.errors import Exit
from ...serving.bundles.bundle_records import System
from . import options
from .output.render import finish

if TYPE_CHECKING:
    from ..commands.bundle import BundleResult

_SAMPLES = {"data": "of --data", "run": "of its run's test set", "random": "random inputs that fit its signature"}


def command(
    artifact: Annotated[
        Path,
        typer.Argument(
            metavar="RUN_OR_ARTIFACT", help="An artifact's folder, or that of a run or a convert: its best artifact."
        ),
    ],
    *,
    system: Annotated[System, typer.Option("--for", help="The system that will serve it.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The new folder of the bundle.")],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What clients call the model.")] = "model",
    version: Annotated[
        int, typer.Option("--model-version", min=1, metavar="N", help="Its version, where the system has versions.")
    ] = 1,
    max_batch: Annotated[
        int | None,
        typer.Option(
            "--max-batch", min=1, metavar="N", help="The most rows of a request, so that the system gathers requests."
        ),
    ] = None,
    data: options.Data = None,
    store: options.Store = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write what a serving system expects of an artifact, with a check of its endpoint.

    The bundle holds golden samples: a few inputs and the artifact's answers. check.sh in it asks a URL for them, and
    ends with 0 where all answers lie within the artifact's tolerance, else with 1.
    """
    from ..api import bundle

    done = bundle(
        artifact, system=system, out=out, name=name, version=version, max_batch=max_batch, data=data, store=store,
        quiet=quiet,
    )  # fmt: skip
    finish(done.document, list(_lines(done)), Exit.PASS, json=json)


def _lines(done: BundleResult) -> Iterator[str]:
    """Print what was bundled, the golden samples with their tolerance, and how to check an endpoint."""
    yield f"bundled {done.artifact} ({done.target}) for {done.system} in {done.folder}"
    yield f"golden samples: {done.calls} calls, {_SAMPLES[done.samples]}; tolerance: {done.tolerance.least_db:.1f} dB"
    if done.status is None or done.status != "verified":
        how = "no run beside it says that it was verified" if done.status is None else f"its run calls it {done.status}"
        yield f"note: {how}, and the check compares with its answers all the same"
    yield f"{done.folder}/README.md says how to start it; then check it: {done.check}"

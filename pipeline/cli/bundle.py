"""`transload bundle`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ...models.errors import BadRequest, Exit
from ...serving.bundles.bundle_records import System
from ..options import shared_options as shared
from ..options.option import CommandOptions, Option
from .output.render import finish

if TYPE_CHECKING:
    from ..commands.bundle import BundleResult

_SAMPLES = {"data": "of --data", "run": "of its run's test set", "random": "random inputs that fit its signature"}


def _system(name: str) -> System:
    """Return the system of a name. Raises BadRequest with those that there are."""
    if name not in set(System):
        raise BadRequest(f"no system is called {name!r}", fix=f"use one of {', '.join(System)}")
    return System(name)


class BundleOptions(CommandOptions):
    """Write what a serving system expects of an artifact, with a check of its endpoint.

    The bundle holds golden samples: a few inputs and the artifact's answers. check.sh in it asks a URL for them, and
    ends with 0 where all answers lie within the artifact's tolerance, else with 1.
    """

    artifact: Annotated[
        Path,
        Option(
            metavar="RUN_OR_ARTIFACT", help="An artifact's folder, or that of a run or a convert: its best artifact."
        ),
    ]
    system: Annotated[System, shared.by(_system, str | System), Option("--for", help="The system that will serve it.")]
    out: Annotated[Path, Option("--out", "DIR", "The new folder of the bundle.")]
    name: Annotated[str, Option("--name", "NAME", "What clients call the model.")] = "model"
    version: Annotated[int, Option("--model-version", "N", "Its version, where the system has versions.", min=1)] = 1
    max_batch: Annotated[
        int | None,
        Option("--max-batch", "N", "The most rows of a request, so that the system gathers requests.", min=1),
    ] = None
    data: shared.Data = None
    runs: shared.RunsOfFunction = Path("runs")
    store: shared.Store = None
    json_: shared.Json = False
    quiet: shared.Quiet = False


def bundle(options: BundleOptions) -> BundleResult:
    """Write the bundle of an artifact. Raises TransloadError."""
    from ..commands.bundle import bundle as write_bundle
    from ..options.request import read_request
    from ..progress.progress import Progress
    from .requests import local_settings

    return write_bundle(
        read_request(None), options.artifact, local_settings(options), Progress(quiet=options.quiet),
        system=options.system, out=options.out, name=options.name, version=options.version, data=options.data,
        max_batch=options.max_batch,
    )  # fmt: skip


def command(options: BundleOptions) -> None:
    """Write the bundle of an artifact, and print where it lies and how to check it."""
    done = bundle(options)
    finish(done.document, list(_lines(done)), Exit.PASS, json=options.json_)


def _lines(done: BundleResult) -> Iterator[str]:
    """Print what was bundled, the golden samples with their tolerance, and how to check an endpoint."""
    yield f"bundled {done.artifact} ({done.target}) for {done.system} in {done.folder}"
    yield f"golden samples: {done.calls} calls, {_SAMPLES[done.samples]}; tolerance: {done.tolerance.least_db:.1f} dB"
    if done.status is None or done.status != "verified":
        how = "no run beside it says that it was verified" if done.status is None else f"its run calls it {done.status}"
        yield f"note: {how}, and the check compares with its answers all the same"
    yield f"{done.folder}/README.md says how to start it; then check it: {done.check}"

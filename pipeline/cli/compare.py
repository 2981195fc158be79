"""`transload compare`."""

from __future__ import annotations

from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated

from ...models.errors import BadRequest
from ..options import shared_options as shared
from ..options.option import CommandOptions, Key, Option
from ..result.compare.compare_limits import CompareLimits
from ..show.ci.ci_files import ci_files
from .output.render import finish

if TYPE_CHECKING:
    from ..commands.compare import CompareResult

_LIMITS = CompareLimits()
_MEASURING = ("runtimes", "batches", "threads", "processes", "budget_s", "device", "data")  # of --remeasure


class CompareOptions(CommandOptions):
    """Compare a run with an earlier one: status, drift, metric, size, latency and memory.

    The new source is compared with the old one, each new copy with the old copy of its target, and what each copy loses
    on its own source. Latencies of unlike machines are not compared; --remeasure measures the artifacts of both side by
    side, on this one.
    The options from --runtime to --data belong to it. The exit status is 0 where nothing is worse, 1 where something
    is, 3 where something cannot be decided.
    """

    before: Annotated[Path, Option(metavar="RUN_A", help="The earlier run: a folder under runs/.")]
    after: Annotated[Path, Option(metavar="RUN_B", help="The later run.")]
    drift_db: Annotated[float, Option("--drift-db", "DB", "Agreement it may lose.", min=0)] = _LIMITS.drift_db
    metric_loss: Annotated[
        float | None,
        Option(
            "--metric-loss",
            "LOSS",
            "Metric it may lose, in its own unit; else 0.01 of a score, 2 % of an error.",
            min=0,
        ),
    ] = None
    latency: Annotated[float, Option("--latency", "SHARE", "Share by which it may be slower.", min=0)] = _LIMITS.latency
    size: Annotated[float, Option("--size", "SHARE", "Share by which it may grow.", min=0)] = _LIMITS.size
    memory: Annotated[float, Option("--memory", "SHARE", "Share by which its peak may grow.", min=0)] = _LIMITS.memory
    allow_missing: Annotated[bool, shared.ALLOW_MISSING] = False
    remeasure: Annotated[
        bool, Option("--remeasure", help="Measure the artifacts of both runs now, in the same rounds.")
    ] = False
    runtimes: Annotated[shared.Runtimes, Key("bench.runtimes")] = None
    batches: Annotated[shared.Batches, Key("bench.batches")] = None
    threads: shared.Threads = None
    processes: shared.Processes = None
    budget_s: Annotated[shared.Budget, Option("--budget", "TIME", "The most that measuring takes: 60s, 5m.")] = None
    device: shared.Device = None
    data: shared.Data = None
    out: Annotated[Path | None, Option("--out", "DIR", "Where compare.json, compare.md and compare.html go.")] = None
    runs: shared.RunsOfFunction = Path("runs")
    store: shared.Store = None
    jobs: shared.Jobs = None
    junit: shared.Junit = None
    sarif: shared.Sarif = None
    json_: shared.Json = False
    quiet: shared.Quiet = False

    @property
    def limits(self) -> CompareLimits:
        """What the later run may lose."""
        return CompareLimits(**{name: getattr(self, name) for name in CompareLimits.__dataclass_fields__})


def compare(options: CompareOptions) -> CompareResult:
    """Compare two runs. Raises TransloadError."""
    from ..commands.compare import compare as compare_records
    from ..commands.compare import compare_measured
    from ..options.request import read_request
    from ..progress.progress import Progress
    from .requests import local_settings

    changed = options.non_defaults()
    limits, allow_missing, out = options.limits, options.allow_missing, options.out
    if options.remeasure:
        return compare_measured(
            options.before, options.after, read_request(None, options.sections()), local_settings(options),
            Progress(quiet=options.quiet), limits=limits, allow_missing=allow_missing, out=out, data=options.data,
        )  # fmt: skip
    if measuring := [name for name in _MEASURING if name in changed]:
        word = CompareOptions.word_of(measuring[0])
        raise BadRequest(f"{word} says how to measure, and nothing is measured", fix="add --remeasure")
    return compare_records(options.before, options.after, limits=limits, allow_missing=allow_missing, out=out)


def command(options: CompareOptions) -> None:
    """Compare two runs, and print what changed."""
    from ..show.compare_text import terminal_lines

    with ci_files("compare", options.junit, options.sarif) as files:
        done = compare(options)
    if files.wanted:
        from ..show.ci.ci_rows import rows_of_comparison

        files.write(list(rows_of_comparison(done.comparison)), int(done.decided[1]))
    lines = terminal_lines(done.comparison, get_terminal_size().columns)
    if done.folder:
        lines[-1:-1] = [f"written to {done.folder}", ""]
    finish(done.document, lines, done.decided[1], json=options.json_)

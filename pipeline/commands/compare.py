"""The command `compare`: a run against an earlier one, from what both recorded or measured side by side."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...models.atomic_files import write_whole
from ...models.data_checks.data_findings import DataUse
from ...models.errors import Exit
from ...models.signature import Signature
from ...models.store import Stored
from ..measure.bench.latency_rows import write_samples
from ..measure.bench_stage import Bench, Measurements
from ..measure.servers import Servers
from ..options.request import BenchSection, RunRequest
from ..plan.context import Context, LocalSettings
from ..plan.data_step import data_argument
from ..plan.run_inputs import resolve_data
from ..progress.progress import Progress
from ..result.compare.change_records import RunComparison
from ..result.compare.compare_limits import CompareLimits
from ..result.compare.run_comparison import compare_runs, decide
from ..result.compare.run_files import read_release
from ..result.compare.side_by_side import SideBySide
from ..result.schema import RunResult, Verdict
from ..result.verified_artifact import samples_of
from ..show.compare_page import render_compare_page
from ..show.compare_text import render_compare_markdown
from .remeasure import open_artifacts, pair_up, remeasure
from .workspace import (
    REFUSED,
    check_writable,
    close_workers,
    document_of,
    new_context,
    new_run_context,
    remove_if_unused,
    report_disk_full,
    write_document,
)

_RANDOM = "both were asked random samples: the store has the test set of neither run (name one with --data)"


@dataclass(frozen=True)
class CompareResult:
    """A comparison of two runs, and the folder that it was written to, if any."""

    comparison: RunComparison
    folder: Path | None = None

    @property
    def decided(self) -> tuple[Verdict, Exit]:
        """Verdict and exit status."""
        return decide(self.comparison)

    @property
    def document(self) -> dict[str, Any]:
        """The content of compare.json."""
        rows = self.comparison
        head: dict[str, Any] = {"before": rows.before, "after": rows.after, "method": str(rows.method)}
        head |= {name: list(getattr(rows, name)) for name in ("differences", "new", "gone", "notes")}
        return head | document_of(self.decided, figures=rows.figures)

    def _repr_html_(self) -> str:
        from ..show.notebook_html import render_comparison

        return render_comparison(self.comparison, self.folder)


def compare(
    before: Path,
    after: Path,
    *,
    limits: CompareLimits | None = None,
    allow_missing: bool = False,
    out: Path | None = None,
) -> CompareResult:
    """Compare the run in `after` with that in `before`; leaves compare.json, compare.md and compare.html in `out`,
    where named. Raises BadRequest where a folder holds no finished run."""
    comparison = compare_runs(read_release(before), read_release(after), limits, allow_missing=allow_missing)
    if out:
        check_writable(out)
        with report_disk_full(out):
            _write(out, comparison)
    return CompareResult(comparison, out)


def compare_measured(
    before: Path,
    after: Path,
    request: RunRequest,
    local: LocalSettings,
    progress: Progress,
    *,
    limits: CompareLimits | None = None,
    allow_missing: bool = False,
    out: Path | None = None,
    data: str | None = None,
) -> CompareResult:
    """Compare two runs, and measure the artifacts of both in the same rounds, pair by pair.
    `request.bench.budget_s` ends it. What it leaves unsaid of runtimes, batch sizes and threads is as in the later run.
    Leaves compare.json, compare.md, compare.html, latency.npz and logs in `out`, else in a new folder of `local.runs`.
    Raises BadRequest where a folder holds no finished run, or the samples do not fit."""
    releases = read_release(before), read_release(after)
    old, new = (release.run for release in releases)
    limits = limits or CompareLimits()
    request = request.model_copy(update={"bench": _as_in(new, request.bench)})
    with remove_if_unused(out, kept_logs=local.store / REFUSED) if out else nullcontext():
        if out:
            check_writable(out)
            context = new_context(request, out, local, progress)
        else:
            context = new_run_context(request, "compare", local, progress)
        with report_disk_full(context.folder), close_workers(context):
            measured, samples = _measure(context, (before, old), (after, new), limits, data)
            comparison = compare_runs(*releases, limits, measured, allow_missing=allow_missing)
            _write(context.folder, comparison)
            if samples.series:
                write_samples(context.folder / "latency.npz", samples.series)
    return CompareResult(comparison, context.folder)


def _as_in(run: RunResult, section: BenchSection) -> BenchSection:
    """Return the section with the runtimes, batch sizes and threads of a run, where it does not name them."""
    rows = run.latency
    recorded: dict[str, Any] = {
        "runtimes": tuple(dict.fromkeys(row.runtime for row in rows if row.artifact != "source")),
        "batches": tuple(sorted({row.batch for row in rows})),
        "threads": rows[0].threads if rows else 0,
    }
    unsaid = {name: value for name, value in recorded.items() if value and name not in section.model_fields_set}
    return section.model_copy(update=unsaid)


def _measure(
    context: Context,
    before: tuple[Path, RunResult],
    after: tuple[Path, RunResult],
    limits: CompareLimits,
    data: str | None,
) -> tuple[SideBySide, Measurements]:
    """Open the artifacts that both runs have, and measure them side by side."""
    recorded = samples_of(after[0]) or samples_of(before[0])
    argument = data_argument(context, data or (str(recorded) if recorded else None))
    names = [row.name for row in after[1].artifacts if row.name in {old.name for old in before[1].artifacts}]
    with context.progress.stage("artifacts") as stage:
        opened = [open_artifacts(context, folder, run, names) for folder, run in (before, after)]
        models = opened[1].models
        stored: dict[str, tuple[Stored, Signature]] = {
            name: (model.stored, model.model.signature) for name, model in models.items()
        }
        pairs, left_out = pair_up(opened[0], stored, context.request.bench.runtimes)
        left_out |= opened[1].left_out
        stage.note = f"{len({pair.name for pair in pairs})} in both runs, {len(pairs)} pairs to measure"
    if not pairs:
        return SideBySide(left_out=left_out), Measurements()
    first = models[pairs[0].name]
    samples = resolve_data(context, first, argument, DataUse.TIMES)
    with Servers(context) as servers, context.progress.stage("bench") as stage:
        bench = Bench(context, samples, servers, first.model)
        budget_s = context.request.bench.budget_s
        measured, measurements = remeasure(bench, pairs, left_out, limits.latency, budget_s, is_hard=True)
        stage.note = measurements.note or ""
    if argument is None:
        measured = replace(measured, doubts=(*measured.doubts, _RANDOM))
    return measured, measurements


def _write(folder: Path, comparison: RunComparison) -> None:
    write_document(folder / "compare.json", CompareResult(comparison).document)
    write_whole(folder / "compare.md", render_compare_markdown(comparison))
    write_whole(folder / "compare.html", render_compare_page(comparison))

"""`transload bench`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...serving.runtimes.tuning_space import settings_text
from . import options
from .completion.completion_values import complete_models
from .option_values import (
    parse_batches,
    parse_duration,
    parse_inputs,
    parse_load_options,
    parse_runtimes,
    parse_settings,
    parse_share,
    parse_tuning_options,
)
from .output.render import finish

_DOUBTS = 3  # the weightiest; all of them are in bench.json

if TYPE_CHECKING:
    from ..commands.bench import BenchResult
    from ..result.schema import BoundRow


Candidates = Annotated[
    list[str],
    typer.Argument(metavar="CANDIDATE...", help="Artifacts: folders, models in files, or URLs of served models."),
]
Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="MODEL",
        help="What ratios are held against, as 'convert' takes it; else the recorded source, else the first.",
        autocompletion=complete_models,
    ),
]
Tune = Annotated[
    bool, typer.Option("--tune", help="Search each runtime's settings; keep what is faster and still verifies.")
]
TuneBudget = Annotated[
    str | None,
    typer.Option("--tune-budget", metavar="TIME", help="Of the search, for each artifact in each runtime: 60s."),
]


def command(
    candidates: Candidates,
    *,
    against: Against = None,
    data: options.Data = None,
    input_: options.Input = None,
    weights: options.Weights = None,
    weights_key: options.WeightsKey = None,
    set_: options.Set = None,
    python: options.Python = None,
    model_seconds: options.ModelSeconds = None,
    trust: options.Trust = False,
    runtime: options.RuntimeNames = None,
    batch: options.Batch = None,
    threads: options.Threads = None,
    rounds: options.Rounds = None,
    processes: options.Processes = None,
    budget: options.Budget = None,
    same_within: options.SameWithin = None,
    load: options.Load = None,
    load_seconds: options.LoadSeconds = None,
    load_engine: options.LoadEngines = None,
    tune: Tune = False,
    tune_budget: TuneBudget = None,
    latency_bound: options.BatchBound = None,
    untuned: options.Untuned = False,
    device: options.Device = None,
    tfserving_url: options.TfservingUrl = None,
    tfserving_model: options.TfservingModel = None,
    jobs: options.Jobs = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where runs go.")] = Path("runs"),
    store: options.Store = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure the latency of artifacts, all of them in the same rounds.

    Goes on until each ratio is settled, or the budget spent. Exit status 4 where something gave no answer, else 0."""
    from ..api import bench

    done = bench(
        *candidates, against=against, data=data, weights=weights, weights_key=weights_key, python=python, store=store,
        model_seconds=model_seconds, trust=trust, threads=threads, rounds=rounds, processes=processes, untuned=untuned,
        device=device, runs=out, tfserving_url=tfserving_url, tfserving_model=tfserving_model, jobs=jobs, quiet=quiet,
        budget_s=parse_duration(budget), runtimes=parse_runtimes(runtime) or None,
        batches=parse_batches(batch) or None, same_within=parse_share(same_within),
        inputs=parse_inputs(input_), load=parse_load_options(load, load_seconds, load_engine),
        settings=parse_settings(set_), tune=parse_tuning_options(tune_budget, latency_bound, tune=tune),
    )  # fmt: skip
    finish(done.document, _lines(done), done.decided[1], json=json)


def _lines(done: BenchResult) -> list[str]:
    """Print a line per artifact, runtime and batch size, the doubts, and where the samples are kept."""
    from ..show.doubt_view import doubt_lines
    from ..show.load_view import load_doubts, load_table
    from ..show.tables.latency_table import SHORT, latency_table
    from ..show.tables.printers import as_text

    lines = as_text(latency_table(done.latency, searched=bool(done.tuning)).only(*SHORT))
    dropped = [
        f"{row.artifact} in {row.runtime}: {settings_text(row.settings)} was dropped: {row.reason}"
        for row in done.tuning
        if row.verified is False
    ]
    unanswered = dict.fromkeys(
        f"{row.artifact} in {row.runtime} gave no answer: {row.doubts[0]}"
        for row in done.latency
        if row.throughput_per_s is None and row.doubts
    )
    facts = [*unanswered, *([done.note] if done.note else []), *map(_bound, done.bounds), *dropped]
    heaviest = doubt_lines(done.latency, _DOUBTS, f"{done.folder}/bench.json")
    notes = [*facts, *heaviest, *load_doubts(done.load, _DOUBTS), *done.doubts]
    samples = f"every sample lies in {done.folder}/latency.npz"
    if done.load:
        lines += ["", *as_text(load_table(done.load))]
        samples += f", every request in {done.folder}/load.npz"
    return [*lines, *(["", *notes] if notes else []), "", samples]


def _bound(row: BoundRow) -> str:
    """Return the sentence on a latency bound."""
    where = f"{row.artifact} in {row.runtime}: p99 within {row.bound_s * 1e3:g} ms"
    if row.batch is None:
        return f"{where} at no batch size: {row.reason}"
    rate = f"{row.throughput_per_s or 0:.0f} samples/s, p99 {(row.p99_s or 0) * 1e3:.3g} ms"
    return f"{where} at batch {row.batch}: {rate}; {row.reason}"

"""`transload bench`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .render import finish, page, table

_DOUBTS = 3  # of a row; all of them are in bench.json
_Candidates = Annotated[
    list[str],
    typer.Argument(metavar="CANDIDATE...", help="Artifacts: folders, models in files, or URLs of served models."),
]

if TYPE_CHECKING:
    from ..commands.bench import BenchResult


def command(
    candidates: _Candidates,
    *,
    against: options.RatioReference = None,
    data: options.Data = None,
    input_: options.Input = None,
    weights: options.Weights = None,
    weights_key: options.WeightsKey = None,
    set_: options.Set = None,
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

    Ratios are held against the model of --against, else against the first candidate in its first runtime; those of
    what is served against the first that is served in the same way. Measuring goes on until each is faster, slower or
    the same, or the budget is spent. The exit status is 4 where something gave no answer, else 0.
    """
    from ..api import bench

    done = bench(
        *candidates, against=against, runtimes=options.parse_runtimes(runtime) or None,
        batches=options.parse_batches(batch) or None, inputs=options.parse_inputs(input_), data=data, weights=weights,
        weights_key=weights_key, settings=options.parse_settings(set_), model_seconds=model_seconds, trust=trust,
        threads=threads, rounds=rounds, processes=processes, budget_s=options.parse_duration(budget),
        same_within=options.parse_share(same_within), load=options.parse_loads(load, load_seconds, load_engine),
        load_seconds=load_seconds, load_engines=options.parse_load_engines(load_engine) or None, device=device,
        tfserving_url=tfserving_url, tfserving_model=tfserving_model, runs=out, store=store, jobs=jobs, quiet=quiet,
    )  # fmt: skip
    finish(done.document, _lines(done), done.decided[1], json=json)


def _lines(done: BenchResult) -> list[str]:
    """Print a line per artifact, runtime and batch size, the doubts, and where the samples are kept."""
    from ..report.load_view import load_doubts, load_table
    from ..report.units import comparison, duration, ratio, ratio_interval

    rows = [("artifact", "runtime", "device", "batch", "p50", "p99", "samples/s", "ratio", "verdict")]
    doubts: dict[str, None] = {}
    for row in done.latency:
        numbers = (duration(row.p50_s), duration(row.p99_s), f"{row.throughput_per_s or 0:.0f}")
        held = f"{ratio(row.ratio_to_reference)} {ratio_interval(row)}".strip()
        rows.append((row.artifact, row.runtime, row.device, str(row.batch), *numbers, held, comparison(row)))
        where = f"{row.artifact} in {row.runtime} at batch {row.batch}"
        doubts |= dict.fromkeys(f"{where}: {doubt}" for doubt in row.doubts[:_DOUBTS])
    notes = [*([done.note] if done.note else []), *doubts, *load_doubts(done.load, _DOUBTS), *done.doubts]
    samples = f"every sample lies in {done.folder}/latency.npz"
    if not done.load:
        return page(rows, notes, samples)
    requests = f"{samples}, every request in {done.folder}/load.npz"
    return [*table(rows), "", *page(load_table(done.load), notes, requests)]

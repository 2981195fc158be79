"""`transload bench`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import model_validator

from ...models.errors import BadRequest
from ...serving.runtimes.tuning_space import settings_text
from ..options import option_words as words
from ..options import shared_options as shared
from ..options.bench_parts import LoadOptions, TuningOptions
from ..options.option import Key, Option, Side
from ..options.reference_options import ReferenceOptions
from ..result.load_cases import LOAD_SECONDS, LoadEngine, check_load, parse_load
from .output.render import finish

_DOUBTS = 3  # the weightiest; all of them are in bench.json

if TYPE_CHECKING:
    from ..commands.bench import BenchResult
    from ..result.schema import BoundRow


class BenchOptions(ReferenceOptions):
    """Measure the latency of artifacts, all of them in the same rounds.

    Goes on until each ratio is settled, or the budget spent. Exit status 4 where something gave no answer, else 0."""

    candidates: Annotated[
        shared.Candidates,
        Option(
            metavar="CANDIDATE...", several=True, help="Artifacts: folders, models in files, or URLs of served models."
        ),
    ]
    against: Annotated[
        shared.Model,
        Option(
            "--against",
            "MODEL",
            "What ratios are held against, as 'convert' takes it; else the recorded source, else the first.",
            complete=shared.complete.complete_models,
        ),
    ] = None
    runtimes: Annotated[shared.Runtimes, Key("bench.runtimes")] = None
    batches: Annotated[shared.Batches, Key("bench.batches")] = None
    threads: shared.Threads = None
    rounds: Annotated[
        int | None,
        Key("bench.rounds"),
        Option("--rounds", "N", "Turns of each model in each process, at least.", min=3),
    ] = None
    processes: shared.Processes = None
    budget_s: shared.Budget = None
    same_within: Annotated[
        float | None,
        shared.by(words.parse_share, str | float),
        Key("bench.same_within"),
        Option("--same-within", "SHARE", "A ratio this close to 1 is the same, as in 2%."),
    ] = None
    load: Annotated[
        tuple[str, ...] | None,
        shared.texts(list[str] | LoadOptions | None),
        Key("bench.load"),
        Option(
            "--load",
            "LOAD",
            "Put load on it: closed:1,2,4 (connections), constant:100 or poisson:100,200 (requests a second), "
            "server:200@10ms, single-stream, multi-stream:8, offline; once for each.",
            several=True,
        ),
    ] = None
    load_seconds: Annotated[
        float | None,
        Key("bench.load_seconds"),
        Option("--load-seconds", "S", "How long each load lasts, 10.", min=0.1, max=3600, only=Side.LINE),
    ] = None
    load_engines: Annotated[
        tuple[str, ...] | None,
        shared.by(words.parse_load_engines),
        Key("bench.load_engines"),
        Option(
            "--load-engine",
            "NAMES",
            "What sends it: transload, loadgen (MLPerf's), or both.",
            several=True,
            only=Side.LINE,
        ),
    ] = None
    tune: Annotated[
        bool,
        shared.by(bool, bool | TuningOptions | None),
        Key("bench.tune"),
        Option("--tune", help="Search each runtime's settings; keep what is faster and still verifies."),
    ] = False
    tune_budget_s: Annotated[
        float | None,
        shared.by(words.parse_duration),
        Key("bench.tune_budget_s"),
        Option("--tune-budget", "TIME", "Of the search, for each artifact in each runtime: 60s.", only=Side.LINE),
    ] = None
    latency_bound_s: Annotated[
        float | None,
        shared.by(words.parse_latency),
        Key("bench.latency_bound_s"),
        Option(
            "--latency-bound", "TIME", "Find the batch of most throughput whose p99 keeps it: 10ms.", only=Side.LINE
        ),
    ] = None
    untuned: Annotated[bool, Key("bench.untuned"), shared.UNTUNED] = False
    device: shared.Device = None
    tfserving_url: shared.TfservingUrl = None
    tfserving_model: shared.TfservingModel = None
    jobs: shared.Jobs = None
    runs: shared.Runs = Path("runs")
    store: shared.Store = None
    json_: shared.Json = False
    quiet: shared.Quiet = False

    @model_validator(mode="before")
    @classmethod
    def _spread(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Spread what a function takes as a part of its own."""
        load, tune = values.get("load"), values.get("tune")
        if isinstance(load, LoadOptions):
            values = values | load.section()
        if tune is None:
            values = {name: value for name, value in values.items() if name != "tune"}
        if isinstance(tune, TuningOptions):
            values = values | tune.section()
        return values

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        changed = self.non_defaults()
        if self.load is None:
            _refuse_alone(changed, ("load_seconds", "load_engines"), "a load", "--load")
        else:
            engines = [LoadEngine(name) for name in self.load_engines or (LoadEngine.TRANSLOAD,)]
            seconds = LOAD_SECONDS if self.load_seconds is None else self.load_seconds
            check_load(parse_load(self.load), engines, seconds)
        if not self.tune:
            _refuse_alone(changed, ("tune_budget_s", "latency_bound_s"), "a search of settings", "--tune")
        return self


def _refuse_alone(changed: dict[str, Any], dependent: tuple[str, ...], subject: str, option: str) -> None:
    """Raise BadRequest where an option was used that belongs to another, which was not."""
    for name in dependent:
        if name in changed:
            raise BadRequest(f"{BenchOptions.word_of(name)} belongs to {subject}", fix=f"give {option}, too")


def bench(options: BenchOptions) -> BenchResult:
    """Measure the latency of the candidates, as `transload bench` does. Raises TransloadError."""
    from ..commands.bench import bench as measure
    from ..options.request import read_request
    from ..plan.model_argument import ModelRequest
    from ..plan.recorded_source import find_source
    from ..progress.progress import Progress
    from .requests import candidates_in, local_settings, reference_of

    if not options.candidates:
        raise BadRequest("nothing to measure is named", fix="name the folders of artifacts")
    candidates, progress = candidates_in(options.candidates), Progress(quiet=options.quiet)
    model: ModelRequest | None = None
    if options.against is not None or find_source(candidates):
        request, model = reference_of(options, candidates, options.runs, progress)
    else:
        request = read_request(None, options.sections())
    data = model.data if model else options.data
    local = local_settings(options)
    return measure(request, candidates, local, progress, against=model, inputs=options.inputs, data=data)


def command(options: BenchOptions) -> None:
    """Measure latencies, and print a line for each artifact in each runtime at each batch size."""
    done = bench(options)
    finish(done.document, _lines(done), done.decided[1], json=options.json_)


def _lines(done: BenchResult) -> list[str]:
    """Print a line per artifact, runtime and batch size, the doubts, and where the samples are kept."""
    from ..show.doubt_view import doubt_lines
    from ..show.load_view import load_doubts, load_table
    from ..show.tables.latency_table import SHORT, latency_table
    from ..show.tables.printers import to_text

    lines = to_text(latency_table(done.latency, searched=bool(done.tuning)).only(*SHORT))
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
        lines += ["", *to_text(load_table(done.load))]
        samples += f", every request in {done.folder}/load.npz"
    return [*lines, *(["", *notes] if notes else []), "", samples]


def _bound(row: BoundRow) -> str:
    """Return the sentence on a latency bound."""
    where = f"{row.artifact} in {row.runtime}: p99 within {row.bound_s * 1e3:g} ms"
    if row.batch is None:
        return f"{where} at no batch size: {row.reason}"
    rate = f"{row.throughput_per_s or 0:.0f} samples/s, p99 {(row.p99_s or 0) * 1e3:.3g} ms"
    return f"{where} at batch {row.batch}: {rate}; {row.reason}"

"""The bench stage: each artifact in each runtime in a worker of its own, all of them measured in the same rounds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeAlias

from ...models.errors import ToolMissing, TransloadError
from ...models.probes.sizes import batches_within
from ...models.signature import Array, TensorSpec, batch_axis, bounds_of
from ...models.store import Stored
from ...serving.runtimes.runtime_table import RUNTIMES, Runtime
from ..bench.latency_rows import About, failed_row, latency_rows
from ..bench.machine_load import LoadMeter
from ..bench.rounds import Pair, Plan, Series, run_rounds
from ..bench.worker_subject import HeldSubject
from ..context import Context, cores
from ..intake.loaded_model import ModelDescription
from ..intake.run_inputs import RunInputs
from ..plan.router import TargetResult
from ..result.schema import LatencyRow
from ..workers.interpreters import interpreter_of, lacking
from ..workers.isolation import Worker
from .servers import Servers
from .validate import device_for, pairs

Wanted: TypeAlias = tuple[Pair, Stored, Runtime]

REFERENCE: Pair = ("source", "torch")
SUBJECT = "transload.pipeline.bench.subject:open_subject"


@dataclass(frozen=True)
class Measured:
    """Rows, and the series that they were made from."""

    rows: tuple[LatencyRow, ...] = ()
    series: tuple[Series, ...] = ()
    note: str | None = None  # which batch sizes were measured in place of those asked for, and why

    @property
    def samples(self) -> dict[tuple[str, str, int], Array]:
        """Seconds of every call by (artifact, runtime, batch)."""
        return {(*one.pair, one.batch): one.samples_s for one in self.series if one.rounds}


@dataclass
class _Opened:
    """The subjects that are there, and the sentence of each that could not be opened."""

    subjects: dict[Pair, HeldSubject] = field(default_factory=dict)
    lost: dict[Pair, str] = field(default_factory=dict)

    @contextmanager
    def loses(self, pair: Pair) -> Iterator[None]:
        """What goes wrong with one subject is its own row's sentence."""
        try:
            yield
        except TransloadError as error:
            self.lost[pair] = error.what


def measure_all(context: Context, prepared: RunInputs, made: Sequence[TargetResult], servers: Servers) -> Measured:
    """Latency of the source in PyTorch, eager, and of every pair."""
    wanted = [
        (REFERENCE, prepared.source, RUNTIMES["torch"]),
        *(
            ((str(each.target), runtime.name), each.stored, runtime)
            for each, runtime in pairs(made, context.request.bench.runtimes)
            if each.stored
        ),
    ]
    return measure(context, prepared.data, wanted, servers, prepared.model)


def measure(
    context: Context, data: Stored, wanted: Sequence[Wanted], servers: Servers, model: ModelDescription
) -> Measured:
    """Latency of each of `wanted` on the test set of `data`; the first is what the ratios are held against.

    `model`: whose data it is. Its signature says how calls are put together, at which batches; its root is the folder
    that the code of a source imports from.
    """
    return _Bench(context, data, servers, model).measure(wanted)


def in_place(asked: Sequence[int], batches: Sequence[int], specs: Sequence[TensorSpec]) -> str | None:
    """What to say where a model does not take the batch sizes that were asked for."""
    if set(asked) <= set(batches):
        return None
    axis = batch_axis(specs)
    why = f"the model takes {axis}={bounds_of(specs)[axis]}" if axis else "the model has no batch, a call is one sample"
    wanted, measured = (", ".join(map(str, sizes)) for sizes in (asked, batches))
    return f"measured at batch {measured} in place of {wanted}: {why}"


@dataclass(frozen=True)
class _Bench:
    context: Context
    data: Stored
    servers: Servers
    model: ModelDescription

    def measure(self, wanted: Sequence[Wanted]) -> Measured:
        """Open everything, then let it take turns."""
        asked = self.context.request.bench
        specs = self.model.signature.inputs
        plan = Plan(batches=batches_within(specs, asked.batches), rounds=asked.rounds)
        rng = Random(asked.seed)  # noqa: S311  (an order, not a secret)
        with self._open_all(wanted) as opened:
            pids = [subject.worker.pid for subject in opened.subjects.values()]
            meter = LoadMeter.start([*pids, *self.servers.pids], cores())
            series = run_rounds(opened.subjects, plan, rng=rng, clock=time.monotonic, progress=self._shown)
            load = meter.read()
            about = {each[0]: self._about(each, opened) for each in wanted}
        rows = latency_rows(series, wanted[0][0], about, load=load)
        rows += [
            failed_row(pair, batch, why, about[pair]) for pair, why in opened.lost.items() for batch in plan.batches
        ]
        order = {pair: at for at, (pair, _, _) in enumerate(wanted)}
        rows.sort(key=lambda row: (order[row.artifact, row.runtime], row.batch))
        return Measured(tuple(rows), tuple(series), in_place(asked.batches, plan.batches, specs))

    @contextmanager
    def _open_all(self, wanted: Sequence[Wanted]) -> Iterator[_Opened]:
        """Every subject in its worker. As many load side by side as there are jobs; closed at the end of the block."""
        opened = _Opened()
        with ExitStack() as stack:
            for start in range(0, len(wanted), self.context.jobs):
                loading: list[tuple[Pair, Worker]] = []
                for each in wanted[start : start + self.context.jobs]:
                    with opened.loses(each[0]):
                        worker = self._begin(*each)
                        stack.callback(worker.close)
                        loading.append((each[0], worker))
                for pair, worker in loading:
                    with opened.loses(pair):
                        worker.receive()
                        opened.subjects[pair] = HeldSubject(worker)
                    self.context.progress.step(f"{pair[0]} in {pair[1]} is loaded")
            yield opened

    def _begin(self, pair: Pair, stored: Stored, runtime: Runtime) -> Worker:
        """A worker that has begun to load its subject."""
        context = self.context
        device = device_for(runtime, context.device)
        if why := lacking(runtime):
            raise ToolMissing(f"{runtime.name} {why}", fix="install it (transload doctor)")
        threads = context.request.bench.threads
        name = f"bench.{pair[0].replace(':', '-').replace('/', '-')}.{pair[1]}"
        limits = replace(context.limits(device=device, loopback=runtime.served), threads=threads, spin=True)
        services = self.servers.addresses(stored, device) if runtime.served else {}
        worker = context.executor.open_worker(
            name, limits, context.folder / "tmp" / name, self.model.root, python=interpreter_of(runtime).path
        )
        options = {
            "runtime": runtime.name,
            "folder": str(stored.folder),
            "device": device,
            "threads": threads,
            "services": services,
            "feeds": str(self.data.folder),
            "signature": self.model.signature.to_json(),
            "model": self.servers.model if runtime.served else None,
        }
        worker.send_open(SUBJECT, options)
        return worker

    def _about(self, each: Wanted, opened: _Opened) -> About:
        pair, stored, runtime = each
        peak = opened.subjects[pair].worker.peak_rss_bytes if pair in opened.subjects else None
        if runtime.served:  # what serves the model is what takes the memory
            peak = self.servers.peak_rss_bytes.get(stored.digest, peak)
        return About(
            device=device_for(runtime, self.context.device),
            threads=self.context.request.bench.threads,
            server=self.servers.kind if runtime.served else None,
            peak_rss_bytes=peak,
        )

    def _shown(self, batch: int, done: int) -> None:
        self.context.progress.step(f"batch {batch}, round {done}")

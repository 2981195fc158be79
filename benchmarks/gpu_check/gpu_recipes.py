"""Check the product's own recipes on a device: right answers, provider truth, latency, in every runtime installed here.

    python benchmarks/gpu_check/gpu_recipes.py --recipe digits-cnn --device cuda --out FILE.json [--rounds 10] ...

One recipe in one process: gpu_check starts it and can end it. The nets have seeded random weights, so that no data set
is needed. What cannot be checked is a row with its reason.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
os.environ["PYTHONPATH"] = str(ROOT / "typings")  # workers find this checkout; typings/transload is the root
sys.path.insert(0, str(ROOT / "typings"))

from transload.converters.steps import STEPS, missing  # noqa: E402
from transload.models.dataset import Dataset, write_dataset  # noqa: E402
from transload.models.errors import ToolMissing, TransloadError  # noqa: E402
from transload.models.formats import parse_target  # noqa: E402
from transload.models.loading.code_refs import ref_digest, zoo_recipe  # noqa: E402
from transload.models.probes.random_inputs import sample_inputs  # noqa: E402
from transload.models.recipe import Recipe  # noqa: E402
from transload.models.sources import CodeRef, Source, write_source  # noqa: E402
from transload.models.store import Store, Stored, digest_of_json  # noqa: E402
from transload.pipeline.measure.bench.comparison import compare  # noqa: E402
from transload.pipeline.measure.bench.machine_load import LoadMeter  # noqa: E402
from transload.pipeline.measure.bench.rounds import RoundsPlan, Series, empty_series, run_rounds  # noqa: E402
from transload.pipeline.measure.bench.statistics import Load, find_doubts, summary  # noqa: E402
from transload.pipeline.workers.devices import resolve_device  # noqa: E402
from transload.pipeline.workers.engine import Action, LocalExecutor  # noqa: E402
from transload.pipeline.workers.isolation import Limits, Worker  # noqa: E402
from transload.serving.runtimes.runtime_table import RUNTIMES  # noqa: E402

ROUTES = {  # artifact -> the steps that make it, and the runtime that is checked
    "pt2": (("torch.export",), "torch"),
    "torchscript": (("torch.jit",), "torchscript"),
    "onnx": (("torch.export", "torch.onnx-dynamo"), "onnxruntime"),
    "saved-model": (("torch.export", "torch.onnx-dynamo", "lowering"), "tensorflow"),
}
SAMPLES = 256
VALIDATE = "transload.pipeline.drift.jobs"
SUBJECT = "transload.pipeline.measure.bench.subject:open_subject"


def main() -> int:
    """Check one recipe, print lines, write the JSON."""
    options = _arguments()
    try:
        device = resolve_device(options.device)
    except ToolMissing as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    document: dict[str, Any] = {"device": device, "threads": 1, "drift": [], "latency": []}
    with tempfile.TemporaryDirectory() as folder:
        check = Check(
            LocalExecutor(Store(Path(folder) / "store"), Path(folder) / "run"), device, Path(folder), options.processes
        )
        check.recipe(zoo_recipe(options.recipe), document, RoundsPlan(batches=options.batches, rounds=options.rounds))
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    return 0


class Check:
    """Actions in workers, one recipe after the other."""

    def __init__(self, executor: LocalExecutor, device: str, folder: Path, processes: int) -> None:
        self.executor, self.device, self.folder, self.processes = executor, device, folder, processes
        self.limits = Limits(seconds=300, threads=max(1, (os.cpu_count() or 2) // 2))
        self.on_device = Limits(seconds=300, threads=1, device=device)

    def recipe(self, recipe: Recipe, document: dict[str, Any], plan: RoundsPlan) -> None:
        """Reference on the CPU, then each artifact on the device: answers, then latency."""
        source, data = self._source(recipe), self._data(recipe)
        reference = self._perform(
            f"{recipe.name}.reference",
            "transload.pipeline.drift.reference:answer",
            {"model": source, "data": data},
            {"runtime": "torch", "device": "cpu", "threads": 1, "batches": [1, 2, 5]},
            self.limits,
        )
        subjects: dict[tuple[str, str], tuple[Stored, str]] = {("source", "torch"): (source, self.device)}
        for artifact, (steps, runtime) in ROUTES.items():
            row: dict[str, Any] = {"recipe": recipe.name, "artifact": artifact, "runtime": runtime}
            try:
                made = self._make(recipe.name, steps, source, RUNTIMES[runtime].requires)
                row |= self._verify(
                    recipe.name, artifact, runtime, {"artifact": made, "data": data, "reference": reference}
                )
                subjects[artifact, runtime] = (made, self.device)
            except TransloadError as error:
                row |= {"status": "not run", "reason": error.what}
            document["drift"].append(row)
            print(f"{recipe.name:<12} {artifact:<12} {runtime:<12} {row['status']:<9} {row['reason']}", flush=True)
        self._measure(recipe, subjects, data, plan, document)

    def _source(self, recipe: Recipe) -> Stored:
        ref = CodeRef(f"zoo:{recipe.name}")
        with self.executor.store.workspace() as work:
            (work / "out").mkdir()
            write_source(work / "out", Source(ref, recipe.signature, ref_digest(ref)))
            return self.executor.store.commit(digest_of_json(["source", recipe.name]), work / "out", {}, 0.0)

    def _data(self, recipe: Recipe) -> Stored:
        inputs = sample_inputs(recipe.signature, SAMPLES, 0)
        with self.executor.store.workspace() as work:
            (work / "out").mkdir()
            write_dataset(work / "out" / "test.npz", Dataset(inputs))
            return self.executor.store.commit(digest_of_json(["data", recipe.name]), work / "out", {}, 0.0)

    def _make(self, recipe: str, names: tuple[str, ...], source: Stored, runtime_needs: tuple[str, ...]) -> Stored:
        """Walk the steps, on the CPU."""
        made = source
        for name in names:
            step = next(one for one in STEPS if one.name == name)
            if lacking := missing((*step.requires, *runtime_needs)):
                raise ToolMissing(f"it {lacking}", fix="install it")
            made = self._perform(f"{recipe}.{name}", step.entry, {"source": made}, {}, self.limits)
        return made

    def _verify(self, recipe: str, artifact: str, runtime: str, inputs: Mapping[str, Stored]) -> dict[str, Any]:
        """On the device: a runtime that ran elsewhere is wrong, whatever it answered."""
        options = {
            "runtime": runtime,
            "device": self.device,
            "threads": 1,
            "batches": [1, 2, 5],
            "precision": str(parse_target(artifact).precision),
        }
        return dict(
            self._perform(f"{recipe}.verify.{artifact}", f"{VALIDATE}:verify", inputs, options, self.on_device).facts
        )

    def _perform(
        self, name: str, entry: str, inputs: Mapping[str, Stored], options: Mapping[str, Any], limits: Limits
    ) -> Stored:
        return self.executor.perform(Action(name, entry, inputs, options, ("torch",), limits=limits))

    def _measure(
        self,
        recipe: Recipe,
        subjects: Mapping[tuple[str, str], tuple[Stored, str]],
        data: Stored,
        plan: RoundsPlan,
        document: dict[str, Any],
    ) -> None:
        """All subjects of a recipe in the same rounds, in several processes each; ratios to eager torch on the same
        device."""
        series, loads = empty_series(subjects, plan), []
        for number in range(self.processes):
            with opened(self, subjects, data) as workers:
                meter = LoadMeter.start([worker.pid for worker in workers.values()], os.cpu_count() or 1)
                asks = {pair: worker.ask for pair, worker in workers.items()}
                run_rounds(asks, series, plan, number, rng=Random(number))  # noqa: S311  (an order)
                loads.append(meter.read())
        load = max((load for load in loads if load), key=lambda load: load.other_cores, default=None)
        for one in series.values():
            row = latency(recipe.name, one, series[("source", "torch"), one.batch], load)
            document["latency"].append(row)
            if one.processes:
                where = f"{recipe.name:<12} {one.pair[0]:<12} {one.pair[1]:<12} batch {one.batch:<4}"
                print(f"{where} p50 {row['p50_s'] * 1e6:9.1f} us  x{row['ratio']:.2f} on {one.device}", flush=True)


def latency(recipe: str, series: Series, reference: Series, load: Load | None) -> dict[str, Any]:
    """A row as JSON values; null where there is no number."""
    row: dict[str, Any] = {
        "recipe": recipe,
        "artifact": series.pair[0],
        "runtime": series.pair[1],
        "batch": series.batch,
        "device": series.device,
        "processes": len(series.processes),
        "rounds": len(series.chunks),
        "samples": len(series.samples_s),
        "lost": series.lost,
    }
    if not series.processes:
        return row
    numbers, ratio = summary(series.samples_s, series.batch), compare(series, reference)
    interval = ratio.ci95 if ratio else None
    return row | {
        "p50_s": numbers.p50_s,
        "p90_s": numbers.p90_s,
        "p99_s": numbers.p99_s,
        "throughput_per_s": numbers.throughput_per_s,
        "ratio": ratio.center if ratio else None,
        "comparison": ratio.comparison if ratio else None,
        "ratio_ci95": interval,
        "doubts": [doubt.text for doubt in find_doubts(series, interval, load=load)],
    }


@contextmanager
def opened(
    check: Check, subjects: Mapping[tuple[str, str], tuple[Stored, str]], data: Stored
) -> Iterator[dict[tuple[str, str], Worker]]:
    """A worker per subject; those that cannot be opened are left out."""
    workers: dict[tuple[str, str], Worker] = {}
    try:
        for pair, (stored, device) in subjects.items():
            limits = Limits(seconds=300, threads=1, device=device, spin=True)
            reads = (str(stored.folder), str(data.folder))
            worker = check.executor.open_worker(
                f"bench.{'.'.join(pair)}", limits, check.folder / "bench" / ".".join(pair), reads
            )
            try:
                options = {
                    "runtime": pair[1],
                    "folder": str(stored.folder),
                    "device": device,
                    "feeds": str(data.folder),
                }
                worker.open(SUBJECT, options)
            except TransloadError as error:
                print(f"{pair[0]} in {pair[1]} cannot be opened: {error.what}", flush=True)
                worker.close()
            else:
                workers[pair] = worker
        yield workers
    finally:
        for worker in workers.values():
            worker.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda", help="cuda or cuda:N; cpu tries the script itself")
    parser.add_argument("--recipe", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--batch", dest="batches", default=(1, 64), type=lambda text: tuple(map(int, text.split(","))))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

"""Walk the plan: processes are started together, measured in turn, and every finished step is kept."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from gpu_assets import asset_paths, missing_assets
from gpu_meter import Meter, Reading, as_json, energy_between
from gpu_plan import Budget, PlanOptions, Step, is_done, pace_of, plan_seconds
from gpu_process import WorkerProcess
from gpu_state import StepRecords

from transload.models.errors import SessionLost
from transload.pipeline.measure.bench.machine_load import LoadMeter
from transload.pipeline.measure.bench.rounds import RoundsPlan, empty_series, run_rounds

OPEN_S, ASSET_S = 300.0, 300.0
WINDOW_S = 0.4
DIGITS = 9  # of a second
HERE = Path(__file__).resolve().parent

StartWorker = Callable[[str], Any]  # a name -> a WorkerProcess


class OutOfTime(Exception):
    """The budget ended inside of a step, which is then not kept."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where and with what is measured. `work`: assets, logs and caches, which may be remade."""

    device: str
    work: Path
    options: PlanOptions
    rounds: int = 10
    tensorflow: bool = False

    @property
    def assets(self) -> Path:
        """The folder of the nets' files."""
        return self.work / ("small" if self.options.small else "full")


class Measurement:
    """The steps, in the order of the plan, until the budget ends."""

    def __init__(
        self, place: Place, records: StepRecords, budget: Budget, meter: Meter, *, start: StartWorker | None = None,
        say: Callable[[str], None] = lambda line: print(line, flush=True),
    ) -> None:  # fmt: skip
        self.place, self.records, self.budget, self.meter, self.say = place, records, budget, meter, say
        self._start = start or self._start_process
        self._open: dict[tuple[str, str], Any] = {}
        self._refused: dict[tuple[str, str], str] = {}
        self._opened_for: tuple[str, int, int] | None = None

    def pending(self, plan: Sequence[Step]) -> list[Step]:
        """Return the steps that are left. Assets count by their files: another machine lacks them. They are left out
        where no step needs them any more."""
        done = self.records.load()
        left = [step for step in plan if step.kind != "prepare" and not is_done(step, done)]
        timed = {step.subject for step in left if step.kind == "timing"}
        lacking = {net for net in timed if self._missing(net)}
        return [step for step in plan if step in left or (step.kind == "prepare" and step.subject in lacking)]

    def run(self, plan: Sequence[Step], after_step: Callable[[], None] = lambda: None) -> list[Step]:
        """Measure until all is done or the budget ends. Returns the steps that are left."""
        try:
            anything_done = False
            for step in (left := self.pending(plan)):
                opening_s = 0.0 if step.processes == self._opened_for else step.opening_s
                guess_s = (step.seconds + opening_s) * self.pace()
                if not self.budget.holds(guess_s, anything_done=anything_done):
                    left_s = self.budget.left_s
                    self.say(f"stopped before {step.name}: it takes about {guess_s:.0f} s, {left_s:.0f} s are left")
                    break
                started = self.budget.clock()
                try:
                    record = self._perform(step)
                except OutOfTime:
                    self.say(f"stopped in {step.name}, which is not kept: the budget is spent")
                    break
                spent = self.budget.clock() - started
                if step.kind != "prepare":
                    timing = {"spent_s": round(spent, 2), "guess_s": step.seconds + opening_s, "kind": step.kind}
                    self.records.save(step.name, timing | record)
                self.say(f"{spent:7.1f}s  {step.name}")
                anything_done = True
                after_step()
            return self.pending(plan) if anything_done else left
        finally:
            self._close()

    def pace(self) -> float:
        """How much slower than guessed timing steps were."""
        done = self.records.load().values()
        return pace_of((record["spent_s"], record["guess_s"]) for record in done if record["kind"] == "timing")

    def _perform(self, step: Step) -> dict[str, Any]:
        if step.kind != "timing" or step.processes != self._opened_for:
            self._close()
        if step.kind == "limits":
            return self._limits()
        if step.kind == "prepare":
            return self._prepare(step.subject)
        if step.kind == "recipe":
            return self._recipe(step.subject)
        if self._opened_for is None:
            self._open_processes(step)
        return self._time(step)

    # ------------------------------------------------------------------------------------------------- processes

    def _start_process(self, name: str) -> WorkerProcess:
        environ = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": str(self.place.work / "inductor"),
            "TF_CPP_MIN_LOG_LEVEL": "2",
        }
        if self.place.device == "cpu":  # many processes of many threads each would wait for each other
            environ |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1"}
        log = self.place.work / "logs" / f"{name}.log"
        return WorkerProcess(name, log, environ=environ, left_s=lambda: self.budget.left_s)

    def _close(self) -> None:
        for worker in self._open.values():
            worker.close()
        self._open, self._refused, self._opened_for = {}, {}, None

    def _check_time(self) -> None:
        if self.budget.left_s <= 0:
            raise OutOfTime

    def _open_processes(self, step: Step) -> None:
        """Start all processes of a set at once: nothing is timed while they load and compile."""
        batches = sorted({1, 32} & set(self.place.options.batches)) if step.batch in (1, 32) else [
            batch for batch in self.place.options.batches if batch not in (1, 32)
        ]  # fmt: skip
        asked: dict[tuple[str, str], Any] = {}
        self._opened_for = step.processes
        for pair in step.subjects:
            if pair[0] == "tensorflow" and not self.place.tensorflow:
                self._refused[pair] = "tensorflow is not installed"
                continue
            worker = self._open[pair] = asked[pair] = self._start(".".join((step.subject, *pair)))
            worker.send(
                "open", net=step.subject, runtime=pair[0], precision=pair[1], device=self.place.device,
                small=self.place.options.small, assets=str(self.place.assets), batches=batches,
            )  # fmt: skip
        for pair, worker in asked.items():
            try:
                worker.receive(OPEN_S)
            except SessionLost as error:
                self._check_time()
                self._refused[pair] = error.what
                self._open.pop(pair).close()

    # ----------------------------------------------------------------------------------------------------- steps

    def _missing(self, net: str) -> list[str]:
        tensorflow = self.place.tensorflow and "tensorflow" in self.place.options.runtimes
        return missing_assets(asset_paths(net, self.place.assets, self.place.options.precisions, tensorflow=tensorflow))

    def _prepare(self, net: str) -> dict[str, Any]:
        """Make what is missing, all at once but for the SavedModel, which is made of the ONNX file."""
        missing = self._missing(net)
        for names in (
            [name for name in missing if name != "saved-model"],
            [name for name in missing if name == "saved-model"],
        ):
            workers = [(name, self._start(f"{net}.{name}")) for name in names]
            try:
                for name, worker in workers:
                    worker.send("make", kind=name, net=net, assets=str(self.place.assets), device=self.place.device,
                                small=self.place.options.small)  # fmt: skip
                for name, worker in workers:
                    self._made(net, name, worker)
            finally:
                for _, worker in workers:
                    worker.close()
        return {}

    def _made(self, net: str, name: str, worker: Any) -> None:
        try:
            failed = worker.receive(ASSET_S).get("failed")
        except SessionLost as error:
            self._check_time()
            failed = f"{name} of {net} could not be made: {error.what}"
            path = asset_paths(net, self.place.assets, self.place.options.precisions, tensorflow=True)[name]
            path.with_name(path.name + ".failed").write_text(failed)
        if failed:
            self.say(failed)

    def _limits(self) -> dict[str, Any]:
        worker = self._start("limits")
        options = self.place.options
        try:
            record = dict(worker("matmul", device=self.place.device, small=options.small))
            record["flops_per_sample"] = worker("flops", nets=list(options.nets), small=options.small)
        except SessionLost as error:
            self._check_time()
            record = {"matmul_flops_per_s": {}, "flops_per_sample": {}, "lost": error.what}
        finally:
            worker.close()
        return record | {"at_rest": as_json(self.meter.read())}

    def _recipe(self, name: str) -> dict[str, Any]:
        """Check one of the product's recipes, in a process of its own that the budget can end."""
        out = self.place.work / f"recipe.{name}.json"
        out.unlink(missing_ok=True)
        command = [
            sys.executable,
            str(HERE / "gpu_recipes.py"),
            "--recipe",
            name,
            "--device",
            self.place.device,
            "--out",
            str(out),
        ]
        log = self.place.work / "logs" / f"recipe.{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as stderr:
            worker = subprocess.Popen(command, start_new_session=True, stdout=sys.stderr, stderr=stderr)
        try:
            worker.wait(None if self.budget.seconds is None else self.budget.left_s)
        except subprocess.TimeoutExpired:
            raise OutOfTime from None
        finally:
            end_group(worker)
        if not out.exists():
            why = (log.read_text(errors="replace").strip().splitlines() or [f"it ended with {worker.returncode}"])[-1]
            return {"recipe": name, "drift": [], "latency": [], "lost": why}
        return {"recipe": name, **json.loads(out.read_text())}

    def _time(self, step: Step) -> dict[str, Any]:
        """Rounds from host to host, interleaved; in the first set of processes also the device, the copies, the energy
        and the drift."""
        alive = {pair: worker for pair, worker in self._open.items() if pair in step.subjects}
        plan = RoundsPlan(batches=(step.batch,), rounds=self.place.rounds)
        series = empty_series(alive, plan)
        meter = LoadMeter.start([worker.pid for worker in alive.values()], os.cpu_count() or 1)
        run_rounds(alive, series, plan, step.number, rng=Random(step.number))  # noqa: S311  an order
        load = meter.read()
        rows: dict[str, Any] = {".".join(pair): {"lost": why} for pair, why in self._refused.items()}
        for pair, worker in alive.items():
            entry = series[pair, step.batch]
            row: dict[str, Any] = {"lost": entry.lost, "device": entry.device}
            if entry.lost is None and step.number in entry.processes:
                row |= process_json(entry.processes[step.number])
                row |= self._details(worker, step)
                row["device"] = (row.get("facts") or {}).get("runs_on") or row["device"]
            rows[".".join(pair)] = row
            if row["lost"]:
                self._refused[pair] = row["lost"]
                self._open.pop(pair).close()
        self._check_time()
        others = None if load is None else round(load.other_cores, 3)
        return {"net": step.subject, "batch": step.batch, "set": step.number, "other_cores": others, "rows": rows}

    def _details(self, worker: Any, step: Step) -> dict[str, Any]:
        try:
            details: dict[str, Any] = {"facts": worker("facts")}
            if step.number == 0:
                details["on_device"] = worker("on_device", batch=step.batch)
                details["window"] = self._window(worker, step.batch)
                details["drift_db"] = worker("drift", batch=step.batch)
            worker("release")
        except SessionLost as error:
            return {"lost": error.what}
        return details

    def _window(self, worker: Any, batch: int) -> dict[str, Any]:
        """Calls back to back, with readings before, in the middle and after."""
        before = self.meter.read()
        worker.send("window", batch=batch, seconds=WINDOW_S)
        middle: Reading | None = None
        if self.meter.source:
            time.sleep(WINDOW_S / 2)
            middle = self.meter.read()
        window = dict(worker.receive(120))
        after = self.meter.read()
        spent = energy_between(before, middle, after, window["seconds"])
        energy = None if spent.energy_j is None else spent.energy_j / window["calls"]
        return window | {"gpu": as_json(middle), "energy_per_call_j": energy, "energy_source": spent.source}


def process_json(process: Any) -> dict[str, Any]:
    """A ProcessSamples of the rounds as JSON values."""
    rounds = {str(at): [round(float(value), DIGITS) for value in chunk] for at, chunk in process.rounds.items()}
    return {
        "load_s": process.load_s, "first_call_s": process.first_call_s, "warm_up_s": process.warm_up_s,
        "timer_s": process.timer_s, "steady_bytes": process.steady_bytes, "calls": process.calls,
        "rounds": rounds,
    }  # fmt: skip


def end_group(process: subprocess.Popen[Any]) -> None:
    """End a process and all that it started in its session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def seconds_left(measurement: Measurement, plan: Sequence[Step]) -> float:
    """Estimate what is left of a plan."""
    return plan_seconds(measurement.pending(plan), measurement.pace())

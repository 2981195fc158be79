"""gpu_check without a GPU: plan, budget, going on, the machine, limits, meters, events, rows and the page."""

from __future__ import annotations

import ast
import importlib
import json
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from transload.models.errors import SessionLost

ROOT = Path(__file__).resolve().parents[3]
HOME = ROOT / "benchmarks" / "gpu_check"
MACHINE = {
    "device": "cuda", "small": False, "cpu": "a processor", "cpu_cores": 16, "platform": "Linux", "python": "3.12.1",
    "gpu": {"name": "NVIDIA H100 80GB HBM3", "uuid": "GPU-1", "driver": "580.1", "memory_mib": 81559.0,
            "most_sm_mhz": 1980.0, "power_limit_w": 700.0},
    "packages": {"torch": "2.13.0", "tensorflow": None},
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def gpu_check_on_path() -> Iterator[None]:
    """The scripts import each other by bare names; nothing of that stays behind."""
    path, before = list(sys.path), set(sys.modules)
    sys.path.insert(0, str(HOME))
    yield
    sys.path[:] = path
    for name in [path.stem for path in HOME.glob("gpu_*.py")]:
        if name not in before:
            sys.modules.pop(name, None)


def module(name: str) -> ModuleType:
    return importlib.import_module(f"gpu_{name}")


# ---------------------------------------------------------------------------------------------------------- the plan


def test_the_plan_holds_every_cell_and_begins_with_what_matters() -> None:
    plan = module("plan").build_plan(module("plan").PlanOptions())
    cells = {cell for step in plan for cell in step.cells}
    assert len(cells) == 3 * 4 * (4 * 4 + 2)  # nets, batches, runtimes by precisions, TensorFlow with two
    first_other = next(at for at, step in enumerate(plan) if step.batch in (8, 128))
    before = plan[:first_other]
    for net in module("plan").NETS:
        sets = {(step.batch, step.number) for step in before if step.subject == net and step.kind == "timing"}
        assert sets == {(batch, number) for batch in (1, 32) for number in range(3)}
    assert [step.subject for step in before if step.kind == "recipe"] == ["digits-cnn", "digits-vit", "digits-gru"]
    assert len({step.name for step in plan}) == len(plan)


def test_the_whole_page_is_planned_for_25_minutes() -> None:
    plan = module("plan")
    assert 10 * 60 < plan.plan_seconds(plan.build_plan(plan.PlanOptions())) < 25 * 60


def test_few_lanes_make_groups_that_each_hold_the_reference() -> None:
    plan = module("plan")
    options = plan.PlanOptions(lanes=4, nets=("resnet50",), batches=(1,), sets=1)
    steps = [step for step in plan.build_plan(options) if step.kind == "timing"]
    assert all(step.subjects[0] == plan.REFERENCE and len(step.subjects) <= 4 for step in steps)
    assert {pair for step in steps for pair in step.subjects} == set(plan.subjects_of(options))
    assert [plan.lanes_for(size) for size in (None, 16e9, 80e9, 1e9)] == [18, 4, 18, 2]


@pytest.mark.parametrize("options", [{"nets": ("alexnet",)}, {"batches": (0,)}, {"sets": 0}])
def test_impossible_plans_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"unknown: alexnet; there are resnet50|1 or more"):
        module("plan").PlanOptions(**options)


def test_a_shown_plan_says_what_is_done_and_how_long_the_rest_takes() -> None:
    plan = module("plan")
    steps = plan.build_plan(plan.PlanOptions(nets=("resnet50",), batches=(1,), sets=1, recipes=()))
    text = plan.show_plan(steps, {"limits": {"kind": "limits"}})
    assert text.partition("\n\n")[2].splitlines()[0] == "    done  limits"
    assert "timing.resnet50.set0.group1of1.batch1  18 subjects" in text
    assert text.splitlines()[-1].startswith("2 of 3 steps left, 18 cells in all, about ")


def listed(text: str) -> list[str]:
    """The words of an enumeration, without what stands in brackets."""
    return re.split(r", | and ", re.sub(r" \(.*?\)", "", text))


def test_the_plan_lists_all_that_the_page_says_and_nothing_else() -> None:
    plan = module("plan")
    shown = plan.show_plan(plan.build_plan(plan.PlanOptions()), {}).partition("\n\n")[0].splitlines()
    page = (ROOT / "docs" / "gpu.md").read_text().partition("## What is measured")[2].partition("## How")[0]
    prose = " ".join(page.split())
    nets, _, rest = prose.partition(" Weights have")[0].partition(", in plain PyTorch with seeded random weights, in ")
    runtimes, precisions, batches = (listed(part) for part in rest.rstrip(".").split("; "))
    precisions[0] = precisions[0].removeprefix("in ")
    assert all(
        title in words for title, words in zip(("ResNet-50", "ViT-B/16", "BERT-base"), listed(nets), strict=True)
    )
    numbers = re.findall(r"^\| ([^|]+) \|", page, re.M)[1:]
    recipes, formats = re.findall(r"own recipes \((.*?)\) answer on the GPU as (.*?), are held", prose)[0]
    assert "TensorFlow is measured in the first two precisions alone" in prose
    assert "three sets of processes at batches 1 and 32" in prose
    assert shown == [
        "limits: the data sheet's, and a matmul of 8192 in each precision",
        "nets: ResNet-50, ViT-B/16, BERT-base",
        *(
            f"runtime: {name} in {', '.join(precisions[:2] if name == 'TensorFlow' else precisions)}"
            for name in runtimes
        ),
        f"batches: {', '.join(word.removeprefix('batches ') for word in batches)}; 3 sets of processes at 1 and 32",
        f"numbers: {', '.join(numbers)}",
        f"recipes: {recipes} as {', '.join(listed(formats.replace('`', '')))}: answers and latency",
    ]


def test_the_recipes_have_the_formats_of_the_plan() -> None:
    tree = ast.parse((HOME / "gpu_recipes.py").read_text())
    routes = next(node.value for node in tree.body if isinstance(node, ast.Assign) and "ROUTES" in ast.dump(node))
    assert tuple(ast.literal_eval(routes)) == module("plan").RECIPE_FORMATS


def test_durations() -> None:
    read = module("plan").parse_duration
    assert [read(text) for text in ("540", "540s", "9m", "1h")] == [540, 540, 540, 3600]
    for text in ("", "m", "-1m", "nan", "inf", "9d"):
        with pytest.raises(ValueError, match=r".*"):
            read(text)


def test_the_pace_follows_what_steps_took() -> None:
    pace = module("plan").pace_of
    assert pace([]) == pace([(100.0, 10.0)]) == 1
    assert pace([(20.0, 10.0), (40.0, 20.0)]) == 2
    assert pace([(1e6, 1.0), (1.0, 1.0)]) == 5


# ---------------------------------------------------------------------------------------------- budget and going on


class FakeWorker:
    """Answers as gpu_worker.py does; a call takes a millisecond per sample, twice that in float32, on a fake clock."""

    pid = 1

    def __init__(self, now: list[float], name: str, lost: tuple[str, ...] = ()) -> None:
        self.now, self.name, self.lost, self.closed = now, name, lost, False
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def send(self, method: str, **options: Any) -> None:
        self.asked.append((method, options))

    def receive(self, timeout_s: float) -> Any:
        method, options = self.asked.pop(0)
        return self(method, **options)

    def __call__(self, method: str, **options: Any) -> Any:
        self.now[0] += 1.0
        if method in self.lost:
            raise SessionLost("CUDA out of memory", fix="see the log")
        call_s = 1e-3 * options.get("batch", 1) * (2 if self.name.endswith("fp32") else 1)
        if method == "open":
            self.now[0] += 10
            return {}
        return {
            "device": "cuda:0", "facts": {"runs_on": "cuda:0", "tf32": False}, "release": None, "make": {},
            "prepare": {"load_s": 1.0, "first_call_s": 0.1, "warm_up_s": 0.2, "timer_s": 1e-7, "resident_bytes": 1,
                        "answers": None, "call_s": call_s},
            "chunk": {"samples_s": [call_s] * options.get("calls", 0)},
            "on_device": {"timer": "cuda-events", "samples_s": [call_s / 2], "bytes_in": 4,
                          "copies": {"in_s": 1e-5, "out_s": 2e-5, "in_pinned_s": None}},
            "window": {"calls": 100, "seconds": 100 * call_s / 2},
            "drift": {"logits": 120.0},
            "matmul": {"matmul_flops_per_s": {"fp32": 5e13}, "size": 8192, "failed": {}},
            "flops": {"resnet50": 8_000_000_000},
        }[method]  # fmt: skip

    def close(self) -> None:
        self.closed = True


class Bench:
    """A measurement over fake workers and a fake clock, from one call to the next."""

    def __init__(self, folder: Path, lost: dict[str, tuple[str, ...]] | None = None, **options: Any) -> None:
        self.plan = module("plan")
        self.options = self.plan.PlanOptions(
            **{"nets": ("resnet50",), "runtimes": ("eager", "compile", "tensorflow"), "precisions": ("fp32", "fp16"),
               "batches": (1, 8), "recipes": (), **options}
        )  # fmt: skip
        self.steps = self.plan.build_plan(self.options)
        self.records = module("state").StepRecords(folder / "gpu.state")
        self.folder, self.now, self.workers, self.lines = folder, [0.0], list[FakeWorker](), list[str]()
        self.lost = lost or {}

    def call(self, budget_s: float | None = None) -> list[Any]:
        def start(name: str) -> FakeWorker:
            self.workers.append(FakeWorker(self.now, name, self.lost.get(name, ())))
            return self.workers[-1]

        measure = module("measure")
        place = measure.Place("cuda", self.folder / "work", self.options, rounds=2)
        budget = self.plan.Budget(budget_s, clock=lambda: self.now[0])
        meter = module("meter").Meter("cpu")
        measurement = measure.Measurement(place, self.records, budget, meter, start=start, say=self.lines.append)
        measurement._missing = lambda net: []
        return list(measurement.run(self.steps))

    def document(self) -> dict[str, Any]:
        built = module("results").build_document(MACHINE, self.records.load(), 0)
        return dict(json.loads(json.dumps(built, allow_nan=False)))


def without_doubts(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what is said of the machine that the test runs on: its load is real."""
    return [{name: value for name, value in cell.items() if name != "doubts"} for cell in cells]


def test_calls_with_a_budget_go_on_from_one_another_and_end_with_the_same_cells(tmp_path: Path) -> None:
    one, several = Bench(tmp_path / "one"), Bench(tmp_path / "several")
    assert one.call() == []
    calls, left = 0, list(several.steps)
    while left:
        calls, before = calls + 1, several.now[0]
        left = several.call(100.0)
        assert several.now[0] - before <= 100 + 60  # a step that was begun, at most
        assert calls < 20
    assert calls > 1
    assert without_doubts(several.document()["cells"]) == without_doubts(one.document()["cells"])
    assert all(worker.closed for worker in several.workers)


def test_a_step_that_does_not_fit_is_not_begun_but_for_the_first(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    left = bench.call(22.0)
    assert list(bench.records.load()) == ["limits"]
    assert left[0].name == "timing.resnet50.set0.group1of1.batch1"
    assert bench.lines[-1].startswith("stopped before timing.resnet50.set0.group1of1.batch1: it takes about ")
    assert bench.workers[-1].name == "limits"


def test_a_step_that_outlasts_the_budget_is_not_kept(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.records.save("limits", {"kind": "limits", "spent_s": 1.0, "guess_s": 1.0})
    left = bench.call(30.0)  # opening takes 11 s of the clock for each of the processes
    assert list(bench.records.load()) == ["limits"]
    assert left == list(bench.steps[2:])  # nothing is to prepare
    assert bench.lines[-1] == "stopped in timing.resnet50.set0.group1of1.batch1, which is not kept: the budget is spent"


def test_what_is_lost_is_a_row_with_its_reason_and_the_others_go_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path, lost={"resnet50.compile.fp16": ("chunk",), "resnet50.compile.fp32": ("open",)})
    bench.call()
    rows = {(row["runtime"], row["precision"], row["batch"]): row for row in bench.document()["cells"]}
    assert rows["compile", "fp16", 1]["lost"] == rows["compile", "fp32", 8]["lost"] == "CUDA out of memory"
    assert rows["tensorflow", "fp32", 1]["lost"] == "tensorflow is not installed"
    assert rows["eager", "fp16", 8]["lost"] is None
    assert rows["eager", "fp16", 1]["processes"] == 3
    assert rows["eager", "fp16", 8]["processes"] == 1


def test_steps_measured_in_other_groups_are_not_measured_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.call()
    few = module("plan").build_plan(replace(bench.options, lanes=2))
    assert len(few) > len(bench.steps)
    assert all(module("plan").is_done(step, bench.records.load()) for step in few if step.kind != "prepare")
    assert not module("plan").is_done(replace(few[2], batch=16), bench.records.load())


def test_rows_have_ratio_device_time_throughput_share_and_drift(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.call()
    document = bench.document()
    row = next(r for r in document["cells"] if (r["runtime"], r["precision"], r["batch"]) == ("eager", "fp16", 1))
    assert row["p50_s"] == pytest.approx(1e-3)
    assert row["device_p50_s"] == pytest.approx(5e-4)
    assert row["ratio"] == pytest.approx(0.5)
    assert row["ratio_ci95"] == pytest.approx([0.5, 0.5])
    assert row["comparison"] == "faster"
    assert row["throughput_per_s"] == pytest.approx(2000)
    assert row["share_of_limit"] == pytest.approx(2000 * 8e9 / 989.4e12)
    assert row["limit_source"] == "data sheet"
    assert row["worst_drift_db"] == 120
    assert module("results").failures(document) == []
    row.update(device="cpu", worst_drift_db=12.0)
    assert module("results").failures(document) == [
        "resnet50.eager.fp16.1 ran on cpu",
        "resnet50.eager.fp16.1 lies 12 dB from float64, and 40 dB is the least",
    ]


def test_without_scipy_there_is_a_ratio_and_no_interval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path)
    bench.call()
    monkeypatch.setitem(sys.modules, "scipy", None)
    row = next(
        r for r in bench.document()["cells"] if (r["runtime"], r["precision"], r["batch"]) == ("eager", "fp16", 1)
    )
    assert row["ratio"] == pytest.approx(0.5)
    assert (row["ratio_ci95"], row["ratio_note"]) == (None, "no interval: scipy is not installed")


# ------------------------------------------------------------------------------------------------------ the machine


def test_another_machine_is_refused_by_a_sentence(tmp_path: Path) -> None:
    state = module("state")
    records = state.StepRecords(tmp_path)
    records.claim(MACHINE)
    records.claim(MACHINE)
    other = {**MACHINE, "gpu": {**MACHINE["gpu"], "uuid": "GPU-2"}}  # type: ignore[dict-item]
    with pytest.raises(state.MachineChanged, match=r"gpu.uuid was GPU-1 and is GPU-2\. .* taken with --same-kind\."):
        records.claim(other)
    assert records.claim(other, same_kind=True)["gpus_seen"] == ["GPU-1", "GPU-2"]
    with pytest.raises(state.MachineChanged, match=r"packages was .* and is .*Measure with another --out"):
        records.claim({**other, "packages": {"torch": "2.14.0"}}, same_kind=True)


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "gpu.json"
    module("state").write_json(path, {"whole": True})
    with pytest.raises(TypeError):
        module("state").write_json(path, {"a": 1, "bad": object()})
    assert json.loads(path.read_text()) == {"whole": True}


# ------------------------------------------------------------------------------------------------ limits and meters


@pytest.mark.parametrize(
    ("gpu", "precision", "tflops"),
    [("NVIDIA H100 80GB HBM3", "bf16", 989.4), ("NVIDIA H100 PCIe", "fp16", 756.0), ("NVIDIA H200", "fp32", 67.0),
     ("NVIDIA A100-SXM4-80GB", "tf32", 156.0), ("Tesla T4", "fp16", 65.0), ("NVIDIA L4", "fp16", 121.0),
     ("NVIDIA L40S", "fp16", 362.05), ("NVIDIA L40", "fp16", 181.05), ("NVIDIA A10", "tf32", 62.5)],
)  # fmt: skip
def test_known_chips_have_their_data_sheets_rates(gpu: str, precision: str, tflops: float) -> None:
    limit = module("chips").limit_for(gpu, precision, {})
    assert (limit.flops_per_s, limit.source) == (tflops * 1e12, "data sheet")


def test_unknown_chips_and_precisions_have_what_a_matmul_reached() -> None:
    chips = module("chips")
    for gpu in ("NVIDIA A10G", "NVIDIA GeForce RTX 4090 Laptop GPU", None, "NVIDIA T400"):
        assert chips.known_rates(gpu) == {}
    assert chips.limit_for("Tesla T4", "tf32", {"tf32": 4e12}) == chips.Limit(4e12, "measured matmul")
    assert chips.limit_for("Tesla T4", "bf16", {}) is None
    assert chips.share_of_limit(5.0, 2.0, chips.Limit(10.0, "data sheet")) == 0.25
    assert chips.share_of_limit(5.0, 2.0, None) is None


class FakeNvml:
    """The functions of pynvml that are called; energy is not supported where there is none."""

    class NVMLError(Exception):
        pass

    def __init__(self, energy_mj: int | None) -> None:
        self.energy_mj = energy_mj

    def nvmlInit(self) -> None:  # noqa: N802
        pass

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return f"gpu {index}"

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:  # noqa: N802
        return {1: 1755, 2: 2619}[kind]

    def nvmlDeviceGetTemperature(self, handle: str, kind: int) -> int:  # noqa: N802
        return 41

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:  # noqa: N802
        return 312_500

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:  # noqa: N802
        return 0x1 | 0x4 | 0x40

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:  # noqa: N802
        if self.energy_mj is None:
            raise self.NVMLError("not supported")
        return self.energy_mj


def test_nvml_is_read_with_its_units_and_what_it_does_not_tell_is_none() -> None:
    meter = module("meter")
    read = meter.Meter("cuda:2", nvml=FakeNvml(5_000_000), environ={})
    assert (read.source, read._handle) == ("nvml", "gpu 2")
    assert read.read() == meter.Reading(1755, 2619, 41, 312.5, 5000.0, ("power cap", "heat (hardware)"))
    assert meter.Meter("cuda", nvml=FakeNvml(None), environ={}).read().energy_j is None
    assert meter.Meter("cpu", nvml=FakeNvml(1)).read() is None


def test_nvidia_smi_is_read_where_nvml_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    meter = module("meter")
    monkeypatch.setattr(meter, "_load_nvml", lambda: None)
    asked: list[Any] = []

    def smi(options: Any) -> str | None:
        asked.append(options)
        return "1410, 1215, 36, [N/A]\n"

    read = meter.Meter("cuda:1", smi=smi, environ={"CUDA_VISIBLE_DEVICES": "3,GPU-abc"})
    assert read.read() == meter.Reading(1410, 1215, 36, None, None, None)
    assert read.source == "nvidia-smi"
    assert asked[0] == ("--query-gpu=clocks.sm,clocks.mem,temperature.gpu,power.draw", "-i", "GPU-abc")
    for text in ("", "No devices were found", "1, 2"):
        assert meter.parse_smi(text) is None
    absent = meter.Meter("cuda", smi=lambda options: None, environ={})
    assert (absent.source, absent.read()) == (None, None)


def test_energy_is_the_counters_else_power_by_time() -> None:
    meter = module("meter")
    with_counter = [meter.Reading(power_w=300.0, energy_j=joules) for joules in (100.0, 150.0, 220.0)]
    assert meter.energy_between(*with_counter, 0.4) == meter.Spent(120.0, "counter")
    stood = meter.Reading(power_w=300.0, energy_j=100.0)
    assert meter.energy_between(stood, stood, stood, 0.5) == meter.Spent(150.0, "power")
    assert meter.energy_between(None, None, None, 0.5) == meter.Spent(None, None)


def test_a_gpu_is_described_by_the_driver() -> None:
    describe = module("meter").describe_gpu
    line = "NVIDIA H100 80GB HBM3, GPU-1, 580.1, 81559, 1980, 700.00\n"
    assert describe("cuda", lambda options: line, {}) == MACHINE["gpu"]
    assert describe("cuda", lambda options: None, {})["name"] is None
    assert describe("cpu", lambda options: line, {}) is None


# ----------------------------------------------------------------------------------------------------------- timers


def test_events_enclose_each_call_on_its_stream_and_are_read_after_the_wait() -> None:
    log: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self, stream: str) -> None:
            log.append(f"record on {stream}")

        def elapsed_time(self, other: object) -> float:
            assert log[-1] == "synchronize"
            return 2.5  # milliseconds

    cuda = SimpleNamespace(
        Event=Event, synchronize=lambda: log.append("synchronize"), current_stream=lambda: "the current one"
    )
    timer = module("timing").EventTimer(SimpleNamespace(cuda=cuda), "ort's")
    assert timer.seconds(lambda: log.append("call"), 2) == [0.0025, 0.0025]
    one = ["record on ort's", "call", "record on ort's"]
    assert log == ["synchronize", *one, *one, "synchronize"]


def test_the_hosts_clock_waits_for_the_device() -> None:
    now = [0]

    def wait() -> None:
        now[0] += 7

    timer = module("timing").HostTimer(wait, lambda: now[0] * 1_000_000_000)
    assert timer.seconds(lambda: None, 2) == [7.0, 7.0]


def test_warm_up_ends_when_calls_get_no_faster() -> None:
    timing, now, cost = module("timing"), [0], [640]

    def call() -> None:
        now[0] += cost[0] * 1_000_000
        cost[0] = max(10, cost[0] // 2)

    windows = timing.warm_up(call, lambda: now[0])
    assert [len(window) for window in windows] == [3] * 6  # three that got faster, three that did not
    assert windows[-1] == [0.01] * 3


def test_decibels() -> None:
    sqnr = module("timing").sqnr_db
    reference = np.array([3.0, 4.0])
    assert sqnr(reference + np.array([0.3, 0.4]), reference) == pytest.approx(20.0)
    assert sqnr(reference, reference) is None
    assert sqnr(np.array([np.nan, 4.0]), reference) == sqnr(np.zeros(3), reference) == -math.inf


# --------------------------------------------------------------------------------------------------------- the nets


@pytest.mark.parametrize(("net", "gflop"), [("resnet50", 8.18), ("vit-b16", 35.1), ("bert-base", 22.3)])
def test_nets_are_the_published_ones(net: str, gflop: float) -> None:
    import torch

    nets = module("nets")
    spec = nets.net_spec(net)
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in spec.make().parameters())
    assert count == spec.parameters == {"resnet50": 25_557_032, "vit-b16": 86_567_656, "bert-base": 109_482_240}[net]
    assert nets.count_flops(spec) / 1e9 == pytest.approx(gflop, rel=0.01)


def test_a_net_of_another_size_is_refused() -> None:
    nets = module("nets")
    with pytest.raises(ValueError, match=r"parameters and the published one 5"):
        nets.build_net(replace(nets.net_spec("vit-b16", small=True), parameters=5))


def test_eager_runtime_copies_answers_and_drifts_as_its_precision_says(tmp_path: Path) -> None:
    nets, subjects, assets = module("nets"), module("subjects"), module("assets")
    spec = nets.net_spec("bert-base", small=True)
    assets.make_reference(spec, tmp_path / "reference.npz", "cpu")
    reference = np.load(tmp_path / "reference.npz")
    array = nets.host_input(spec, 3)
    decibels = {}
    for precision in ("fp32", "bf16"):
        runtime = subjects.open_runtime("eager", spec, precision, "cpu", assets=tmp_path, net="bert-base")
        calls = runtime.bind(array)
        answers = calls.host()
        assert [answer.dtype for answer in answers] == [np.float32, np.float32]
        assert runtime.facts()["runs_on"] == "cpu"
        assert calls.copy_in_pinned is None  # no page-locked memory without CUDA
        decibels[precision] = module("timing").sqnr_db(answers[0], reference["hidden"][:3])
    assert decibels["fp32"] > 110
    assert 25 < decibels["bf16"] < 60
    with pytest.raises(subjects.Unfit, match=r"bert-base\.fp32\.onnx was not made"):
        subjects.open_runtime("onnxruntime", spec, "fp32", "cpu", assets=tmp_path, net="bert-base")


# -------------------------------------------------------------------------------------------------------- processes


def process(tmp_path: Path, code: str, **options: Any) -> Any:
    command = (sys.executable, "-c", f"import sys, time\nfor line in sys.stdin:\n    {code}")
    return module("process").WorkerProcess("w", tmp_path / "w.log", command=command, **options)


@pytest.mark.parametrize(
    ("code", "sentence"),
    [("print('{\"error\": \"CUDA out of memory\"}', flush=True)", "CUDA out of memory"),
     ("sys.exit(3)", "its process ended with 3"), ("time.sleep(60)", "it gave no answer in time"),
     ("print('no', flush=True)", "its answer is no JSON")],
)  # fmt: skip
def test_whatever_ends_a_process_is_a_sentence(tmp_path: Path, code: str, sentence: str) -> None:
    worker = process(tmp_path, code)
    try:
        worker.send("open")
        with pytest.raises(SessionLost) as caught:
            worker.receive(0.2 if "sleep" in code else 30)
        assert caught.value.what == sentence
    finally:
        worker.close()


def test_no_wait_is_longer_than_the_budget(tmp_path: Path) -> None:
    worker = process(tmp_path, "time.sleep(60)", left_s=lambda: 0.1)
    try:
        with pytest.raises(SessionLost, match="in time"):
            worker("open")
    finally:
        worker.close()


# --------------------------------------------------------------------------------------------------------- the page


def test_the_committed_page_is_that_of_the_committed_result() -> None:
    result = ROOT / "benchmarks" / "results" / "gpu.json"
    document = json.loads(result.read_text()) if result.exists() else None
    assert (ROOT / "docs" / "gpu.md").read_text() == module("page").render_page(document)


def test_a_result_of_a_cpu_gives_no_figures(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.call()
    on_cpu = {**bench.document(), "machine": {**MACHINE, "device": "cpu"}}
    assert module("page").render_page(on_cpu) == module("page").render_page(None)
    assert "There are no figures yet" in module("page").render_page(None)


def test_the_page_shows_figures_reasons_and_what_is_missing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, lost={"resnet50.compile.fp16": ("prepare",)})
    bench.call()
    document = bench.document()
    document["steps_left"] = 2
    document["recipes"] = [
        {"recipe": "digits-cnn", "lost": None, "latency": [],
         "drift": [{"recipe": "digits-cnn", "artifact": "onnx", "runtime": "onnxruntime", "status": "wrong",
                    "reason": "it runs on cpu"}]}
    ]  # fmt: skip
    text = module("page").render_page(document)
    assert "Measured on NVIDIA H100 80GB HBM3, driver 580.1, a processor, 16 cores" in text
    assert "Not installed there: tensorflow; their rows say so." in text
    assert "**Not complete**: 2 steps of the plan are left." in text
    assert (
        "| eager | fp16 | 1.000 | 0.500 | 0.010 / 0.020 | 0.50 (0.50 to 0.50) | 2000 | - | 120 | 1.6% | cuda:0 |"
        in text
    )
    assert "- compile fp16: not measured: CUDA out of memory" in text
    assert "- tensorflow fp32: not measured: tensorflow is not installed" in text
    assert "| digits-cnn | onnx | onnxruntime | wrong it runs on cpu |" in text
    assert module("results").failures(document) == ["recipe digits-cnn, onnx: it runs on cpu"]

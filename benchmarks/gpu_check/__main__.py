"""What a GPU makes of three known nets and of the recipes: latency, throughput, energy, drift, and the chip's limit.

    python benchmarks/gpu_check [--plan] [--budget 9m] [--device cuda] [--out FILE.json] [--page FILE.md]

Works from a checkout, installed or not, with whatever is there beside torch and numpy: what is missing is listed, not
hidden. The nets have seeded random weights, so that no data set is needed. A call with a budget stops before its end
and leaves the result whole; the next one goes on.
Exit status: 0 all that ran agrees, 1 something is wrong (a copy that ran elsewhere or drifted far, a recipe), 2 there
is no such device, or the machine is another, 3 the budget ended and steps are left.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
os.environ["PYTHONPATH"] = str(ROOT / "typings")  # workers find this checkout; typings/transload is the root
sys.path[:0] = [str(HERE), str(ROOT / "typings")]

from gpu_measure import Measurement, Place, seconds_left  # noqa: E402
from gpu_meter import Meter, describe_cpu, describe_gpu  # noqa: E402
from gpu_page import render_page  # noqa: E402
from gpu_plan import (  # noqa: E402
    NETS,
    PRECISIONS,
    RECIPES,
    RUNTIMES,
    Budget,
    PlanOptions,
    build_plan,
    lanes_for,
    parse_duration,
    show_plan,
)
from gpu_results import build_document, failures  # noqa: E402
from gpu_state import MachineChanged, StepRecords, write_json  # noqa: E402

from transload.models.errors import ToolMissing  # noqa: E402
from transload.pipeline.workers.devices import resolve_device  # noqa: E402
from transload.pipeline.workers.toolchain import version_of  # noqa: E402

PACKAGES = (
    "torch",
    "numpy",
    "onnxruntime",
    "onnx",
    "onnxscript",
    "tensorflow",
    "scipy",
    "psutil",
    "pydantic",
    "nvidia-ml-py",
)
SMALL_BATCHES = (1, 4)


def main(arguments: list[str] | None = None) -> int:
    """Plan, measure, write."""
    asked = parser().parse_args(arguments)
    budget = Budget.of_command(asked.budget)
    if asked.page and asked.budget is None:
        return write_page(asked.out, asked.page)
    try:
        device = resolve_device(asked.device) if not asked.plan else asked.device
    except ToolMissing as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    machine = describe_machine(device, small=asked.small or device == "cpu")
    memory_mib = (machine["gpu"] or {}).get("memory_mib")
    options = plan_options(
        asked, small=machine["small"], lanes=asked.lanes or lanes_for(memory_mib and memory_mib * 2**20)
    )
    records = StepRecords(asked.out.with_suffix(".state"))
    plan = build_plan(options)
    if asked.plan:
        return print_plan(plan, records)
    return measure(asked, machine, options, records, budget)


def measure(
    asked: argparse.Namespace, machine: dict[str, Any], options: PlanOptions, records: StepRecords, budget: Budget
) -> int:
    """Go on with the plan until it is done or the budget ends."""
    plan, out = build_plan(options), asked.out
    try:
        recorded = records.claim(machine, same_kind=asked.same_kind)
    except MachineChanged as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if asked.retry_lost:
        records.drop(lost_steps(records, asked.retry_lost))
    place = Place(
        machine["device"], asked.work, options, asked.rounds, tensorflow=bool(machine["packages"]["tensorflow"])
    )
    measurement = Measurement(place, records, budget, Meter(machine["device"]))

    def write() -> None:
        left = len(measurement.pending(plan))
        write_json(out, build_document(recorded, records.load(), left))

    write()
    left = measurement.run(plan, write)
    write()
    document = json.loads(out.read_text())
    if asked.page:
        write_page(out, asked.page)
    for sentence in (wrong := failures(document)):
        print(f"wrong: {sentence}")
    print(f"{len(document['cells'])} cells, {len(wrong)} wrong; written to {out}")
    if left:
        print(f"{len(left)} steps are left, about {seconds_left(measurement, plan) / 60:.0f} minutes: call again")
    return 1 if wrong else 3 if left else 0


def print_plan(plan: Any, records: StepRecords) -> int:
    """Print what will run. Assets, whose files may lie on another machine, count as they were planned."""
    from gpu_plan import pace_of

    done = records.load()
    pace = pace_of((record["spent_s"], record["guess_s"]) for record in done.values() if record["kind"] == "timing")
    print(show_plan(plan, done, pace))
    return 0


def lost_steps(records: StepRecords, text: str) -> list[str]:
    """Return the steps in which something was lost for a reason that holds this text."""
    return [
        name
        for name, record in records.load().items()
        if any(text in (row.get("lost") or "") for row in (record, *record.get("rows", {}).values()))
    ]


def write_page(result: Path, page: Path) -> int:
    """Write the page from the result, or that there is none."""
    document = json.loads(result.read_text()) if result.exists() else None
    page.write_text(render_page(document))
    print(f"written to {page}")
    return 0


def plan_options(asked: argparse.Namespace, *, small: bool, lanes: int) -> PlanOptions:
    """Return what is asked for, as the plan's options."""
    batches = asked.batches or (SMALL_BATCHES if small else PlanOptions().batches)
    return PlanOptions(asked.nets, asked.runtimes, asked.precisions, batches, asked.sets, lanes, asked.recipes, small)


def describe_machine(device: str, *, small: bool) -> dict[str, Any]:
    """Return what is measured on. No framework is loaded."""
    return {
        "device": device,
        "small": small,
        "gpu": describe_gpu(device),
        "cpu": describe_cpu(),
        "cpu_cores": os.cpu_count(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: version_of(name) for name in PACKAGES},
    }


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    words = argparse.ArgumentParser(prog="gpu_check", description=(__doc__ or "").splitlines()[0])
    words.add_argument("--device", default="cuda", help="cuda or cuda:N; cpu tries the script itself, with small nets")
    words.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "gpu.json",
                       help="the result; records of finished steps lie beside it in NAME.state/")  # fmt: skip
    words.add_argument("--plan", action="store_true", help="print what will run and for how long, and end")
    words.add_argument(
        "--budget", type=parse_duration, help="end within so much time (9m, 540s); the next call goes on"
    )
    words.add_argument(
        "--page", type=Path, help="write this page from the result; alone, or after measuring with --budget"
    )
    words.add_argument("--work", type=Path, default=ROOT / ".transload" / "gpu_check", help="nets' files, logs, caches")
    words.add_argument("--same-kind", action="store_true", help="go on with another GPU of the same name")
    words.add_argument("--retry-lost", metavar="TEXT", help="measure steps again that lost something for such a reason")
    words.add_argument("--small", action="store_true", help="small nets on a GPU, too")
    words.add_argument("--lanes", type=int, help="processes at once; by default as many as the GPU's memory holds")
    words.add_argument("--rounds", type=int, default=10)
    words.add_argument("--sets", type=int, default=3, help="sets of processes at batches 1 and 32")
    words.add_argument("--batch", dest="batches", type=lambda text: tuple(map(int, text.split(","))))
    for name, default in (("nets", NETS), ("runtimes", RUNTIMES), ("precisions", PRECISIONS), ("recipes", RECIPES)):
        words.add_argument(f"--{name}", default=default, type=lambda text: tuple(filter(None, text.split(","))))
    return words


if __name__ == "__main__":
    sys.exit(main())

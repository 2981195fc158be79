"""What is measured, as data: cells, the steps that measure them in order of importance, and how long each may take.

A step is one net at one batch size, in one set of processes. It is what is kept whole, and what a budget ends between.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

NETS = ("resnet50", "vit-b16", "bert-base")
RUNTIMES = ("eager", "torchscript", "compile", "onnxruntime", "tensorflow")
PRECISIONS = ("fp32", "tf32", "fp16", "bf16")
REFERENCE = ("eager", "fp32")  # what ratios are held against
IMPORTANT = (1, 32)  # batch sizes that come first, and in several sets of processes
RECIPES = ("digits-cnn", "digits-vit", "digits-gru")
RECIPE_FORMATS = ("pt2", "torchscript", "onnx", "saved-model")
# Each cell's numbers, as the page (page_text.md) calls them.
NUMBERS = (
    "host to host", "device", "copies", "ratio", "samples/s", "J/sample", "drift", "of limit", "ran on",
)  # fmt: skip
# Nets, runtimes and precisions, as the page calls them.
TITLES = {
    "resnet50": "ResNet-50", "vit-b16": "ViT-B/16", "bert-base": "BERT-base",
    "eager": "eager PyTorch", "torchscript": "TorchScript", "compile": "torch.compile",
    "onnxruntime": "ONNX Runtime CUDA", "tensorflow": "TensorFlow",
    "fp32": "float32", "tf32": "float32 with TF32", "fp16": "float16", "bf16": "bfloat16",
}  # fmt: skip

# Guesses for a data-centre GPU. After the first steps the pace that was really kept corrects them.
_GFLOP = {"resnet50": 8.2, "vit-b16": 35.1, "bert-base": 22.3}
_RATE = {"fp32": 30e3, "tf32": 150e3, "fp16": 300e3, "bf16": 300e3}  # GFLOP/s that a net reaches
_CALLS = 40  # of a cell: warm-up, rounds, events, window
_CELL_S, _FIRST_SET_S = 0.8, 0.9  # rounds and their warm-up; window, copies and drift beside them
_OPEN_S, _COMPILE_S, _RECOMPILE_S = 25.0, 35.0, 8.0
_PREPARE_S, _LIMITS_S, _RECIPE_S = 40.0, 20.0, 50.0
_SMALL_SHARE = 0.4  # small nets on a CPU
_LANE_BYTES = 4e9  # a process: its context, weights and what a batch of 128 needs


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """A net in a runtime and a precision at a batch size."""

    net: str
    runtime: str
    precision: str
    batch: int

    @property
    def name(self) -> str:
        """The cell in one word."""
        return f"{self.net}.{self.runtime}.{self.precision}.{self.batch}"


@dataclass(frozen=True, slots=True)
class Step:
    """A part of the plan. `kind`: limits, prepare, timing or recipe; `number`: the set of processes."""

    kind: str
    subject: str  # a net or a recipe
    seconds: float
    batch: int = 0
    number: int = 0
    group: int = 0
    groups: int = 1
    subjects: tuple[tuple[str, str], ...] = ()  # runtime, precision
    opening_s: float = 0.0  # what starting its processes takes, where the step before has left none

    @property
    def name(self) -> str:
        """The step in one word: the name of its record."""
        if self.kind == "timing":
            return f"timing.{self.subject}.set{self.number}.group{self.group + 1}of{self.groups}.batch{self.batch}"
        return ".".join(filter(None, (self.kind, self.subject)))

    @property
    def processes(self) -> tuple[str, int, int]:
        """Steps with equal ones can share their processes."""
        return self.subject, self.number, self.group

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the cells (net, runtime, precision, batch) that a timing step measures."""
        return tuple(Cell(self.subject, runtime, precision, self.batch) for runtime, precision in self.subjects)


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What is asked for. `lanes`: how many processes fit on the device at once."""

    nets: tuple[str, ...] = NETS
    runtimes: tuple[str, ...] = RUNTIMES
    precisions: tuple[str, ...] = PRECISIONS
    batches: tuple[int, ...] = (1, 8, 32, 128)
    sets: int = 3
    lanes: int = 18
    recipes: tuple[str, ...] = RECIPES
    small: bool = False

    def __post_init__(self) -> None:
        for values, known in ((self.nets, NETS), (self.runtimes, RUNTIMES), (self.precisions, PRECISIONS),
                              (self.recipes, RECIPES)):  # fmt: skip
            if unknown := sorted(set(values) - set(known)):
                raise ValueError(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
        if not self.batches or min(self.batches) < 1 or self.sets < 1:
            raise ValueError("batches and sets of processes are 1 or more")


def build_plan(options: PlanOptions) -> tuple[Step, ...]:
    """Return the steps in order: batches 1 and 32 of every net, the recipes, further processes of those batches, the
    other batches."""
    first = [batch for batch in IMPORTANT if batch in options.batches]
    others = sorted(set(options.batches) - set(first))
    share = _SMALL_SHARE if options.small else 1.0
    steps = [Step("limits", "", _LIMITS_S * share)]
    for net in options.nets:
        steps.append(Step("prepare", net, _PREPARE_S * share))
        steps.extend(_timing(net, first, 0, options))
    steps.extend(Step("recipe", name, _RECIPE_S) for name in options.recipes)
    for number, net in itertools.product(range(1, options.sets), options.nets):
        steps.extend(_timing(net, first, number, options))
    for net in options.nets:
        steps.extend(_timing(net, others, 0, options, compiled_before=bool(first)))
    return tuple(steps)


def subjects_of(options: PlanOptions) -> tuple[tuple[str, str], ...]:
    """Return the pairs of runtime and precision, the reference first. TensorFlow has no reduced copies here."""
    pairs = (
        (runtime, precision)
        for precision, runtime in itertools.product(options.precisions, options.runtimes)
        if runtime != "tensorflow" or precision in ("fp32", "tf32")
    )
    return (REFERENCE, *(pair for pair in pairs if pair != REFERENCE))


def groups_of(subjects: Sequence[tuple[str, str]], lanes: int) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Split the subjects into groups of at most `lanes` processes, each with the reference."""
    reference, *others = subjects
    size = max(1, lanes - 1)
    parts = [others[at : at + size] for at in range(0, len(others), size)] or [[]]
    return tuple((reference, *part) for part in parts)


def lanes_for(memory_bytes: float | None) -> int:
    """Return how many processes a device of so much memory holds; 18, which is all of them, where it is unknown."""
    return 18 if not memory_bytes else max(2, min(18, int(memory_bytes / _LANE_BYTES)))


def _timing(
    net: str, batches: Iterable[int], number: int, options: PlanOptions, *, compiled_before: bool = False
) -> list[Step]:
    share = _SMALL_SHARE if options.small else 1.0
    batches = list(batches)
    steps = []
    groups = groups_of(subjects_of(options), options.lanes)
    for group, subjects in enumerate(groups):
        compiled = any(runtime == "compile" for runtime, _ in subjects)
        opening_s = _OPEN_S + compiled * (_RECOMPILE_S if number or compiled_before else _COMPILE_S)
        for batch in batches:
            seconds = sum(_cell_s(net, precision, batch, number, options) for _, precision in subjects)
            step = Step("timing", net, seconds * share, batch, number, group, len(groups), subjects, opening_s * share)
            steps.append(step)
    return steps


def _cell_s(net: str, precision: str, batch: int, number: int, options: PlanOptions) -> float:
    call_s = 0.0 if options.small else _GFLOP[net] * batch / _RATE[precision]
    return _CELL_S + (0 if number else _FIRST_SET_S) + _CALLS * call_s


def is_done(step: Step, records: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether a step was measured, be it in other groups: other lanes split the same cells otherwise."""
    if step.name in records or step.kind != "timing":
        return step.name in records
    wanted = (step.subject, step.batch, step.number)
    timed = [record for record in records.values() if record["kind"] == "timing"]
    alike = [record for record in timed if (record["net"], record["batch"], record["set"]) == wanted]
    rows = {name for record in alike for name in record["rows"]}
    return {".".join(pair) for pair in step.subjects} <= rows


def plan_seconds(steps: Sequence[Step], pace: float = 1.0) -> float:
    """Estimate what steps take in this order, with the starts of their processes."""
    total, before = 0.0, None
    for step in steps:
        total += step.seconds + (step.opening_s if step.processes != before else 0.0)
        before = step.processes if step.kind == "timing" else None
    return total * pace


def pace_of(records: Iterable[tuple[float, float]]) -> float:
    """Return seconds spent over seconds estimated, of timing steps; 1 before there are two. Kept within 1/5 and 5: the
    first steps hold what happens once."""
    pairs = list(records)
    if len(pairs) < 2:
        return 1.0
    return min(5.0, max(0.2, sum(spent for spent, _ in pairs) / max(1e-9, sum(guess for _, guess in pairs))))


@dataclass(frozen=True, slots=True)
class Budget:
    """Time of one call. None is without end."""

    seconds: float | None = None
    clock: Callable[[], float] = time.monotonic
    started: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "started", self.clock())

    @staticmethod
    def of_command(seconds: float | None) -> Budget:
        """Return the budget of a whole command: a part is kept for starting, ending processes and writing."""
        return Budget(None if seconds is None else seconds - min(15.0, 0.1 * seconds))

    @property
    def spent_s(self) -> float:
        """Seconds since the start."""
        return self.clock() - self.started

    @property
    def left_s(self) -> float:
        """Seconds until the end."""
        return math.inf if self.seconds is None else max(0.0, self.seconds - self.spent_s)

    def holds(self, seconds: float, *, anything_done: bool) -> bool:
        """Whether a step of so many seconds is begun. The first of a call is: else one that is longer than every budget
        would never be tried."""
        return self.left_s > 0 and (not anything_done or seconds <= self.left_s)


def parse_duration(text: str) -> float:
    """Read `540`, `540s`, `9m` or `1h` as seconds. Raises ValueError."""
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = (text[:-1], text[-1]) if text and text[-1] in units else (text, "s")
    seconds = float(number) * units[unit]
    if not 0 < seconds < math.inf:
        raise ValueError(text)
    return seconds


def describe_plan(steps: Sequence[Step]) -> list[str]:
    """Return what the steps measure, a line for each kind of thing, in the page's words."""
    timing = [step for step in steps if step.kind == "timing"]
    pairs = list(dict.fromkeys(pair for step in timing for pair in step.subjects))
    by_runtime = {runtime: [TITLES[precision] for name, precision in pairs if name == runtime] for runtime, _ in pairs}
    batches = sorted({step.batch for step in timing})
    repeated = sorted({step.batch for step in timing if step.number})
    sets = 1 + max((step.number for step in timing), default=0)
    recipes = [step.subject for step in steps if step.kind == "recipe"]
    lines = ["limits: the data sheet's, and a matmul of 8192 in each precision"]
    if timing:
        lines.append(f"nets: {', '.join(dict.fromkeys(TITLES[step.subject] for step in timing))}")
        lines += [f"runtime: {TITLES[name]} in {', '.join(titles)}" for name, titles in by_runtime.items()]
        several = f"; {sets} sets of processes at {' and '.join(map(str, repeated))}" if repeated else ""
        lines.append(f"batches: {', '.join(map(str, batches))}{several}")
        lines.append(f"numbers: {', '.join(NUMBERS)}")
    if recipes:
        lines.append(f"recipes: {', '.join(recipes)} as {', '.join(RECIPE_FORMATS)}: answers and latency")
    return lines


def show_plan(steps: Sequence[Step], done: Mapping[str, Mapping[str, Any]], pace: float = 1.0) -> str:
    """Return the plan as lines: what is measured, then the steps in their order, with about how long each takes.
    `done`: the records that there are."""
    lines, before, total = [*describe_plan(steps), ""], None, 0.0
    for step in steps:
        if is_done(step, done):
            lines.append(f"{'done':>8}  {step.name}")
            continue
        seconds = (step.seconds + (step.opening_s if step.processes != before else 0.0)) * pace
        before = step.processes if step.kind == "timing" else None
        total += seconds
        what = f"  {len(step.subjects)} subjects" if step.subjects else ""
        lines.append(f"{seconds:7.0f}s  {step.name}{what}")
    cells = {cell for step in steps for cell in step.cells}
    left = [step for step in steps if not is_done(step, done)]
    lines.append(f"{len(left)} of {len(steps)} steps left, {len(cells)} cells in all, about {total / 60:.0f} minutes")
    return "\n".join(lines)

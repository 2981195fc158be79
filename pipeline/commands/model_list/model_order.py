"""The order in which the models of a list are begun: the longest first, by what former runs of the store's models took.

So none is left over when the others are done. Between them come the shortest. Left to the end, all at once, their steps
would be over faster than one command can order the next ones to a large cluster (docs/scale.md).
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import TypeVar

from ....models.remote.sealed_records import read_record

T = TypeVar("T")
_LONG_TO_SHORT = 2  # models; of 1 to 8 the best in benchmarks/cluster/simulate.py at 64 nodes
_MOST_RECORDS = 200_000  # that are read, the newest: some 10 s


class ModelDurations:
    """The seconds that models took in former runs, by `records`: model, step and seconds, the newest first."""

    def __init__(self, records: Iterable[tuple[str, str, float]] = ()) -> None:
        self._steps: dict[str, dict[str, float]] = defaultdict(dict)
        for model, step, seconds in records:
            self._steps[model].setdefault(step, seconds)

    def model_s(self, model: str, targets: Collection[str] = ()) -> float | None:
        """Return the seconds of a model where nothing waits: of itself, else the median of its kind; None where none of
        its kind is known. `targets`: those that matter, as their slugs."""
        if model in self._steps:
            return longest_chain_s(self._steps[model], targets)
        same_kind = self._by_kind.get(kind_of_model(model), ())
        return median(longest_chain_s(steps, targets) for steps in same_kind) if same_kind else None

    @cached_property
    def _by_kind(self) -> dict[str, list[Mapping[str, float]]]:
        kinds: dict[str, list[Mapping[str, float]]] = defaultdict(list)
        for model, steps in self._steps.items():
            kinds[kind_of_model(model)].append(steps)
        return kinds


def longest_chain_s(steps: Mapping[str, float], targets: Collection[str] = ()) -> float:
    """Return the seconds of a model's longest chain of steps: those without a route, the conversions along one route,
    and its check. The names say what follows what (run_plan.action_name): `convert.tflite.a+b` comes after
    `convert.onnx.a`, and `verify.tflite.a+b` after that."""
    begin_s, convert_s, check_s, ends = 0.0, dict[str, float](), dict[str, float](), set[str]()
    for step, seconds in steps.items():
        stage, target, route = (*step.split(".", 2), "", "")[:3]
        if not route:
            begin_s += seconds
        elif stage == "convert":
            convert_s[route] = seconds
            if not targets or target in targets:
                ends.add(route)
        else:
            check_s[route] = seconds
    chains = [
        check_s.get(route, 0.0) + sum(convert_s[part] for part in convert_s if f"{route}+".startswith(f"{part}+"))
        for route in ends
    ]
    return begin_s + max(chains, default=0.0)


def kind_of_model(model: str) -> str:
    """Return the kind of a MODEL argument: the library (`timm`), or the ending of its file (`.py`, `.onnx`)."""
    head = model.partition(":")[0]
    return Path(head).suffix.lower() or head.partition("/")[0]


def longest_first(
    models: Sequence[T], expected_s: Callable[[T], float | None], weight_bytes: Callable[[T], int] = lambda _: 0
) -> list[T]:
    """Sort models by how long they are expected to take: two of the longest that are left, one of the shortest, and so
    on. Equal ones keep their order.
    A model that nobody knows (None) comes before all others, as it may be the longest; of several, that with the
    largest file of weights."""

    def place(model: T) -> tuple[bool, float]:
        seconds = expected_s(model)
        return (False, -float(weight_bytes(model))) if seconds is None else (True, -seconds)

    waiting = deque(sorted(models, key=place))
    ordered: list[T] = []
    while waiting:
        is_short = len(ordered) % (_LONG_TO_SHORT + 1) == _LONG_TO_SHORT
        ordered.append(waiting.pop() if is_short else waiting.popleft())
    return ordered


def read_durations(store: Path) -> ModelDurations:
    """Read how long each model's steps took, from those records of a store's folder that can be read."""
    return ModelDurations(_records(store / "actions"))


def _records(actions: Path) -> Iterator[tuple[str, str, float]]:
    times: dict[str, float] = {}
    with suppress(OSError), os.scandir(actions) as entries:
        for entry in entries:
            with suppress(OSError):
                times[entry.path] = entry.stat().st_mtime
    for path in sorted(times, key=times.__getitem__, reverse=True)[:_MOST_RECORDS]:
        with suppress(OSError, ValueError):
            record = read_record(Path(path))
            if record.get("step"):
                yield record.get("model", ""), record["step"], float(record["seconds"])

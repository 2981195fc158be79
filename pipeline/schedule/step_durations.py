"""How long steps took in former runs, and what that says of a model that is done again.

The names of steps say what follows what (run_plan.action_name): `convert.tflite.a+b` comes after `convert.onnx.a`, and
`verify.tflite.a+b` after that. Steps without a route (`weights`, `data`, `reference`) come before all of them.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

from ...models.remote.sealed_records import read_record

_CONVERT, _VERIFY = "convert", "verify"
_MOST_RECORDS = 200_000  # that are read, the newest: some 10 s


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A step that was really done for a model, by their names."""

    model: str
    step: str
    seconds: float


@dataclass(frozen=True)
class StepChains:
    """The steps of a model with their seconds, and the chains in which they follow each other."""

    seconds: Mapping[str, float]  # by the step's name

    @cached_property
    def _routes(self) -> dict[str, float]:
        """Seconds from the first conversion of a route to its check, by the name of its last conversion."""
        return {step: self._route_s(step) for step in self.seconds if step.startswith(f"{_CONVERT}.")}

    @cached_property
    def _begin_s(self) -> float:
        return sum(seconds for step, seconds in self.seconds.items() if "." not in step)

    def longest(self, targets: Collection[str] = ()) -> float:
        """Return the seconds of the longest chain; `targets`: the only ones that matter, as their slugs."""
        routes = (s for step, s in self._routes.items() if not targets or _parts(step)[1] in targets)
        return self._begin_s + max(routes, default=0.0)

    def rest(self, step: str) -> float:
        """Return the seconds of the longest chain from the begin of a step to the end; 0 of an unknown one."""
        if "." not in step:
            return self.longest()
        stage, _, route = _parts(step)
        own = self.seconds.get(step, 0.0)
        if stage != _CONVERT:
            return own
        before = self._route_s(step) - self._check_s(step) - own
        chains = (s for name, s in self._routes.items() if _parts(name)[2].startswith(f"{route}+"))
        return max(own + self._check_s(step), max(chains, default=0.0) - before)

    def _route_s(self, step: str) -> float:
        by_route = self._conversions
        names = _parts(step)[2].split("+")
        conversions = sum(by_route.get("+".join(names[: count + 1]), 0.0) for count in range(len(names)))
        return conversions + self._check_s(step)

    @cached_property
    def _conversions(self) -> dict[str, float]:
        return {_parts(step)[2]: s for step, s in self.seconds.items() if step.startswith(f"{_CONVERT}.")}

    def _check_s(self, conversion: str) -> float:
        return self.seconds.get(_VERIFY + conversion.removeprefix(_CONVERT), 0.0)


class StepDurations:
    """What steps took in former runs. A step that was done several times counts with the median."""

    def __init__(self, records: Iterable[StepRecord] = ()) -> None:
        times: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for record in records:
            times[record.model][record.step].append(record.seconds)
        self._models = {
            model: StepChains({step: median(seconds) for step, seconds in steps.items()})
            for model, steps in times.items()
        }

    def step_s(self, model: str, step: str) -> float | None:
        """Return what a step took for the model; else the longest that it took for any; None where nobody knows."""
        own = self._models[model].seconds.get(step) if model in self._models else None
        return own if own is not None else self._longest.get(step)

    def rest_s(self, model: str, step: str) -> float:
        """Return the seconds from the begin of a step to the end of its model, by the longest chain.
        Of an unknown model: what is typical of all."""
        return self._models.get(model, self._typical).rest(step)

    def model_s(self, model: str, targets: Collection[str] = ()) -> float | None:
        """Return the seconds of a model, from its begin to its end where nothing waits: of itself, else the median of
        its kind; None where none of its kind is known. `targets`: those that matter, as their slugs."""
        if model in self._models:
            return self._models[model].longest(targets)
        same_kind = self._by_kind.get(kind_of_model(model))
        return median(chains.longest(targets) for chains in same_kind) if same_kind else None

    @cached_property
    def _longest(self) -> dict[str, float]:
        longest: dict[str, float] = {}
        for chains in self._models.values():
            for step, seconds in chains.seconds.items():
                longest[step] = max(seconds, longest.get(step, 0.0))
        return longest

    @cached_property
    def _typical(self) -> StepChains:
        times: dict[str, list[float]] = defaultdict(list)
        for chains in self._models.values():
            for step, seconds in chains.seconds.items():
                times[step].append(seconds)
        return StepChains({step: median(seconds) for step, seconds in times.items()})

    @cached_property
    def _by_kind(self) -> dict[str, list[StepChains]]:
        kinds: dict[str, list[StepChains]] = defaultdict(list)
        for model, chains in self._models.items():
            kinds[kind_of_model(model)].append(chains)
        return kinds


def kind_of_model(model: str) -> str:
    """Return the kind of a MODEL argument: the library (`timm`), or the ending of its file (`.py`, `.onnx`)."""
    head = model.partition(":")[0]
    return Path(head).suffix.lower() or head.partition("/")[0]


def read_durations(store: Path) -> StepDurations:
    """Read the durations of the steps that a store's folder records; leave out records that cannot be read."""
    return StepDurations(_records(store / "actions"))


def known_durations(store: Path) -> StepDurations:
    """Return what the steps in a store's folder took when this process first asked."""
    with _reading:
        if store not in _durations:
            _durations[store] = read_durations(store)
        return _durations[store]


_durations: dict[Path, StepDurations] = {}
_reading = threading.Lock()


def _records(actions: Path) -> Iterator[StepRecord]:
    for path in _newest(actions):
        with suppress(OSError, ValueError):
            record = read_record(Path(path))
            if record.get("step"):
                yield StepRecord(record.get("model", ""), record["step"], float(record["seconds"]))


def _newest(folder: Path) -> list[str]:
    times: dict[str, float] = {}
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                times[entry.path] = entry.stat().st_mtime
    return sorted(times, key=times.__getitem__, reverse=True)[:_MOST_RECORDS]


def _parts(step: str) -> tuple[str, str, str]:
    """Return stage, target and route of a step's name."""
    stage, _, rest = step.partition(".")
    target, _, route = rest.partition(".")
    return stage, target, route

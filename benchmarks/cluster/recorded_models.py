"""Models as the record of the zoo has them: conversions with their seconds, and what is expected of them."""

from __future__ import annotations

import json
import random
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from transload.pipeline.commands.model_list.model_order import ModelDurations, longest_first

Zoo = Mapping[str, Mapping[str, float]]  # seconds by model and step


@dataclass(frozen=True)
class SimulatedStep:
    """A conversion of a model."""

    needs: int | None  # the number of the step that it is made from, in its model
    seconds: float  # that it takes on a node that is not slow
    bytes: float  # that it reads and writes


def recorded_steps(path: Path) -> dict[str, dict[str, float]]:
    """Return the seconds of each zoo model's conversions by their names; a row's seconds are those of its route."""
    rows: dict[str, dict[tuple[str, ...], tuple[str, float]]] = defaultdict(dict)
    for row in json.loads(path.read_text())["rows"]:
        if row["seconds"]:
            rows[row["model"]][tuple(row["route"])] = row["column"].rpartition("onnx2tf:")[2], float(row["seconds"])
    return {model: _steps_of(routes) for model, routes in rows.items()}


def _steps_of(routes: Mapping[tuple[str, ...], tuple[str, float]]) -> dict[str, float]:
    start: tuple[str, ...] = next((route for route, (column, _) in routes.items() if column == "onnx"), ())
    steps = {}
    for route, (column, route_s) in routes.items():
        parts = [other for other in routes if other != route and route[: len(other)] == other]
        seconds = route_s - routes[max(parts, key=len)][1] if parts else route_s
        if seconds <= 0:  # its parts were recorded in different runs
            seconds = route_s / 20
        names = (*start, *route) if route[0] == "onnx2tf" else route  # that one begins with the ONNX file
        steps[f"convert.{column.replace(':', '-')}.{'+'.join(names)}"] = seconds
    return steps


class ModelDraw:
    """Draws models from the recorded ones. What is expected of them comes from `former`, as in the product."""

    def __init__(self, recorded: Zoo, former: Zoo, weight_bytes: Mapping[str, int]) -> None:
        self._recorded = recorded
        self._known = ModelDurations((model, step, s) for model in former for step, s in former[model].items())
        self._bytes = weight_bytes
        self._mean_bytes = statistics.mean(weight_bytes.values())

    def draw(
        self, count: int, seed: int, *, long_share: float = 0.0, long_factor: float = 1.0,
        step_bytes: float | None = None, is_ordered: bool = True,
    ) -> list[list[SimulatedStep]]:  # fmt: skip
        """Return models in the order in which the product begins them, or as drawn. `long_share`: of the steps that
        take `long_factor` times as long as the record says, wherever they are done; `step_bytes`: that each reads and
        writes (None: twice the weights of its model)."""
        rng = random.Random(seed)  # noqa: S311  (not a secret)
        names = rng.choices(list(self._recorded), k=count)
        if is_ordered:
            names = longest_first(names, cache(self._known.model_s))
        return [
            [
                replace(step, seconds=step.seconds * (long_factor if rng.random() < long_share else 1.0))
                for step in self._steps(name, step_bytes)
            ]
            for name in names
        ]

    @cache  # noqa: B019  (lives as long as the program)
    def _steps(self, model: str, step_bytes: float | None) -> tuple[SimulatedStep, ...]:
        names = sorted(self._recorded[model], key=lambda step: step.count("+"))
        routes = [name.split(".", 2)[2] for name in names]
        moved = 2.0 * self._bytes.get(model, self._mean_bytes) if step_bytes is None else step_bytes
        steps = []
        for at, name in enumerate(names):
            before = [other for other in range(at) if routes[at].startswith(f"{routes[other]}+")]
            needs = max(before, key=lambda other: len(routes[other]), default=None)
            steps.append(SimulatedStep(needs, self._recorded[model][name], moved))
        return tuple(steps)


def chain_s(steps: Sequence[SimulatedStep]) -> float:
    """Return the seconds of the longest chain of steps of a model, on nodes that are not slow."""
    ends: list[float] = []
    for step in steps:
        ends.append(step.seconds + (0.0 if step.needs is None else ends[step.needs]))
    return max(ends)

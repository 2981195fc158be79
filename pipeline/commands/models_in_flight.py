"""How many models of a list are carried at once, on which clusters, and in which order they are begun."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from ...models.artifact import RECORD
from ...models.remote.remote_store import open_store
from ...models.store import size_of
from ..options.request import RunRequest
from ..plan.context import LocalSettings
from .model_list.model_order import longest_first, read_durations
from .workspace import executor_choice, model_label

T = TypeVar("T")


def models_at_once(requests: Iterable[RunRequest], local: LocalSettings, *, measures: bool = False) -> int:
    """Return how many models a command carries side by side: as many as their steps have room for, here or on the
    cluster. `measures`: the command measures latencies, which here nothing may run beside; on a cluster a measurement
    has a node of its own."""
    requests = list(requests)
    if measures and any(request.bench.enabled and not executor_choice(request, local).is_ray for request in requests):
        return 1
    choices = [executor_choice(request, local) for request in requests]
    addresses = {choice.address for choice in choices if choice.is_ray}
    if not addresses:
        return local.jobs
    from ..extras.cluster.ray_cluster import connect

    return max(local.jobs, *(connect(address).cores for address in addresses))


def order_by_duration(
    models: Sequence[T], request_of: Callable[[T], tuple[RunRequest, str]], local: LocalSettings, at_once: int
) -> list[T]:
    """Return models in the order in which they are begun: the longest first, by what the store knows of former runs.
    `request_of` returns the request of a model, and its name where the request does not say it. Where all go side by
    side, the order is that of the user."""
    if len(models) <= at_once:
        return list(models)
    durations = read_durations(open_store(local.store).root)

    def expected_s(model: T) -> float | None:
        request, name = request_of(model)
        return durations.model_s(model_label(request, name), {target.slug for target in request.targets})

    def weight_bytes(model: T) -> int:
        request, name = request_of(model)
        return _bytes_of(request.root, request.model.weights or model_label(request, name))

    return longest_first(models, expected_s, weight_bytes)


def _bytes_of(root: str | None, text: str) -> int:
    """Return the bytes of the file or the artifact that a text names; 0 of anything else."""
    path = Path(root or "", text)
    return size_of(path) if path.is_file() or (path / RECORD).is_file() else 0

"""The executor of a Ray cluster: actions are done on its nodes, by the code that does them here."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from ....models.errors import BadRequest
from ....models.store import Store, Stored
from ...workers.cluster_records import DriverRun, NodeFacts
from ...workers.engine import Action, LocalExecutor, no_services, run_stopped
from ...workers.isolation import Limits
from ...workers.worker_slots import LEAST_FREE_BYTES, WorkerSlots
from .ray_cluster import RayCluster
from .step_order import StepDemand, StepOrder, StepReply

_numbers = count(1)


def is_bound_here(action: Action) -> bool:
    """Return whether an action has to be done where the command runs: it talks to a server that this process started,
    or that its network and its tokens reach."""
    return action.services is not no_services or action.volatile or action.limits.loopback or bool(action.limits.host)


class RayExecutor(LocalExecutor):
    """Steps on the nodes of a cluster. What is bound to this machine is done here; all is looked up here first."""

    def __init__(
        self, store: Store, run_folder: Path, slots: WorkerSlots, cluster: RayCluster, *, model: str = "",
        gpu_kind: str | None = None, threads: int | None = None,
    ) -> None:  # fmt: skip
        """`slots`: for the steps that are done here; `threads`: see LocalExecutor, for all steps."""
        super().__init__(store, run_folder, slots, threads=threads)
        self._cluster = cluster
        self._gpu_kind = gpu_kind
        number = f"{next(_numbers)}-{secrets.token_hex(6)}"
        self._run = DriverRun(cluster.driver, number, store.place, store.identity, str(run_folder), model)
        self._ahead: dict[str, Limits] = {}

    @property
    def driver_run(self) -> DriverRun:
        """The run as the nodes see it."""
        return self._run

    def call_alone(self, work: Callable[[NodeFacts], Any], device: str) -> Any:
        """Call `work` on a node that does nothing else meanwhile: it has all of its cores, and a GPU for `device`."""
        gpus = gpus_of(device)
        return self._cluster.measure(work, gpus=gpus, gpu_kind=self._gpu_kind if gpus else None)

    def expect(self, frameworks: Iterable[str], limits: Limits) -> None:
        """Say which frameworks the coming actions import: each node that gets one of them loads them once."""
        self._ahead = dict.fromkeys(frameworks, limits)

    def stop(self) -> None:
        """End every worker here and on the nodes, now."""
        super().stop()
        self._cluster.stop(self._run.number)

    def _room_for(self, action: Action) -> AbstractContextManager[None]:
        """Wait for room here; on the nodes Ray finds it."""
        return super()._room_for(action) if is_bound_here(action) else nullcontext()

    def _checkpoints_held(self, action: Action, key: str) -> AbstractContextManager[None]:
        """Hold an action's checkpoints where it is done: a lock of this process would keep the node out."""
        return super()._checkpoints_held(action, key) if is_bound_here(action) else nullcontext()

    def _do(self, key: str, action: Action) -> Stored:
        if is_bound_here(action):
            return super()._do(key, action)
        if self._stopped:
            raise run_stopped()
        order = StepOrder(self._run, action, key, self._ahead)
        reply = self._cluster.perform(order, _demand_of(action, self._gpu_kind))
        return self._take(reply, key, action)

    def _take(self, reply: StepReply, key: str, action: Action) -> Stored:
        """Return the result that a node has kept in the store, with its log here. Raises the error that it met."""
        if reply.log is not None:
            self.log(action.name).write_bytes(reply.log)
        if reply.error is not None:
            raise reply.error
        stored = self.store.find_new(key)
        if stored is None:
            fix = "let --store name a folder or a URL that all nodes share, and give all the same key (docs/scale.md)"
            raise BadRequest(f"{action.name} was done on a node, and {self.store.place} does not show it", fix=fix)
        return replace(stored, cached=reply.stored is not None and reply.stored.cached)


def _demand_of(action: Action, gpu_kind: str | None) -> StepDemand:
    """Return what a step asks for: its threads, its GPUs, and the memory that a start needs free.
    What it will use nobody knows beforehand; its limit ends it (worker_slots.py)."""
    gpus = gpus_of(action.limits.device)
    return StepDemand(action.limits.threads, LEAST_FREE_BYTES, gpus, gpu_kind if gpus else None)


def gpus_of(device: str) -> int:
    """Return how many GPUs a device needs: `cuda:1` is the second of two."""
    return int(device.partition(":")[2] or 0) + 1 if device.startswith("cuda") else 0

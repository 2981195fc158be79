"""A node's side: one process per node and driver, which does steps as the local executor does.

It holds a LocalExecutor for each run of the driver, and the frameworks that all of them fork their workers from. So a
step on a node has the same walls, limits, log and errors as one at home, by the same code.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from ....models.errors import TransloadError
from ....models.remote.remote_store import open_store, store_url
from ....models.scratch_folders import remove_abandoned, scratch_folder
from ....models.store import IDENTITY
from ...workers.engine import Action, LocalExecutor, run_stopped
from ...workers.loaded_frameworks import LoadedFrameworks
from ...workers.toolchain import ABSENT
from ...workers.worker_slots import WorkerSlots
from .step_order import Lack, StepOrder, StepReply, Unfit, text_for

NAMESPACE = "transload"
_PREFIX = "transload-node-"
_MOST_LOG_BYTES = 4 << 20  # of a log that is sent back; its end says why a step failed
_MANY = 1 << 16  # Ray counts what may run at once; the slots only hold a start back while memory is short


def actor_name(driver: str, node: str) -> str:
    """Return the name of the node worker of a driver on a node, by Ray's id."""
    return f"node-worker-{driver}-{node}"


class NodeWorker:
    """Does the steps of one driver on one node. Thread-safe."""

    def __init__(self, node: str) -> None:
        self._node = node
        parent = Path(tempfile.gettempdir())
        remove_abandoned(parent.glob(f"{_PREFIX}*"))
        self._kept = scratch_folder(parent, _PREFIX)
        self._folder = self._kept.__enter__()
        self._frameworks = LoadedFrameworks(self._folder)
        self._slots = WorkerSlots(_MANY)
        self._executors: dict[str, LocalExecutor] = {}
        self._stopped: set[str] = set()  # numbers of runs, whose orders may still come
        self._lock = threading.Lock()

    def node(self) -> str:
        """Return Ray's id of the node: the worker is there."""
        return self._node

    def perform(self, order: StepOrder, gpus: Sequence[str] = ()) -> StepReply:
        """Do a step, or say why this node cannot. `gpus`: those that Ray lends to it, as their driver numbers them."""
        if reason := why_unfit(order):
            return StepReply(self._node, unfit=reason)
        action = order.action
        if gpus:
            action = replace(action, limits=replace(action.limits, visible_gpus=",".join(map(str, gpus))))
        executor = self._executor(order)
        if executor is None:
            return StepReply(self._node, error=run_stopped())
        log = executor.log(action.name)
        try:
            store = executor.store
            inputs = {name: replace(value, folder=store.object(value.digest)) for name, value in action.inputs.items()}
            stored, error = executor.perform(replace(action, inputs=inputs)), None
        except TransloadError as met:
            stored, error = None, text_for(met, log.parents[1], order.run.folder)
        return StepReply(self._node, stored, error, _end_of(log))

    def stop(self, number: str) -> None:
        """End the steps of one run, now."""
        with self._lock:
            self._stopped.add(number)
            executor = self._executors.pop(number, None)
        if executor is not None:
            executor.stop()

    def release(self) -> None:
        """End the frameworks that are kept loaded: what is measured has the node's memory to itself."""
        self._frameworks.close()

    def close(self) -> None:
        """End everything, and remove the node's scratch folder."""
        for number in list(self._executors):
            self.stop(number)
        self.release()
        self._kept.__exit__(None, None, None)

    def _executor(self, order: StepOrder) -> LocalExecutor | None:
        """Return the executor of a run; None where the run was stopped."""
        run = order.run
        with self._lock:
            if run.number in self._stopped:
                return None
            for name, limits in order.expected.items():
                self._frameworks.expect([name], limits)
            if run.number not in self._executors:
                folder = self._folder / f"run-{run.number}"
                self._executors[run.number] = LocalExecutor(
                    open_store(Path(run.store), None, run.model), folder, self._slots, frameworks=self._frameworks
                )
            return self._executors[run.number]


@cache
def _identity_of(place: str) -> str:
    """Return the name that the store of this place has given itself. Raises OSError, TransloadError."""
    if store_url(Path(place)) is None:
        return (Path(place) / IDENTITY).read_text()
    return open_store(Path(place)).identity


def why_unfit(order: StepOrder) -> Unfit | None:
    """Return why a node cannot do a step that another one may be able to, or None."""
    action, run = order.action, order.run
    try:
        identity = _identity_of(run.store)
    except OSError:
        identity = ""
    except TransloadError as error:
        return Unfit(Lack.STORE, error.what, error.fix)
    if identity != run.identity:
        return Unfit(Lack.STORE, f"it does not share the store {run.store}")
    if action.python and not os.access(action.python, os.X_OK):
        return Unfit(Lack.INTERPRETER, f"it has no interpreter {action.python}")
    places = (*action.sys_path, *action.reads)
    if lost := next((path for path in places if not Path(path).exists()), None):
        return Unfit(Lack.FILE, f"it has no {lost}")
    return _difference(order.action, order.key)


def _difference(action: Action, key: str) -> Unfit | None:
    """Return what differs between the driver and this node, where they make different keys of one action."""
    try:
        if action.key == key:
            return None
    except TransloadError as error:  # it has no such module
        return Unfit(Lack.VERSION if action.entry.startswith("transload.") else Lack.LIBRARY, error.what)
    if absent := [name for name, version in action.toolchain.items() if version == ABSENT]:
        return Unfit(Lack.LIBRARY, f"it has no {', no '.join(absent)}")
    versions = ", ".join(f"{name} {version}" for name, version in action.toolchain.items())
    return Unfit(Lack.VERSION, f"its transload or its libraries are not those of the driver (there: {versions})")


def _end_of(log: Path) -> bytes | None:
    if not log.exists():
        return None
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _MOST_LOG_BYTES))
        return file.read()

"""What `run` measures, here or on a node of a cluster that does nothing else meanwhile."""

from __future__ import annotations

import io
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...models.atomic_files import write_whole
from ...models.remote.remote_store import open_store
from ...models.store import Store, Stored
from ..options.request import RunRequest
from ..plan.context import Context
from ..progress.progress import Progress
from ..result.compare.side_by_side import SideBySide
from ..result.environment import describe_environment
from ..result.schema import Environment
from ..workers.cluster_records import DriverRun, NodeFacts
from ..workers.engine import LocalExecutor
from ..workers.worker_slots import WorkerSlots
from .bench_stage import Measurements
from .load_stage import LoadResults

_KEPT = ("logs/*", "repeat/*", "artifacts/*/tuning.json")  # of the node's folder, which come back


@dataclass(frozen=True)
class RunMeasurements:
    """The latencies, loads and comparison of a run, and the machine that they were measured on."""

    measured: Measurements = field(default_factory=Measurements)
    loads: LoadResults = field(default_factory=LoadResults)
    beside: tuple[SideBySide | None, Measurements] = (None, Measurements())
    environment: Environment = field(default_factory=describe_environment)


@dataclass(frozen=True)
class NodeMeasuring:
    """All that a node needs to measure a run. Called there, once, in a process of its own."""

    run: DriverRun
    request: RunRequest
    device: str
    jobs: int
    measure: Callable[..., RunMeasurements]  # a function of a module, called with the context and `subject`
    subject: bytes  # its arguments, pickled: artifacts are named by their digests, and found in the node's store

    def __call__(self, node: NodeFacts) -> tuple[RunMeasurements, dict[str, bytes]]:
        """Measure here; return the results and the files of the run's folder, by their relative paths."""
        store = open_store(Path(self.run.store), None, self.run.model)
        with tempfile.TemporaryDirectory(prefix="transload-bench-") as scratch:
            folder = Path(scratch)
            executor = LocalExecutor(store, folder, WorkerSlots(self.jobs))
            context = Context(self.request, executor, folder, Progress(quiet=True), self.device, self.jobs)
            try:
                result = self.measure(context, *_unpacked(self.subject, store))
            finally:
                executor.close()
                store.close()
            files = [file for pattern in _KEPT for file in folder.glob(pattern) if file.is_file()]
            contents = {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}
        return replace(result, environment=replace(result.environment, node=node.label)), contents


def measure_alone(context: Context, measure: Callable[..., RunMeasurements], *subject: Any) -> RunMeasurements:
    """Call `measure` with the context and the subject: here, or on a node that is all ours where steps go to nodes."""
    executor = context.executor
    if executor.driver_run is None:
        return measure(context, *subject)
    order = NodeMeasuring(
        executor.driver_run, context.request, context.device, context.jobs, measure, _packed(subject)
    )  # fmt: skip
    result: RunMeasurements
    result, files = executor.call_alone(order, context.device)
    for name, content in files.items():
        path = context.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    return result


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj: Any) -> tuple[Any, ...] | None:
        """Name a stored result by its fields, the folder left out."""
        if type(obj) is not Stored:
            return None
        return obj.key, obj.digest, dict(obj.facts), obj.seconds, obj.cached


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, store: Store) -> None:
        super().__init__(file)
        self._store = store

    def persistent_load(self, pid: Any) -> Stored:
        """Find a stored result in this node's store."""
        key, digest, facts, seconds, cached = pid
        return Stored(key, digest, self._store.object(digest), facts, self._store.log(key), seconds, cached)


def _packed(value: object) -> bytes:
    file = io.BytesIO()
    _Pickler(file).dump(value)
    return file.getvalue()


def _unpacked(content: bytes, store: Store) -> Any:
    return _Unpickler(io.BytesIO(content), store).load()

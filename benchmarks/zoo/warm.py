"""An executor whose workers do many jobs, one kind of job each: importing TensorFlow for each of a thousand steps would
take longer than the steps. A step that makes a copy and the check that opens it never share a process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transload.models.code_digest import entry_digest
from transload.models.errors import DiskFull, Refused, StepFailed
from transload.models.store import Store
from transload.pipeline.workers.engine import Action, LocalExecutor
from transload.pipeline.workers.isolation import Spawn, Worker

_MOST_JOBS = 40
_MOST_BYTES = 4 << 30
_ALONE = ("onnx2tf",)  # writes into its cwd, and keeps what it was told in globals


@dataclass
class _Warm:
    worker: Worker
    log: Path
    codes: dict[str, str]  # of each entry that it has been asked for, when it was first asked
    jobs: int = 0

    @property
    def is_spent(self) -> bool:
        return self.jobs >= _MOST_JOBS or self.worker.peak_rss_bytes > _MOST_BYTES


class WarmExecutor(LocalExecutor):
    """Not thread-safe: one for each thread, over one store."""

    def __init__(self, store: Store, folder: Path, private: tuple[str, ...]) -> None:
        super().__init__(store, folder)
        self._folder = folder
        self._private = private  # folders whose files are no input of a step: their versions are pinned
        self._warm: dict[str, _Warm] = {}

    def close(self) -> None:
        """End all workers."""
        for kind in list(self._warm):
            self._end(kind)

    def _work(
        self, action: Action, job: Mapping[str, Any], cwd: Path, log: Path
    ) -> tuple[dict[str, Any], tuple[Path, ...]]:
        if any(word in action.entry for word in _ALONE):
            return super()._work(replace(action, root=str(Path(__file__).parent)), job, cwd, log)  # by_onnx2tf.py
        kind = _kind(action)
        warm = self._worker(kind, action)
        start = warm.log.stat().st_size
        warm.jobs += 1
        spent = False
        try:
            facts = warm.worker.work(action.entry, job)
            spent = warm.is_spent
            return facts, warm.worker.read
        except (StepFailed, DiskFull) as error:
            spent = isinstance(error, DiskFull) or not error.decided
            raise
        except Refused:
            spent = warm.is_spent
            raise
        finally:
            with warm.log.open("rb") as printed:
                printed.seek(start)
                log.write_bytes(printed.read())
            if spent:
                self._end(kind)

    def _worker(self, kind: str, action: Action) -> _Warm:
        """The worker for this kind of job; a new one where the code of the step is not what it was."""
        code = entry_digest(action.entry)
        held = self._warm.get(kind)
        if held and held.codes.setdefault(action.entry, code) != code:
            self._end(kind)
            held = None
        if held is None:
            log = self._folder / f"{kind}.log"
            log.touch()
            root = (action.root,) if action.root else ()
            limits = replace(action.limits, walled=False)  # it serves actions of many folders
            spawn = Spawn(log, self._folder / "cwd" / kind, limits, root, not_recorded=self._private)
            held = self._warm[kind] = _Warm(Worker(spawn), log, {action.entry: code})
        return held

    def _end(self, kind: str) -> None:
        self._warm.pop(kind).worker.close()


def _kind(action: Action) -> str:
    """Jobs of one kind share a process: those of one framework that only read, or only write."""
    if action.entry.endswith(":verify"):
        return f"verify-{action.requires[-1]}"
    if "torch" in action.requires:
        return "torch"
    if "tensorflow" in action.requires:
        return "convert"
    return "-".join(("plain", *action.requires))

"""Actions, and the executor that does each once: found in the store, or done in a worker and kept."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ...models.code_digest import entry_digest
from ...models.errors import ERRORS, DiskFull, Refused, StepFailed, TransloadError
from ...models.store import Store, Stored, digest_of_json, disk_errors, disk_full, state_of
from ..progress.timeline import Timeline
from .fork_server import NUMPY, ForkServer
from .isolation import Limits, Spawn, Worker, repeat_command
from .loaded_frameworks import LoadedFrameworks
from .toolchain import toolchain
from .worker_slots import WorkerSlots

if TYPE_CHECKING:
    from .cluster_records import DriverRun, NodeFacts

Services = Callable[[], AbstractContextManager[Mapping[str, str]]]
SCRATCH = ".scratch"  # in the folder that a command works in, which may hold a `tmp` of the user
LOGS = "logs"  # of the steps, in the folder of a run
_LOOK_AGAIN_S = 0.1  # whether another command has finished the same action
_MOST_NAME_BYTES = 120  # of a step, whose files have endings
_MOST_THREADS = 32  # where nobody says how many workers there may be


def no_services() -> AbstractContextManager[Mapping[str, str]]:
    """Open nothing: the services of an action that talks to no server."""
    return nullcontext({})


def step_name(text: str) -> str:
    """Return a step's name that is also a file's and is safe in a shell: what a model's file is called stands in it."""
    plain = re.sub(r"[^\w.@:+-]+", "-", text)
    if len(encoded := plain.encode(errors="replace")) <= _MOST_NAME_BYTES:
        return plain
    return f"{encoded[:_MOST_NAME_BYTES].decode(errors='ignore')}-{hashlib.sha256(encoded).hexdigest()[:8]}"


@dataclass(frozen=True)
class Action:
    """A step with everything that its result depends on. Equal actions have equal keys."""

    name: str  # for people and file names: "convert.saved-model.lowering"
    entry: str
    inputs: Mapping[str, Stored] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    code: str = ""  # the digest of a user's code that the entry will call
    root: str | None = None  # the user's folder: last on sys.path
    reads: tuple[str, ...] = ()  # files and folders of the user that it reads beside `inputs`
    limits: Limits = field(default_factory=Limits)
    services: Services = no_services  # opened only if the action really runs
    server: Mapping[str, object] | None = None  # how to start what `services` gives, for the script that repeats it
    checkpoints: bool = False
    remembers_refusal: bool = False
    python: str = ""  # the interpreter, where it is not ours
    framework: str = NUMPY  # that the entry imports, and its worker is forked with; "": a process of its own
    tools: Mapping[str, str] = field(default_factory=dict)  # versions that only that interpreter knows
    volatile: bool = False  # depends on something that nobody can name, such as a server elsewhere: never found again

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", step_name(self.name))

    @property
    def sys_path(self) -> tuple[str, ...]:
        """The worker's path beside what is installed: the user's own folder."""
        return (self.root,) if self.root else ()

    @property
    def readable(self) -> tuple[str, ...]:
        """What its worker may read beside `sys_path`: `reads`, and the folders of its inputs."""
        return (*self.reads, *(str(stored.folder) for stored in self.inputs.values()))

    @property
    def toolchain(self) -> dict[str, str]:
        """The versions of what the step works with."""
        return {**toolchain(self.requires), **self.tools}

    @property
    def key(self) -> str:
        """The sha256 over the code of the step, its toolchain, options and inputs."""
        return digest_of_json(
            {
                "entry": self.entry,
                "code": [entry_digest(self.entry), self.code],
                "toolchain": self.toolchain,
                "options": self.options,
                "inputs": {name: stored.digest for name, stored in self.inputs.items()},
                "device": self.limits.device,
            }
        )


class Executor(Protocol):
    """Where actions are done. Steps talk through the store only, so another machine will do (docs/design/engine.md)."""

    def submit(self, action: Action) -> Future[Stored]:
        """Begin an action beside others, at once or when there is room. Equal actions under way are one."""

    def perform(self, action: Action) -> Stored:
        """Return the action's result. Raises TransloadError."""

    def expect(self, frameworks: Iterable[str], limits: Limits) -> None:
        """Say which frameworks the coming actions import ("torch", "tensorflow"), and what they may use."""

    def stop(self) -> None:
        """End every action, now."""

    def close(self) -> None:
        """Wait for the actions under way, and let go of what was loaded for them."""


@contextmanager
def stopped_on_error(executor: Executor) -> Iterator[None]:
    """Stop an executor where the block raises: Ctrl-C ends every worker at once."""
    try:
        yield
    except BaseException:
        executor.stop()
        raise


class LocalExecutor:
    """Workers on this machine. Thread-safe; equal actions at the same time are done once."""

    def __init__(
        self,
        store: Store,
        run_folder: Path,
        slots: WorkerSlots | None = None,
        frameworks: LoadedFrameworks | None = None,
        threads: int | None = None,
    ) -> None:
        """`frameworks` are shared by several executors, which then leave them open; without, it has its own.
        `threads`: actions that `submit` has under way at once; None: as many as there are slots."""
        self.store = store
        self.timeline = Timeline()  # of the actions that were really done
        self._slots = slots or WorkerSlots(sys.maxsize)  # without slots nothing limits the workers
        self._logs = run_folder / LOGS
        self._repeat = run_folder / "repeat"
        self._most_threads = threads or min(self._slots.count, _MOST_THREADS)
        self._threads = self._new_threads()
        self._submitted: dict[tuple[str, str], Future[Stored]] = {}
        self._running: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        self._workers: set[Worker] = set()
        self._stopped = False
        self._scratch = run_folder / SCRATCH
        self._frameworks = frameworks or LoadedFrameworks(self._scratch)
        self._shares_frameworks = frameworks is not None
        for folder in (self._logs, self._repeat):
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def driver_run(self) -> DriverRun | None:
        """The run as the nodes of a cluster see it, where steps go there; None here."""
        return None

    def call_alone(self, work: Callable[[NodeFacts], Any], device: str) -> Any:
        """Call `work` on a node that does nothing else meanwhile."""
        raise NotImplementedError("steps are done here")

    def log(self, name: str) -> Path:
        """Return the log of the action `name` in the run's folder."""
        return self._logs / f"{step_name(name)}.log"

    def submit(self, action: Action) -> Future[Stored]:
        """Perform an action in a thread: as many at a time as there are slots, in the order submitted."""
        key = action.key
        with self._lock:
            future = self._submitted.get((action.name, key))
            if self._stopped:
                future = Future()
                future.set_exception(run_stopped())
            elif future is None or future.done():
                future = self._threads.submit(self._perform, action, key)
                self._submitted[action.name, key] = future
            return future

    def perform(self, action: Action) -> Stored:
        """Find the action's result, or do it. Raises the error that it met, also one that it is remembered to meet."""
        return self._perform(action, action.key)

    def _new_threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._most_threads)

    def _perform(self, action: Action, key: str) -> Stored:
        with self._lock:
            lock = self._running.setdefault(key, threading.Lock())
        with lock:
            self._write_repeat(action)
            if not action.volatile and (stored := self.store.find(key)):
                self._show_log(stored.log, action.name)
                return stored
            if action.remembers_refusal and (refusal := self.store.refusal(key)):
                self._show_log(self.store.log(key), action.name)
                fix = refusal["fix"] or f"read {self.log(action.name)}, or repeat it alone: {self._repeat_call(action)}"
                raise ERRORS[refusal["kind"]](refusal["what"], fix=fix)
            with self._checkpoints_held(action, key):
                if action.checkpoints and (stored := self.store.find(key)):  # another command finished it meanwhile
                    self._show_log(stored.log, action.name)
                    return stored
                with self._room_for(action), self.timeline.span(action.name):
                    return self._do(key, action)

    def _checkpoints_held(self, action: Action, key: str) -> AbstractContextManager[None]:
        """Wait until no other command does an action that goes on from its checkpoints."""
        return self.store.checkpoints_held(key, self._wait_for_others) if action.checkpoints else nullcontext()

    def _wait_for_others(self) -> None:
        if self._stopped:
            raise run_stopped()
        time.sleep(_LOOK_AGAIN_S)

    def _room_for(self, action: Action) -> AbstractContextManager[None]:  # noqa: ARG002  (RayExecutor asks it)
        """Wait for what the action needs to start."""
        return self._slots.occupied()

    def open_worker(
        self,
        name: str,
        limits: Limits,
        cwd: Path,
        reads: tuple[str, ...] = (),
        root: str | None = None,
        *,
        python: str = "",
    ) -> Worker:
        """Open a worker that will hold an object: a session that is timed, or a server. The caller closes it.
        `reads` are the folders that it reads; `python` is its interpreter, where that is not ours."""
        worker = Worker(Spawn(self.log(name), cwd, limits, (root,) if root else (), reads, python=python))
        with self._lock:
            self._workers.add(worker)
            is_late = self._stopped
        if is_late:
            worker.kill("was stopped")
        return worker

    def expect(self, frameworks: Iterable[str], limits: Limits) -> None:
        """Say which frameworks the coming actions import ("torch", "tensorflow").
        As soon as one action is really done, each is loaded in a process of its own, side by side. Workers with these
        limits are forked from there."""
        self._frameworks.expect(frameworks, limits)

    def stop(self) -> None:
        """End every worker, now."""
        with self._lock:
            self._stopped = True
            workers = list(self._workers)
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.kill("was stopped")
        self._close_frameworks()

    def close(self) -> None:
        """Wait for the actions under way, and let go of the frameworks that were loaded ahead."""
        with self._lock:
            threads, self._threads = self._threads, self._new_threads()
        threads.shutdown()
        self._close_frameworks()

    def _close_frameworks(self) -> None:
        if not self._shares_frameworks:
            self._frameworks.close()

    def _fork_server(self, action: Action) -> ForkServer | None:
        """Return the fork server that has the action's framework loaded; None where nobody expected that framework."""
        return self._frameworks.fork_server(action.framework, action.limits)

    def _do(self, key: str, action: Action) -> Stored:
        log = self.log(action.name)
        log.unlink(missing_ok=True)
        started = time.monotonic()
        with self.store.workspace() as work, action.services() as services:
            out = work / "out"
            out.mkdir()
            job = _job_record(action, out, services)
            job["answer_s"] = action.limits.answer_s
            job["checkpoints"] = str(self.store.checkpoints(key)) if action.checkpoints else None
            before = _state_of(action)
            try:
                facts, read = self._work(action, job, work / "cwd", log)
                self._check_inputs(action, before)
            except DiskFull:
                raise disk_full(self.store.root) from None  # where the worker stood says nothing to a person
            except TransloadError as error:
                self._show_failure(key, action, error, log)
                raise
            with disk_errors(self.store.root):
                shutil.copyfile(log, self.store.log(key))
            seconds = time.monotonic() - started
            return self.store.commit(key, out, facts, seconds, read=read, step=action.name)

    def _check_inputs(self, action: Action, before: Mapping[Path, tuple[int, int]]) -> None:
        """Raise StepFailed where the tool wrote into its input, which spoils it for everybody else.
        Seen with onnx2tf, which simplifies in place. The object is removed, to be made again."""
        after = _state_of(action)
        for path, state in before.items():
            if after.get(path) != state:
                spoilt = next(stored for stored in action.inputs.values() if path.is_relative_to(stored.folder))
                shutil.rmtree(spoilt.folder, ignore_errors=True)
                raise StepFailed(f"{action.entry} wrote into its input {path.name}", fix="run again; report this step")

    def _work(
        self, action: Action, job: Mapping[str, object], cwd: Path, log: Path
    ) -> tuple[dict[str, Any], tuple[Path, ...]]:
        """Do a job in a worker; return its facts, and the files of the user that it read."""
        private = (str(self.store.root), str(self._logs.parent.absolute()))
        again, loaded = self._repeat_call(action), self._fork_server(action)
        writes = tuple(str(job[place]) for place in ("out", "checkpoints") if job[place])
        spawn = Spawn(
            log, cwd, action.limits, action.sys_path, action.readable, writes, private, again, action.python, loaded
        )  # fmt: skip
        with Worker(spawn) as worker:
            with self._lock:
                if self._stopped:
                    raise run_stopped()
                self._workers.add(worker)
            try:
                facts = worker.work(action.entry, job)
                return {**facts, "peak_rss_bytes": worker.peak_rss_bytes}, worker.read
            finally:
                with self._lock:
                    self._workers.discard(worker)

    def _repeat_call(self, action: Action) -> str:
        return shlex.join(["sh", f"{self._repeat / action.name}.sh"])

    def _show_failure(self, key: str, action: Action, error: TransloadError, log: Path) -> None:
        decided = isinstance(error, Refused) or (isinstance(error, StepFailed) and error.decided)
        if action.remembers_refusal and decided:
            kind, fix = (type(error).__name__, error.fix) if isinstance(error, Refused) else ("StepFailed", "")
            self.store.remember_refusal(key, {"kind": kind, "what": error.what, "fix": fix})
            shutil.copyfile(log, self.store.log(key))

    def _show_log(self, kept: Path, name: str) -> None:
        if kept.is_file():
            shutil.copyfile(kept, self.log(name))

    def _write_repeat(self, action: Action) -> None:
        """Write a script that does the action alone, in the foreground."""
        record = {
            "entry": action.entry,
            "sys_path": list(action.sys_path),
            "reads": list(action.readable),
            "limits": asdict(action.limits),
            "server": action.server,
            "python": action.python,
            "job": _job_record(action, Path(), {}),
        }
        file = (self._repeat / f"{action.name}.json").absolute()
        file.write_text(json.dumps(record, indent=1))
        script = f"#!/bin/sh\n# Repeats this step alone.\nexec {repeat_command(file)}\n"
        file.with_suffix(".sh").write_text(script)


def run_stopped() -> StepFailed:
    """Return the error of an action whose run was stopped."""
    return StepFailed("the run was stopped", fix="run the same command again to go on from here")


def _state_of(action: Action) -> dict[Path, tuple[int, int]]:
    """Return size and time of every file that the action may read."""
    states = [state_of(stored.folder) for stored in action.inputs.values()]
    return {path: state for files in states for path, state in files.items()}


def _job_record(action: Action, out: Path, services: Mapping[str, str]) -> dict[str, Any]:
    return {
        "inputs": {name: str(stored.folder) for name, stored in action.inputs.items()},
        "out": str(out),
        "options": dict(action.options),
        "services": dict(services),
        "toolchain": action.toolchain,
    }

"""The folder that a command works in: its context, its scratch files, a full disk, and the JSON document it leaves."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from ... import __version__
from ...models.atomic_files import write_whole
from ...models.errors import BadRequest, DiskFull, Exit
from ...models.remote.remote_store import open_store
from ...models.remote.sealed_records import KEY_FILE_VARIABLE
from ...models.scratch_folders import locked_scratch, remove_abandoned
from ...models.store import Store, is_disk_full
from ..extras.store.store_limit import store_limit, tidy_store
from ..options.request import RunRequest
from ..plan.context import Context, LocalSettings
from ..progress.progress import Progress
from ..result.run_folder import new_run_folder
from ..result.schema import SCHEMA, Verdict
from ..workers.devices import resolve_device
from ..workers.engine import LOGS, SCRATCH, LocalExecutor
from ..workers.executor_choice import ExecutorChoice, parse_executor
from ..workers.loaded_frameworks import LoadedFrameworks
from ..workers.shared_workers import SharedWorkers
from ..workers.user_quota import quota_of_user
from ..workers.worker_slots import WorkerSlots

T = TypeVar("T")
REFUSED = "refused"  # in the store: the logs of the last command that was refused
_BEGINNINGS = {LOGS, "repeat", SCRATCH, "plan.json", "source"}  # in a folder in which no result lies yet


def new_context(
    request: RunRequest, folder: Path, local: LocalSettings, progress: Progress,
    workers: SharedWorkers | None = None, *, name: str = "",
) -> Context:  # fmt: skip
    """Return the context of a command that works in `folder`. Models that are carried at once share `workers`.
    `name` stands for a model that the request does not name."""
    refused_logs = None if workers else local.store / REFUSED  # each model of a list keeps its own
    device, workers = resolve_device(request.device), workers or SharedWorkers(new_slots(local, progress))
    limit_bytes = store_limit(request.store.limit)
    model = model_label(request, name or folder.name)
    store = open_store(local.store, folder, model, signs=local.signer is not None)
    store.tell = lambda sentence: progress.note(sentence, once=sentence)
    executor = new_executor(request, local, store, folder, workers, model=model)
    workers.slots.on_stop(executor.stop)
    progress.follow(executor.timeline, model, executor.log)
    return Context(
        request, executor, folder, progress, device, local.jobs, limit_bytes, local.runs, local.signer, refused_logs
    )


def model_label(request: RunRequest, name: str) -> str:
    """Return what the records of steps call the model; `name`: where the request does not name it."""
    return request.model.recipe if "recipe" in request.model.model_fields_set else name


def new_executor(
    request: RunRequest, local: LocalSettings, store: Store, folder: Path, workers: SharedWorkers, *, model: str = ""
) -> LocalExecutor:
    """Return the executor that the command line or the request names. `model`: its name in the records of steps."""
    choice = executor_choice(request, local)
    if not choice.is_ray:
        return LocalExecutor(store, folder, workers.slots, workers.frameworks)
    if local.signer and not store.sealing.is_shared:
        fix = f"set {KEY_FILE_VARIABLE} here and on every node; 'transload store init --key FILE' makes the key"
        raise BadRequest("what nodes of a cluster made is signed only where it is sealed with a key", fix=fix)
    from ..extras.cluster.ray_cluster import connect
    from ..extras.cluster.ray_executor import RayExecutor

    cluster = connect(choice.address)
    return RayExecutor(
        store, folder, workers.slots, cluster, model=model, gpu_kind=request.engine.gpu_kind, threads=local.jobs
    )


def new_slots(local: LocalSettings, progress: Progress) -> WorkerSlots:
    """Return the worker slots of a command, within the quota of the user. Raises BadRequest."""
    return WorkerSlots(local.jobs, quota=quota_of_user(os.environ, lambda text: progress.note(text, once="user quota")))


@contextmanager
def shared_workers(folder: Path, local: LocalSettings, progress: Progress) -> Iterator[SharedWorkers]:
    """Open what the models of a command share; it works in `folder`, which is there. Raises BadRequest."""
    scratch = folder / SCRATCH
    scratch.mkdir(exist_ok=True)
    with locked_scratch(scratch), closing(LoadedFrameworks(scratch)) as frameworks:
        yield SharedWorkers(new_slots(local, progress), frameworks)


def executor_choice(request: RunRequest, local: LocalSettings) -> ExecutorChoice:
    """Return where the steps of a request are done: the command line has precedence over the request."""
    return parse_executor(local.executor or request.engine.executor)


def new_run_context(
    request: RunRequest, name: str, local: LocalSettings, progress: Progress, now: datetime | None = None,
    *, workers: SharedWorkers | None = None,
) -> Context:  # fmt: skip
    """Return a context with a new folder runs/<id>, which is made once device and store are there."""
    resolve_device(request.device)
    store_limit(request.store.limit)
    open_store(local.store)
    remove_abandoned(local.runs.glob(f"*/{SCRATCH}"))
    folder = new_run_folder(local.runs, name, now or datetime.now(UTC))
    with remove_if_unused(folder, is_new=True):
        return new_context(request, folder, local, progress, workers, name=name)


def check_writable(folder: Path) -> None:
    """Create the folder that a command leaves its results in. Raises BadRequest where it cannot be written to."""
    fix = "name another folder with --out"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadRequest(f"{folder} cannot be made: {os.strerror(error.errno or 0)}", fix=fix) from error
    if not os.access(folder, os.W_OK):
        raise BadRequest(f"{folder} cannot be written to", fix=fix)


@contextmanager
def remove_if_unused(folder: Path, *, is_new: bool = False, kept_logs: Path | None = None) -> Iterator[None]:
    """Remove what a command began to write in `folder`, where an error ends it before any step has run, or, with
    `kept_logs`, refuses it (exit 2). Its logs go there then, since they may hold a traceback.
    What lay there before stays, and so does a folder that holds a result."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    before = {path.name for path in folder.iterdir()} if folder.is_dir() and not is_new else set()
    try:
        yield
    except BaseException as error:
        is_refused = isinstance(error, BadRequest) and not isinstance(error, DiskFull)
        begun = set() if not folder.is_dir() else {path.name for path in folder.iterdir()} - before
        is_idle = (missing or is_new) and not any((folder / LOGS).glob("*.log"))
        if begun <= _BEGINNINGS and (is_idle or (is_refused and kept_logs)):
            if kept_logs and LOGS in begun:
                shutil.rmtree(kept_logs, ignore_errors=True)
                with suppress(OSError):  # of another command that is refused, or a store that cannot be written to
                    shutil.copytree(folder / LOGS, kept_logs, dirs_exist_ok=True)
            for name in begun:
                path = folder / name
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
            for place in missing or ([folder] if is_new else []):
                with suppress(OSError):
                    place.rmdir()  # where nothing else lies in it by now
        raise


@contextmanager
def report_disk_full(folder: Path) -> Iterator[None]:
    """Map a full disk under the output folder to DiskFull; the store maps its own."""
    try:
        yield
    except OSError as error:
        if is_disk_full(error):
            fix = "free some space, or name another folder with --out"
            raise DiskFull(f"the disk under {folder} is full", fix=fix) from error
        raise


@contextmanager
def close_workers(context: Context) -> Iterator[None]:
    """Close the preloaded frameworks at the end, and remove what workers left in its scratch folder.
    A command that ends well keeps the store within its limit, or tells how large it is."""
    scratch, store = context.folder / SCRATCH, context.executor.store
    is_run = context.folder.parent == context.runs  # whose folder is new
    with remove_if_unused(context.folder, is_new=True, kept_logs=context.refused_logs) if is_run else nullcontext():
        scratch.mkdir(exist_ok=True)
        with locked_scratch(scratch), closing(store):
            with closing(context.executor):
                yield
            tidy_store(store.root, context.store_limit_bytes, context.progress, runs=context.runs)


_adapter_of = cache(TypeAdapter)


def document_of(decided: tuple[Verdict, Exit], **parts: Sequence[Any]) -> dict[str, Any]:
    """Return the parts of run.json that a command has, as JSON values."""
    verdict, status = decided
    head = {"schema": SCHEMA, "transload_version": __version__, "verdict": str(verdict), "exit_code": int(status)}
    return head | {name: [to_json(row) for row in rows] for name, rows in parts.items()}


def to_json(row: object) -> Any:
    """Return a record as JSON values."""
    kind: Any = type(row)
    return _adapter_of(kind).dump_python(row, mode="json")


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document as JSON in one piece."""
    write_whole(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")

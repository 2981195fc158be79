"""Runtime processes of the server: each version of a model answers in a worker of its own."""

from __future__ import annotations

import itertools
import shutil
import socket
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ....converters.readers.reader_records import FileOptions
from ....models.artifact import RECORD, read_artifact
from ....models.errors import BadRequest, StepFailed
from ....models.formats import Format
from ....models.job import forged_as_failure
from ....models.signature import Array, Signature, TensorSpec
from ....models.store import digest_of, disk_errors, state_of
from ....models.untrusted_files import check_plain
from ....serving.runtimes.runtime_table import RUNTIMES
from ....serving.runtimes.tuning_space import RuntimeSettings
from ....serving.server.repository.served_version import OpenedSession
from ....serving.server.repository.session_channel import ChannelSession
from ....serving.server.repository.version_keeper import VersionSource
from ...drift.sessions import default_runtime
from ...measure.bench.tuned_settings import DEFAULTS, TunedSettings, tuned_settings
from ...measure.validate_stage import device_for
from ...plan.context import intake_limits
from ...plan.file_model import limits_named, size_of_model
from ...plan.loaded_model import require_libraries, require_runtime
from ...plan.model_argument import kind_of
from ...workers.isolation import Limits, Spawn, Worker, run_alone

_CHECK_ARTIFACT = "transload.converters.readers.artifact_import:check_artifact"
_HOST = "transload.serving.server.embedded:open_host"
_TAKEN_IN = "taken-in"
_MORE_TIME = "where you trust whoever made it, give --trust, and it has the time of a request"


class CheckedFiles:
    """A checked artifact: a copy that nobody else writes, removed with the last session that answers from it.
    What is put into the model's own folder after the check is not opened before it is checked, too."""

    def __init__(self, folder: Path, original: Path) -> None:
        self.folder = folder
        if folder != original:
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)


class ProcessSession:
    """A session that answers in a worker. Closing it ends the worker."""

    def __init__(self, worker: Worker, channel: ChannelSession, files: CheckedFiles) -> None:
        self._worker, self._channel, self._files = worker, channel, files
        self.signature: Signature = channel.signature
        self.device = channel.device

    @property
    def pid(self) -> int:
        """The worker's process."""
        return self._worker.pid

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """See serving.session.Session.run."""
        return self._channel.run(feeds)

    def close(self) -> None:
        """See serving.session.Session.close."""
        self._channel.close()
        self._worker.close()


@dataclass
class ModelProcesses:
    """Opens versions, each in a worker of its own, with its files below `scratch` and its log there."""

    scratch: Path
    limits: Limits  # of each worker; `seconds` is what a model has for one request, and to be loaded
    inputs: tuple[TensorSpec, ...] = ()  # of models that do not say them
    threads: int | None = None  # that the user named; settings of another number are left alone
    untuned: bool = False  # tuning.json is left alone
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    # Of each version's folder: the state in which it was checked, and what was checked.
    _checked: dict[Path, tuple[object, CheckedFiles]] = field(default_factory=dict)
    _checks: dict[Path, threading.Lock] = field(default_factory=dict)  # held while such a folder is checked

    def open(self, source: VersionSource, lost: threading.Event) -> OpenedSession:
        """Open a version, as an Opener of serving.server.repository does; files that have changed are checked again.
        Raises BadRequest where it cannot be opened, ToolMissing where its runtime is not installed, StepFailed where
        the worker dies."""
        if source.folder is None:
            raise ValueError(source)
        files = self._checked_files(source.folder.resolve(), self.log(source))
        folder = files.folder
        runtime = default_runtime(folder)
        cwd = self.scratch / f"process-{next(self._numbers)}"
        tuned = self._tuned(source.folder, runtime)
        settings = RuntimeSettings(runtime, tuned.settings)
        threads = settings.threads(self.limits.threads)
        line, theirs = socket.socketpair()
        number = theirs.fileno()
        limits = replace(self.limits, threads=threads)
        spawn = Spawn(self.log(source), cwd, limits, reads=(str(folder),), passes=(number,))
        with theirs:
            worker = Worker(spawn, lost.set)
        try:
            options = {
                "device": self.limits.device, "threads": threads, "line": number, "settings": dict(settings.values),
            }  # fmt: skip
            worker.open(_HOST, {"folder": str(folder), **options})
            facts = worker.ask("describe")
            with forged_as_failure("description of a session"):
                signature, served_on = Signature.from_json(facts["signature"]), str(facts["device"])
                signatures = {str(name): Signature.from_json(row) for name, row in facts["other_signatures"].items()}
            connect = partial(ChannelSession, line, device=served_on, runtime=runtime, timeout_s=self.limits.seconds)
            channel = connect(signature=signature, lost=lost)
            other_sessions = {
                name: connect(signature=other, lost=lost, number=number)
                for number, (name, other) in enumerate(signatures.items(), start=1)
            }
        except BaseException:
            line.close()
            worker.kill("was stopped")
            worker.close()
            raise
        return OpenedSession(
            ProcessSession(worker, channel, files), runtime, lost, worker.describe_exit, channel,
            lambda: worker.rss_bytes, settings.values, tuned.batch_in_bound(threads), other_sessions,
        )  # fmt: skip

    def _tuned(self, model: Path, runtime: str) -> TunedSettings:
        """Return the settings that are kept beside a model, where they hold here."""
        row = RUNTIMES[runtime]
        if self.untuned:
            return DEFAULTS
        return tuned_settings(model, row, device_for(row, self.limits.device), self.threads)

    def log(self, source: VersionSource) -> Path:
        """Return the file that takes what the processes of a version print."""
        return self.scratch / f"{source.name}-{source.number}.log"

    def _checked_files(self, path: Path, log: Path) -> CheckedFiles:
        """Return the checked files of a model, checked again where its own have changed."""
        with self._checks.setdefault(path, threading.Lock()):  # of several instances, one checks
            state = state_of(path)
            checked = self._checked.get(path)
            if checked is None or checked[0] != state:
                checked = self._checked[path] = state, self._check(path, log)
            return checked[1]

    def _check(self, path: Path, log: Path) -> CheckedFiles:
        """Check a model in a worker of its own, with the limits of taking in. Return the artifact, a copy of it where
        it is not trusted; of what is none, one that is made here."""
        check_plain(path)
        is_artifact, trust = (path / RECORD).is_file(), not self.limits.walled
        if is_artifact:
            check_runtime(path)
        form = read_artifact(path).target.format if is_artifact else self._format_of(path)
        limits = self.limits if trust else intake_limits(self.limits, size_of_model(path, form))
        files = CheckedFiles(path if trust or not is_artifact else self._copy(path), original=path)
        beside = path.parent if form.spec.has_data_beside and not is_artifact else files.folder
        spawn = Spawn(log, self.scratch / f"intake-{next(self._numbers)}", limits, reads=(str(beside),))
        with _unread_refused(path, files.folder), limits_named(str(path), limits, more_time=_MORE_TIME):
            if is_artifact:
                job = {"inputs": {"artifact": str(files.folder)}, "out": str(spawn.cwd), "options": {"trust": trust}}
                run_alone(_CHECK_ARTIFACT, job, spawn)
                return files
            out = spawn.cwd / _TAKEN_IN
            out.mkdir(parents=True)
            options = FileOptions(path=str(path), sha256=digest_of(path), inputs=self.inputs, trust=trust, strings=True)
            job = {"inputs": {}, "out": str(out), "options": options.to_json()}
            run_alone(form.spec.reader, job, spawn)
        check_runtime(out)
        return CheckedFiles(out, original=path)

    def _copy(self, folder: Path) -> Path:
        """Copy an artifact; links stay links, for the worker that opens it may read nothing outside of the copy."""
        copy = self.scratch / f"copy-{next(self._numbers)}" / folder.name
        try:
            with disk_errors(self.scratch, option="TMPDIR"):
                shutil.copytree(folder, copy, symlinks=True)
        except shutil.Error as error:  # each file with its cause
            raise BadRequest(f"{folder} cannot be read: {error.args[0][0][2]}", fix="check its permissions") from error
        return copy

    def _format_of(self, path: Path) -> Format:
        """Return the format of a SavedModel or a file."""
        kind = kind_of(str(path))
        if not isinstance(kind, Format):
            raise BadRequest(f"{path} is code, and is not served", fix="convert it first: transload convert")
        if not kind.spec.declares_inputs and not self.inputs:
            raise BadRequest(
                f"{path} does not say what inputs it takes",
                fix="name them with --input NAME=DTYPE[dims]",
            )
        return kind


@contextmanager
def _unread_refused(path: Path, copy: Path) -> Iterator[None]:
    """Refuse a file whose reader fails or dies: the file is at fault, and not the server. What names the copy that was
    read names the file."""
    try:
        yield
    except BadRequest as error:
        raise type(error)(error.what.replace(str(copy), str(path)), fix=error.fix) from error
    except StepFailed as error:
        raise BadRequest(
            f"{path} cannot be read: {error.what}",
            fix=f"copy it again; the log of `transload validate {path}` says more",
        ) from error


def check_runtime(folder: Path) -> str:
    """Return the runtime of an artifact.
    Raises BadRequest where there is none, ToolMissing where it is not installed."""
    artifact = read_artifact(folder)
    if artifact.flex:
        raise BadRequest(
            f"{folder} needs TensorFlow's Flex delegate, and is not served", fix="serve its SavedModel in its place"
        )
    runtime = default_runtime(folder)
    require_runtime(runtime)
    spec = artifact.target.format.spec
    require_libraries(f"the check of an artifact in {spec.title}", spec.requires)
    return runtime

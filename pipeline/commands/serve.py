"""The command `serve`: listeners in this process, each version of each model in a worker, until a signal ends it.

This process loads no framework, so that what a model does to its process reaches neither the health pages nor the other
models. The command needs no store and no run folder: in a container both may be read-only.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir, mkdtemp

import psutil

from ...models.artifact import RECORD
from ...models.errors import BadRequest, StepFailed, TransloadError
from ...models.scratch_folders import remove_abandoned, scratch_folder
from ...serving.endpoint_security import check_host, read_security
from ...serving.malloc_trim import map_large_blocks
from ...serving.runtimes.tuning_space import Value, settings_text
from ...serving.server.access_log import AccessLog
from ...serving.server.embedded import EmbeddedServer, listen
from ...serving.server.repository.batching_parameters import UNLIMITED, BatchingParameters, read_batching_file
from ...serving.server.repository.model_config import ModelConfig, is_model_name, read_config_file, versions_in
from ...serving.server.repository.model_repository import Repository
from ...serving.server.serving_error import ServingError
from ...serving.server.stop_signal import StopSignal, stop_on_signals
from ..options.request import read_request
from ..options.serve_options import ServeOptions
from ..plan.context import doubts_of_walls
from ..plan.loaded_model import require_libraries
from ..plan.model_argument import ModelKind, kind_of
from ..workers.devices import resolve_device
from ..workers.isolation import Limits
from .stages.model_process import ModelProcesses, check_runtime

_PREFIX = "transload-serve-"  # of its folder among the system's temporary files
_LOGS_PREFIX = "transload-logs-"  # of the folder that it leaves there
_POLL_S = 1.0  # between two looks for new versions, as TF Serving's
_STILL_S = 2.0  # for which nothing of a new version was written: it may be under way
_DRAIN_S = 25.0  # for requests under way at a signal; Kubernetes kills after 30
_REQUEST_S = 60.0  # for which a model may take over one request before its process is ended
_ONE_NAME = "model"
_LIBRARIES = ("grpc", "grpc_health", "grpc_reflection", "tensorflow_serving", "uvloop", "httptools")
_RUN = "run.json"


@dataclass(frozen=True)
class ServingModel:
    """A model that answers, for the terminal."""

    name: str
    path: Path
    versions: tuple[int, ...]
    runtime: str
    device: str
    settings: Mapping[str, Value] = field(default_factory=dict)  # as tuned here; empty: the defaults
    full_batch: int | None = None  # rows at which a batch of requests is full; None: they are not gathered

    @property
    def title(self) -> str:
        """The text that says what is served as what."""
        tuned = f", tuned: {settings_text(self.settings)}" if self.settings else ""
        several = f", versions {', '.join(map(str, self.versions))}" if self.versions != (1,) else ""
        batches = f", batches of up to {self.full_batch}" if self.full_batch else ""
        return f"{self.path} as {self.name} ({self.runtime}, {self.device}{tuned}{batches}{several})"


@dataclass(frozen=True)
class Serving:
    """A server that answers."""

    addresses: dict[str, str]  # by protocol ("grpc", "rest")
    models: list[ServingModel]
    logs: Path  # the folder with what the models' processes print


def serve(options: ServeOptions, ready: Callable[[Serving], None], warn: Callable[[str], None]) -> None:
    """Serve models until SIGINT or SIGTERM.
    A model is `[NAME=]PATH`: an artifact's folder, a folder with a folder of each version (1, 2, ...), or a run's
    folder, whose artifacts are models of their own. `ready` is called as soon as all models answer; `warn` takes a
    sentence when a process of a model dies, when it answers again, and when a version cannot be loaded.
    Raises BadRequest where a model cannot be opened or a port is taken, StepFailed where all processes died too often.
    """
    device = resolve_device(read_request(None, {"device": options.device or "auto"}).device)
    files = (options.tls_cert, options.tls_key, options.tls_client_ca, options.token_file)
    security = read_security(*files, origins=options.origins)
    check_host(options.host, security, insecure=options.insecure)
    configs = find_models(options)
    require_libraries("the server", _LIBRARIES)
    _check_models(configs)
    batching = _batching(options)
    warnings = _Warnings(warn)
    access_log = _access_log(options, warnings.say)
    map_large_blocks()
    temporary = Path(gettempdir())
    remove_abandoned(temporary.glob(f"{_PREFIX}*"))
    reopen = access_log.reopen if access_log else None
    with stop_on_signals(reopen) as stop, scratch_folder(temporary, _PREFIX) as scratch:
        processes = _processes(options, device, scratch)
        repository = Repository(
            processes.open,
            still_s=_STILL_S,
            instances=options.instances,
            batching=batching,
            max_body_bytes=options.max_body_bytes,
            access_log=access_log,
            allow_signature_change=options.allow_signature_change,
            warn=warnings.say,
        )
        try:
            with _kept_logs(scratch):
                answering = _load(repository, configs)
                server = listen(repository, options.host, options.grpc_port, options.rest_port, security)
                try:
                    warnings.begin(options)
                    ready(Serving(server.addresses(), answering, processes.scratch))
                    _watch(repository, server, stop, access_log)
                    server.drain(_DRAIN_S)
                finally:
                    server.close()
        finally:
            repository.close()


def _processes(options: ServeOptions, device: str, scratch: Path) -> ModelProcesses:
    """Return what opens each version in a process of its own, with its limits."""
    limits = Limits(
        seconds=_REQUEST_S, memory_bytes=psutil.virtual_memory().total, threads=options.threads or 1, device=device,
        spin=True, walled=not options.trust,
    )  # fmt: skip
    return ModelProcesses(scratch, limits, options.inputs, options.threads, options.untuned)


def _check_models(configs: Sequence[ModelConfig]) -> None:
    for config in configs:
        config.check_versions()
        for folder in config.versions().values():
            if (folder / RECORD).is_file():
                check_runtime(folder)


@dataclass
class _Warnings:
    """Sentences for the terminal. Those that come before all models answer are kept until then: the command may yet
    end with the error."""

    warn: Callable[[str], None]
    kept: list[str] | None = field(default_factory=list)  # None: all models answer

    def begin(self, options: ServeOptions) -> None:
        """Tell from now on, and first what all answers are under."""
        kept, self.kept = self.kept or [], None
        for sentence in (*doubts_of_walls(trust=options.trust), *kept):
            self.warn(sentence)

    def say(self, sentence: str) -> None:
        if self.kept is None:
            self.warn(sentence)
        else:
            self.kept.append(sentence)


def find_models(options: ServeOptions) -> list[ModelConfig]:
    """Return the models to serve, by what the command line and the configuration file name.
    Raises BadRequest where there is none, or two have one name."""
    models = options.models
    configs = [config for text in models for config in _configs_of(text)]
    if options.name is not None:
        if len(configs) != 1:
            raise BadRequest(f"--name names one model, and there are {len(configs)}", fix="write NAME=PATH for each")
        configs = [ModelConfig(options.name, configs[0].base_path)]
    elif len(configs) == 1 and len(models) == 1 and "=" not in models[0]:
        configs = [ModelConfig(_ONE_NAME, configs[0].base_path)]
    if options.config_file is not None:
        configs += read_config_file(options.config_file)
    if options.inputs:
        _check_takes_inputs(configs)
    if not configs:
        raise BadRequest("there is no model to serve", fix="name an artifact's folder, or --model-config-file")
    names = [config.name for config in configs]
    for name in names:
        if not is_model_name(name):
            raise BadRequest(f"the name {name!r} fits no URL", fix="name it with letters, digits, '-', '_' and '.'")
        if names.count(name) > 1:
            raise BadRequest(f"two models are called {name}", fix="write NAME=PATH for each")
    return configs


def _check_takes_inputs(configs: Sequence[ModelConfig]) -> None:
    """Raise BadRequest where --input names the inputs of several models, or of one that says them itself."""
    if len(configs) != 1:
        raise BadRequest(f"--input is of one model, and there are {len(configs)}", fix="serve the file alone")
    for model in configs[0].versions().values():
        if (model / RECORD).is_file():
            raise BadRequest(f"{model} is an artifact, and says what it takes", fix="leave --input out")


def _configs_of(text: str) -> list[ModelConfig]:
    """Return the models of one argument."""
    name, named, rest = text.partition("=")
    path = Path(rest if named else text)
    if not path.exists():
        raise BadRequest(f"no such folder: {path}", fix="check the path")
    is_run = (path / _RUN).is_file()
    records = sorted((path / "artifacts" if is_run else path).glob(f"*/{RECORD}"))
    if is_run or (records and not versions_in(path)):  # of a run, or of a whole convert
        servable = [record.parent for record in records if record.parent.name != "source"]
        prefix = f"{name}-" if named else ""
        return [ModelConfig(f"{prefix}{folder.name}", folder.absolute()) for folder in servable]
    is_code = path.is_file() and kind_of(str(path)) is ModelKind.CODE
    if is_code or not versions_in(path):
        raise BadRequest(
            f"{path} is no artifact's folder",
            fix=f"convert it first: transload convert {path} --to onnx --out DIR, and serve DIR/onnx",
        )
    return [ModelConfig(name if named else path.resolve().stem, path.absolute())]


def _batching(options: ServeOptions) -> BatchingParameters | None:
    if options.batching_file:
        return read_batching_file(options.batching_file)
    return UNLIMITED if options.enable_batching else None


def _access_log(options: ServeOptions, warn: Callable[[str], None]) -> AccessLog | None:
    name = options.access_log
    if name is None:
        return None
    path = "/dev/stderr" if name == "-" else str(Path(name).absolute())
    return AccessLog(path, limit_bytes=None if name == "-" else options.access_log_limit_bytes, warn=warn)


def _load(repository: Repository, configs: Sequence[ModelConfig]) -> list[ServingModel]:
    """Load all models, and describe them. Raises the error of the first that cannot be loaded; StepFailed where a
    process dies as soon as it has loaded its model."""
    try:
        repository.apply(configs)
    except ServingError as error:
        raise BadRequest(error.text, fix="correct the configuration file") from error
    try:
        return [_describe(repository, config) for config in configs]
    except ServingError as error:
        raise StepFailed(error.text, fix="read the log") from error


def _describe(repository: Repository, config: ModelConfig) -> ServingModel:
    served = repository.find(config.name)
    numbers = tuple(sorted(status.number for status in repository.statuses(config.name)))
    path = config.base_path
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return ServingModel(
        config.name, path, numbers, served.runtime, served.device, served.settings, served.full_batch
    )  # fmt: skip


def _watch(repository: Repository, server: EmbeddedServer, stop: StopSignal, access_log: AccessLog | None) -> None:
    """Load new versions as they come, replace processes that have grown and a log that has, until `stop` has come.
    Raises StepFailed where no model answers any more."""
    while not stop.wait(_POLL_S):
        repository.refresh()
        repository.replace_grown()
        server.tell_ready()
        if access_log is not None:
            access_log.check()
        if repository.is_over:
            raise _first_failure(repository)


def _first_failure(repository: Repository) -> TransloadError:
    failures = [status.failure for name in repository.names for status in repository.statuses(name) if status.failure]
    return failures[0] if failures else StepFailed("no model is served any more", fix="start the server again")


@contextmanager
def _kept_logs(scratch: Path) -> Iterator[None]:
    """Copy the logs to a folder that stays, where the block raises StepFailed, and name that folder."""
    try:
        yield
    except StepFailed as error:
        kept = mkdtemp(prefix=_LOGS_PREFIX)
        for log in scratch.glob("*.log"):
            shutil.copyfile(log, Path(kept, log.name))
        raise StepFailed(error.what, fix=f"read the logs in {kept}, and start the server again") from error

"""The models of one server, and the versions of each: found by requests, loaded, switched and unloaded.

What is served changes in one place, `refresh`: it starts the versions that are wanted and not there, and takes out
those that are there and not wanted, as soon as one that is wanted answers. So a switch refuses no request, and a
version that cannot be loaded is never switched to. The words of the errors are TF Serving's (core/basic_manager.cc,
model_servers/get_model_status_impl.cc, model_servers/server_core.cc).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from ....models.errors import TransloadError
from ...malloc_trim import HeapTrimmer
from ...session import Session, other_sessions_of
from ..access_log import AccessLog
from ..admission import Admission
from ..inference_statistics import InferenceStatistics
from ..metrics import Metrics, RequestRecord
from ..server_records import MAX_BODY_BYTES
from ..serving_error import Code, ServingError, invalid, not_found, restarting, unavailable
from .batching_parameters import BatchingParameters
from .instance_group import InstanceGroup
from .model_config import ModelConfig, VersionPolicy, is_model_name
from .process_growth import ProcessGrowth
from .served_version import OpenedSession, ServedVersion
from .version_check import SignatureChanged
from .version_keeper import ModelState, Opener, VersionKeeper, VersionSource

_READERS_S = 30.0  # for which a version that is taken out waits for requests that have found it


Keeper: TypeAlias = VersionKeeper | InstanceGroup


@dataclass(frozen=True, slots=True)
class VersionStatus:
    """The state of one version, and why it ended."""

    number: int
    state: ModelState
    failure: TransloadError | None = None


@dataclass(frozen=True, slots=True)
class Replacement:
    """A version that is to take the place of one with the same number, which answers until then."""

    successor: Keeper
    is_over: threading.Event = field(default_factory=threading.Event)  # it has taken over, or has failed


def _no_opener(source: VersionSource, lost: threading.Event) -> OpenedSession:  # noqa: ARG001
    raise AssertionError(source)


class Repository:
    """Models by name, and what all protocols of a server share. Thread-safe.
    `opener` opens a version, in a process of its own or in this one, `instances` times; `warn` takes sentences about
    versions that die or cannot be loaded. `refresh` loads no version of which something was written in the last
    `still_s` seconds. Without `allow_signature_change` a version that clients of the one that answers could not ask is
    not served."""

    def __init__(
        self,
        opener: Opener = _no_opener,
        *,
        still_s: float = 0.0,
        instances: int = 1,
        batching: BatchingParameters | None = None,
        max_body_bytes: int = MAX_BODY_BYTES,
        access_log: AccessLog | None = None,
        allow_signature_change: bool = False,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.admission = Admission()
        self.metrics = Metrics()
        self._memory = HeapTrimmer()
        self.statistics = InferenceStatistics()
        self.max_body_bytes = max_body_bytes
        self._access_log = access_log
        self._opener, self._warn, self._still_s = opener, warn, still_s
        self._batching, self._instances = batching, instances
        self._allow_signature_change = allow_signature_change
        self._configs: dict[str, ModelConfig] = {}  # what is to be served
        self._known: dict[str, ModelConfig] = {}  # what was ever to be served
        self._folders: set[Path] = set()  # of all that was; what a client swaps stays among them
        self._fixed: set[str] = set()  # models of add_opened
        # By name, then by number, the latest first. Replaced and not changed: requests read it without a lock.
        self._keepers: Mapping[str, Mapping[int, Keeper]] = {}
        self._growth = ProcessGrowth()
        self._replacements: dict[tuple[str, int], Replacement] = {}  # under way, or failed
        self._lock = threading.RLock()
        self._is_closed = False

    def find(self, name: str, version: int | None = None, label: str = "") -> ServedVersion:
        """Return the version that a request means: the latest that is available, where it names none.
        Raises ServingError: NOT_FOUND; UNAVAILABLE while its process is started again; INVALID_ARGUMENT where no
        version has the label."""
        keepers = self._keepers.get(name, {})
        if label:
            version = self._labelled(name, label)
        chosen = list(keepers.values()) if version is None else [keepers[version]] if version in keepers else []
        for keeper in chosen:
            if served := keeper.served:
                return served
        for keeper in chosen:
            if keeper.is_restarting:
                raise restarting(name)
        wanted = f"Latest({name})" if version is None else f"Specific({name}, {version})"
        raise not_found(f"Servable not found for request: {wanted}")

    def statuses(self, name: str, version: int | None = None, label: str = "") -> list[VersionStatus]:
        """Return the states of a model's versions, the latest first. Raises ServingError as `find` does."""
        keepers = self._keepers.get(name, {})
        if not keepers:
            raise not_found(f"Could not find any versions of model {name}")
        if label:
            version = self._labelled(name, label)
        if version is None:
            return [_status(keeper) for keeper in keepers.values()]
        if version not in keepers:
            raise not_found(f"Could not find version {version} of model {name}")
        return [_status(keepers[version])]

    @property
    def names(self) -> list[str]:
        """All models that are or were to be served."""
        return [*self._known, *self._fixed]

    @property
    def configs(self) -> list[ModelConfig]:
        """What is to be served."""
        return list(self._configs.values())

    @property
    def is_available(self) -> bool:
        """Whether all models answer that are to be served."""
        wanted = [*self._configs, *self._fixed]
        return all(any(keeper.served for keeper in self._keepers.get(name, {}).values()) for name in wanted)

    @property
    def is_over(self) -> bool:
        """Whether no version of any model answers, nor will, because processes died too often.
        What clients have unloaded, or could not load, they may still load."""
        with self._lock:
            keepers = [keeper for keepers in self._keepers.values() for keeper in keepers.values()]
        return all(keeper.is_over for keeper in keepers) and any(keeper.is_exhausted for keeper in keepers)

    def add_request(self, record: RequestRecord) -> None:
        """Count and log a request that has its answer."""
        self.metrics.add_request(record)
        self._memory.add_request(record.bytes_in + record.bytes_out)
        if self._access_log is not None:
            self._access_log.add(record)

    def add_opened(self, name: str, opened: OpenedSession) -> None:
        """Serve a session that is open already, as version 1. Nothing takes it out but `close`."""

        def opener(source: VersionSource, lost: threading.Event) -> OpenedSession:  # noqa: ARG001
            return replace(opened, lost=lost)

        with self._lock:
            self._fixed.add(name)
            keeper = self._start(VersionSource(name, 1, None), opener)
        keeper.settled.wait()

    def apply(self, configs: Sequence[ModelConfig], timeout_s: float | None = None) -> None:
        """Serve these models and no others; return when all their versions answer, or have failed.
        Raises BadRequest where a model has no version, and ServingError FAILED_PRECONDITION of a label of a version
        that is not wanted: nothing is changed then. Raises UNAVAILABLE where they are not loaded in time, and the error
        of the first version that cannot be loaded; versions in whose place others were to come are then served as
        before."""
        for config in configs:
            config.check_versions()
        with self._lock:
            if self._is_closed:
                raise unavailable("the server is stopping")
            versions = {config.name: config.versions() for config in configs}
            for config in configs:
                _check_labels(config, versions[config.name])
            self._configs = {config.name: config for config in configs}
            self._known = {**self._known, **self._configs}
            self._folders |= {config.base_path.resolve() for config in configs}
            self._forget_ended()
            self._serve(versions)
            numbers = [(name, number) for name, models in versions.items() for number in models]
            replacements = [self._replacements[key] for key in numbers if key in self._replacements]
            wanted = [self._keepers[name][number] for name, number in numbers]
            wanted += [replacement.successor for replacement in replacements]
        settled = [(keeper.source.name, keeper.settled) for keeper in wanted]
        settled += [(replacement.successor.source.name, replacement.is_over) for replacement in replacements]
        for name, event in settled:
            if not event.wait(timeout_s):
                raise unavailable(f"the model {name} is not loaded within {timeout_s:g} s")
        for keeper in wanted:
            if keeper.failure is not None:
                raise keeper.failure

    def apply_request(self, configs: Sequence[ModelConfig], timeout_s: float | None = None) -> None:
        """Apply what a client asks for. Raises as `apply`, and ServingError INVALID_ARGUMENT where a folder is none of
        those that the operator has named: no request reaches another."""
        for config in configs:
            if not is_model_name(config.name):
                raise invalid(f"a model's name has letters, digits, '-', '_' and '.', got {config.name[:60]!r}")
            if not config.base_path.is_absolute():
                raise invalid(
                    f"Expected model {config.name} to have an absolute path or URI; got base_path()={config.base_path}"
                )
            if "\0" in str(config.base_path) or config.base_path.resolve() not in self._folders:
                raise invalid(f"the base_path of the model {config.name} is none that the server was started with")
        self.apply(configs, timeout_s)

    def load(self, name: str, policy: VersionPolicy | None = None, timeout_s: float | None = None) -> None:
        """Serve a model that the server was started with, its newest versions or those of `policy`. Raises as `apply`,
        and ServingError NOT_FOUND."""
        if name not in self._known:
            raise not_found(f"Could not find any versions of model {name}")
        wanted = self._known[name] if policy is None else replace(self._known[name], policy=policy, labels={})
        self.apply([*(config for config in self.configs if config.name != name), wanted], timeout_s)

    def unload(self, name: str) -> None:
        """Serve a model no more. Raises ServingError NOT_FOUND."""
        if name not in self._configs:
            raise not_found(f"Could not find any versions of model {name}")
        self.apply([config for config in self.configs if config.name != name])

    def refresh(self) -> None:
        """Load the versions that are wanted and not there; take out those that are there and not wanted."""
        with self._lock:
            versions = {
                name: config.versions(self._keepers.get(name, {}), self._still_s)
                for name, config in self._configs.items()
            }
            self._serve(versions)

    def replace_grown(self) -> None:
        """Start a new process for each version whose own holds much more memory than when it was loaded. The old one
        answers until the new one does."""
        with self._lock:
            keepers = [keeper for keepers in self._keepers.values() for keeper in keepers.values()]
        for keeper in keepers:
            if (served := keeper.served) and (growth := self._growth.describe(served)):
                self._warn(f"version {served.number} of the model {served.name} gets a new process: {growth}")
                self._replace(keeper, keeper.source)

    def _replace(self, keeper: Keeper, source: VersionSource) -> None:
        """Start `source` in the place of a version that answers until the new one does."""

        def warn(sentence: str) -> None:
            if self._keepers.get(source.name, {}).get(source.number) is successor:
                self._warn(sentence)

        successor = self._keeper(source, self._opener, warn, keeper.served)
        replacement = Replacement(successor)
        with self._lock:
            self._replacements[source.name, source.number] = replacement
        successor.start()
        threading.Thread(target=self._finish, args=(keeper, replacement), name="replace", daemon=True).start()

    def _finish(self, keeper: Keeper, replacement: Replacement) -> None:
        """Let the successor take over as soon as it answers."""
        successor = replacement.successor
        source = successor.source
        successor.settled.wait()
        with self._lock:
            present = self._keepers.get(source.name, {})
            takes_over = bool(successor.served) and present.get(source.number) is keeper and not self._is_closed
            if takes_over:
                self._keepers = {**self._keepers, source.name: {**present, source.number: successor}}
                del self._replacements[source.name, source.number]
                keeper.retire()
        if failure := successor.failure:
            self._warn(f"version {source.number} of the model {source.name} keeps its process: {failure.what}")
        replacement.is_over.set()
        self._take_out(keeper if takes_over else successor)

    def close(self) -> None:
        """Close all sessions, after the runs that are under way. Safe to call twice."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            keepers = [keeper for keepers in self._keepers.values() for keeper in keepers.values()]
        for keeper in keepers:
            keeper.close()
        if self._access_log is not None:
            self._access_log.close()

    def _labelled(self, name: str, label: str) -> int:
        config = self._configs.get(name)
        if config is None or label not in config.labels:
            raise invalid(f"Unrecognized servable version label: {label}")
        return config.labels[label]

    def _forget_ended(self) -> None:
        """Let versions that have ended be tried again."""
        self._keepers = {
            name: {number: keeper for number, keeper in keepers.items() if keeper.state is not ModelState.END}
            for name, keepers in self._keepers.items()
        }
        self._replacements = {key: kept for key, kept in self._replacements.items() if not kept.is_over.is_set()}

    def _serve(self, versions: Mapping[str, Mapping[int, Path]]) -> None:
        """Start these versions where they are not there, and take out the others. The lock is held."""
        if self._is_closed:
            return
        for name, models in versions.items():
            present = self._keepers.get(name, {})
            for number, model in models.items():
                keeper, source = present.get(number), VersionSource(name, number, model)
                if keeper is None or (keeper.is_over and (keeper.failure is None or _may_be_tried(keeper, present))):
                    self._start(source, self._opener)
                elif keeper.source != source and (name, number) not in self._replacements:
                    self._replace(keeper, source)
        unwanted = [keeper for name in self._keepers for keeper in self._unwanted(name, versions.get(name))]
        for keeper in unwanted:
            keeper.retire()
            threading.Thread(target=self._take_out, args=(keeper,), name="take-out", daemon=True).start()

    def _unwanted(self, name: str, numbers: Collection[int] | None) -> list[Keeper]:
        """Return the versions to take out: those not wanted, once all that are wanted have settled and one answers.
        Where all that are wanted have failed, those that somebody has deleted. `numbers`: the wanted ones; None where
        the model is not wanted."""
        if name in self._fixed:
            return []
        keepers = self._keepers[name]
        present = [keeper for keeper in keepers.values() if not keeper.is_over]
        if numbers is not None:
            wanted = [keeper for number, keeper in keepers.items() if number in numbers]
            present = [keeper for keeper in present if keeper.source.number not in numbers]
            if wanted and all(keeper.is_over for keeper in wanted):
                return [keeper for keeper in present if keeper.source.is_deleted]
            if not all(keeper.settled.is_set() for keeper in wanted) or not any(keeper.served for keeper in wanted):
                return []
        return present

    def _take_out(self, keeper: Keeper) -> None:
        self.admission.wait_for_earlier(_READERS_S)
        keeper.close()

    def _keeper(
        self, source: VersionSource, opener: Opener, warn: Callable[[str], None], answering: ServedVersion | None
    ) -> Keeper:
        """Return the keeper of a version that is to take over from the one that is `answering`."""
        former = None if answering is None or self._allow_signature_change else answering.signature

        def make(on_change: Callable[[], None]) -> VersionKeeper:
            return VersionKeeper(
                source, opener, self.metrics, on_change, warn, batching=self._batching, former_signature=former
            )

        several = self._instances > 1 and source.folder is not None
        return InstanceGroup(source, self._instances, make, self.refresh) if several else make(self.refresh)

    def _start(self, source: VersionSource, opener: Opener) -> Keeper:
        present = self._keepers.get(source.name, {})
        answering = next((served for keeper in present.values() if (served := keeper.served)), None)
        keeper = self._keeper(source, opener, self._warn, answering)
        keepers = {**present, source.number: keeper}
        self._keepers = {**self._keepers, source.name: dict(sorted(keepers.items(), reverse=True))}
        keeper.start()
        return keeper


def _check_labels(config: ModelConfig, numbers: Collection[int]) -> None:
    for label, number in config.labels.items():
        if number not in numbers:
            raise ServingError(
                Code.FAILED_PRECONDITION,
                f"Request to assign label to unavailable version of model {config.name}: "
                f"label {label}, version {number}",
            )


def _may_be_tried(keeper: Keeper, present: Mapping[int, Keeper]) -> bool:
    """Whether a version was refused for its signature alone, and none is left whose clients it would surprise."""
    return isinstance(keeper.failure, SignatureChanged) and all(other.is_over for other in present.values())


def _status(keeper: Keeper) -> VersionStatus:
    return VersionStatus(keeper.source.number, keeper.state, keeper.failure)


def hold_session(
    name: str,
    session: Session,
    runtime: str = "unknown",
    max_body_bytes: int = MAX_BODY_BYTES,
    access_log: AccessLog | None = None,
) -> Repository:
    """Return a repository of one model, whose session is open."""
    repository = Repository(max_body_bytes=max_body_bytes, access_log=access_log)
    repository.add_opened(name, OpenedSession(session, runtime, other_sessions=other_sessions_of(session)))
    return repository

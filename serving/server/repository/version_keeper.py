"""One version of a model from its loading to its end; started again when its process dies."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TypeAlias

from ....models.errors import BadRequest, StepFailed, TransloadError
from ....models.library_messages import first_line
from ....models.signature import Signature
from ...session import Session
from ..metrics import Metrics
from .batching_parameters import BatchingParameters
from .served_version import OpenedSession, ServedVersion
from .version_check import answers_rows_alike, check_version

MOST_DEATHS = 3
WITHIN_S = 60.0


class ModelState(IntEnum):
    """The states of a version, as ModelVersionStatus.State numbers them (tensorflow_serving/apis/get_model_status)."""

    START = 10
    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


@dataclass(frozen=True, slots=True)
class VersionSource:
    """The folder of one version of a model."""

    name: str
    number: int
    folder: Path | None  # None of a session that was opened elsewhere

    @property
    def is_deleted(self) -> bool:
        """Whether its folder is gone."""
        return self.folder is not None and not self.folder.exists()


# Opens a version; the event is to be set when its process ends. Raises TransloadError.
Opener: TypeAlias = Callable[[VersionSource, threading.Event], OpenedSession]


class DeathLimit:
    """The deaths of the last minute, and when there are too many."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._times: deque[float] = deque(maxlen=MOST_DEATHS)

    def is_reached_by_another(self) -> bool:
        """Count a death; return whether it is the third within a minute."""
        self._times.append(self._clock())
        return len(self._times) == MOST_DEATHS and self._times[-1] - self._times[0] <= WITHIN_S


class VersionKeeper:
    """Opens one version in a thread of its own, and again when its process dies.
    `on_change` is called in that thread when the version answers, and when it has ended; `warn` takes a sentence about
    a death or a failure. It fails where clients of a model of `former_signature` could not ask it."""

    def __init__(
        self,
        source: VersionSource,
        opener: Opener,
        metrics: Metrics,
        on_change: Callable[[], None],
        warn: Callable[[str], None],
        *,
        batching: BatchingParameters | None = None,
        former_signature: Signature | None = None,
    ) -> None:
        self.source = source
        self.state = ModelState.START
        self.served: ServedVersion | None = None
        self.failure: TransloadError | None = None
        self.is_exhausted = False  # its process died too often
        self.settled = threading.Event()  # it has been available, or it has ended
        self._opener, self._metrics, self._on_change, self._warn = opener, metrics, on_change, warn
        self._batching, self._former_signature = batching, former_signature
        self._wake = threading.Event()
        self._is_retired = self._is_closed = False
        self._deaths = DeathLimit()
        self._thread = threading.Thread(target=self._keep, name=f"keep-{source.name}-{source.number}", daemon=True)

    @property
    def is_restarting(self) -> bool:
        """Whether it was available, and will be."""
        return self.state is ModelState.LOADING and self.settled.is_set()

    @property
    def is_over(self) -> bool:
        """Whether it answers no more, and will not again."""
        return self.state in {ModelState.UNLOADING, ModelState.END}

    def start(self) -> None:
        """Begin to load."""
        self._thread.start()

    def retire(self) -> None:
        """Be found by no new request; those that have found it are answered until `close`."""
        self._is_retired = True
        self.served = None
        self.state = ModelState.UNLOADING

    def close(self) -> None:
        """Let go of the session, after the run that is under way; return when that is done."""
        if not self.is_over:
            self.retire()
        self._is_closed = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self.state = ModelState.END

    def _keep(self) -> None:
        try:
            while not self._is_retired:
                cause = self._serve_until_lost()
                if not self._is_retired:
                    self._count_death(cause)
        except TransloadError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001  (whoever waits for the version has to learn that it has ended)
            self._fail(StepFailed(f"{type(error).__name__}: {first_line(error)}", fix="report it, with the model"))

    def _fail(self, error: TransloadError) -> None:
        self.failure = error
        self._set_state(ModelState.END)
        mend = f"; {error.fix}" if isinstance(error, BadRequest) else ""  # of the others it is to read the log
        self._warn(f"{self._title} is not served: {error.what}{mend}")

    def _serve_until_lost(self) -> str:
        """Open, and serve until the process ends; return what ended it. Raises what the opener raises."""
        start = time.monotonic()
        self._wake = lost = threading.Event()
        self.state = ModelState.LOADING
        was_available = self.settled.is_set()
        try:
            opened = self._opener(self.source, lost)
        except StepFailed as error:
            if was_available:
                return error.what
            raise
        served = ServedVersion(self.source.name, self.source.number, opened, self._metrics)
        try:
            if self.source.folder is not None:
                check_version(opened.session, self.source.folder, self._former_signature)
                self._allow_batches(served, opened.session, self.source.folder)
            served.loaded_bytes = served.resident_bytes
            self._metrics.add_model(self.source.name, opened.runtime)
            self.served = served
            if self._is_retired:
                self.served = None
            else:
                self._set_state(ModelState.AVAILABLE)
                if was_available:
                    self._warn(f"{self._title} answers again, after {time.monotonic() - start:.1f} s")
            if not self._is_closed:
                lost.wait()
            if not self._is_retired:
                self.state = ModelState.LOADING  # before it is found no more: requests are told to come again
            self.served = None
        except TransloadError:
            if not (was_available and lost.is_set()):
                raise
        finally:
            served.close()
        return opened.end_reason()

    def _allow_batches(self, served: ServedVersion, session: Session, folder: Path) -> None:
        """Gather requests into batches, where that is asked for and does not change the answers."""
        if self._batching is None:
            return
        alike = answers_rows_alike(session, folder)
        obstacle = served.start_batches(self._batching) if alike else "it answers a row otherwise beside other rows"
        if obstacle:
            self._warn(f"{self._title} is served without batches: {obstacle}")

    def _count_death(self, cause: str) -> None:
        """Raises StepFailed at the third death within a minute."""
        if self._deaths.is_reached_by_another():
            self.is_exhausted = True
            raise StepFailed(
                f"the process of {self._title} died {MOST_DEATHS} times within {WITHIN_S:g} s: {cause}",
                fix="read the log, and start the server again",
            )
        self._warn(f"{self._title} died and is started again: {cause}")

    @property
    def _title(self) -> str:
        return f"version {self.source.number} of the model {self.source.name}"

    def _set_state(self, state: ModelState) -> None:
        self.state = state
        self.settled.set()
        self._on_change()

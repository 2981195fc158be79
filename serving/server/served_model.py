"""A session with a name, and TF Serving's rules for a request to it; no wire format is known here.

The words of the errors are TF Serving's own, so that clients which read them go on working
(tensorflow/serving: servables/tensorflow/predict_util.cc, core/basic_manager.cc,
model_servers/get_model_status_impl.cc; tensorflow/cc/saved_model/util.cc).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from ...models.errors import BadRequest, SessionTimeout, TransloadError
from ...models.signature import Array, Signature
from ..checked_session import FeedCheck
from ..wire.tensor_proto import TooLarge
from .access_log import AccessLog
from .admission import Admission
from .metrics import Metrics, RequestRecord
from .server_records import MAX_BODY_BYTES

if TYPE_CHECKING:
    from ..session import Session

VERSION = 1
SIGNATURE = "serving_default"
MOST_WAITING = 64  # predictions, the one that runs among them; later ones are refused at once


class Code(IntEnum):
    """gRPC's status codes, as far as the server uses them (https://grpc.io/docs/guides/status-codes/)."""

    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    INTERNAL = 13
    UNAVAILABLE = 14


class ServingError(Exception):
    """A request that gets a status and not an answer. The server goes on."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def invalid(text: str) -> ServingError:
    """Return the status of a fault of the request."""
    return ServingError(Code.INVALID_ARGUMENT, text)


def unavailable() -> ServingError:
    """Return the error that refuses a request while the server shuts down."""
    return ServingError(Code.UNAVAILABLE, "the server is shutting down")


def as_status(error: ServingError | TransloadError) -> ServingError:
    """Map an error of a session to a status: its sentence, without the advice to the operator."""
    if isinstance(error, ServingError):
        return error
    if isinstance(error, TooLarge):
        return ServingError(Code.RESOURCE_EXHAUSTED, error.what)
    if isinstance(error, BadRequest):
        return invalid(error.what)
    timeout = isinstance(error, SessionTimeout)
    return ServingError(Code.DEADLINE_EXCEEDED if timeout else Code.INTERNAL, error.what)


class ServedModel:
    """One session, one request at a time.
    A session is not thread-safe, and a second one would hold the weights twice; so there is one lock. Parsing and
    encoding lie outside of it. On two cores a pool of sessions or batching gained nothing (docs/design/serving.md)."""

    def __init__(
        self,
        name: str,
        session: Session,
        max_body_bytes: int = MAX_BODY_BYTES,
        runtime: str = "unknown",
        access_log: AccessLog | None = None,
    ) -> None:
        self.name = name
        self.admission = Admission()
        self.metrics = Metrics(name, runtime)
        self.max_body_bytes = max_body_bytes
        self.signature: Signature = session.signature
        self.device = session.device
        # What the last run took, with the wait for the lock: REST decides by it where to run. The first may be slow.
        self.last_s = math.inf
        self._session = session
        self._access_log = access_log
        self._check = FeedCheck(self.signature.inputs)
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(MOST_WAITING)
        self._inputs = [spec.name for spec in self.signature.inputs]
        self._outputs = [spec.name for spec in self.signature.outputs]

    def check_servable(self, name: str, version: int | None) -> None:
        """Whether a predict or metadata request means this model. Raises ServingError NOT_FOUND."""
        if name != self.name or version not in (None, VERSION):
            wanted = f"Latest({name})" if version is None else f"Specific({name}, {version})"
            raise ServingError(Code.NOT_FOUND, f"Servable not found for request: {wanted}")

    def check_status_of(self, name: str, version: int | None) -> None:
        """Whether a status request means this model. Raises ServingError NOT_FOUND."""
        if name != self.name:
            raise ServingError(Code.NOT_FOUND, f"Could not find any versions of model {name}")
        if version not in (None, VERSION):
            raise ServingError(Code.NOT_FOUND, f"Could not find version {version} of model {name}")

    def check_inputs(self, names: Collection[str]) -> None:
        """Hold the names of a request's inputs against the signature. Raises ServingError INVALID_ARGUMENT."""
        names, wanted = sorted(names), sorted(self._inputs)
        if len(names) != len(wanted):
            extra, missing = sorted({*names} - {*wanted}), sorted({*wanted} - {*names})
            raise invalid(
                f"input size does not match signature: {len(names)}!={len(wanted)} "
                f"len({{{','.join(names)}}}) != len({{{','.join(wanted)}}}). "
                f"Sent extra: {{{','.join(extra)}}}. Missing but required: {{{','.join(missing)}}}."
            )
        for name in wanted:
            if name not in names:
                raise invalid(
                    f"Signature input alias: {name}(feed name: {feed_name(name)}) not found in request and no default "
                    f"value provided. Inputs expected to be in the request {{{','.join(names)}}}, or default input "
                    "alias set: "
                )

    def outputs(self, filtered: Sequence[str]) -> list[str]:
        """Return the names to answer with: those of the request's filter in its order, or all.
        Raises ServingError INVALID_ARGUMENT."""
        for at, name in enumerate(filtered):
            if name not in self._outputs:
                expected = ",".join(sorted(self._outputs))
                raise invalid(
                    f"output tensor alias not found in signature: {name} "
                    f"Outputs expected to be in the set {{{expected}}}."
                )
            if name in filtered[:at]:
                raise invalid(f"duplicate output tensor alias: {name}")
        return list(filtered) or self._outputs

    def predict(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the outputs of the session. Feeds that do not fit the signature are refused before the lock is taken.
        Raises what the session raises, and ServingError RESOURCE_EXHAUSTED where too many predictions wait."""
        start = time.perf_counter()
        self._check(feeds)
        if not self._places.acquire(blocking=False):
            raise ServingError(Code.RESOURCE_EXHAUSTED, f"{MOST_WAITING} requests wait for the model {self.name}")
        try:
            with self._lock:
                run_start = time.perf_counter()
                answers = self._session.run(feeds)
            self.metrics.add_run(time.perf_counter() - run_start)
            return answers
        finally:
            self._places.release()
            self.last_s = time.perf_counter() - start

    def add_request(self, record: RequestRecord) -> None:
        """Count and log a request that has its answer."""
        self.metrics.add_request(record)
        if self._access_log is not None:
            self._access_log.add(record)

    def close(self) -> None:
        """Close the session, after the run that is under way."""
        with self._lock:
            self._session.close()


def feed_name(name: str) -> str:
    """Return TensorFlow's name for the tensor of a SavedModel's input."""
    return f"serving_default_{name}:0"

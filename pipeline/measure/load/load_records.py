"""What became of each request of a load measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ....models.errors import BadRequest, SessionOverloaded, SessionTimeout
from ....models.signature import Array


class RequestStatus(IntEnum):
    """How a request ended."""

    OK = 0
    REFUSED = 1  # the server answered that it does not take it
    LOST = 2  # no answer
    TIMEOUT = 3  # no answer in time, or never sent, as the measurement was over


def status_of(error: Exception) -> RequestStatus:
    """Return the status of a request that ended with this error of a session."""
    if isinstance(error, SessionTimeout):
        return RequestStatus.TIMEOUT
    refused = isinstance(error, BadRequest | SessionOverloaded)
    return RequestStatus.REFUSED if refused else RequestStatus.LOST


@dataclass(frozen=True)
class LoadRecords:
    """Requests in the order of their intended times, in seconds after the start. All arrays have the shape (requests,).
    In a closed loop a request is intended when its connection is free, so `intended_s` and `sent_s` are one."""

    intended_s: Array
    sent_s: Array  # NaN: never sent
    done_s: Array  # NaN: never sent
    status: Array  # uint8, a RequestStatus

    def __len__(self) -> int:
        return len(self.intended_s)

    def count(self, status: RequestStatus) -> int:
        """Return how many requests ended so."""
        return int(np.count_nonzero(self.status == status))

    @property
    def latencies_s(self) -> Array:
        """Seconds from the intended time to the answer, sorted. A request without an answer takes for ever: leaving it
        out would make a server better that refuses what it is slow at."""
        seconds = np.where(self.status == RequestStatus.OK, self.done_s - self.intended_s, np.inf)
        return np.sort(seconds)

    def to_arrays(self) -> dict[str, Array]:
        """Return the arrays by name."""
        return {"intended": self.intended_s, "sent": self.sent_s, "done": self.done_s, "status": self.status}

    @staticmethod
    def from_arrays(arrays: Mapping[str, Array]) -> LoadRecords:
        """Reverse `to_arrays`. Raises BadRequest where they are none."""
        names = ("intended", "sent", "done", "status")
        shapes = {arrays[name].shape for name in names if name in arrays}
        if set(names) - set(arrays) or len(shapes) != 1 or len(shapes.pop()) != 1:
            raise BadRequest("the file holds no requests of a load measurement", fix="measure again")
        intended, sent, done = (np.asarray(arrays[name], dtype=np.float64) for name in names[:3])
        return LoadRecords(intended, sent, done, np.asarray(arrays["status"], dtype=np.uint8))

"""Ready steps that wait for a cluster's cores: that with the longest chain behind it goes first."""

from __future__ import annotations

import heapq
import threading
from itertools import count

from .backup_rule import BackupRule


class StepTicket:
    """A step's place in the queue, and its cores once they are its own."""

    def __init__(self, queue: StepQueue, cores: int, rest_s: float, number: int, *, is_copy: bool) -> None:
        self._queue = queue
        self.cores = cores
        self.rest_s = rest_s
        self.number = number
        self.is_copy = is_copy
        self.granted = threading.Event()
        self.is_over = False

    def __lt__(self, other: StepTicket) -> bool:
        return (-self.rest_s, self.number) < (-other.rest_s, other.number)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the cores are there, or for so long; return whether they are."""
        return self.granted.wait(seconds)

    def leave(self) -> list[StepTicket]:
        """Give the cores back, or the place in the queue; return the tickets that have theirs now. A second call does
        nothing."""
        return self._queue.leave(self)


class StepQueue:
    """The cores of a cluster, and the steps that wait for them. Thread-safe."""

    def __init__(self, cores: int, rule: BackupRule) -> None:
        self._cores = cores
        self._used = self._used_by_copies = 0
        self._rule = rule
        self._steps: list[StepTicket] = []
        self._copies: list[StepTicket] = []
        self._numbers = count()
        self._lock = threading.Lock()

    def resize(self, cores: int) -> None:
        """Take over how many cores the cluster has by now."""
        with self._lock:
            self._cores = cores
            self._grant()

    @property
    def has_idle_cores(self) -> bool:
        """Whether cores have nothing to do, and no step waits for them."""
        with self._lock:
            return self._used < self._cores and not self._steps

    def join(self, rest_s: float, cores: int = 1, *, is_copy: bool = False) -> StepTicket:
        """Queue a step. `rest_s`: the chain from its begin to the end of its model; `is_copy`: it is done already."""
        with self._lock:
            ticket = StepTicket(self, cores, rest_s, next(self._numbers), is_copy=is_copy)
            heapq.heappush(self._copies if is_copy else self._steps, ticket)
            self._grant()
            return ticket

    def leave(self, ticket: StepTicket) -> list[StepTicket]:
        """End a ticket; return those that have their cores now."""
        with self._lock:
            if ticket.is_over:
                return []
            ticket.is_over = True
            if ticket.granted.is_set():
                self._used -= ticket.cores
                self._used_by_copies -= ticket.cores * ticket.is_copy
            return self._grant()

    def _grant(self) -> list[StepTicket]:
        granted: list[StepTicket] = []
        while (heap := self._next_heap()) is not None:
            ticket = heap[0]
            # A step that asks for more than the cluster has runs alone.
            if self._used and self._used + ticket.cores > self._cores:
                break
            heapq.heappop(heap)
            self._used += ticket.cores
            self._used_by_copies += ticket.cores * ticket.is_copy
            ticket.granted.set()
            granted.append(ticket)
        return granted

    def _next_heap(self) -> list[StepTicket] | None:
        """Return the heap whose first ticket is next: a copy is, within its share, where its chain is the longer."""
        for heap in (self._steps, self._copies):
            while heap and heap[0].is_over:
                heapq.heappop(heap)
        if not (self._steps and self._copies):
            return self._steps or self._copies or None
        has_room = self._used_by_copies < self._rule.most_copies(self._cores)
        return self._copies if has_room and self._copies[0].rest_s > self._steps[0].rest_s else self._steps

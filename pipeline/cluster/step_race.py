"""A step on the nodes of a cluster: in its turn, and with a second copy on another node where it is late.

The rules are those of pipeline/schedule. A copy only ever helps: it counts where it brings a result before the first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

from ...models.errors import ToolMissing
from ..schedule.backup_rule import BackupRule, Pace
from ..schedule.step_queue import StepQueue, StepTicket
from ..workers.engine import run_stopped
from .step_order import Lack, StepDemand, StepForecast, StepOrder, StepReply, Unfit

_LOOK_FOR_TURN_S = 0.5  # whether the run was stopped, while a step waits for its turn
_LOOK_FOR_LATE_S = 5.0  # whether a step is late


@dataclass(frozen=True, eq=False)
class NodeTask:
    """A task that was handed to the nodes, and the nodes that it may be on."""

    ref: Any  # Ray's, of the reply
    nodes: frozenset[str]


class Nodes(Protocol):
    """What a race asks of the cluster."""

    def submit(self, order: StepOrder, demand: StepDemand, without: Mapping[str, Unfit]) -> NodeTask:
        """Hand an order to a node, with reasons why some are not to be asked.
        Raises ToolMissing where no node is left."""

    def wait(self, tasks: list[NodeTask], seconds: float) -> list[NodeTask]:
        """Wait until one of the tasks is over, or for so long; return those that are."""

    def reply(self, task: NodeTask) -> StepReply | None:
        """Return the reply of a task that is over; None where its node, or its process there, died."""

    def is_lost(self, task: NodeTask) -> bool:
        """Return whether no node is alive any more that a reply could come from."""

    def whereabouts(self, order: StepOrder) -> tuple[str, float] | None:
        """Return the node that does the step, and for how many seconds; None where it has not begun."""

    def cancel(self, task: NodeTask, order: StepOrder, winner: str | None) -> None:
        """End a step on all nodes but that of the winner. Does not wait."""

    def has_stopped(self, number: str) -> bool:
        """Return whether a run was stopped."""


class StepRace:
    """Has steps done on the nodes: each in its turn, and a late one twice. Thread-safe."""

    def __init__(
        self, nodes: Nodes, queue: StepQueue, rule: BackupRule, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.queue = queue
        self.rule = rule
        self.copies_won = 0
        self._nodes = nodes
        self._pace = Pace()
        self._clock = clock

    def run(
        self, order: StepOrder, demand: StepDemand, forecast: StepForecast, unfit: Mapping[str, Unfit]
    ) -> StepReply | None:
        """Return the reply to an order; None where its node died. `unfit`: nodes that are passed over, with reasons.
        Raises StepFailed where the run is stopped meanwhile."""
        with ExitStack() as stack:
            ticket = self.queue.join(forecast.rest_s, demand.cores)
            stack.callback(ticket.leave)
            while not ticket.wait(_LOOK_FOR_TURN_S):
                self._check_goes_on(order)
            self._check_goes_on(order)
            attempt = _Attempt(order, demand, forecast, unfit, self._nodes.submit(order, demand, unfit))
            attempt.begun_s = self._clock()
            stack.callback(lambda: attempt.ticket and attempt.ticket.leave())
            while not (is_over := self._look(attempt)):
                self._begin_copy(attempt)
            return is_over[0]

    def _look(self, attempt: _Attempt) -> tuple[StepReply | None, ...]:
        """Wait a while; return the reply that counts, in a tuple, or nothing yet."""
        tasks = [task for task in (attempt.first, attempt.copy) if task is not None]
        for task in self._nodes.wait(tasks, _LOOK_FOR_LATE_S):
            reply = self._nodes.reply(task)
            if task is attempt.copy:
                if reply is not None and reply.stored is not None:
                    self.copies_won += 1
                    self._nodes.cancel(attempt.first, attempt.order, reply.node)
                    return (reply,)
                attempt.end_copy()  # its errors do not count: the first one is under way
            elif reply is None and attempt.copy is not None:
                attempt.first, attempt.copy = attempt.copy, None  # the node died; the copy is the only one now
            else:
                if attempt.copy is not None:
                    self._nodes.cancel(attempt.copy, attempt.order, reply.node if reply else None)
                if reply is not None and reply.stored is not None and not reply.stored.cached:
                    self._pace.add(reply.stored.seconds, attempt.forecast.expected_s)
                return (reply,)
        if attempt.copy is None and self._nodes.is_lost(attempt.first):
            self._nodes.cancel(attempt.first, attempt.order, None)
            return (None,)
        return ()

    def _begin_copy(self, attempt: _Attempt) -> None:
        """Queue a copy of a step that is late, and begin it once it has its cores."""
        if attempt.ticket is None and attempt.forecast.may_copy and self._is_late(attempt):
            running = self._nodes.whereabouts(attempt.order)
            attempt.begun_s = self._clock() - (running[1] if running else 0.0)  # it may have waited for a node
            if running and self._is_late(attempt):
                attempt.node = running[0]
                attempt.ticket = self.queue.join(attempt.forecast.rest_s, attempt.demand.cores, is_copy=True)
        if attempt.ticket and attempt.copy is None and not attempt.ticket.is_over and attempt.ticket.wait(0):
            without = {**attempt.unfit, attempt.node: Unfit(Lack.OTHER_NODE, "it does the step already")}
            try:
                attempt.copy = self._nodes.submit(attempt.order, attempt.demand, without)
            except ToolMissing:  # there is no other node
                attempt.end_copy()

    def _is_late(self, attempt: _Attempt) -> bool:
        running_s = self._clock() - attempt.begun_s
        return running_s > self.rule.late_after_s(attempt.forecast.expected_s, self._pace.value)

    def _check_goes_on(self, order: StepOrder) -> None:
        if self._nodes.has_stopped(order.run.number):
            raise run_stopped()


@dataclass
class _Attempt:
    """A step that is under way, with its copy where it has one."""

    order: StepOrder
    demand: StepDemand
    forecast: StepForecast
    unfit: Mapping[str, Unfit]
    first: NodeTask
    begun_s: float = 0.0  # of the race's clock
    node: str = ""  # that does it, once it was late
    ticket: StepTicket | None = None  # of the copy: there is no second one
    copy: NodeTask | None = None

    def end_copy(self) -> None:
        """Forget the copy, and release its cores."""
        self.copy = None
        if self.ticket:
            self.ticket.leave()

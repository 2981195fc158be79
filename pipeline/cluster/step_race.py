"""A step on the nodes of a cluster: in its turn, and once more on another node where it is late.

The rules are those of pipeline/schedule. A copy only ever helps: it counts where it brings a result before the first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...models.errors import ToolMissing
from ..schedule.backup_rule import BackupRule, Pace
from ..schedule.step_queue import StepQueue, StepTicket
from ..workers.engine import run_stopped
from .step_order import Lack, StepDemand, StepForecast, StepOrder, StepReply, Unfit

_LOOK_FOR_TURN_S = 0.5  # between two checks whether the run was stopped, while a step waits for its turn
_LOOK_FOR_LATE_S = 2.0  # between two checks whether a step is late


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

    def whereabouts(self, order: StepOrder) -> Mapping[str, float]:
        """Return the nodes that do the step, and for how many seconds; none where it has not begun."""

    def cancel(self, task: NodeTask, order: StepOrder, winner: str | None) -> None:
        """End a step on all nodes but that of the winner. Does not wait."""

    def has_stopped(self, number: str) -> bool:
        """Return whether a run was stopped."""


class StepRace:
    """Has steps done on the nodes: each in its turn, and a late one more than once. Thread-safe."""

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
            step = _RunningStep(order, demand, forecast, unfit, [_Attempt(ticket)])
            stack.callback(step.leave)
            while not ticket.wait(_LOOK_FOR_TURN_S):
                self._check_goes_on(order)
            self._check_goes_on(order)
            step.attempts[0].task = self._nodes.submit(order, demand, unfit)
            step.begun_s = self._clock()
            while not (is_over := self._look(step)):
                self._begin_copies(step)
            return is_over[0]

    def _look(self, step: _RunningStep) -> tuple[StepReply | None, ...]:
        """Wait a while; return the reply that counts, in a tuple, or nothing yet."""
        for task in self._nodes.wait(step.tasks, _LOOK_FOR_LATE_S):
            attempt = next(attempt for attempt in step.attempts if attempt.task is task)
            reply = self._nodes.reply(task)
            has_result = reply is not None and reply.stored is not None
            if attempt is not step.attempts[0]:
                if has_result:
                    self.copies_won += 1
                    self._end_others(step, attempt, reply)
                    return (reply,)
                step.end(attempt)  # its errors do not count: the first one is under way
                if reply and reply.unfit:
                    step.unfit = {**step.unfit, reply.node: reply.unfit}
            elif reply is None and len(step.tasks) > 1:
                step.end(attempt)  # its node died; a copy counts as the first one now
                step.attempts.sort(key=lambda other: other.task is None)
            else:
                self._end_others(step, attempt, reply)
                if reply and reply.stored and not reply.stored.cached:
                    self._pace.add(reply.stored.seconds, step.forecast.expected_s)
                return (reply,)
        if len(step.tasks) == 1 and self._nodes.is_lost(step.tasks[0]):
            self._nodes.cancel(step.tasks[0], step.order, None)
            return (None,)
        return ()

    def _end_others(self, step: _RunningStep, winner: _Attempt, reply: StepReply | None) -> None:
        for task in step.tasks:
            if task is not winner.task:
                self._nodes.cancel(task, step.order, reply.node if reply else None)

    def _begin_copies(self, step: _RunningStep) -> None:
        """Queue a copy of a step that is late, and begin it once it has its cores."""
        if all(attempt.task for attempt in step.attempts):
            self._queue_copy(step)
        for attempt in [attempt for attempt in step.attempts if attempt.task is None]:
            if attempt.ticket.wait(0):
                try:
                    attempt.task = self._nodes.submit(step.order, step.demand, {**step.unfit, **step.without})
                except ToolMissing:  # there is no other node
                    step.end(attempt)

    def _queue_copy(self, step: _RunningStep) -> None:
        """Queue a copy of a step, if it may have one more and is late."""
        if not step.forecast.may_copy or step.begun >= self.rule.most_attempts or not self._is_late(step):
            return
        running = self._nodes.whereabouts(step.order)
        if len(running) < len(step.tasks):  # an attempt still waits for a node
            step.begun_s = self._clock()
            return
        step.begun_s = self._clock() - min(running.values())
        if self._is_late(step):
            step.without = {node: Unfit(Lack.OTHER_NODE, "it does the step already") for node in running}
            ticket = self.queue.join(step.forecast.rest_s, step.demand.cores, is_copy=True)
            step.attempts.append(_Attempt(ticket))
            step.begun += 1

    def _is_late(self, step: _RunningStep) -> bool:
        """Return whether the newest attempt is late; of a long step, one copy follows the other at once."""
        expected_s = step.forecast.expected_s
        after_s = self.rule.late_after_s(expected_s, self._pace.value, has_idle_cores=self.queue.has_idle_cores)
        return self._clock() - step.begun_s > after_s or (step.begun > 1 and self.rule.is_long(expected_s))

    def _check_goes_on(self, order: StepOrder) -> None:
        if self._nodes.has_stopped(order.run.number):
            raise run_stopped()


@dataclass(eq=False)
class _Attempt:
    """A place in the queue, and a task of the nodes once it was its turn."""

    ticket: StepTicket
    task: NodeTask | None = None


@dataclass
class _RunningStep:
    """A step that is under way, with the attempts at it; the errors of the first one count."""

    order: StepOrder
    demand: StepDemand
    forecast: StepForecast
    unfit: Mapping[str, Unfit]
    attempts: list[_Attempt]
    begun: int = 1  # attempts, with those that have ended
    begun_s: float = 0.0  # of the newest one, by the race's clock
    without: Mapping[str, Unfit] = field(default_factory=dict)  # the nodes that do it, when it was last late

    @property
    def tasks(self) -> list[NodeTask]:
        """The tasks of the nodes."""
        return [attempt.task for attempt in self.attempts if attempt.task is not None]

    def end(self, attempt: _Attempt) -> None:
        """Forget an attempt, and release its cores."""
        self.attempts.remove(attempt)
        attempt.ticket.leave()

    def leave(self) -> None:
        """Release the cores of all attempts, and the places of those that wait before they get them."""
        for attempt in reversed(self.attempts):
            attempt.ticket.leave()

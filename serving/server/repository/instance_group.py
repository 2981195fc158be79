"""Several processes of one version: each kept by itself, and asked by least load."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from ....models.errors import TransloadError
from .served_version import ServedVersion
from .version_keeper import ModelState, VersionKeeper, VersionSource


class InstanceGroup:
    """Keepers of one version, which are seen as one: it answers as long as one of them does."""

    def __init__(
        self,
        source: VersionSource,
        count: int,
        make_keeper: Callable[[Callable[[], None]], VersionKeeper],
        on_change: Callable[[], None],
    ) -> None:
        self.source = source
        self.settled = threading.Event()  # all have been available, or have ended
        self._on_change = on_change
        self._keepers: Sequence[VersionKeeper] = [make_keeper(self._change) for _ in range(count)]

    def _change(self) -> None:
        if all(keeper.settled.is_set() for keeper in self._keepers):
            self.settled.set()
        self._on_change()

    @property
    def served(self) -> ServedVersion | None:
        """The instance for which the fewest requests wait; None where none answers."""
        instances = [served for keeper in self._keepers if (served := keeper.served)]
        return min(instances, key=lambda served: served.waiting, default=None)

    @property
    def state(self) -> ModelState:
        """AVAILABLE where one is; else the state that is furthest from it."""
        states = [keeper.state for keeper in self._keepers]
        return ModelState.AVAILABLE if ModelState.AVAILABLE in states else min(states)

    @property
    def failure(self) -> TransloadError | None:
        """What ended one of them, where no other answers, nor will."""
        return next((keeper.failure for keeper in self._keepers if keeper.failure), None) if self.is_over else None

    @property
    def is_restarting(self) -> bool:
        """Whether one was available, and will be."""
        return any(keeper.is_restarting for keeper in self._keepers)

    @property
    def is_over(self) -> bool:
        """Whether all answer no more, and will not again."""
        return all(keeper.is_over for keeper in self._keepers)

    @property
    def is_exhausted(self) -> bool:
        """Whether the process of one died too often."""
        return any(keeper.is_exhausted for keeper in self._keepers)

    def start(self) -> None:
        """Begin to load all."""
        for keeper in self._keepers:
            keeper.start()

    def retire(self) -> None:
        """Be found by no new request; those that have found an instance are answered until `close`."""
        for keeper in self._keepers:
            keeper.retire()

    def close(self) -> None:
        """Let go of all sessions, after the runs that are under way."""
        for keeper in self._keepers:
            keeper.close()

"""What the models of one command share."""

from __future__ import annotations

from dataclasses import dataclass

from .loaded_frameworks import LoadedFrameworks
from .worker_slots import WorkerSlots


@dataclass(frozen=True)
class SharedWorkers:
    """Slots for the workers of all models, and the frameworks that these are forked from: loaded once, not per model.
    The executor of a model that shares with nobody has frameworks of its own (None)."""

    slots: WorkerSlots
    frameworks: LoadedFrameworks | None = None

    def stop(self) -> None:
        """End the workers of all models, now. The frameworks stay until their owner closes them."""
        self.slots.stop()

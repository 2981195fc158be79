"""PyTorch, eager, in the interpreter that the user's model lives in: the reference of such a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...models.errors import ToolMissing
from ...models.foreign.foreign_module import open_foreign
from ...models.sources import read_source
from .torch_callable import TorchSession, torch_device

if TYPE_CHECKING:
    import torch

    from ...models.signature import Signature


def open_foreign_session(runtime: str, folder: Path, device: str, threads: int, *, onednn: bool) -> TorchSession:
    """Open a session over a source whose code lives in another interpreter.
    Raises BadRequest where its interpreter or its code cannot be used, ToolMissing for a GPU."""
    if device != "cpu":
        raise ToolMissing(
            f"a model of another interpreter answers on the CPU alone, and {device} was asked for",
            fix="use --device cpu, or install its packages beside transload and give --python self",
        )
    source = read_source(folder)
    module, there = open_foreign(folder, source, threads, onednn=onednn)
    return ForeignSession(runtime, source.signature, module, torch_device(device, threads), there)


class ForeignSession(TorchSession):
    """A session whose calls go to the user's interpreter and back; their transfer is in the time of each."""

    def __init__(self, runtime: str, signature: Signature, module: Any, at: torch.device, there: Any) -> None:
        super().__init__(runtime, signature, module, at)
        self._there = there
        self.device = str(at)  # its weights lie in the other interpreter

    def widen(self, noise: float = 0.0, seed: int = 0) -> None:
        """See serving.session.WideningSession.widen."""
        self._there.widen(noise, seed)

    @property
    def table_rows(self) -> tuple[int, ...]:
        """How many rows each of the module's matrices has."""
        rows: Sequence[int] = self._there.description.tables
        return tuple(rows)

    def _release(self) -> None:
        self._there.process.close()
        super()._release()

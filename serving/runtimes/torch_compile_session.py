"""torch.compile: a source's module, or a `pt2` artifact's exported program, compiled by Inductor at its first calls.

The whole model is one graph (`fullgraph`), or the session refuses: where Dynamo gives up on a line, it would run the
rest of the model eagerly, and a figure would be a mixture. Sizes that are open stay open: one program for batch 1, as
Dynamo specialises on 1 whatever it is told, and one for all other sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ...models.errors import SessionLost
from ...models.signature import Signature
from ..session import Session
from .inductor_cache import prepare_inductor
from .payload import opening
from .torch_callable import TorchSession, torch_device
from .torch_eager_session import open_module

NAME = "torch-compile"


def open_session(folder: Path, device: str, threads: int) -> Session:
    """Open a session over the source or the `pt2` artifact in `folder`. The first call at a size compiles.
    Raises BadRequest where it cannot be opened, ToolMissing where PyTorch, a compiler or the device is not there."""
    with ExitStack() as undo:
        with opening(NAME, folder):
            at = torch_device(device, threads)
            prepare_inductor(NAME, undo)
        signature, module = open_module(folder, at, NAME)
        with opening(NAME, folder):
            import torch

            dynamic = any(isinstance(axis, str) for spec in signature.inputs for axis in spec.shape)
            torch.compiler.reset()
            compiled = torch.compile(module, fullgraph=True, dynamic=dynamic)
        return TorchCompileSession(signature, module, compiled, at, undo.pop_all())


class TorchCompileSession(TorchSession):
    """A compiled module. `module`: the same before, which has its weights. `undo` lets go of what was compiled."""

    def __init__(
        self,
        signature: Signature,
        module: Callable[..., Any],
        compiled: Callable[..., Any],
        device: Any,
        undo: ExitStack,
    ) -> None:
        super().__init__(NAME, signature, module, device)
        self._module = compiled
        self._undo = undo

    def widen(self, noise: float = 0.0, seed: int = 0) -> None:  # noqa: ARG002  (of the protocol)
        """Refuse: what is compiled is compiled for float32."""
        raise SessionLost(f"{NAME} cannot answer in float64", fix="use the runtime torch")

    def _release(self) -> None:
        super()._release()
        self._undo.close()

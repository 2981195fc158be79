"""AOTInductor: a `pt2` artifact's exported program, compiled ahead of all calls into a library, which answers alone.

Neither Dynamo nor guards stand between a call and the library, and the sizes that the program has open are open in it:
no call compiles anything.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ...models.artifact import read_artifact
from ...models.exported_program import load_program
from ...models.signature import Signature
from ..session import Session
from .inductor_cache import load_compiled, prepare_inductor
from .payload import opening
from .torch_callable import TorchSession, torch_device

NAME = "aotinductor"


def open_session(folder: Path, device: str, threads: int) -> Session:
    """Compile the `pt2` artifact in `folder`, and open a session over the library.
    Raises BadRequest where it cannot be opened, ToolMissing where PyTorch, a compiler or the device is not there."""
    artifact = read_artifact(folder)
    with ExitStack() as undo, opening(NAME, artifact.path):
        at = torch_device(device, threads)
        place = prepare_inductor(NAME, undo)
        loaded = load_compiled(load_program(artifact.path), place)
        return AotInductorSession(artifact.signature, loaded, at, undo.pop_all())


class AotInductorSession(TorchSession):
    """A library of Inductor's. `undo` removes its folder."""

    def __init__(self, signature: Signature, module: Callable[..., Any], device: Any, undo: ExitStack) -> None:
        super().__init__(NAME, signature, module, device)
        self._undo = undo

"""A model in the interpreter that it lives in, PyTorch's or Keras's, eager: the reference of all its copies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...models.errors import ToolMissing
from ...models.sources import read_source
from ...models.user_python.inside.conversation import TENSORFLOW
from ...models.user_python.module_proxy import open_user_python
from ..checked_session import CheckedSession
from .torch_callable import TorchSession, host_copy, torch_device

if TYPE_CHECKING:
    import torch

    from ...models.signature import Array, Signature

_OF_VALUES = (
    "InvalidArgumentError",
    "OutOfRangeError",
)  # TensorFlow's errors by which it says that a value is at fault


def open_user_python_session(
    runtime: str, folder: Path, device: str, threads: int, *, onednn: bool
) -> UserModuleSession | UserKerasSession:
    """Open a session over a source whose code lives in another interpreter.
    Raises BadRequest where its interpreter or its code cannot be used, ToolMissing for a GPU."""
    if device != "cpu":
        raise ToolMissing(
            f"a model of another interpreter answers on the CPU alone, and {device} was asked for",
            fix="use --device cpu, or install its packages beside transload and give --python self",
        )
    source = read_source(folder)
    module, there = open_user_python(folder, source, threads, onednn=onednn)
    if there.process.python.framework == TENSORFLOW:
        return UserKerasSession(source.signature, module, there)
    return UserModuleSession(runtime, source.signature, module, torch_device(device, threads), there)


class UserModuleSession(TorchSession):
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


class UserKerasSession(CheckedSession):
    """A session over a model of Keras or TensorFlow elsewhere. It has no answers in float64: Keras widens no model."""

    def __init__(self, signature: Signature, module: Any, there: Any) -> None:
        super().__init__(there.process.python.framework_summary, signature, "cpu", (IndexError, ValueError))
        self._module, self._there = module, there

    @property
    def table_rows(self) -> tuple[int, ...]:
        """How many rows each of the model's matrices has."""
        rows: Sequence[int] = self._there.description.tables
        return tuple(rows)

    def _answer(self, values: Sequence[Array]) -> list[Array]:
        import torch

        from ...models.loading.build import name_outputs

        try:
            returned = self._module(*(torch.from_numpy(host_copy(value, copied_later=False)) for value in values))
        except RuntimeError as error:
            if type(error).__name__ in _OF_VALUES:
                raise IndexError(str(error)) from error
            raise
        return [answer.numpy() for answer in name_outputs(returned, self._outputs).values()]

    def _release(self) -> None:
        self._there.process.close()

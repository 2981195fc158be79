"""PyTorch, eager: a source's module, or a `pt2` artifact's exported program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...models.artifact import read_artifact
from ...models.exported_program import load_program
from ...models.signature import Signature
from ...models.sources import is_source, read_source
from ..session import Session
from .payload import opening
from .torch_callable import TorchSession, torch_device, use_onednn
from .user_python_session import open_user_python_session

NAME = "torch"


def open_session(
    folder: Path, device: str, threads: int, *, channels_last: bool = False, onednn: bool = True
) -> Session:
    """Open a session over the source or the `pt2` artifact in `folder`.
    `channels_last`: pictures and the weights of their convolutions lie in memory with the channels last; `onednn`:
    whether PyTorch may call oneDNN.
    Raises BadRequest where it cannot be opened, ToolMissing where PyTorch or the device is not there."""
    if is_source(folder) and read_source(folder).ref.python:
        return open_user_python_session(NAME, folder, device, threads, onednn=onednn)
    with opening(NAME, folder):
        at = torch_device(device, threads)
        use_onednn(enabled=onednn)
    signature, module = open_module(folder, at)
    return TorchSession(NAME, signature, module, at, channels_last=channels_last)


def open_module(folder: Path, at: Any, runtime: str = NAME) -> tuple[Signature, Callable[..., Any]]:
    """Open the source or the `pt2` artifact in `folder` on a device, as a function of its inputs by position.
    Errors name the `runtime`."""
    return _from_source(folder, at) if is_source(folder) else _from_pt2(folder, at, runtime)


def _from_source(folder: Path, at: Any) -> tuple[Signature, Callable[..., Any]]:
    from ...models.loading.build import build_model

    signature = read_source(folder).signature
    return signature, build_model(folder).eval().to(at)


def _from_pt2(folder: Path, at: Any, runtime: str) -> tuple[Signature, Callable[..., Any]]:
    artifact = read_artifact(folder)
    with opening(runtime, artifact.path):
        from torch.export.passes import move_to_device_pass

        program = load_program(artifact.path)
        if at.type != "cpu":
            program = move_to_device_pass(program, at)  # constants inside the graph name their device, too
        return artifact.signature, program.module()

"""Notes for the user on how a model was made, kept on the module until they are printed. Worker only."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_PLACE = "_transload_notes"


def add_note(model: torch.nn.Module, text: str) -> None:
    """Keep a sentence on a model's weights. Other weights make it void."""
    model.__dict__.setdefault(_PLACE, []).append(text)


def notes_of(model: torch.nn.Module) -> list[str]:
    """Return the sentences, in order."""
    return list(model.__dict__.get(_PLACE, ()))

"""The state dict of a user's module, without what only its library reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def state_of_module(module: torch.nn.Module) -> dict[str, Any]:
    """Return the module's state dict as torch made it, versions of layers included, without notes of a library.

    neuraloperator's models override `state_dict` and add their settings under `_metadata`. Such an entry is no weight,
    and loading does without it. Extra state of a module is kept: `load_state_dict` asks for it.
    """
    import torch

    state = module.state_dict()
    for name in [name for name, value in state.items() if not isinstance(value, torch.Tensor)]:
        if name.split(".")[-1] != "_extra_state":
            del state[name]
    return state

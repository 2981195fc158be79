"""The state dict of a user's module, without what only its library reads, and memory that it can be loaded into."""

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


def separate_overlaps(module: torch.nn.Module) -> None:
    """Give each parameter and buffer whose elements share memory, as those of `expand`, memory of its own.

    torch copies nothing into such a tensor, or, where it cannot tell, one element over the other.
    """
    import torch

    for tensor in [*module.parameters(), *module.buffers()]:
        strided = tensor.layout == torch.strided and not tensor.is_quantized
        if strided and not torch.nn.parameter.is_lazy(tensor) and _may_overlap(tensor):
            tensor.data = tensor.detach().clone(memory_format=torch.contiguous_format)


def _may_overlap(tensor: torch.Tensor) -> bool:
    """Return whether two elements may share memory: the steps of an axis do not reach over all smaller axes."""
    reach = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size > 1:
            if stride < reach:
                return bool(tensor.numel())
            reach += stride * (size - 1)
    return False

"""Edits of a PyTorch module, for mutants that a TorchScript file is traced from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from onnx_edit import Site
from torch import Tensor, nn

ModuleEdit: TypeAlias = Callable[[nn.Module], Site]


def _part(module: nn.Module, path: str) -> Any:
    return module.get_submodule(path)


def attribute_set(path: str, name: str, value: object, op_type: str) -> ModuleEdit:
    """Return an edit that sets an attribute of a submodule."""

    def edit(module: nn.Module) -> Site:
        setattr(_part(module, path), name, value)
        return Site(op_type, op_type, path)

    return edit


def replaced(path: str, part: nn.Module, op_type: str) -> ModuleEdit:
    """Return an edit that puts another module in a submodule's place, with its weights."""

    def edit(module: nn.Module) -> Site:
        part.load_state_dict(_part(module, path).state_dict())
        module.set_submodule(path, part.eval())
        return Site(op_type, op_type, path)

    return edit


def weight_changed(path: str, change: Callable[[Tensor], Tensor], op_type: str, name: str = "weight") -> ModuleEdit:
    """Return an edit that changes a parameter or buffer."""

    def edit(module: nn.Module) -> Site:
        tensor = getattr(_part(module, path), name)
        with torch.no_grad():
            tensor.copy_(change(tensor.clone()))
        return Site(op_type, op_type, path)

    return edit


def transposed_gates(path: str, order: tuple[int, ...]) -> ModuleEdit:
    """Return an edit that puts the gates of a recurrent layer in another order."""

    def edit(module: nn.Module) -> Site:
        with torch.no_grad():
            for tensor in _part(module, path).parameters():
                parts = tensor.clone().chunk(len(order), 0)
                tensor.copy_(torch.cat([parts[at] for at in order]))
        return Site("aten::lstm", "aten::lstm", path)

    return edit


def one_sign(weights: Tensor) -> Tensor:
    """Change the sign of one small weight."""
    flat = weights.reshape(-1)
    at = flat.abs().argsort()[flat.numel() // 20]
    flat[at] = -flat[at]
    return flat.reshape(weights.shape)


def rows_clipped(first: int) -> Callable[[Tensor], Tensor]:
    """Return a change that makes rows from `first` on equal to the row before."""

    def change(table: Tensor) -> Tensor:
        table[first:] = table[first - 1]
        return table

    return change

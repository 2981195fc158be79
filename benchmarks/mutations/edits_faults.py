"""Faults planted in a module before it is exported: they show where a condition holds that the declaration allows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from edits_module import ModuleEdit
from onnx_edit import Site
from torch import Tensor, nn

Inputs: TypeAlias = tuple[Tensor, ...]
Condition: TypeAlias = Callable[[Inputs], Tensor]  # a scalar, or one truth value for each sample
Change: TypeAlias = Callable[[Tensor], Tensor]


def _wrap(module: nn.Module, forward: Callable[..., Any], site: str) -> Site:
    """Call `forward(inner, inputs)` in the place of the module's own, with that one's signature."""
    inner = module.forward
    module.forward = functools.wraps(inner)(lambda *inputs: forward(inner, inputs))
    return Site(site, site)


def answers(change: Change, when: Condition | None = None) -> ModuleEdit:
    """Return an edit that changes the first output, everywhere or where a condition holds."""

    def forward(inner: Callable[..., Any], inputs: Inputs) -> Any:
        answer = inner(*inputs)
        first = answer[0] if isinstance(answer, tuple) else answer
        changed = change(first)
        if when is not None:
            holds = when(inputs)
            changed = torch.where(holds.reshape(-1, *[1] * (first.dim() - 1)) if holds.dim() else holds, changed, first)
        return (changed, *answer[1:]) if isinstance(answer, tuple) else changed

    return lambda module: _wrap(module, forward, "answer")


def inputs(change: Change, at: int = 0) -> ModuleEdit:
    """Return an edit that changes an input before the module sees it."""

    def forward(inner: Callable[..., Any], inputs: Inputs) -> Any:
        return inner(*inputs[:at], change(inputs[at]), *inputs[at + 1 :])

    return lambda module: _wrap(module, forward, "input")


def attribute(**values: object) -> ModuleEdit:
    """Return an edit that sets attributes of the module or, as "part__name", of one of its parts."""

    def edit(module: nn.Module) -> Site:
        for name, value in values.items():
            path, _, leaf = name.rpartition("__")
            setattr(module.get_submodule(path), leaf, value)
        return Site("constant", "constant")

    return edit


def column(at: int, change: Change, axis: int = -1) -> Change:
    """Return a change of one column along an axis."""

    def changed(answer: Tensor) -> Tensor:
        parts = list(torch.split(answer, 1, axis))
        parts[at] = change(parts[at])
        return torch.cat(parts, axis)

    return changed


def off(answer: Tensor) -> Tensor:
    """Change an answer by a quarter and a tenth."""
    return answer * 1.25 + 0.1


def size(tensor: Tensor, axis: int) -> Tensor:
    """Return a size as a value of the graph: an exporter that traces would make a constant of `tensor.shape`."""
    return torch.ones(tensor.shape[axis], dtype=torch.int64).sum()


def sizes(holds: Callable[..., Tensor], *axes: int) -> Condition:
    """Return a condition on sizes of the first input."""
    return lambda inputs: holds(*(size(inputs[0], axis) for axis in axes))


def forgotten_after(length: int) -> Change:
    """Return a change that leaves zeros of all frames from a length on."""

    def change(frames: Tensor) -> Tensor:
        kept = torch.arange(frames.shape[1]) < length
        return frames * kept.to(frames.dtype).reshape(1, -1, *[1] * (frames.dim() - 2))

    return change


def ones_first(mask: Tensor) -> Tensor:
    """Count the ones, and take as many from the start: right padding is assumed."""
    count = mask.to(torch.int64).sum(1, keepdim=True)
    return (torch.arange(mask.shape[1])[None] < count).to(mask.dtype)


def holes_filled(mask: Tensor) -> Tensor:
    """Take all between the first one and the last one."""
    ones = mask.to(torch.int64)
    return ((ones.cumsum(1) > 0) & (ones.flip(1).cumsum(1).flip(1) > 0)).to(mask.dtype)


def last_lost_of_full(mask: Tensor) -> Tensor:
    """Lose the last position where nothing of 64 is masked."""
    ones = mask.to(torch.int64)
    is_full = (ones.sum(1, keepdim=True) == 64) & (torch.arange(mask.shape[1])[None] == 63)
    return (ones * (~is_full).to(torch.int64)).to(mask.dtype)


def _ones(inputs: Inputs) -> Tensor:
    return inputs[-1].to(torch.int64)


def single(inputs: Inputs) -> Tensor:
    """Whether one position counts and others do not, by sample."""
    ones = _ones(inputs)
    return (ones.sum(1) == 1) & (size(ones, 1) > 1)


def padded_left(inputs: Inputs) -> Tensor:
    """Whether the first position is masked and the last one counts, by sample."""
    ones = _ones(inputs)
    return (ones[:, 0] == 0) & (ones[:, -1] == 1)


def full_and_long(inputs: Inputs) -> Tensor:
    """Whether nothing is masked of more than 32 positions, by sample."""
    ones = _ones(inputs)
    return (ones.sum(1) == size(ones, 1)) & (size(ones, 1) > 32)


def nan_becomes(value: float | str) -> Change:
    """Return a change of NaN to a number, to the next column's value ("next"), or in the last column alone ("last")."""

    def change(values: Tensor) -> Tensor:
        if value == "next":
            return torch.where(torch.isnan(values), torch.nan_to_num(values.roll(1, -1)), values)
        if value == "last":
            return torch.cat([values[..., :-1], torch.nan_to_num(values[..., -1:])], -1)
        return torch.where(torch.isnan(values), torch.full_like(values, float(value)), values)

    return change


def nan_kept() -> ModuleEdit:
    """Return an edit that answers NaN where an input of the sample is NaN."""

    def forward(inner: Callable[..., Any], inputs: Inputs) -> Any:
        answer = inner(*inputs)
        has_nan = torch.isnan(inputs[0]).flatten(1).any(1).reshape(-1, *[1] * (answer.dim() - 1))
        return torch.where(has_nan, torch.full_like(answer, float("nan")), answer)

    return lambda module: _wrap(module, forward, "answer")


def rows(path: str, first: int, change: Change, end: int | None = None) -> ModuleEdit:
    """Return an edit that changes rows of a table."""

    def edit(module: nn.Module) -> Site:
        table: Any = module.get_submodule(path).weight
        with torch.no_grad():
            table[first:end] = change(table[first:end].clone())
        return Site("aten::embedding", "aten::embedding", path)

    return edit

"""Loops. T steps at most, of which each makes states and outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    from ..lazy_torch import torch


def plain_copy(x: Tensor) -> Tensor:
    """A copy in the ordinary order of memory: PyTorch's branches and steps must agree in it, and give nothing that
    they were given."""
    return x.clone(memory_format=torch.contiguous_format)


def turned(
    step: Callable[..., tuple[Tensor, ...]],
    first: Tensor,
    count: Tensor | int,
    states: tuple[Tensor, ...],
    outputs: tuple[Tensor, ...],
) -> tuple[Tensor, ...]:
    """Runs `step(at, *states)`, which says whether there is another one and gives states and outputs, `count` times at
    most: how many ran, the last states, and each output of these, written into the tensors `outputs` (T, ...)."""
    limit = plain_copy(count) if isinstance(count, torch.Tensor) else count

    def more(at: Tensor, goes_on: Tensor, *_: Tensor) -> Tensor:
        return goes_on & (at < limit)

    def body(at: Tensor, _: Tensor, *held: Tensor) -> tuple[Tensor, ...]:
        asked, *made = step(at, *held[: len(states)])
        after, new = made[: len(states)], made[len(states) :]
        rows = zip(held[len(states) :], new, strict=True)
        filled = tuple(rows_before.index_copy(0, at.reshape(1), row.unsqueeze(0)) for rows_before, row in rows)
        return at + 1, plain_copy(asked.reshape(())), *(plain_copy(each) for each in after), *filled

    none = torch.zeros((), dtype=torch.int64, device=first.device)
    carried = (plain_copy(first.reshape(())), *(plain_copy(each) for each in states), *outputs)
    ran, _, *last = torch._higher_order_ops.while_loop(more, body, (none, *carried))
    return ran, *last


def counted_loop(
    step: Callable[..., tuple[Tensor, ...]],
    count: Tensor | int,
    states: tuple[Tensor, ...],
    outputs: tuple[Tensor, ...],
) -> tuple[Tensor, ...]:
    """Runs `step(at, *states)`, which gives states and outputs, `count` times: the last states, and each output of all
    steps, written into the tensors `outputs` (T, ...)."""

    def going_on(at: Tensor, *held: Tensor) -> tuple[Tensor, ...]:
        return torch.ones((), dtype=torch.bool, device=at.device), *step(at, *held)

    device = next((each.device for each in (*states, *outputs)), None)
    return turned(going_on, torch.ones((), dtype=torch.bool, device=device), count, states, outputs)[1:]


def asking_loop(
    step: Callable[..., tuple[Tensor, ...]],
    first: Tensor,
    count: Tensor | int,
    states: tuple[Tensor, ...],
    outputs: tuple[Tensor, ...],
) -> tuple[Tensor, ...]:
    """As counted_loop, for as long as `first`, and then the first of what each step gives, holds. Of the outputs only
    the rows of the steps that ran are given."""
    ran, *last = turned(step, first, count, states, outputs)
    if not outputs:
        return tuple(last)
    size = ran.item()
    torch._check(size >= 0)
    torch._check(size <= outputs[0].shape[0])
    those = torch.arange(size, device=ran.device)
    return *last[: len(states)], *(rows.index_select(0, those) for rows in last[len(states) :])

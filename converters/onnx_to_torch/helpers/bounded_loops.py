"""Loops of T steps at most. Each step returns states and outputs."""

from __future__ import annotations

from collections.abc import Callable

from ..lazy_torch import Tensor, torch


def plain_copy(x: Tensor) -> Tensor:
    """Return a contiguous copy: PyTorch's branches and steps must agree in strides and may not return an input."""
    return x.clone(memory_format=torch.contiguous_format)


def turned(
    step: Callable[..., tuple[Tensor, ...]],
    first: Tensor,
    count: Tensor | int,
    states: tuple[Tensor, ...],
    outputs: tuple[Tensor, ...],
) -> tuple[Tensor, ...]:
    """Run `step(at, *states)`, which returns whether to go on, states and outputs, `count` times at most. Return how
    many steps ran, the last states, and each output written into a row of `outputs` (T, ...)."""
    limit = plain_copy(count) if isinstance(count, torch.Tensor) else count

    def more(at: Tensor, goes_on: Tensor, *_: Tensor) -> Tensor:
        return goes_on & (at < limit)

    def body(at: Tensor, _: Tensor, *held: Tensor) -> tuple[Tensor, ...]:
        goes_on, *new = step(at, *held[: len(states)])
        after, new = new[: len(states)], new[len(states) :]
        rows = zip(held[len(states) :], new, strict=True)
        filled = tuple(rows_before.index_copy(0, at.reshape(1), row.unsqueeze(0)) for rows_before, row in rows)
        return at + 1, plain_copy(goes_on.reshape(())), *(plain_copy(state) for state in after), *filled

    none = torch.zeros((), dtype=torch.int64, device=first.device)
    carried = (plain_copy(first.reshape(())), *(plain_copy(state) for state in states), *outputs)
    ran, _, *last = torch._higher_order_ops.while_loop(more, body, (none, *carried))
    return ran, *last


def counted_loop(
    step: Callable[..., tuple[Tensor, ...]],
    count: Tensor | int,
    states: tuple[Tensor, ...],
    outputs: tuple[Tensor, ...],
) -> tuple[Tensor, ...]:
    """Run `step(at, *states)`, which returns states and outputs, `count` times. Return the last states, and each output
    of all steps written into `outputs` (T, ...)."""

    def going_on(at: Tensor, *held: Tensor) -> tuple[Tensor, ...]:
        return torch.ones((), dtype=torch.bool, device=at.device), *step(at, *held)

    device = next((tensor.device for tensor in (*states, *outputs)), None)
    return turned(going_on, torch.ones((), dtype=torch.bool, device=device), count, states, outputs)[1:]


def asking_loop(
    step: Callable[..., tuple[Tensor, ...]],
    first: Tensor,
    count: Tensor | int,
    states: tuple[Tensor, ...],
    outputs: tuple[Tensor, ...],
) -> tuple[Tensor, ...]:
    """Run as counted_loop does, for as long as `first`, and then the first value that each step returns, holds. Outputs
    have only the rows of the steps that ran."""
    ran, *last = turned(step, first, count, states, outputs)
    if not outputs:
        return tuple(last)
    size = ran.item()
    torch._check(size >= 0)
    torch._check(size <= outputs[0].shape[0])
    rows_run = torch.arange(size, device=ran.device)
    return *last[: len(states)], *(rows.index_select(0, rows_run) for rows in last[len(states) :])

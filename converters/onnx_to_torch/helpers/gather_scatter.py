"""Elements read and written by their indices."""

from __future__ import annotations

from ..lazy_torch import Tensor, torch


def backwards(x: Tensor, axis: int, start: int, end: int, step: int) -> Tensor:
    """Return x[start:end:step] along an axis for a negative step, with Python's rules for what lies outside."""
    size = x.shape[axis]
    first = torch.sym_min(start + size if start < 0 else start, size - 1)
    last = torch.sym_max(end + size if end < 0 else end, -1)
    return x.index_select(axis, torch.arange(first, torch.sym_min(last, first), step, device=x.device))


def gather_places(x: Tensor, indices: Tensor, batch_axes: int) -> Tensor:
    """Return slices of x at the indices along the last axis of `indices`, beside axes that both share."""
    depth = indices.shape[-1]
    batch, inside, rest = x.shape[:batch_axes], x.shape[batch_axes : batch_axes + depth], x.shape[batch_axes + depth :]
    flat = torch.zeros_like(indices[..., 0].long())
    for at, size in enumerate(inside):
        place = indices[..., at].long()
        flat = flat * size + torch.where(place < 0, place + size, place)
    count, elements, places = 1, 1, 1  # no -1: of nothing, torch cannot tell what it stands for
    for size in batch:
        count = count * size
    for size in inside:
        elements = elements * size
    for size in flat.shape[batch_axes:]:
        places = places * size
    rows, flat = x.reshape(count, elements, *rest), flat.reshape(count, places)
    picked = rows[torch.arange(count, device=x.device)[:, None], flat]
    return picked.reshape(*indices.shape[:-1], *rest)


def scatter_places(x: Tensor, indices: Tensor, updates: Tensor, reduction: str) -> Tensor:
    """Return x with `updates` put into the slices that the last axis of `indices` names."""
    depth = indices.shape[-1]
    flat = torch.zeros_like(indices[..., 0].long())
    for at in range(depth):
        place = indices[..., at].long()
        flat = flat * x.shape[at] + torch.where(place < 0, place + x.shape[at], place)
    rest = x.shape[depth:]
    count = 1
    for size in rest:
        count = count * size
    inner = torch.arange(count, device=x.device)
    at_element = (flat.reshape(-1, 1) * count + inner).reshape(-1)
    return x.reshape(-1).scatter_reduce(0, at_element, updates.reshape(-1), reduction).reshape(x.shape)


def one_hot(indices: Tensor, depth: int, off_on: Tensor, axis: int) -> Tensor:
    """Return off_on[1] where an index names the place (negative ones from the end), else off_on[0]."""
    places = torch.arange(depth, device=indices.device)
    wanted = indices.long()
    wanted = torch.where(wanted < 0, wanted + depth, wanted).unsqueeze(axis)
    shape = [1] * wanted.dim()
    shape[axis] = -1
    return torch.where(wanted == places.reshape(shape), off_on[1], off_on[0])


def largest_first(x: Tensor, count: int, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
    """Return the `count` largest or smallest along an axis and their indices; of equals the first comes first."""
    values, places = torch.sort(x, dim=axis, descending=largest, stable=True)
    return values.narrow(axis, 0, count), places.narrow(axis, 0, count)


def last_extreme(x: Tensor, axis: int, keep: bool, largest: bool) -> Tensor:
    """Return the index of the largest or smallest along an axis: the last of equals."""
    turned = x.flip(axis)
    place = turned.argmax(axis, keep) if largest else turned.argmin(axis, keep)
    return x.shape[axis] - 1 - place


def reversed_sequences(x: Tensor, lengths: Tensor, batch_axis: int, time_axis: int) -> Tensor:
    """Reverse each sequence up to its length; the rest stays."""
    time = torch.arange(x.shape[time_axis], device=x.device)
    place = torch.where(time < lengths[:, None], lengths[:, None] - 1 - time, time)
    place = place if batch_axis < time_axis else place.transpose(0, 1)
    shape = [1] * x.dim()
    shape[batch_axis], shape[time_axis] = x.shape[batch_axis], x.shape[time_axis]
    return x.gather(time_axis, place.reshape(shape).expand(x.shape))


def distinct(x: Tensor, axis: int | None, in_order: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the distinct elements, or slices along an axis, sorted or in order of first occurrence; where each first
    occurs, which of them each element is, and how often each occurs."""
    if axis is None:
        x, axis = x.reshape(-1), 0
        values, which, counts = torch.unique(x, return_inverse=True, return_counts=True)
    else:
        values, which, counts = torch.unique(x, return_inverse=True, return_counts=True, dim=axis)
    places = torch.arange(x.shape[axis], device=x.device)
    first = torch.zeros_like(counts).scatter_reduce(0, which, places, "amin", include_self=False)
    if in_order:
        order = torch.argsort(first)
        values, first, counts = values.index_select(axis, order), first[order], counts[order]
        which = torch.argsort(order)[which]
    return values, first, which, counts

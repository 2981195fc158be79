"""Small functions that many operators share."""

from __future__ import annotations

import math

from ..lazy_torch import F, Tensor, torch


def size_tensor(size: int, dtype: torch.dtype, device: torch.device | None = None) -> Tensor:
    """Return a size as a tensor without axes."""
    return torch.full((), size, dtype=dtype, device=device)


def sizes_tensor(sizes: tuple[int, ...], dtype: torch.dtype, device: torch.device | None = None) -> Tensor:
    """Return sizes as a vector."""
    return torch.stack([torch.full((), size, dtype=dtype, device=device) for size in sizes])


def either(condition: bool, a: int, b: int) -> int:
    """Return a where the condition holds, else b: torch.export keeps both."""
    if isinstance(condition, torch.SymBool):
        return torch.sym_ite(condition, a + (b - b), b + (a - a))  # it wants two of one kind
    return a if condition else b


def wrapped(index: Tensor, size: int) -> Tensor:
    """Return indices counted from the start, where negative ones counted from the end."""
    index = index.long()
    return torch.where(index < 0, index + size, index)


def whole_power(x: Tensor, exponent: Tensor) -> Tensor:
    """Return integers to the power of floats, cut towards zero."""
    return torch.pow(x.double(), exponent.double()).to(x.dtype)


def log_sum_exp_of_whole(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    """Return log(sum(exp(x))) of integers, computed in float64."""
    return torch.logsumexp(x.double(), axes, keep).to(x.dtype)


def hardmax(x: Tensor, axis: int) -> Tensor:
    """Return 1 at the first of the largest elements, and 0 elsewhere."""
    places = x.argmax(axis, keepdim=True)
    return torch.zeros_like(x).scatter(axis, places, 1)


def running_sum(x: Tensor, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    """Return running sums: from the end with `reverse`, without the element itself with `exclusive`."""
    x = x.flip(axis) if reverse else x
    total = x.cumsum(axis, dtype=x.dtype)
    if exclusive:  # a size of one less is 1 for two elements, and torch.export leaves that out
        total = F.pad(total, [*[0, 0] * (x.dim() - 1 - axis), 1, 0]).narrow(axis, 0, x.shape[axis])
    return total.flip(axis) if reverse else total


def counted(start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    """Return start, start + delta, ... before limit; nothing where the limit lies on the other side."""
    length = torch.clamp(torch.ceil((limit - start) / delta), min=0).long()
    return start.reshape(()) + delta.reshape(()) * torch.arange(
        length.reshape(()).item(), dtype=start.dtype, device=start.device
    )


def ones_on_diagonal(shape: tuple[int, ...], k: int, dtype: torch.dtype, device: torch.device | None = None) -> Tensor:
    """Return a matrix with ones on the k-th diagonal."""
    rows, columns = torch.arange(shape[0], device=device)[:, None], torch.arange(shape[1], device=device)
    return (columns - rows == k).to(dtype)


def expanded(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Broadcast to a shape in which a 1 may stand for an axis that is larger in x."""
    return x.expand(torch.broadcast_shapes(x.shape, shape))


def layer_norm_with_statistics(
    x: Tensor, axis: int, scale: Tensor, bias: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalize the axes from `axis` on; also return the mean and the inverse standard deviation."""
    axes = tuple(range(axis, x.dim()))
    wide = x.double() if x.dtype == torch.float64 else x.float()
    mean = wide.mean(axes, keepdim=True)
    inverse = torch.rsqrt((wide - mean).square().mean(axes, keepdim=True) + epsilon)
    y = ((wide - mean) * inverse).to(x.dtype) * scale
    return y if bias is None else y + bias, mean, inverse


def root_mean_square(x: Tensor, axis: int, scale: Tensor, epsilon: float) -> Tensor:
    """Divide the axes from `axis` on by the root of their mean square."""
    wide = x.double() if x.dtype == torch.float64 else x.float()
    inverse = torch.rsqrt(wide.square().mean(tuple(range(axis, x.dim())), keepdim=True) + epsilon)
    return (wide * inverse).to(scale.dtype) * scale


def by_norm(x: Tensor, axis: int, p: int) -> Tensor:
    """Divide by the p-norm along an axis; where the norm is 0 the answer is 0."""
    norm = x.abs().sum(axis, keepdim=True) if p == 1 else x.square().sum(axis, keepdim=True).sqrt()
    return torch.where(norm == 0, torch.zeros_like(x), x / norm)


def local_response(x: Tensor, size: int, alpha: float, beta: float, bias: float) -> Tensor:
    """Divide by (bias + alpha / size * sum of the squares of `size` neighbouring channels) ** beta."""
    squares = x.square()
    before, after = (size - 1) // 2, size // 2
    first, last = torch.zeros_like(squares[:, :1]), torch.zeros_like(squares[:, :1])
    padded = torch.cat([*[first] * before, squares, *[last] * after], 1)
    total = sum(padded.narrow(1, at, x.shape[1]) for at in range(size))
    return x / (bias + alpha / size * total) ** beta


def product_over(x: Tensor, axes: int | tuple[int, ...], keep: bool) -> Tensor:
    """Return the product over one axis or several."""
    for axis in sorted((axes,) if isinstance(axes, int) else axes, reverse=True):
        x = x.prod(axis, keep, dtype=x.dtype)
    return x


def extreme_or_bound(x: Tensor, axes: int | tuple[int, ...], keep: bool, which: str) -> Tensor:
    """Return the largest (amax) or smallest; of no elements the lowest or highest number of the dtype."""
    if x.dtype == torch.bool:
        bound: float = which == "amin"
    elif x.is_floating_point():
        bound = -math.inf if which == "amax" else math.inf
    else:
        bound = torch.iinfo(x.dtype).min if which == "amax" else torch.iinfo(x.dtype).max
    named = (axes,) if isinstance(axes, int) else axes
    one_more = list(x.shape)
    for axis in named:
        one_more[axis] = 1
    bounds = x.new_full(one_more, bound)
    for axis in named:
        if x.shape[axis] == 0:
            shape = [size if at != axis else 1 for at, size in enumerate(x.shape)]
            x = x.new_full(shape, bound)
    extremes = torch.amax(x, named, keepdim=True) if which == "amax" else torch.amin(x, named, keepdim=True)
    extremes = extremes.expand(bounds.shape)
    return extremes if keep else extremes.squeeze(named)

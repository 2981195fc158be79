"""An axis resampled: where its new places lie in the old one, and what is read there. Formulas of ONNX's Resize."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    from ..lazy_torch import torch


def places_of(
    size: int,
    target: int,
    scale: float,
    length: float,
    coordinates: str,
    region: tuple[float, float],
    dtype: torch.dtype,
    stretched: bool = False,
    device: torch.device | None = None,
) -> Tensor:
    """Where each new place lies in the old axis of `size`; `length` is the new one before it is cut to `target`.
    `stretched`: the filter is, by antialias."""
    at = torch.arange(target, dtype=dtype, device=device)
    if coordinates == "align_corners":
        return at * ((size - 1) / (length - 1)) if length != 1 else at * 0
    if coordinates == "tf_crop_and_resize":
        start, end = region
        steps = at * ((end - start) * (size - 1)) / (length - 1) if length != 1 else at * 0
        return steps + (start if length != 1 else (start + end) / 2) * (size - 1)
    if coordinates in ("asymmetric", "tf_half_pixel_for_nn"):
        return (at + (0.0 if coordinates == "asymmetric" else 0.5)) / scale
    half = (at + 0.5) / scale - 0.5
    if coordinates == "pytorch_half_pixel" and target == 1:
        return at * 0 - (0.5 if stretched else 0.0)
    return half + size / 2 * (1 - target / length) if coordinates == "half_pixel_symmetric" else half


def nearest_places(places: Tensor, rounding: str, size: int) -> Tensor:
    """The element that lies nearest to each place."""
    if rounding == "floor":
        found = torch.floor(places)
    elif rounding == "ceil":
        found = torch.ceil(places)
    elif rounding == "round_prefer_floor":
        found = torch.ceil(places - 0.5)
    else:
        found = torch.floor(places + 0.5)
    return torch.clamp(found.long(), 0, size - 1)


def cubic_share(z: Tensor, a: float) -> Tensor:
    """What an element at a distance z counts."""
    near = ((a + 2) * z - (a + 3)) * z * z + 1
    far = ((a * z - 5 * a) * z + 8 * a) * z - 4 * a
    return torch.where(z <= 1, near, torch.where(z < 2, far, torch.zeros_like(z)))


def shares_of(
    places: Tensor, size: int, scale: float, linear: bool, cubic: float, exclude: bool, antialias: bool
) -> tuple[Tensor, Tensor]:
    """The elements that each place reads, and what they count: both (target, elements). Beyond the edge its element
    counts again, or nothing does (exclude). Antialias stretches the filter where the axis shrinks."""
    reach = 1 if linear else 2
    shrink = min(scale, 1.0) if antialias else 1.0
    steps = -int(-reach // shrink) if antialias else reach
    index = torch.floor(places)[:, None] + torch.arange(1 - steps, steps + 1, dtype=places.dtype, device=places.device)
    distance = (index - places[:, None]).abs() * shrink
    shares = torch.clamp(1 - distance, min=0) if linear else cubic_share(distance, cubic)
    if exclude:
        shares = torch.where((index < 0) | (index > size - 1), torch.zeros_like(shares), shares)
    total = shares.sum(1, keepdim=True)
    shares = shares / torch.where(total == 0, torch.ones_like(total), total)
    return torch.clamp(index.long(), 0, size - 1), shares


def resampled_nearest(
    x: Tensor,
    axis: int,
    target: int,
    scale: float,
    length: float,
    coordinates: str,
    rounding: str,
    region: tuple[float, float] = (0.0, 1.0),
    outside: float | None = None,
) -> Tensor:
    """One axis, each new place taken from the nearest element; in float32, as others compute it."""
    size = x.shape[axis]
    places = places_of(size, target, scale, length, coordinates, region, torch.float32, device=x.device)
    made = x.index_select(axis, nearest_places(places, rounding, size))
    return made if outside is None else beyond(made, axis, places, size, outside)


def resampled_smoothly(
    x: Tensor,
    axis: int,
    target: int,
    scale: float,
    length: float,
    coordinates: str,
    linear: bool,
    cubic: float = -0.75,
    exclude: bool = False,
    antialias: bool = False,
    region: tuple[float, float] = (0.0, 1.0),
    outside: float | None = None,
) -> Tensor:
    """One axis, each new place a weighted sum of elements around it."""
    size = x.shape[axis]
    places = places_of(size, target, scale, length, coordinates, region, torch.float64, antialias, x.device)
    index, shares = shares_of(places, size, scale, linear, cubic, exclude, antialias)
    shape = [-1 if at == axis else 1 for at in range(x.dim())]
    shares = shares.to(x.dtype)
    made = torch.zeros_like(x.narrow(axis, 0, 1))
    for tap in range(index.shape[1]):
        made = made + x.index_select(axis, index[:, tap]) * shares[:, tap].reshape(shape)
    return made if outside is None else beyond(made, axis, places, size, outside)


def beyond(x: Tensor, axis: int, places: Tensor, size: int, outside: float) -> Tensor:
    """x, with a number where the places lie outside of the old axis."""
    shape = [-1 if at == axis else 1 for at in range(x.dim())]
    return torch.where(((places < 0) | (places > size - 1)).reshape(shape), torch.full_like(x, outside), x)

"""An axis resampled: where its new places lie in the old axis, and what is read there. Formulas of ONNX's Resize."""

from __future__ import annotations

from ..lazy_torch import Tensor, torch


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
    """Return where each new place lies in the old axis. `length` is the new size before it was cut to `target`; /
    `stretched`: antialias has stretched the filter."""
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
    """Return the element nearest to each place."""
    if rounding == "floor":
        nearest = torch.floor(places)
    elif rounding == "ceil":
        nearest = torch.ceil(places)
    elif rounding == "round_prefer_floor":
        nearest = torch.ceil(places - 0.5)
    else:
        nearest = torch.floor(places + 0.5)
    return torch.clamp(nearest.long(), 0, size - 1)


def cubic_share(z: Tensor, a: float) -> Tensor:
    """Return the cubic weight of an element at a distance z."""
    near = ((a + 2) * z - (a + 3)) * z * z + 1
    far = ((a * z - 5 * a) * z + 8 * a) * z - 4 * a
    return torch.where(z <= 1, near, torch.where(z < 2, far, torch.zeros_like(z)))


def shares_of(
    places: Tensor, size: int, scale: float, linear: bool, cubic: float, exclude: bool, antialias: bool
) -> tuple[Tensor, Tensor]:
    """Return the elements that each place reads, and their weights: both (target, elements). Beyond the edge the last
    element is repeated, or ignored (exclude). Antialias stretches the filter where the axis shrinks."""
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
    """Resample one axis by the nearest elements; places are computed in float32, as other runtimes do."""
    size = x.shape[axis]
    places = places_of(size, target, scale, length, coordinates, region, torch.float32, device=x.device)
    y = x.index_select(axis, nearest_places(places, rounding, size))
    return y if outside is None else beyond(y, axis, places, size, outside)


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
    """Resample one axis by weighted sums of elements."""
    size = x.shape[axis]
    places = places_of(size, target, scale, length, coordinates, region, torch.float64, antialias, x.device)
    index, shares = shares_of(places, size, scale, linear, cubic, exclude, antialias)
    shape = [-1 if at == axis else 1 for at in range(x.dim())]
    shares = shares.to(x.dtype)
    y = torch.zeros_like(x.narrow(axis, 0, 1))
    for tap in range(index.shape[1]):
        y = y + x.index_select(axis, index[:, tap]) * shares[:, tap].reshape(shape)
    return y if outside is None else beyond(y, axis, places, size, outside)


def beyond(x: Tensor, axis: int, places: Tensor, size: int, outside: float) -> Tensor:
    """Return x with a number where the places lie outside of the old axis."""
    shape = [-1 if at == axis else 1 for at in range(x.dim())]
    return torch.where(((places < 0) | (places > size - 1)).reshape(shape), torch.full_like(x, outside), x)

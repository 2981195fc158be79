"""Boxes. N images, C classes, B boxes."""

from __future__ import annotations

from ..lazy_torch import Tensor, torch
from .basics import size_tensor
from .bounded_loops import counted_loop


def corners(boxes: Tensor, centred: bool) -> tuple[Tensor, Tensor]:
    """Return the low and the high corner of boxes (..., 4): two opposite corners, or (x, y, width, height)."""
    if not centred:
        a, b = boxes[..., :2], boxes[..., 2:]
        return torch.minimum(a, b), torch.maximum(a, b)
    half = torch.clamp(boxes[..., 2:], min=0) / 2  # a box of negative width or height overlaps nothing
    return boxes[..., :2] - half, boxes[..., :2] + half


def chosen_boxes(
    boxes: Tensor, scores: Tensor, count: int, overlap: Tensor | float, least: Tensor | float | None, centred: bool
) -> Tensor:
    """Return rows of (image, class, box) for boxes (N, B, 4) and scores (N, C, B): of each class of each image `count`
    boxes at most, by falling score, whose overlap (intersection over union) with the ones before is not above
    `overlap`."""
    low, high = (side.unsqueeze(1).expand(-1, scores.shape[1], -1, -1) for side in corners(boxes, centred))
    area = (high - low).prod(-1)
    every = torch.arange(scores.shape[2], device=scores.device)
    order = torch.sort(scores, dim=2, descending=True, stable=True)[1]  # of equals the first
    ranks = torch.zeros_like(order).scatter(2, order, (scores.shape[2] - every).expand(order.shape))
    left = ranks if least is None else torch.where(scores > least, ranks, torch.zeros_like(ranks))

    def step(_: Tensor, left: Tensor) -> tuple[Tensor, ...]:
        best = left.argmax(2, keepdim=True)
        corner = best.unsqueeze(-1).expand(-1, -1, 1, 2)
        shared = torch.minimum(high, high.gather(2, corner)) - torch.maximum(low, low.gather(2, corner))
        both = torch.clamp(shared, min=0).prod(-1)
        gone = (both / (area + area.gather(2, best) - both) > overlap) | (every == best)
        row = torch.where(left.amax(2) > 0, best.squeeze(2), torch.full_like(best.squeeze(2), -1))
        return torch.where(gone, torch.zeros_like(left), left), row

    rows = torch.zeros((count, scores.shape[0], scores.shape[1]), dtype=torch.int64, device=scores.device)
    _, best_boxes = counted_loop(step, size_tensor(count, torch.int64, scores.device), (left,), (rows,))
    chosen = best_boxes.permute(1, 2, 0)
    picture, kind, place = torch.nonzero(chosen >= 0).unbind(1)
    return torch.stack((picture, kind, chosen[picture, kind, place]), 1)


def bin_samples(start: Tensor, end: Tensor, bins: int, samples: int, size: int, shifted: bool) -> tuple[Tensor, ...]:
    """Return the samples along an axis of `size` pixels of every region: the two pixels around each, and their weights;
    each (regions, bins * samples). A sample more than a pixel outside has no weight."""
    length = end - start if shifted else torch.clamp(end - start, min=1)  # without a shift none is less than a pixel
    step = (length / (bins * samples)).unsqueeze(1)
    at = start.unsqueeze(1) + (torch.arange(bins * samples, device=start.device) + 0.5) * step
    inside = ((at >= -1) & (at <= size)).to(at.dtype)
    low = torch.clamp(torch.floor(torch.clamp(at, min=0)), max=size - 1)
    part = torch.where(low >= size - 1, torch.zeros_like(at), torch.clamp(at, min=0) - low)
    first = low.long()
    return first, torch.clamp(first + 1, max=size - 1), (1 - part) * inside, part * inside


def aligned_regions(
    x: Tensor, regions: Tensor, images: Tensor, bins: tuple[int, int], samples: int, scale: float, shifted: bool,
    largest: bool,
) -> Tensor:  # fmt: skip
    """Divide regions (R, 4) of the images (R,) among x (N, C, H, W) into bins, and average the samples in each, or take
    the largest: (R, C, *bins)."""
    left, top, right, bottom = (regions * scale - (0.5 if shifted else 0.0)).unbind(1)
    rows = bin_samples(top, bottom, bins[0], samples, x.shape[2], shifted)
    columns = bin_samples(left, right, bins[1], samples, x.shape[3], shifted)
    image, pixel_shares = images.long()[:, None, None], []
    for y, down in (rows[::2], rows[1::2]):
        for across, share in (columns[::2], columns[1::2]):
            pixels = x[image, :, y.unsqueeze(2), across.unsqueeze(1)]
            pixel_shares.append(pixels * (down.unsqueeze(2) * share.unsqueeze(1)).unsqueeze(-1))
    terms = torch.stack(pixel_shares)
    samples_of_bins = (terms.amax(0) if largest else terms.sum(0)).reshape(
        -1, bins[0], samples, bins[1], samples, x.shape[1]
    )
    return (samples_of_bins.amax((2, 4)) if largest else samples_of_bins.mean((2, 4))).permute(0, 3, 1, 2)

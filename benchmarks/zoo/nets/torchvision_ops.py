"""Import this before torchvision or timm: their wheel is built against CUDA's torch, and its C++ operators do not load
beside the CPU one. Only the one that the zoo's models call is declared here, in Python."""

from __future__ import annotations

import torch

_LIBRARY: torch.library.Library | None = None


def _suppressed(box: torch.Tensor, others: torch.Tensor, threshold: float) -> torch.Tensor:
    """Which of `others` overlap `box` by more than the threshold, as intersection over union."""
    low, high = torch.maximum(box[:2], others[:, :2]), torch.minimum(box[2:], others[:, 2:])
    shared = (high - low).clamp(min=0).prod(1)
    areas = (others[:, 2:] - others[:, :2]).prod(1)
    return shared / ((box[2:] - box[:2]).prod() + areas - shared) > threshold


def nms(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    """The rows of the boxes (N, 4) that are kept, best score first."""
    waiting = scores.sort(descending=True, stable=True).indices
    kept = []
    while len(waiting):
        kept.append(waiting[0])
        waiting = waiting[1:][~_suppressed(boxes[waiting[0]], boxes[waiting[1:]], threshold)]
    return torch.stack(kept) if kept else torch.empty(0, dtype=torch.int64)


def declare() -> None:
    """Declare what torchvision's import asks for, once."""
    global _LIBRARY
    if _LIBRARY is None and not hasattr(torch.ops.torchvision, "nms"):
        _LIBRARY = torch.library.Library("torchvision", "DEF")
        _LIBRARY.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _LIBRARY.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")  # asked for, never called
        _LIBRARY.impl("nms", nms, "CPU")


declare()

"""For a user's own scripts in the test environment: its torchvision is built for CUDA's torch. Beside the CPU one it
can be imported where torch knows the operators that it registers; Lightning and transformers import it where it is."""

from __future__ import annotations

import sys
from typing import Any

OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


class Declared:
    """Declares them as soon as anybody looks for torchvision."""

    kept: Any = None

    @classmethod
    def find_spec(cls, name: str, *_: object) -> None:
        if name == "torchvision" and cls.kept is None:
            import torch

            cls.kept = torch.library.Library("torchvision", "DEF")
            for operator in OPERATORS:
                cls.kept.define(operator)


sys.meta_path.insert(0, Declared)  # type: ignore[arg-type]

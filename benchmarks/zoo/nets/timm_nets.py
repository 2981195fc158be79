"""timm's architectures: `at_64.resnet26d` is resnet26d for pictures of 64 x 64, with 10 classes and no download."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import timm
from torch import nn
from zoo_weights import pictures, realistic

# Smaller members of families whose smallest is large: fewer and narrower layers, the same parts.
_SMALLER: dict[str, dict[str, Any]] = {
    "beit_base_patch16_224": {"embed_dim": 96, "depth": 3, "num_heads": 3},
    "eva02_tiny_patch14_224": {"depth": 3, "patch_size": 16},
    "deit_tiny_distilled_patch16_224": {"depth": 3},
    "cait_xxs24_224": {"depth": 3, "depth_token_only": 1},
    "convit_tiny": {"depth": 4, "local_up_to_layer": 2},
    "xcit_nano_12_p16_224": {"depth": 3},
    "vit_relpos_small_patch16_224": {"depth": 3, "embed_dim": 96, "num_heads": 3},
    "samvit_base_patch16_224": {
        "embed_dim": 96, "depth": 4, "num_heads": 3, "global_attn_indexes": (2,), "window_size": 3,
    },
    "tnt_s_legacy_patch16_224": {"depth": 3},
    "sequencer2d_s": {"layers": (1, 1, 1, 1)},
    "flexivit_small": {"depth": 3},
    "vit_tiny_patch16_224": {"depth": 4},
}  # fmt: skip


class _At:
    """The architectures by name, for pictures of one size."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __getattr__(self, name: str) -> Callable[[], nn.Module]:
        if not timm.is_model(name):
            raise AttributeError(name)
        return lambda: self._make(name)

    def _make(self, name: str) -> nn.Module:
        more = {"num_classes": 10, **_SMALLER.get(name, {})}
        try:
            model = timm.create_model(name, pretrained=False, img_size=self._size, **more)
        except TypeError:  # convolutions take any size, and no argument of that name
            model = timm.create_model(name, pretrained=False, **more)
        return realistic(model, *pictures(self._size))


def __getattr__(name: str) -> _At:
    if name.startswith("at_") and name[3:].isdecimal():
        return _At(int(name[3:]))
    raise AttributeError(name)

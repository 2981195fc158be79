"""What both writings of a net share."""

from __future__ import annotations

from typing import NamedTuple


class Block(NamedTuple):
    """An inverted residual."""

    kernel: int
    wide: int
    outer: int
    excite: bool
    swish: bool
    stride: int


# MobileNetV3-Large (Howard et al. 2019, table 1)
MOBILE = tuple(Block(*row) for row in (
    (3, 16, 16, False, False, 1), (3, 64, 24, False, False, 2), (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2), (5, 120, 40, True, False, 1), (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2), (3, 200, 80, False, True, 1), (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1), (3, 480, 112, True, True, 1), (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2), (5, 960, 160, True, True, 1), (5, 960, 160, True, True, 1),
))  # fmt: skip

CLASSES = 1000
TOKENS, WIDTH, HEADS, LAYERS, VOCABULARY = 128, 256, 8, 6, 8000

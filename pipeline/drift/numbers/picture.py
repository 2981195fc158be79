"""A sample that is an image, as a small PNG for the report. Needs no image library: workers may have none."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence

import numpy as np

from ....models.signature import Array

_MOST_PIXELS = 48  # along a side; larger images are thinned out
_LEAST_PIXELS = 4
_CHANNELS = (1, 3, 4)
_GREY, _RGB = 0, 2  # colour types of PNG


def picture_of(inputs: Sequence[Array], sample: int) -> str | None:
    """Return a sample of the first input that holds images, as PNG in base64; None where none does.
    Values from the least to the largest finite one become black to white."""
    images = next((array for array in inputs if _is_image(array.shape[1:], array.dtype)), None)
    if images is None:
        return None
    image = np.asarray(images[sample], np.float64)
    if image.ndim == 2:
        image = image[..., np.newaxis]
    elif image.shape[-1] not in _CHANNELS:
        image = np.moveaxis(image, 0, -1)
    step = -(-max(image.shape[:2]) // _MOST_PIXELS)
    image = np.nan_to_num(image[::step, ::step, :3], posinf=0.0, neginf=0.0)
    low, span = image.min(), max(float(np.ptp(image)), 1e-30)
    return base64.b64encode(_png(np.round((image - low) / span * 255).astype(np.uint8))).decode()


def _is_image(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> bool:
    """Return whether samples of this shape are [channels, height, width], [height, width, channels] or, in bytes,
    [height, width]."""
    if dtype.kind not in "fu" or (len(shape) == 2 and dtype != np.uint8):
        return False
    if len(shape) == 3:
        sides = shape[:2] if shape[-1] in _CHANNELS else shape[1:] if shape[0] in _CHANNELS else ()
    else:
        sides = shape if len(shape) == 2 else ()
    return bool(sides) and min(sides) >= _LEAST_PIXELS


def _png(pixels: Array) -> bytes:
    """Encode bytes of [height, width, 1 or 3]; the format is ISO/IEC 15948."""
    height, width, channels = pixels.shape
    head = struct.pack(">IIBBBBB", width, height, 8, _RGB if channels == 3 else _GREY, 0, 0, 0)
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in parts
    )

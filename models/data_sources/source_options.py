"""The options that say how a source is read, as records that cross the process border."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..job import JsonRecord


class Resample(StrEnum):
    """A filter by which Pillow resizes an image."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    LANCZOS = "lanczos"


@dataclass(frozen=True, kw_only=True)
class ImageOptions(JsonRecord):
    """How an image becomes an input: resized, cropped, scaled and normalised, in this order, as far as it is said."""

    input: str | None = None  # that takes the image; None: the only one
    size: tuple[int, int] | None = None  # height and width, to which an image is stretched
    resize: int | None = None  # pixels of the shorter side; the other one follows
    crop: tuple[int, int] | None = None  # height and width of the middle that is kept
    resample: str = Resample.BILINEAR
    range: tuple[float, float] | None = None  # what the bytes 0 and 255 become
    mean: tuple[float, ...] = ()  # subtracted, by channel or of all
    std: tuple[float, ...] = ()  # divided by
    order: str = "rgb"
    layout: str | None = None  # "chw" or "hwc"; None: as the signature shows


@dataclass(frozen=True, kw_only=True)
class TableOptions(JsonRecord):
    """Which columns of a table are read."""

    label: str | None = None  # None: the column `label` or `labels`, where there is one
    columns: tuple[str, ...] = ()  # of the input that no column is named like; empty: all numeric ones that are left
    sep: str | None = None  # between the columns of a text file; None: a comma, or a tabulator in a .tsv

"""scikit-learn's digits: 1,797 grey images of 8 x 8 pixels, handwritten by 43 people, ten classes.

Alpaydin and Kaynak, 1998, Optical Recognition of Handwritten Digits (UCI). The package carries the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..dataset import Dataset
from ..recipe import Splits
from ..signature import Array, ValueRange

if TYPE_CHECKING:
    import torch

TEST, VALIDATION = 540, 157  # leaves 1,100 to train on
SPLIT_SEED = 20260101  # one split for every recipe and every training seed: results stay comparable
CLASSES = tuple("0123456789")
PREPROCESSING = "grey images of 8 x 8 pixels, white on black; a pixel of 0..16 is divided by 16"
PIXELS = ValueRange(0.0, 1.0)  # of every image: copies are asked nothing that no image holds, as NaN


def split_digits(inputs: Callable[[Array], Mapping[str, Array]]) -> Splits:
    """Return the three splits, stratified by class.
    `inputs` makes a recipe's inputs of images, float32 (samples, 8, 8) scaled to 0..1."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    loaded = load_digits()
    labels = loaded.target.astype(np.int64)
    rest, test = train_test_split(np.arange(len(labels)), test_size=TEST, stratify=labels, random_state=SPLIT_SEED)
    train, validation = train_test_split(rest, test_size=VALIDATION, stratify=labels[rest], random_state=SPLIT_SEED)
    images = (loaded.images / 16).astype(np.float32)
    splits = [Dataset(inputs(images[rows]), labels[rows]) for rows in (train, validation, test)]
    return Splits(*splits)


def as_images() -> Splits:
    """Return the digits in the input `image`, float32 (samples, 1, 8, 8)."""
    return split_digits(lambda images: {"image": images[:, None]})


def augment_images(inputs: Mapping[str, torch.Tensor], generator: torch.Generator) -> Mapping[str, torch.Tensor]:
    """Shift the images: writers do not centre their digits alike."""
    return {"image": shift_images(inputs["image"], generator)}


def shift_images(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Move each image (batch, 1, 8, 8) by -1, 0 or 1 pixel along both axes; new pixels are black."""
    import torch
    from torch.nn import functional

    count = len(images)
    across, down = torch.randint(0, 3, (2, count, 1), generator=generator)
    at = torch.arange(8)
    padded = functional.pad(images[:, 0], (1, 1, 1, 1))
    return padded[torch.arange(count)[:, None, None], (down + at)[:, :, None], (across + at)[:, None, :]][:, None]

"""What the zoo's models are fed with: arrays of a shape, drawn so that an answer must depend on them. Needs numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Draw: TypeAlias = Callable[[np.random.Generator, tuple[int, ...]], Array]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Standard normal numbers."""
    return rng.standard_normal(shape).astype(np.float32)


def unit(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Uniform between 0 and 1."""
    return rng.random(shape).astype(np.float32)


def picture(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Pictures (N, C, H, W), normalised: broad patches of colour under fine noise, each of a brightness of its own."""
    count, channels, height, width = shape
    rows, columns = (np.linspace(0, 1, size) for size in (height, width))
    found = np.zeros(shape)
    for at in range(1, 4):  # waves of growing frequency, a random mixture of them for every picture and channel
        phases = rng.uniform(0, 2 * np.pi, (2, count, channels, 1, 1))
        turns = rng.uniform(0.5, 2.5, (2, count, channels, 1, 1)) * at
        down = np.sin(2 * np.pi * turns[0] * rows[:, None] + phases[0])
        across = np.sin(2 * np.pi * turns[1] * columns[None, :] + phases[1])
        found += down * across / at
    brightness = rng.normal(0, 0.5, (count, channels, 1, 1))
    return (found + brightness + 0.2 * rng.standard_normal(shape)).astype(np.float32)


def wave(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Sounds, time last: two tones and noise, about -1 to 1."""
    time = np.arange(shape[-1])
    tones = rng.uniform(0.005, 0.2, (2, *shape[:-1], 1))
    loudness = rng.uniform(0.1, 0.5, (2, *shape[:-1], 1))
    found = (loudness * np.sin(2 * np.pi * tones * time)).sum(0)
    return np.asarray(found + 0.05 * rng.standard_normal(shape), np.float32)


def below(limit: int, least: int = 0) -> Draw:
    """Whole numbers from `least` to `limit` - 1: tokens, categories, indices."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return rng.integers(least, limit, shape)

    return draw


def mask(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Attention masks (N, length) of 1 and 0: the first row is full, the others end somewhere in their second half."""
    count, length = shape
    ends = rng.integers((length + 1) // 2, length + 1, count)
    ends[0] = length
    return (np.arange(length) < ends[:, None]).astype(np.int64)


def boxes(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Boxes (..., 4) as x1, y1, x2, y2 within 0 and 1."""
    corner = rng.uniform(0, 0.6, (*shape[:-1], 2))
    return np.concatenate([corner, corner + rng.uniform(0.1, 0.4, corner.shape)], axis=-1).astype(np.float32)

"""Floats that random samples do not hold: large and tiny ones, the tails of activations, ties, NaN and infinities.

An activation that was approximated or clamped is right in the middle of its range. An epsilon shows beside small
values, an overflow beside large ones. They are worked out and not drawn: several interpreters must make the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..dataset import Dataset
from ..signature import Array
from .masks import Fill

_LARGE, _TINY = 1e3, 1e-4
# Beyond the corners of relu6, hard sigmoids (3), clamps at 10, sigmoids in ONNX Runtime (18) and exponentials.
_TAILS = (1, 40, -40, 6.5, -18.5, 0, 12, -3.5, 6, -30, 20, -1, 10, -6.5, 3, -10, 25, -0.5, 3.5, -20, 0.5, -100, 100)
_TIE_OFFSETS = (0.5, 0.25, 0.125, 0.0, 0.375)
_STRIDE = 7  # neighbours along an axis, and the same place of two samples, get values of their own


def apply_stress(data: Dataset, fills: Mapping[str, Fill]) -> Dataset:
    """Replace the floats of the named inputs."""
    stressed = {name: _stressed(data.inputs[name], fill) for name, fill in fills.items()}
    return Dataset({**data.inputs, **stressed}, data.labels)


def _stressed(array: Array, fill: Fill) -> Array:
    """Replace the floats of samples, which lie along axis 0. Of undefined values every second sample has none."""
    if fill is Fill.LARGE:
        return np.asarray(array * array.dtype.type(_LARGE))
    if fill is Fill.TINY:
        return np.asarray(array * array.dtype.type(_TINY))
    if fill is Fill.ONES:
        return np.ones_like(array)
    if fill is Fill.TIES:
        return _ties(array)
    if fill is Fill.TAILS:
        return _tails(array)
    return _undefined(array, fill)


def _ties(array: Array) -> Array:
    """Round to whole numbers, and in every second sample move each away from 0 by a part of _TIE_OFFSETS in turn: what
    multiplies by a power of two and rounds then stands before the middle of two numbers."""
    samples = np.round(array).reshape(len(array), -1)
    offsets = np.asarray(_TIE_OFFSETS, array.dtype)[np.arange(samples.shape[1]) % len(_TIE_OFFSETS)]
    samples[1::2] += np.copysign(offsets, samples[1::2])
    return np.asarray(samples.reshape(array.shape))


def _tails(array: Array) -> Array:
    """Put the values of _TAILS in turn, each sample beginning at another, with a tenth of the sample's own added: what
    stands beside each other is never the same twice. Every second value is one of _TAILS exactly."""
    samples = array.reshape(len(array), -1)
    places = np.arange(samples.shape[1]) + _STRIDE * np.arange(len(samples))[:, np.newaxis]
    values = np.asarray(_TAILS)[places % len(_TAILS)] + np.where(places % 2, samples * 0.1, 0)
    return np.asarray(values.astype(array.dtype).reshape(array.shape))


def _undefined(array: Array, fill: Fill) -> Array:
    """Put NaN, or both infinities, into one or two places of every second sample.
    Missing values are NaN in the even places of one sample and the odd places of the next, so that each column has one.
    Of samples with rows one of both is NaN as a chessboard: columns lack some values there, and all in the other one.
    """
    samples = array.reshape(len(array), -1).copy()
    if fill is Fill.MISSING:
        places = np.arange(samples.shape[1])
        samples[::2, ::2] = samples[1::2, (places + places // array.shape[-1]) % 2 == 1] = np.nan
        return samples.reshape(array.shape)
    middle = samples.shape[1] // 2
    if fill is Fill.NAN:
        samples[::2, middle : middle + 1] = np.nan
    else:
        samples[::2, middle : middle + 1] = np.inf
        samples[::2, : min(1, middle)] = -np.inf
    return samples.reshape(array.shape)

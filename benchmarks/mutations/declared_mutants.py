"""Mutants that are wrong where a declaration allows inputs that samples rarely hold: kind by model by variant."""

from __future__ import annotations

from collections.abc import Mapping

import edits_faults as faults
import torch
from edits_faults import answers, attribute, column, inputs, off, rows, sizes
from edits_module import ModuleEdit

_Variants = Mapping[str, ModuleEdit]


def _columns(*variants: tuple[str, int, faults.Change], axis: int = -1) -> _Variants:
    return {name: answers(column(at, change, axis)) for name, at, change in variants}


def _gaps(other: float) -> _Variants:
    return {
        "zero": inputs(faults.nan_becomes(0.0)),
        f"number {other:g}": inputs(faults.nan_becomes(other)),
        "NaN": faults.nan_kept(),
        "last column": inputs(faults.nan_becomes("last")),
    }


def _scaled(by: float) -> faults.Change:
    return lambda part: part * by


_COMPLEMENT: faults.Change = lambda part: 1 - part  # noqa: E731
_NEGATED: faults.Change = lambda part: -part  # noqa: E731
_HALVES: faults.Change = lambda part: torch.round(part * 2.0) / 2.0  # noqa: E731

UNLIKE_COLUMNS: Mapping[str, _Variants] = {
    "money-risk": _columns(("complement", 1, _COMPLEMENT), ("rounded", 1, _HALVES), ("shifted", 1, lambda p: p + 0.05)),
    "ledger": _columns(("last negated", 15, _NEGATED), ("tenth scaled", 9, _scaled(1.02)), ("lost", 12, _scaled(0.0))),
    "forecast": _columns(("return negated", 1, _NEGATED), ("return scaled", 1, _scaled(1.05)),
                         ("return lost", 1, _scaled(0.0))),
    "thermal": _columns(("share complement", 3, _COMPLEMENT), ("emissivity scaled", 1, _scaled(0.9)),
                        ("emissivity lost", 1, _scaled(0.0)), axis=1),
    "boxes": _columns(("score complement", 4, _COMPLEMENT), ("class rounded", 5, _HALVES),
                      ("class scaled", 5, _scaled(0.97))),
    "moments": _columns(("spread squared", 1, lambda p: p * p), ("share complement", 2, _COMPLEMENT),
                        ("share shifted", 2, lambda p: p + 0.02)),
}  # fmt: skip

IMPUTED = {
    "mean-imputer": _gaps(1.0), "median-imputer": _gaps(-1.0), "number-imputer": _gaps(-3.0),
    "nan-mean": _gaps(-2.0), "dead-pixels": _gaps(2.0), "branches": _gaps(5.0),
}  # fmt: skip

_MASK_FAULTS: _Variants = {
    "ones first": inputs(faults.ones_first, 1),
    "holes filled": inputs(faults.holes_filled, 1),
    "last of full lost": inputs(faults.last_lost_of_full, 1),
    "single one": answers(off, faults.single),
    "padded left": answers(off, faults.padded_left),
}
_MASKED = ("masked-mean", "masked-max", "masked-pooling", "masked-positions", "masked-last", "masked-tags", "encoder")
MASK_SHAPES = dict.fromkeys(_MASKED, _MASK_FAULTS)

_FLOATS: _Variants = {
    "clamped at 5": inputs(lambda x: x.clamp(max=5.0)),
    "clamped at -8": inputs(lambda x: x.clamp(min=-8.0)),
    "beyond 9": answers(off, lambda given: (given[0].flatten(1) > 9.0).any(1)),
}
BEYOND_DATA: Mapping[str, _Variants] = {
    "recommender-data": {"users clamped at 63": inputs(lambda ids: ids.clamp(max=63)),
                         "items from 64 lost": rows("items", 64, torch.zeros_like),
                         "price clamped": inputs(lambda price: price.clamp(max=40.0), 2)},
    "decoder-data": {"ids clamped at 63": inputs(lambda ids: ids.clamp(max=63)),
                     "rows from 90 lost": rows("words", 90, torch.zeros_like),
                     "row 77 negated": rows("words", 77, torch.neg, 78)},
    "lstm-data": _FLOATS,
    "money-data": _FLOATS,
    "tiers-data": {"clamped at 511": inputs(lambda code: code.clamp(max=511)),
                   "rows from 640 negated": rows("rows", 640, torch.neg),
                   "rows 300 to 330 lost": rows("rows", 300, torch.zeros_like, 330)},
    "batch-norm-data": {"clamped at 127": inputs(lambda image: image.clamp(max=127.0)),
                        "bright": answers(off, lambda given: given[0].flatten(1).amax(1) > 200.0),
                        "wrapped": inputs(lambda image: torch.where(image > 128.0, image - 256.0, image))},
}  # fmt: skip

_odd_both = sizes(lambda height, width: (height % 2 == 1) & (width % 2 == 1), -2, -1)
_IMAGES: _Variants = {
    "odd height and width": answers(off, _odd_both),
    "upright, batch over 2": answers(off, sizes(lambda n, h, w: (h > w) & (n > 2), 0, -2, -1)),
    "batch of images over 50000": answers(off, sizes(lambda n, h, w: n * h * w > 50_000, 0, -2, -1)),
}
_SERIES: _Variants = {
    "batch 1 and length 1": answers(off, sizes(lambda n, t: (n == 1) & (t == 1), 0, 1)),
    "batch times length over 1000": answers(off, sizes(lambda n, t: n * t > 1000, 0, 1)),
    "odd length, odd batch over 1": answers(off, sizes(lambda n, t: (n % 2 == 1) & (t % 2 == 1) & (n > 1), 0, 1)),
}
_FULL: _Variants = {"full and long": answers(off, faults.full_and_long)}
AXIS_PAIRS: Mapping[str, _Variants] = {
    "batch-norm-net": _IMAGES, "u-net": _IMAGES, "mobile-net": _IMAGES, "decoder": _SERIES, "lstm": _SERIES,
    "gru": _SERIES, "masked-tags": {**_SERIES, **_FULL}, "encoder": {**_SERIES, **_FULL}, "masked-mean": _FULL,
}  # fmt: skip

_LONG: _Variants = {
    "forgotten after 100": inputs(faults.forgotten_after(100)),
    "from 200": answers(off, sizes(lambda t: t >= 200, 1)),
    "from 400": answers(off, sizes(lambda t: t >= 400, 1)),
}
OPEN_AXES = dict.fromkeys(
    ("lstm-open", "gru-open", "masked-open", "attention-open", "convolution-open", "positions-open"), _LONG
)

FILE_CONSTANTS: Mapping[str, _Variants] = {
    "clipped": {"upper limit": attribute(high=60.0), "lower limit": attribute(low=-45.0),
                "no limits": attribute(low=-1e30, high=1e30)},
    "alarm": {"threshold": attribute(limit=47.5), "factor": attribute(factor=2.0), "tail": attribute(tail=-70.0)},
    "tiers": {"row 777": rows("rows", 777, torch.neg, 778), "rows from 990": rows("rows", 990, torch.zeros_like),
              "clamped at 995": inputs(lambda code: code.clamp(max=995))},
    "tails": {"log of sigmoid cut": attribute(log_cut=-20.0), "softplus cut": attribute(soft_cut=-15.0),
              "erf cut": attribute(erf_cut=1.5), "log of sigmoid cut far": attribute(log_cut=-60.0)},
    "standardised": {"epsilon 1e-5": attribute(norm__eps=1e-5), "epsilon 1e-7": attribute(norm__eps=1e-7),
                     "epsilon 1e-12": attribute(norm__eps=1e-12)},
    "saturating": {"ceiling": attribute(ceiling=35.0), "floor": attribute(floor=-50.0),
                   "exponent": attribute(largest=60.0)},
}  # fmt: skip

DECLARED: Mapping[str, Mapping[str, _Variants]] = {
    "unlike-columns": UNLIKE_COLUMNS, "imputation": IMPUTED, "mask-shapes": MASK_SHAPES, "beyond-data": BEYOND_DATA,
    "axis-pairs": AXIS_PAIRS, "open-axes": OPEN_AXES, "file-constants": FILE_CONSTANTS,
}  # fmt: skip

"""Fills of masks: which inputs are masks, and which calls are filled."""

from __future__ import annotations

import numpy as np

from transload.models.dataset import Dataset
from transload.models.probes.masks import Fill, apply_fills, mask_inputs
from transload.models.signature import parse_input


def test_every_second_call_keeps_its_values() -> None:
    data = Dataset({"mask": np.tile([True, False], (6, 1))})
    kept = [True, False]
    assert (
        apply_fills(data, {"mask": Fill.NONE}, 2).inputs["mask"].tolist()
        == [[False] * 2] * 2 + [kept] * 2 + [[False] * 2] * 2
    )
    rows = [[True] * 2, kept, kept]
    assert apply_fills(data, {"mask": Fill.SOME_ALL}, 2).inputs["mask"].tolist() == rows * 2


def test_masks_are_known_by_dtype_or_name() -> None:
    words = ("ids=int64[batch]", "attention_mask=int64[batch]", "keep=bool[batch]", "some_mask=float32[batch,3]")
    assert [spec.name for spec in mask_inputs(tuple(map(parse_input, words)))] == [
        "attention_mask",
        "keep",
        "some_mask",
    ]

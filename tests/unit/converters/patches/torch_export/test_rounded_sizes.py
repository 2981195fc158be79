"""Sizes that are rounded: a file of torch.export holds no math.ceil, math.floor or round, and has them in other words;
the ONNX made of it rounds what Python rounds, in float64."""

from __future__ import annotations

import io
import math
import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import torch

from transload.converters.patches.torch_onnx_dynamo.translations import translations
from transload.converters.to_pytorch.pt2_from_source import export
from transload.models.signature import Signature, parse_input


class Rounded(torch.nn.Module):
    """Whole quotients, products and quotients that are none, of numbers below zero as well."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        size, less = x.shape[0], x.shape[0] - 90
        whole, product = math.ceil(less / 7), math.ceil(size * 0.1)
        below, quotient = math.floor(less * 0.3), math.ceil(size / 0.7)
        even, near, under = round(size * 0.5), round(size / 3), round(less * 0.25)
        numbers = (whole, product, below, quotient, even, near, under)
        return x[: math.ceil(size / 3)], *(x + number for number in numbers)


def test_rounded_sizes_are_python_s(tmp_path: Path) -> None:
    signature = Signature((parse_input("x=float32[n=4..]"),), (parse_input("y=float32[any]"),))
    held = io.BytesIO()
    torch.export.save(export(Rounded(), signature), held)
    held.seek(0)
    program, path = torch.export.load(held), tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's exporter announces what it does with its own types
        made = torch.onnx.export(program, dynamo=True, verbose=False, custom_translation_table=translations())
    assert made is not None
    made.save(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for size in (*range(4, 32), 83, 90, 91, 998):
        x = torch.zeros(size)
        for got, want in zip(session.run(None, {"x": x.numpy()}), Rounded()(x), strict=True):
            np.testing.assert_array_equal(got, want.numpy(), f"of {size}")
    for size in (9, 90, 1000):
        for kept, want in zip(program.module()(torch.zeros(size)), Rounded()(torch.zeros(size)), strict=True):
            torch.testing.assert_close(kept, want)

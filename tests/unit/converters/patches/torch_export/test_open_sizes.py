"""Functions that torch.export makes a constant of a size in, captured and exported by torch's dynamo exporter: as in
PyTorch at other sizes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from transload.converters.patches.torch_export.open_sizes import keeping_sizes
from transload.converters.patches.torch_onnx_dynamo.complex_numbers import register_complex_translations
from transload.converters.patches.torch_onnx_dynamo.translations import translations

Tensors = tuple[Tensor, ...]


def grids(x: Tensor) -> Tensors:
    means = x.mean((2, 3))
    turns = means[:, :, None].expand(-1, 2, 3), means[:, :1, None].expand(-1, 3, 4)
    sizes = (x.shape, (x.shape[0], 1, x.shape[3], 1)), ((*x.shape, 1), (x.shape[0], 1, 3, 1, x.shape[2]))
    return tuple(
        functional.affine_grid(turn, [*size], align_corners=corners)
        for turn, kinds in zip(turns, sizes, strict=True)
        for size in kinds
        for corners in (True, False)
    )


def rolls(x: Tensor) -> Tensors:
    high, wide = x.shape[2:]
    shifted = torch.fft.fftshift(x, (-2, -1)), torch.fft.ifftshift(torch.fft.fft2(x), (-2, -1))
    turned = torch.roll(x, (high // 2, -(wide // 3)), (2, -1)), torch.roll(x, 2 * high + 1, 2), x.roll(-wide - high)
    return *turned, shifted[0], shifted[1].abs(), torch.roll(torch.fft.fft(x), wide // 2).real, x.roll((1, -9), (2, 3))


def sums(x: Tensor) -> Tensors:
    weight = torch.linspace(-1, 1, 2 * 3 * 2).reshape(3, 2, 2)
    means = x.mean((2, 3))
    three = torch.einsum("bi,ij,bj->b", means, weight[0], means), torch.einsum("bchw,bihw,kij", x, x, weight)
    four = torch.einsum("ba,kac,bc,bahw->wkb", means, weight, means, x)
    return *three, four, functional.bilinear(means, means, weight, weight[:, 0, 0])


def frequencies(x: Tensor) -> Tensors:
    known = torch.fft.rfftfreq(16), torch.fft.fftfreq(7, 0.1, dtype=torch.float64)
    wide = x.shape[3]
    return *known, torch.fft.rfftfreq(wide, d=1 / 16000), torch.fft.fftfreq(wide), torch.fft.fftfreq(wide - 1, 0.3)


def windows(x: Tensor) -> Tensors:
    high, wide = x.shape[2:]
    lines, cube = x[:, 0], x[:, None]
    whole = functional.avg_pool2d(x, x.size()[2:]), functional.max_pool2d(x, kernel_size=(high, wide), ceil_mode=True)
    rows = functional.avg_pool2d(x, (high, 2), 1, (0, 1)), functional.max_pool2d(x, (3, wide), (2, 1), (1, 0))
    short = functional.max_pool1d(lines, wide), functional.avg_pool1d(lines, wide, stride=2)
    deep = functional.avg_pool3d(cube, (1, high, wide)), functional.max_pool3d(cube, (2, high, 1))
    return *whole, *rows, *short, *deep, functional.max_pool1d(x.flatten(1), (2 * high * wide,), dilation=1)


HANN, HAMMING = torch.hann_window(12), torch.hamming_window(10)


def waves(x: Tensor) -> Tensors:
    wave = functional.pad(x[:, 0].flatten(1), (20, 20))
    size, stft, istft = wave.shape[1], torch.stft, torch.istft
    spectrum = stft(wave, 12, 4, 12, HANN, return_complex=True)
    short, long = (istft(spectrum * 2, 12, 4, 12, HANN, length=size + more) for more in (-5, 2))
    odd = stft(wave, 16, 3, 10, HAMMING, normalized=True, return_complex=True)
    bare = stft(wave[0], 10, 7, 10, HAMMING, center=False, return_complex=True)
    others = istft(odd, 16, 3, 10, HAMMING, normalized=True), istft(bare, 10, 7, 10, HAMMING, center=False)
    return short, long, *others, istft(spectrum, 12, window=HANN)


@pytest.mark.filterwarnings("ignore:Since version 1.3.0")
@pytest.mark.parametrize(
    "function",
    [rolls, sums, windows, frequencies, *(pytest.param(each, marks=pytest.mark.slow) for each in (grids, waves))],
)
def test_sizes_stay_open(function: Callable[[Tensor], Tensors], tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensors:
            return function(x)

    register_complex_translations()
    torch.manual_seed(0)
    model, path = Model(), tmp_path / "model.onnx"
    axes = dict.fromkeys((0, 2, 3), torch.export.Dim.DYNAMIC)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own
        with keeping_sizes(), torch.no_grad():
            program = torch.export.export(model, (torch.randn(3, 2, 5, 7),), dynamic_shapes=(axes,), strict=False)
        made = torch.onnx.export(
            program, dynamo=True, opset_version=20, verbose=False, custom_translation_table=translations()
        )
    assert made is not None
    made.save(path)
    session = onnxruntime.InferenceSession(path)
    for sizes in ((3, 2, 5, 7), (2, 2, 8, 6), (1, 2, 1, 11)):
        x = torch.randn(sizes)
        for at, (got, want) in enumerate(zip(session.run(None, {"x": x.numpy()}), model(x), strict=True)):
            np.testing.assert_allclose(got, want, atol=1e-5, err_msg=f"output {at} of {sizes}")

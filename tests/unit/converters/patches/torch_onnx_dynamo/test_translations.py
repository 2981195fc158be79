"""What torch's dynamo exporter lacks, in ONNX Runtime as in PyTorch: values, places, types, at any sizes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor

from transload.converters.patches.torch_onnx_dynamo.translations import translations

NAN, INF = float("nan"), float("inf")
BORDERS = torch.tensor([-1.0, -1, 0, 0.5, 0.5, 2])
DYNAMIC = torch.export.Dim.DYNAMIC
Tensors = tuple[Tensor, ...]


class Running(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensors:
        of_integers = torch.cumprod(y.int(), 1), *torch.cummin(y.int(), 0)
        logs = torch.logcumsumexp(x, 1), torch.logcumsumexp(200 * x, -1)
        return (
            *torch.cummax(x, 1),
            *torch.cummin(x, -1),
            torch.cumprod(x, 0),
            *of_integers,
            *logs,
            y[0, 0, 0].cumprod(0),
        )


class Ordering(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensors:
        rows = torch.searchsorted(x.sort(-1)[0], x), torch.searchsorted(x, y, sorter=x.argsort(-1), right=True)
        one = torch.searchsorted(BORDERS, x, out_int32=True), torch.searchsorted(BORDERS.long(), 1.5)
        buckets = torch.bucketize(y, BORDERS), torch.bucketize(y, BORDERS, right=True)
        middle = x.median(1)[0], x.median(-1, keepdim=True)[0], x.median(), y.long().median(-1)[0]
        ordered = *torch.sort(y, dim=1, stable=True), *torch.sort(y, dim=-1, stable=True, descending=True)
        return *rows, *one, *buckets, *middle, *ordered, x.kthvalue(1, -1)[0], *x.kthvalue(2, 1, True), *y.mode(1)


class Numbers(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensors:
        dots = torch.vdot(x.flatten(), y.flatten()), torch.dot(y.long().flatten(), y.long().flatten())
        signs = torch.copysign(x, y), torch.copysign(y.long(), -0.0), torch.signbit(y / INF), torch.signbit(y.long())
        apart = [torch.cdist(x, y, p=p) for p in (0, 1, 3, INF)]
        numbers = torch.fmax(x, y), torch.fmin(x, y), torch.fmax(x.int(), y.int()), torch.fmin(x > 0, y > 0)
        cut = (
            x.clamp(0, 1),
            x.clamp(-1, x.shape[1]),
            x.clamp(0.5),
            x.clamp(2, 1),
            x.clamp(y, y + 1),
            y.clip(max=0),
        )
        return (
            *dots,
            *signs,
            *numbers,
            *cut,
            torch.hypot(x, y),
            torch.hypot(3e30 * x, y),
            torch.logaddexp(300 * x, y),
            torch.special.log_ndtr(9 * x),
            torch.special.erfcx(2 * y),
            torch.nn.functional.logsigmoid(300 * x),
            torch.nn.functional.rrelu(x, 0.1, 0.5),
            *apart,
        )


class Shifted(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensors:
        kinds = torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64
        wide = (x * 2e9).long()
        by = (y * 20).clamp(min=0).long()
        values = [wide.to(kind) for kind in kinds]
        ways = [
            [each << 3, each << 9, each >> 1, each >> 40, each >> by.to(each.dtype), each << by.to(each.dtype)]
            for each in values
        ]
        return *(each for way in ways for each in way), wide >> -1, 200 >> by, torch.tensor(-7) << by


class Scattered(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensors:
        at = (y > 0).long()  # the last place is never hit
        kinds = [(way, own) for way in ("sum", "mean", "prod", "amin", "amax") for own in (True, False)]
        floats = [x.scatter_reduce(1, at, y, way, include_self=own) for way, own in kinds]
        part = x.scatter_reduce(1, at[:, :1], y, "mean", include_self=False)
        return (
            *floats,
            part,
            x.long().scatter_reduce(1, at, y.long(), "mean"),
            (-x / 0).scatter_reduce(1, at, -x / 0, "amax"),
        )


class Counted(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensors:
        at = (y[:, 0, 0] * 2 + 8).long() % x.shape[0]
        counts = torch.bincount(at, minlength=x.shape[0]), torch.bincount(at), torch.bincount(at.byte(), minlength=9)
        weighed = torch.bincount(at, y[:, 0, 0]), torch.bincount(at, y[:, 0, 0].long(), minlength=x.shape[0])
        ways = [(way, own) for way in ("mean", "prod", "amin", "amax") for own in (True, False)]
        floats = [x.index_reduce(0, at, y, way, include_self=own) for way, own in ways]
        last = x.index_reduce(-1, at[:1] % 2 + 1, y[:, :, :1], "mean", include_self=False)
        chosen = torch.masked_select(x, y > 0), y.masked_select(x[:, :1] > 9), x[:, :1].masked_select(y < 0)
        return *counts, *weighed, *floats, last, *chosen, x.long().index_reduce(0, at, y.long(), "mean")


class Pools(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensors:
        of_picture = torch.nn.functional.adaptive_max_pool2d(x[:, None], (2, 3), return_indices=True)
        means = [torch.nn.functional.adaptive_avg_pool2d(x[:, None], count) for count in (1, (2, 3), (1, 5))]
        summed = (
            torch.nn.functional.avg_pool2d(x[:, None], 2, divisor_override=3),
            torch.nn.functional.avg_pool2d(x, 2, 3, 1, ceil_mode=True, divisor_override=5),
            torch.nn.functional.avg_pool2d(x, (1, 3), (2, 2), (0, 1), ceil_mode=True, divisor_override=-2),
            torch.nn.functional.avg_pool3d(y[None], (1, 2, 2), count_include_pad=False, divisor_override=1),
        )
        return *summed, *of_picture, *torch.nn.functional.adaptive_max_pool1d(y, 5, return_indices=True), *means


class Sizes(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensors:
        high, wide = x.shape[1], x.shape[2]
        more = -(-high // 4) * 4 - high
        return torch.nn.functional.pad(x, (0, (wide - 9) // 2 + 5, 0, more)), y[:, : wide // 2], y * ((high - 9) // -2)


def ties(*shape: int) -> Tensor:
    return torch.randint(-4, 5, shape).float() / 2


class OverNoAxes(torch.nn.Module):
    """Any and all take dim=() at its word, other operators as all axes; both as all axes if it is None."""

    def forward(self, x: Tensor, y: Tensor) -> Tensors:
        logical = [
            function(z > 0.5, dim=dim, keepdim=keepdim)
            for function in (torch.any, torch.all)
            for z in (x, y)
            for dim in ((), None, (0, 2), (1,))
            for keepdim in (False, True)
        ]
        numbers = [function(x, dim=()) for function in (torch.sum, torch.mean, torch.std, torch.linalg.vector_norm)]
        return *logical, *numbers, torch.sum(y, dim=(), keepdim=True), torch.any(x, dim=())


@pytest.mark.filterwarnings("ignore:index_reduce.. is in beta")
@pytest.mark.parametrize("kind", [OverNoAxes, Running, Ordering, Numbers, Shifted, Scattered, Counted, Pools, Sizes])
def test_what_the_exporter_lacks_is_as_in_pytorch(kind: type[torch.nn.Module], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, path = kind(), tmp_path / "model.onnx"
    pairs = [(torch.randn(sizes), ties(*sizes)) for sizes in [(2, 3, 4), (1, 2, 7), (5, 6, 3)]]
    session = exported(model, pairs[0], path)
    for pair in pairs:
        agrees(session, model, pair)


def test_what_is_no_number_and_what_is_infinite_is_as_in_pytorch(tmp_path: Path) -> None:
    class Odd(torch.nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensors:
            places = *torch.cummax(x, 0), *torch.cummin(x, 1), *x.median(1), x.median(), torch.searchsorted(BORDERS, x)
            return *places, torch.logcumsumexp(y, 1), torch.hypot(y, y), torch.copysign(y, x), torch.fmax(x, y)

    rows = torch.tensor([[1, NAN, 2], [INF, -INF, 0], [-0.0, NAN, 3], [3, -INF, INF]])
    pair = rows, rows.nan_to_num(5.0, INF, -INF)
    agrees(exported(Odd(), pair, tmp_path / "model.onnx"), Odd(), pair)


def test_running_along_nothing_gives_nothing(tmp_path: Path) -> None:
    class Nothing(torch.nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensors:
            return *torch.cummax(x, 0), torch.cumprod(y, 1)

    session = exported(Nothing(), (torch.randn(2, 3), torch.randn(2, 3)), tmp_path / "model.onnx")
    for shape in ((0, 3), (2, 0)):
        agrees(session, Nothing(), (torch.zeros(shape), torch.zeros(shape)))


def exported(model: torch.nn.Module, pair: Tensors, path: Path) -> onnxruntime.InferenceSession:
    axes = tuple(dict.fromkeys(range(each.dim()), DYNAMIC) for each in pair)
    program = torch.export.export(model, pair, dynamic_shapes=axes, strict=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own, of what PyTorch will drop
        made = torch.onnx.export(
            program,
            dynamo=True,
            opset_version=20,
            optimize=True,
            verbose=False,
            custom_translation_table=translations(),
        )
    assert made is not None
    made.save(path)
    return onnxruntime.InferenceSession(path)


def agrees(session: onnxruntime.InferenceSession, model: torch.nn.Module, pair: Tensors) -> None:
    names = [each.name for each in session.get_inputs()]
    feeds = {name: each.numpy() for name, each in zip("xy", pair, strict=True) if name in names}
    got: Sequence[Any] = session.run(None, feeds)
    for at, (value, wanted) in enumerate(zip(got, model(*pair), strict=True)):
        assert value.dtype == wanted.numpy().dtype, at
        np.testing.assert_allclose(value, wanted.numpy(), rtol=1e-5, atol=1e-6, err_msg=f"output {at}")

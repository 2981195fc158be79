"""Canaries of the translations and symbolics of torch's two ONNX exporters, by the id of the patch."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .canary_harness import Canary, Function, dynamo_export, torchscript_export

Case = tuple[Any, ...]  # a function and sets of inputs: the first is exported, with more of them every axis is dynamic
aten: Any = torch.ops.aten
X, Y = torch.tensor([[0.5, -1.5, 2.25], [-0.0, 3.0, -2.0]]), torch.tensor([[1.5, 0.5, -2.0], [2.0, -0.5, 0.25]])
OTHER = torch.tensor([[0.1, -0.6, 3.0, 1.0]])
FAR = torch.tensor([[3.0, -300.0, 300.0, 0.0, -0.0]])
LONG = torch.tensor([[2**31, 5, -(2**31) - 1]]), torch.tensor([[2, 2**31 + 7, 0]])
WHOLE = torch.tensor([[7, -7, 2**24 + 1]]), torch.tensor([[2, 2, 1]])
TENTH = torch.tensor([[3.0, 6.0, 0.6]]), torch.tensor([[0.1, 0.2, 0.1]])
NANS = torch.tensor([[1.0, math.nan, 2.0]]), torch.tensor([[math.nan, 3.0, 1.0]])
LINE, PICTURE, CUBE = torch.randn(1, 2, 14), torch.randn(1, 2, 14, 14), torch.randn(1, 2, 14, 14, 14)
ROWS = torch.tensor([[2.0, 1.0, 1.0], [1.0, 4.0, 1.0], [0.5, 1.0, 3.0]])  # no symmetry, invertible
SYMMETRIC = ROWS @ ROWS.T
QUERY = torch.randn(1, 2, 3, 4)
BLIND = torch.tensor([[[[0.0, -math.inf, 0.0], [-math.inf] * 3, [0.0, 0.0, 0.0]]]])
INDEX = torch.tensor([[0, 0, 1], [1, 0, 1]])
COUNTED, BAGS = torch.tensor([1, 3, 3, 0]), torch.tensor([0, 2])
TABLE = torch.randn(5, 3)
BYTES, SHORTS = torch.tensor([[200, 3, 255]], dtype=torch.uint8), torch.tensor([[-7, 300, 5]], dtype=torch.int16)


def shifted(operator: Any, *arguments: Any) -> Case:
    return lambda x: operator(x, *arguments), [SHORTS]


def attention(query: Tensor, mask: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(query, query, query, mask)


def complex_case(function: Callable[[Tensor], Tensor]) -> Case:
    return lambda x, y: torch.view_as_real(function(torch.complex(x, y))), [X, Y]


def resized(mode: str) -> Function:
    return lambda x: functional.interpolate(x, scale_factor=0.7, mode=mode)


def grouped(*sizes: int) -> Case:
    transposed = getattr(functional, f"conv_transpose{len(sizes)}d")
    weight = torch.randn(4, 2, *[3] * len(sizes))
    return lambda x: transposed(x, weight, stride=2, groups=2), [torch.randn(1, 4, *sizes)]


ORDER = torch.tensor([-1.0, 0.0, 0.5, 2.0])
ZEROS = torch.tensor([[0.0, -0.0, 0.0, 1.0]]), torch.tensor([[-1.0, -1.0, 0.0, 0.0]])
TRANSLATIONS: dict[str, Case] = {
    "aten.div.Tensor_mode": (lambda x, y: torch.div(x, y, rounding_mode="floor"), [*TENTH]),
    "aten.div.Scalar_mode": (lambda x: aten.div.Scalar_mode(x, 0.1, rounding_mode="floor"), [TENTH[0]]),
    "aten.floor_divide.default": (torch.floor_divide, [*TENTH]),
    "aten.floor_divide.Scalar": (lambda x: aten.floor_divide.Scalar(x, 0.1), [TENTH[0]]),
    "aten.remainder.Tensor": (torch.remainder, [*TENTH]),
    "aten.remainder.Scalar": (lambda x: torch.remainder(x, 0.1), [TENTH[0]]),
    "aten.remainder.Scalar_Tensor": (lambda x: torch.remainder(3.0, x), [TENTH[1]]),
    "operator.floordiv": (lambda x: functional.pad(x, (0, (x.shape[1] - 9) // 2 + 5)), [torch.randn(2, 6)], [
        torch.randn(2, 4)]),
    "aten.scaled_dot_product_attention.default": (attention, [QUERY, BLIND]),
    "aten._scaled_dot_product_flash_attention_for_cpu.default": (
        lambda query, mask: aten._scaled_dot_product_flash_attention_for_cpu(query, query, query, attn_mask=mask)[0],
        [QUERY, BLIND],
    ),
    **{f"aten.upsample_nearest{axes}d.vec": (lambda x: functional.interpolate(x, [2] * (x.dim() - 2)), [image])
       for axes, image in enumerate((LINE, PICTURE, CUBE), 1)},
    "aten.linspace.default": (lambda x: x.sum().long() + torch.linspace(0, 4, 31).long(), [X]),
    "operator.mul": (lambda x: x[:, : int(x.shape[1] * 0.7)], [torch.randn(1, 90)], [torch.randn(1, 60)]),
    "operator.add": (lambda x: x[:, : int(x.shape[1] * 0.7 + 1)], [torch.randn(1, 90)], [torch.randn(1, 60)]),
    "operator.sub": (lambda x: x[:, : int(x.shape[1] * 0.7 - 1)], [torch.randn(1, 90)], [torch.randn(1, 60)]),
    "operator.truediv": (lambda x: x[:, : int(x.shape[1] / 1.1)], [torch.randn(1, 90)], [torch.randn(1, 11)]),
    "math.floor": (lambda x: x[:, : math.floor(x.shape[1] * 0.7)], [torch.randn(1, 90)], [torch.randn(1, 60)]),
    "math.ceil": (lambda x: x[:, : math.ceil(x.shape[1] * 0.7)], [torch.randn(1, 91)], [torch.randn(1, 60)]),
    "math.trunc": (lambda x: x[:, : math.trunc(x.shape[1] * 0.7)], [torch.randn(1, 90)], [torch.randn(1, 60)]),
    "aten.clamp.default": (lambda x: x.clamp(0, 2), [LONG[0]]),
    "aten.clamp_min.default": (lambda x: aten.clamp_min(x, 2), [LONG[0]]),
    "aten.clamp_max.default": (lambda x: aten.clamp_max(x, 2), [LONG[0]]),
    "aten.clamp_min.Tensor": (aten.clamp_min.Tensor, [*LONG]),
    "aten.clamp_max.Tensor": (aten.clamp_max.Tensor, [*LONG]),
    "aten.maximum.default": (torch.maximum, [*LONG]),
    "aten.minimum.default": (torch.minimum, [*LONG]),
    "aten.relu.default": (torch.relu, [LONG[0]]),
    "aten.sign.default": (torch.sign, [LONG[0]]),
    "aten.__lshift__.Scalar": shifted(aten.__lshift__.Scalar, 3),
    "aten.__rshift__.Scalar": shifted(aten.__rshift__.Scalar, 3),
    "aten.__lshift__.Tensor": shifted(aten.__lshift__.Tensor, SHORTS.abs() % 5),
    "aten.__rshift__.Tensor": shifted(aten.__rshift__.Tensor, SHORTS.abs() % 5),
    "aten.bitwise_left_shift.Tensor": shifted(aten.bitwise_left_shift.Tensor, SHORTS.abs() % 5),
    "aten.bitwise_right_shift.Tensor": shifted(aten.bitwise_right_shift.Tensor, SHORTS.abs() % 5),
    "aten.bitwise_left_shift.Tensor_Scalar": shifted(aten.bitwise_left_shift.Tensor_Scalar, 3),
    "aten.bitwise_right_shift.Tensor_Scalar": shifted(aten.bitwise_right_shift.Tensor_Scalar, 3),
    "aten.bitwise_left_shift.Scalar_Tensor": (lambda x: aten.bitwise_left_shift.Scalar_Tensor(9, x), [SHORTS % 4]),
    "aten.bitwise_right_shift.Scalar_Tensor": (lambda x: aten.bitwise_right_shift.Scalar_Tensor(9, x), [SHORTS % 4]),
    "aten.alias.default (complex)": complex_case(aten.alias),
    "aten.copy.default (complex)": complex_case(lambda z: aten.copy(z, z * 2)),
    "aten.cumsum.default (complex)": complex_case(lambda z: z.cumsum(1)),
    "aten.einsum.default (complex)": complex_case(lambda z: aten.einsum("ij,ij->i", [z, z])),
    "aten.exp.default (complex)": complex_case(lambda z: z.exp()),
    "aten.mul.Scalar (complex)": complex_case(lambda z: aten.mul.Scalar(z, 2j)),
    "aten.roll.default (complex)": complex_case(lambda z: z.roll(1, 1)),
    "aten.slice_scatter.default (complex)": complex_case(lambda z: torch.slice_scatter(z, z[:, :1], 1, 1, 2)),
    "aten.unsqueeze.default (complex)": complex_case(lambda z: z.unsqueeze(-1)),
    "aten.where.self (complex)": complex_case(lambda z: torch.where(z.real > 0, z, z * 2)),
    "aten.zeros_like.default (complex)": complex_case(lambda z: torch.zeros_like(z) + z),
    "aten.bincount.default": (lambda x: torch.bincount(x, minlength=x.shape[0]), [COUNTED], [COUNTED[:3]]),
    "aten.index_reduce.default": (lambda x: x.index_reduce(0, torch.tensor([1, 0]), x, "mean"), [X]),
    "aten.masked_select.default": (lambda x: torch.masked_select(x, x > 0), [X]),
    "aten.cumprod.default": (lambda x: x.cumprod(1), [X]),
    "aten.cummax.default": (lambda x: x.cummax(1), [X]),
    "aten.cummin.default": (lambda x: x.cummin(1), [X]),
    "aten.logcumsumexp.default": (lambda x: x.logcumsumexp(1), [torch.tensor([[-300.0, -299.0, 300.0]])]),
    "aten.embedding_bag.default": (
        lambda x: functional.embedding_bag(x, TABLE, BAGS, mode="mean"), [COUNTED]),
    "aten.embedding_bag.padding_idx": (
        lambda x: functional.embedding_bag(x, TABLE, BAGS, mode="mean", padding_idx=0), [COUNTED]),
    "aten._embedding_bag.default": (lambda x: aten._embedding_bag(TABLE, x, BAGS)[0], [COUNTED]),
    "aten._embedding_bag_forward_only.default": (
        lambda x: aten._embedding_bag_forward_only(TABLE, x, BAGS)[0], [COUNTED]),
    "aten.conv1d.default": grouped(5),
    "aten.conv2d.default": grouped(5, 5),
    "aten.conv3d.default": grouped(5, 5, 5),
    "aten.convolution.default": grouped(5, 5),
    "aten.searchsorted.Tensor": (lambda x: torch.searchsorted(ORDER, x), [X]),
    "aten.searchsorted.Scalar": (lambda x: torch.searchsorted(x, 0.3), [ORDER]),
    "aten.bucketize.Tensor": (lambda x: torch.bucketize(x, ORDER), [X]),
    "aten.bucketize.Scalar": (lambda x: torch.bucketize(0.3, x), [ORDER]),
    "aten.kthvalue.default": (lambda x: x.kthvalue(2, 1), [X]),
    "aten.median.dim": (lambda x: x.median(1), [X]),
    "aten.median.default": (lambda x: x.median(), [X]),
    "aten.mode.default": (lambda x: x.mode(1), [X]),
    "aten.sort.stable": (lambda x: aten.sort.stable(x, stable=True, dim=1), [X]),
    "aten.adaptive_max_pool2d.default": (lambda x: functional.adaptive_max_pool2d(x, (3, 4)), [PICTURE]),
    "aten.adaptive_avg_pool2d.default": (lambda x: functional.adaptive_avg_pool2d(x, (3, 4)), [PICTURE]),
    "aten._adaptive_avg_pool2d.default": (lambda x: aten._adaptive_avg_pool2d(x, (3, 4)), [PICTURE]),
    "aten.avg_pool2d.default": (lambda x: functional.avg_pool2d(x, 2, divisor_override=3), [PICTURE]),
    "aten.avg_pool3d.default": (lambda x: functional.avg_pool3d(x, 2, divisor_override=3), [CUBE]),
    "aten.upsample_bilinear2d.vec": (resized("bilinear"), [torch.randn(1, 1, 90, 90)], [torch.randn(2, 2, 60, 90)]),
    "aten.upsample_bicubic2d.vec": (resized("bicubic"), [torch.randn(1, 1, 90, 90)], [torch.randn(2, 2, 60, 90)]),
    "aten.upsample_trilinear3d.vec": (
        resized("trilinear"), [torch.randn(1, 1, 10, 90, 10)], [torch.randn(2, 2, 10, 60, 10)]),
    "aten.roll.default": (lambda x: x.roll(x.shape[1] // 2, 1), [X], [OTHER]),
    "aten.vdot.default": (lambda x, y: torch.vdot(x[0], y[0]), [X, Y]),
    "aten.dot.default": (lambda x, y: torch.dot(x[0], y[0]), [*LONG]),
    "aten.copysign.Tensor": (torch.copysign, [X, Y]),
    "aten.copysign.Scalar": (lambda x: torch.copysign(x, -0.0), [X]),
    "aten.signbit.default": (torch.signbit, [FAR]),
    "aten.special_erfcx.default": (torch.special.erfcx, [X]),
    "aten.special_log_ndtr.default": (torch.special.log_ndtr, [X * 9]),
    "aten.lgamma.default": (torch.lgamma, [X]),
    "aten.hypot.default": (torch.hypot, [X * 3e30, Y]),
    "aten.fmax.default": (torch.fmax, [*NANS]),
    "aten.fmin.default": (torch.fmin, [*NANS]),
    "aten.rrelu_with_noise_functional.default": (lambda x: functional.rrelu(x, 0.1, 0.5), [X]),
    "aten._cdist_forward.default": (lambda x, y: torch.cdist(x, y, p=3), [X, Y]),
    "aten.atan2.default": (torch.atan2, [*ZEROS]),
    "aten.logaddexp.default": (torch.logaddexp, [FAR, FAR * 0.5]),
    "aten.logaddexp2.default": (torch.logaddexp2, [FAR, FAR * 0.5]),
    "aten.logsumexp.default": (lambda x: x.logsumexp(1), [torch.tensor([[-math.inf, 200.0, 1.0]])]),
    "aten.log_sigmoid.default": (functional.logsigmoid, [FAR]),
    "aten.clamp.Tensor": (lambda x, y: x.clamp(y, y + 1) + x.clamp(y - 1, y), [X, Y]),
    "aten.scatter_reduce.two": (lambda x: x.scatter_reduce(1, INDEX, x, "mean", include_self=False), [X]),
    "aten.inverse.default": (torch.inverse, [ROWS]),
    "aten.linalg_inv.default": (torch.linalg.inv, [ROWS]),
    "aten.linalg_inv_ex.default": (lambda x: torch.linalg.inv_ex(x)[0], [ROWS]),
    "aten.linalg_solve.default": (torch.linalg.solve, [ROWS, SYMMETRIC]),
    "aten._linalg_solve_ex.default": (lambda x, y: aten._linalg_solve_ex(x, y)[0], [ROWS, SYMMETRIC]),
    "aten.linalg_cholesky.default": (torch.linalg.cholesky, [SYMMETRIC]),
    "aten.linalg_cholesky_ex.default": (lambda x: torch.linalg.cholesky_ex(x)[0], [SYMMETRIC]),
    "aten.cholesky.default": (aten.cholesky.default, [SYMMETRIC]),
    "aten.cholesky_solve.default": (torch.cholesky_solve, [ROWS, ROWS.tril()]),
    "aten.cholesky_inverse.default": (torch.cholesky_inverse, [ROWS.tril()]),
    "aten.linalg_solve_triangular.default": (
        lambda x, y: torch.linalg.solve_triangular(x, y, upper=False), [ROWS.tril(), ROWS]),
    "aten.triangular_solve.default": (lambda x, y: aten.triangular_solve(x, y)[0], [ROWS, ROWS.triu()]),
    "aten.linalg_det.default": (aten.linalg_det.default, [ROWS]),
    "aten.det.default": (aten.det.default, [ROWS]),
    "aten._linalg_det.default": (lambda x: aten._linalg_det(x)[0], [ROWS]),
    "aten.linalg_slogdet.default": (lambda x: tuple(torch.linalg.slogdet(x)), [ROWS]),
    "aten.slogdet.default": (aten.slogdet.default, [ROWS]),
    "aten._linalg_slogdet.default": (lambda x: aten._linalg_slogdet(x)[:2], [ROWS]),
    "aten.logdet.default": (torch.logdet, [ROWS]),
}  # fmt: skip


class IsTensor(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y: Any = x
        return x + 1 if isinstance(y, Tensor) else x - 1


class Rounds(nn.Module):
    def __init__(self, up: bool) -> None:
        super().__init__()
        self.up = up

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros_like(x[:, 0])
        count = math.ceil(x.shape[1] / 2) if self.up else math.floor(x.shape[1] / 2)
        for at in range(count):
            total = total + x[:, at]
        return total


class Moves(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.cpu() + 1


class LoopCarried(nn.Module):
    """Swaps axes of a tensor whose rank a list forgets that a loop carries."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Tensor) -> Tensor:
        rows = [x]
        for at in range(x.shape[0]):
            row = rows[at]
            turned = row.T if self.how == "T" else row.t() if self.how == "t" else row.transpose(-1, -2)
            rows.append(turned.exp())
        return rows[-1]


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(3, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        lengths = torch.tensor([2, 4])
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True, padding_value=7.0)[0]


class LastOfPacked(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([2, 4]), batch_first=True, enforce_sorted=False)
        return self.layer(packed)[1]


ENCODER = nn.TransformerEncoderLayer(6, 2, 10, batch_first=True).eval().requires_grad_(False)
ATTENTION = nn.MultiheadAttention(6, 2, batch_first=True).eval().requires_grad_(False)
PROJECTED = nn.LSTM(3, 6, proj_size=2).eval().requires_grad_(False)
SQUARE = torch.randn(2, 3, 3)


def scripted(model: nn.Module) -> Any:
    return torch.jit.script(model)


class ReadsMT(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mT + 1


class ReadsMH(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mH + 1


class ReadsH(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[0].H + 1


class Adjoint(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.adjoint() + 1


def attention_in_parts(x: Tensor) -> Tensor:
    """Attend to another tensor, which PyTorch does not fuse: it takes keys and values apart by unflatten."""
    keys = x * 2
    answer: Tensor = ATTENTION(x, keys, keys, need_weights=False)[0]
    return answer


SYMBOLICS: dict[str, Case] = {
    "aten::div": (lambda x, y: torch.div(x, y, rounding_mode="floor"), [*TENTH]),
    "aten::remainder": (torch.remainder, [*TENTH]),
    "aten::floor_divide": (torch.floor_divide, [*WHOLE]),
    "aten::__rshift_": (lambda x: x >> 1, [WHOLE[0]]),
    "aten::scaled_dot_product_attention": (attention, [QUERY, BLIND]),
    **{f"aten::upsample_nearest{axes}d": (lambda x: functional.interpolate(x, [2] * (x.dim() - 2)), [image])
       for axes, image in enumerate((LINE, PICTURE, CUBE), 1)},
    "aten::max": (torch.max, [*LONG]),
    "aten::maximum": (torch.maximum, [*LONG]),
    "aten::min": (torch.min, [*LONG]),
    "aten::minimum": (torch.minimum, [*LONG]),
    "aten::clamp": (lambda x: x.clamp(0, 2), [LONG[0]]),
    "aten::clamp_min": (lambda x: x.clamp_min(2), [LONG[0]]),
    "aten::clamp_max": (lambda x: x.clamp_max(2), [LONG[0]]),
    "aten::relu": (torch.relu, [LONG[0]]),
    "aten::sign": (torch.sign, [LONG[0]]),
    "aten::cpu": (scripted(Moves()), [X]),
    "aten::ceil": (scripted(Rounds(up=True)), [X], [OTHER]),
    "aten::floor": (scripted(Rounds(up=False)), [X], [OTHER]),
    "prim::isinstance": (scripted(IsTensor()), [X]),
    "aten::_transformer_encoder_layer_fwd": (ENCODER, [torch.randn(3, 5, 6)]),
    "aten::_native_multi_head_attention": (lambda x: ATTENTION(x, x, x, need_weights=False)[0], [torch.randn(3, 5, 6)]),
    "aten::unflatten": (attention_in_parts, [torch.randn(3, 6, 6)], [torch.randn(2, 7, 6)]),
    "aten::index": (lambda x: x[torch.arange(2), torch.tensor([-1, 0])], [X]),
    "aten::all": (lambda x: torch.all(x, 1), [torch.tensor([[0.5, 0.5], [1.0, -1.0]])]),
    "aten::any": (lambda x: torch.any(x, 1), [torch.tensor([[0.5, 0.0], [1.0, -1.0]])]),
    **{f"aten::{name}": (getattr(torch, name), [X.abs() + 1 if name == "acosh" else X * 0.3])
       for name in ("acosh", "asinh", "atanh", "cosh", "sinh")},
    "aten::lgamma": (torch.lgamma, [X]),
    "aten::logaddexp": (torch.logaddexp, [FAR, FAR * 0.5]),
    "aten::logaddexp2": (torch.logaddexp2, [FAR, FAR * 0.5]),
    "aten::atan2": (torch.atan2, [*ZEROS]),
    "aten::log_sigmoid": (functional.logsigmoid, [FAR]),
    "aten::logsumexp": (lambda x: x.logsumexp(1), [torch.tensor([[-math.inf, -200.0]])]),
    "aten::softplus": (lambda x: functional.softplus(x, 1.0, 2.0), [X * 3]),
    "aten::mT": (scripted(ReadsMT()), [SQUARE]),
    "aten::mH": (scripted(ReadsMH()), [SQUARE]),
    "aten::adjoint": (scripted(Adjoint()), [SQUARE]),
    "aten::numpy_T": (scripted(LoopCarried("T")), [ROWS]),
    "aten::matrix_H": (scripted(ReadsH()), [SQUARE]),
    "aten::t": (scripted(LoopCarried("t")), [ROWS]),
    "aten::transpose": (scripted(LoopCarried("transpose")), [ROWS]),
    "aten::permute": (lambda x: x.permute(0, -1, 1), [SQUARE]),
    "aten::lstm": (lambda x: PROJECTED(x)[0], [torch.randn(5, 2, 3)]),
    **{
        f"aten::{name}": (LastOfPacked(layer), [torch.randn(2, 4, 3)])
        for name, layer in {
            "_pack_padded_sequence": nn.GRU(3, 4), "gru": nn.GRU(3, 4, bidirectional=True),
            "rnn_tanh": nn.RNN(3, 4), "rnn_relu": nn.RNN(3, 4, nonlinearity="relu"),
        }.items()
    },
    "aten::_pad_packed_sequence": (Packed(), [torch.randn(2, 4, 3)]),
}  # fmt: skip
DYNAMO, TORCHSCRIPT = "translation:torch.onnx.export(dynamo=True)", "symbolic:torch.onnx.export(dynamo=False)"
CASES: dict[str, Canary] = {
    **{f"{DYNAMO}.{name}": partial(dynamo_export, *case) for name, case in TRANSLATIONS.items()},
    **{f"{TORCHSCRIPT}.{name}": partial(torchscript_export, *case) for name, case in SYMBOLICS.items()},
}

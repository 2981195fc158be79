"""Canaries of the patches of converters/patches/torch_onnx_dynamo, by the id of the patch."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from transload.converters.patches.ledger import DYNAMO_EXPORTER

from .canary_harness import Canary, Function, Tensors, compared, dynamo_export, module_of, raised


def open_batch(function: Function, inputs: Tensors, others: Tensors) -> str | None:
    """Export with axis 0 of every input dynamic, unpatched, and ask ONNX Runtime at other sizes."""

    def write(path: Path) -> None:
        axes = (tuple({0: torch.export.Dim.DYNAMIC} for _ in inputs),)
        program = torch.export.export(model, tuple(inputs), dynamic_shapes=axes, strict=False)
        exported = torch.onnx.export(program, dynamo=True, verbose=False)
        assert exported is not None
        exported.save(path)

    model = module_of(function)
    return compared(model, write, (inputs, others))


def writes(operators: set[str], function: Function, inputs: Tensors) -> str | None:
    """Return which of these operators the exporter writes, which other formats lack, or its refusal."""
    written: set[str] = set()

    def export() -> None:
        exported = torch.onnx.export(module_of(function), tuple(inputs), dynamo=True, verbose=False)
        assert exported is not None
        written.update(node.op_type for node in exported.model_proto.graph.node)

    return raised(export) or (f"it writes {sorted(operators & written)}" if operators & written else None)


def ints(*values: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def floats(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


aten = torch.ops.aten
SHORT = ints(1, -5, 300, dtype=torch.int16)
COUNTS = ints(1, 2, 15, dtype=torch.int16)
ROWS = random(4, 5)
MATRIX = random(2, 3, 3) + 3 * torch.eye(3)
POSITIVE = MATRIX @ MATRIX.mT
FACTOR = torch.linalg.cholesky(POSITIVE)
RIGHT = random(2, 3, 2)
COLUMN = torch.arange(90.0)
PICTURE, BOX = COLUMN.reshape(1, 1, 90, 1).expand(1, 2, 90, 10), COLUMN.reshape(1, 1, 90, 1, 1).expand(1, 1, 90, 10, 10)
PAIRS = random(4, 3, 2)
BAGS = [random(10, 4), ints(1, 2, 4, 5, 4, 3, 2, 9), ints(0, 3, 4)]
LOOPS = {"Loop", "SequenceEmpty", "ConcatFromSequence"}


def grouped(axes: int, convolve: Function) -> Canary:
    """A convolution of each sample by its own kernel: as many groups as the batch says."""

    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        value, kernels = x.reshape(1, -1, *x.shape[2:]), weight.reshape(-1, 1, *weight.shape[3:])
        return convolve(value, kernels, groups=x.shape[0] * x.shape[1])

    def inputs(batch: int) -> Tensors:
        return [random(batch, 2, *[6] * axes), random(batch, 2, 1, *[3] * axes)]

    return partial(open_batch, function, inputs(2), inputs(3))


def of_complex(function: Function) -> Canary:
    """A function of complex numbers, at two batches."""

    def of_pairs(pairs: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(function(torch.view_as_complex(pairs)))

    return partial(open_batch, of_pairs, [PAIRS], [random(7, 3, 2)])


def scaled(mode: str, value: torch.Tensor) -> Canary:
    return partial(dynamo_export, lambda x: functional.interpolate(x, scale_factor=0.7, mode=mode), [value.clone()])


def adaptive(pool: Function) -> Canary:
    """An adaptive pool that is exported at one size and asked at another."""
    return partial(dynamo_export, lambda x: pool(x, (3, 2)), [random(2, 3, 10, 8)], [random(3, 3, 13, 9)])


def near_constants() -> str | None:
    return dynamo_export(lambda x: x / (x + 1e-8), [floats(0.0, 1.0)])


def algebra_of_weights() -> str | None:
    weight = random(40, 40) + 40 * torch.eye(40)
    return dynamo_export(lambda x: x @ torch.linalg.inv(weight), [random(2, 40)])


# Functions with example inputs, exported and asked at one size.
FIXED: dict[str, tuple[Function, Tensors]] = {
    "aten.__lshift__.Scalar": (lambda x: x << 3, [SHORT]),
    "aten.__lshift__.Tensor": (lambda x, y: x << y, [SHORT, COUNTS]),
    "aten.bitwise_left_shift.Tensor": (torch.bitwise_left_shift, [SHORT, COUNTS]),
    "aten.bitwise_left_shift.Tensor_Scalar": (lambda x: torch.bitwise_left_shift(x, 3), [SHORT]),
    "aten.bitwise_left_shift.Scalar_Tensor": (lambda y: torch.bitwise_left_shift(3, y), [COUNTS]),
    "aten.__rshift__.Scalar": (lambda x: x >> 3, [SHORT]),
    "aten.__rshift__.Tensor": (lambda x, y: x >> y, [SHORT, COUNTS]),
    "aten.bitwise_right_shift.Tensor": (torch.bitwise_right_shift, [SHORT, COUNTS]),
    "aten.bitwise_right_shift.Tensor_Scalar": (lambda x: torch.bitwise_right_shift(x, 3), [SHORT]),
    "aten.bitwise_right_shift.Scalar_Tensor": (lambda y: torch.bitwise_right_shift(300, y), [COUNTS]),
    "aten.bincount.default": (torch.bincount, [ints(0, 2, 2), floats(1, 2, 4)]),
    "aten.index_reduce.default": (
        lambda x, at, source: x.index_reduce(0, at, source, "amax"), [ROWS, ints(0, 2), random(2, 5)],
    ),
    "aten.masked_select.default": (lambda x: x.masked_select(x > 0), [ROWS]),
    "aten.cumprod.default": (lambda x: torch.cumprod(x, 1), [ROWS]),
    "aten.cummax.default": (lambda x: torch.cummax(x, 1), [ROWS]),
    "aten.cummin.default": (lambda x: torch.cummin(x, 1), [ROWS]),
    "aten.logcumsumexp.default": (lambda x: torch.logcumsumexp(x, 0), [floats(-200, 0, 100)]),
    "aten.searchsorted.Tensor": (torch.searchsorted, [floats(1, 3, 5), floats(0, 3, 6)]),
    "aten.searchsorted.Scalar": (lambda x: torch.searchsorted(x, 3), [floats(1, 3, 5)]),
    "aten.bucketize.Scalar": (lambda x: aten.bucketize.Scalar(3, x), [floats(1, 3, 5)]),
    "aten.sort.stable": (lambda x: torch.sort(x, stable=True), [ROWS]),
    "aten.kthvalue.default": (lambda x: torch.kthvalue(x, 2), [ROWS]),
    "aten.median.dim": (lambda x: torch.median(x, 1), [ROWS]),
    "aten.median.default": (torch.median, [ROWS]),
    "aten.mode.default": (lambda x: torch.mode(x, 1), [torch.round(ROWS)]),
    "aten.avg_pool2d.default": (
        lambda x: functional.avg_pool2d(x, 2, divisor_override=3), [random(1, 2, 6, 6)],
    ),
    "aten.avg_pool3d.default": (
        lambda x: functional.avg_pool3d(x, 2, divisor_override=3), [random(1, 2, 6, 6, 6)],
    ),
    "aten.vdot.default": (torch.vdot, [SHORT, COUNTS]),
    "aten.dot.default": (torch.dot, [SHORT, COUNTS]),
    "aten.any.dims": (lambda x: torch.any(x > 0, dim=()), [floats(-1.0, 0.0, 2.0)]),
    "aten.all.dims": (lambda x: torch.all(x > 0, dim=()), [floats(-1.0, 0.0, 2.0)]),
    "aten.signbit.default": (torch.signbit, [floats(-0.0, 0.0, -1.0)]),
    "aten.copysign.Tensor": (torch.copysign, [floats(1, -2), floats(-0.0, 1)]),
    "aten.copysign.Scalar": (lambda x: torch.copysign(x, -1.0), [floats(1, -2)]),
    "aten.atan2.default": (torch.atan2, [floats(0, 1, -0.0, 0, np.inf), floats(0, 0, -1, -1, np.inf)]),
    "aten.logaddexp.default": (torch.logaddexp, [floats(100, -200), floats(99, -200)]),
    "aten.logaddexp2.default": (torch.logaddexp2, [floats(200, -200), floats(199, -200)]),
    "aten.logsumexp.default": (lambda x: torch.logsumexp(x, 1), [torch.tensor([[-np.inf, -200.0]])]),
    "aten.special_erfcx.default": (torch.special.erfcx, [floats(-1, 0, 30)]),
    "aten.special_log_ndtr.default": (torch.special.log_ndtr, [floats(-30, 0, 3)]),
    "aten.lgamma.default": (torch.lgamma, [floats(0.3, 4, 100)]),
    "aten.log_sigmoid.default": (functional.logsigmoid, [floats(-110, 0, 5)]),
    "aten.hypot.default": (torch.hypot, [floats(3, 1e30), floats(4, 1e30)]),
    "aten.clamp.Tensor": (
        lambda x: x.clamp(torch.tensor(-0.5), torch.tensor(0.5)) + x.clamp(torch.tensor(-0.25), torch.tensor(0.25)),
        [ROWS],
    ),
    "aten.fmax.default": (torch.fmax, [floats(np.nan, 1), floats(2, np.nan)]),
    "aten.fmin.default": (torch.fmin, [floats(np.nan, 1), floats(2, np.nan)]),
    "aten.rrelu_with_noise_functional.default": (functional.rrelu, [ROWS]),
    "aten._cdist_forward.default": (lambda x, y: torch.cdist(x, y, p=3), [ROWS, random(2, 5)]),
    "aten.scatter_reduce.two": (
        lambda x, at, source: x.scatter_reduce(0, at, source, "mean"),
        [floats(1, 2, 3), ints(0, 0, 2), floats(4, 9, 7)],
    ),
    "aten.inverse.default": (torch.inverse, [MATRIX]),
    "aten.linalg_inv.default": (torch.linalg.inv, [MATRIX]),
    "aten.linalg_inv_ex.default": (torch.linalg.inv_ex, [MATRIX]),
    "aten.linalg_solve.default": (torch.linalg.solve, [MATRIX, RIGHT]),
    "aten._linalg_solve_ex.default": (torch.linalg.solve_ex, [MATRIX, RIGHT]),
    "aten.linalg_cholesky.default": (torch.linalg.cholesky, [POSITIVE]),
    "aten.linalg_cholesky_ex.default": (torch.linalg.cholesky_ex, [POSITIVE]),
    "aten.cholesky.default": (aten.cholesky.default, [POSITIVE]),
    "aten.cholesky_solve.default": (torch.cholesky_solve, [RIGHT, FACTOR]),
    "aten.cholesky_inverse.default": (torch.cholesky_inverse, [FACTOR]),
    "aten.linalg_solve_triangular.default": (
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=False), [FACTOR, RIGHT],
    ),
    "aten.triangular_solve.default": (lambda b, a: aten.triangular_solve.default(b, a, False), [RIGHT, FACTOR]),
}  # fmt: skip
# Operators of which other formats lack what the exporter writes.
UNPORTABLE: dict[str, Canary] = {
    **{
        f"aten.{name}.default": partial(writes, {"Det"}, function, [MATRIX])
        for name, function in {
            "linalg_det": torch.linalg.det,
            "det": torch.det,
            "_linalg_det": aten._linalg_det.default,
            "linalg_slogdet": torch.linalg.slogdet,
            "slogdet": torch.slogdet,
            "_linalg_slogdet": aten._linalg_slogdet.default,
            "logdet": torch.logdet,
        }.items()
    },
    "aten.embedding_bag.default": partial(
        writes, LOOPS, lambda table, items, starts: functional.embedding_bag(items, table, starts), BAGS
    ),
    "aten.embedding_bag.padding_idx": partial(
        writes, LOOPS, lambda table, items, starts: functional.embedding_bag(items, table, starts, padding_idx=4), BAGS
    ),
    "aten._embedding_bag.default": partial(writes, LOOPS, lambda *x: aten._embedding_bag.default(*x)[0], BAGS),
    "aten._embedding_bag_forward_only.default": partial(
        writes, LOOPS, lambda *x: aten._embedding_bag_forward_only.default(*x)[0], BAGS
    ),
}
OPEN: dict[str, Canary] = {
    "aten.roll.default": partial(open_batch, lambda x: torch.roll(x, x.shape[0] // 2, 0), [ROWS], [random(7, 5)]),
    "aten.bucketize.Tensor": partial(
        dynamo_export, torch.bucketize, [floats(0, 3, 6), floats(1, 3, 5)], [floats(0, 3), floats(1, 3, 5, 7)]
    ),
    "aten.upsample_bilinear2d.vec": scaled("bilinear", PICTURE),
    "aten.upsample_trilinear3d.vec": scaled("trilinear", BOX),
    "aten.upsample_bicubic2d.vec": scaled("bicubic", PICTURE),
    "aten.adaptive_max_pool2d.default": adaptive(functional.adaptive_max_pool2d),
    "aten.adaptive_avg_pool2d.default": adaptive(functional.adaptive_avg_pool2d),
    "aten._adaptive_avg_pool2d.default": adaptive(aten._adaptive_avg_pool2d.default),
    "aten.conv1d.default": grouped(1, functional.conv1d),
    "aten.conv2d.default": grouped(2, functional.conv2d),
    "aten.conv3d.default": grouped(3, functional.conv3d),
    "aten.convolution.default": grouped(2, functional.conv_transpose2d),
    "aten.alias.default (complex)": of_complex(aten.alias.default),
    "aten.copy.default (complex)": of_complex(lambda z: aten.copy.default(z, z * z)),
    "aten.cumsum.default (complex)": of_complex(lambda z: torch.cumsum(z, 1)),
    "aten.einsum.default (complex)": of_complex(lambda z: torch.einsum("ij,kj->ik", z, z)),
    "aten.exp.default (complex)": of_complex(torch.exp),
    "aten.mul.Scalar (complex)": of_complex(lambda z: aten.mul.Scalar(z, 2 + 1j)),
    "aten.roll.default (complex)": of_complex(lambda z: torch.roll(z, z.shape[0] // 2, 0)),
    "aten.slice_scatter.default (complex)": of_complex(lambda z: torch.slice_scatter(z, z[:, :2] * z[:, :2], 1, 1, 3)),
    "aten.unsqueeze.default (complex)": of_complex(lambda z: z.unsqueeze(-1)),
    "aten.where.self (complex)": of_complex(lambda z: torch.where(z.real > 0, z, z * z)),
    "aten.zeros_like.default (complex)": of_complex(lambda z: torch.zeros_like(z) + z),
}
TRANSLATED: dict[str, Canary] = {
    **{name: partial(dynamo_export, *case) for name, case in FIXED.items()}, **UNPORTABLE, **OPEN,
}  # fmt: skip
CASES: dict[str, Canary] = {
    "swap:onnxscript.rewriter._matcher.math": near_constants,
    "rewrite:torch.export.ExportedProgram.linear algebra of weights": algebra_of_weights,
    **{f"translation:{DYNAMO_EXPORTER}.{name}": canary for name, canary in TRANSLATED.items()},
}

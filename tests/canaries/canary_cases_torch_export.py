"""Canaries of the patches of converters/patches/torch_export, by the id of the patch."""

from __future__ import annotations

import io
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .canary_harness import Canary, Function, capture, dynamo_export, raised, torchscript_export

X, Y = torch.randn(3, 5, 4).round(decimals=1), torch.randn(2, 7, 4).round(decimals=1)
PICTURE, LARGER = torch.randn(2, 3, 6, 8), torch.randn(3, 3, 9, 7)
CUBE, LARGER_CUBE = torch.randn(2, 3, 4, 6, 8), torch.randn(2, 3, 5, 9, 7)
LINES, LONGER = torch.randn(2, 3, 8), torch.randn(3, 3, 11)
HANN = torch.hann_window(12)


def wave_back(x: Tensor) -> Tensor:
    spectrum = torch.stft(x, 12, 4, 12, HANN, return_complex=True)
    return torch.istft(spectrum, 12, 4, 12, HANN, length=x.shape[1])


def einsum_of_three(x: Tensor) -> Tensor:
    weight = torch.linspace(-1, 1, 9).reshape(3, 3)
    return torch.einsum("bcl,ck,bkl->bl", x, weight, x)


CAPTURED: dict[str, tuple[Function, Tensor, Tensor]] = {
    "torch.linspace": (lambda x: x.sum() + torch.linspace(0, 1, x.shape[2]), LINES, LONGER),
    "torch.avg_pool1d": (lambda x: torch.avg_pool1d(x, x.shape[2]), LINES, LONGER),
    "torch.max_pool1d": (lambda x: torch.max_pool1d(x, x.shape[2]), LINES, LONGER),
    "torch.max_pool2d": (lambda x: torch.max_pool2d(x, x.shape[2:]), PICTURE, LARGER),
    "torch.max_pool3d": (lambda x: torch.max_pool3d(x, x.shape[2:]), CUBE, LARGER_CUBE),
    "torch.nn.functional.avg_pool1d": (lambda x: functional.avg_pool1d(x, x.shape[2]), LINES, LONGER),
    "torch.nn.functional.avg_pool2d": (lambda x: functional.avg_pool2d(x, x.shape[2:]), PICTURE, LARGER),
    "torch.nn.functional.avg_pool3d": (lambda x: functional.avg_pool3d(x, x.shape[2:]), CUBE, LARGER_CUBE),
    "torch.cdist": (lambda x: torch.cdist(x, x), torch.randn(2, 30, 3), torch.randn(2, 20, 3)),
    "torch.nn.functional.one_hot": (
        lambda x: functional.one_hot(x.long().abs() % 2, x.shape[2]), LINES, LONGER,
    ),
    "torch.nn.functional.affine_grid": (
        lambda x: functional.affine_grid(torch.eye(2, 3).expand(x.shape[0], 2, 3), list(x.shape), False),
        PICTURE, LARGER,
    ),
    "torch.affine_grid_generator": (
        lambda x: torch.affine_grid_generator(torch.eye(2, 3).expand(x.shape[0], 2, 3), list(x.shape), False),
        PICTURE, LARGER,
    ),
    "torch.istft": (wave_back, torch.randn(2, 60), torch.randn(2, 83)),
    "torch.fft.fftfreq": (lambda x: x.sum() + torch.fft.fftfreq(x.shape[2]), LINES, LONGER),
    "torch.fft.rfftfreq": (lambda x: x.sum() + torch.fft.rfftfreq(x.shape[2]), LINES, LONGER),
    "torch.take_along_dim": (lambda x: torch.take_along_dim(x, x[:1].argsort(1), 1), LINES, torch.randn(1, 3, 8)),
    "torch.Tensor.take_along_dim": (
        lambda x: x.take_along_dim(x[:1].argsort(1), 1), LINES, torch.randn(1, 3, 8),
    ),
    "torch.einsum": (einsum_of_three, LINES, LONGER),
    "torch.nn.functional.bilinear": (
        lambda x: functional.bilinear(x, x, torch.ones(2, 4, 4)), X, torch.randn(1, 7, 4),
    ),
    "torch.Tensor.data": (lambda x: x.data + 1, LINES, LONGER),
    "torch.distributions.Distribution._validate_args": (
        lambda x: torch.distributions.Normal(x, x.exp()).mean, LINES, LONGER,
    ),
    "builtins.int": (lambda x: x[: int(x.abs().max()) + 1], LINES, LONGER),
    "builtins.len": (lambda x: x.sum() + torch.ones(len(x)), LINES, LONGER),
}  # fmt: skip

TRACED: dict[str, Function] = {  # by the name of a function: of torch, of torch.Tensor and of torch.nn.functional
    "adjoint": lambda x, f: f(x),
    "argwhere": lambda x, f: f((x > 0).float()),
    "channel_shuffle": lambda x, f: f(x.transpose(1, 2), 2),
    "count_nonzero": lambda x, f: f(x.relu(), 1),
    "diff": lambda x, f: f(x, n=2, dim=1),
    "fix": lambda x, f: f(x * 3),
    "float_power": lambda x, f: f(x, 2),
    "frac": lambda x, f: f(x * 3),
    "isclose": lambda x, f: f(x, x + x * 1e-4),
    "isin": lambda x, f: f(x.round(), torch.tensor([0.0, 1.0])),
    "isneginf": lambda x, f: f(x.log()),
    "isposinf": lambda x, f: f(-x.log()),
    "msort": lambda x, f: f(x),
    "nanmean": lambda x, f: f(x.log(), 1),
    "nansum": lambda x, f: f(x.log(), 1),
    "rms_norm": lambda x, f: f(x, (4,)),
    "rot90": lambda x, f: f(x, 1, (1, 2)),
    "take_along_dim": lambda x, f: f(x, x[:1].argsort(1), 1),
    "trunc": lambda x, f: f(x * 3),
    "sort": lambda x, f: f(x.round(), dim=1, stable=True)[0],
    "argsort": lambda x, f: f(x.round(), dim=1, stable=True),
    "mT": lambda x, f: f.__get__(x) + 1,
    "mH": lambda x, f: f.__get__(x) + 1,
    "linspace": lambda x, f: x.sum((1, 2))[:, None] + f(0, x.shape[1] + 24, 8).long(),
    "interpolate": lambda x, f: f(x, scale_factor=0.7, mode="linear", recompute_scale_factor=True),
}
OWNERS: dict[str, Any] = {"torch": torch, "torch.Tensor": Tensor, "torch.nn.functional": functional}


def traced(owner: str, name: str) -> str | None:
    """Export one function, found by its owner when it is traced."""
    function = getattr(OWNERS[owner], name)
    samples = [torch.randn(2, 3, 10), torch.randn(2, 3, 90)] if name == "interpolate" else [X, Y]
    return torchscript_export(lambda x: TRACED[name](x, function), *([x] for x in samples))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: int) -> Tensor:
        return x * factor


doubled = Doubled.apply


class UsesDoubled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Doubled.apply(x, 2)


class UsesBoundApply(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return doubled(x, 2)


class Cells(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.cell = getattr(nn, kind)(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros_like(x[:, 0])
        for at in range(x.shape[1]):
            state = self.cell(x[:, at], state)
        return state


class AssignedRows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        rows = torch.arange(x.shape[0])[:, None]
        steps = torch.stack([x[:, :, 0].argmax(1), x[:, :, 1].argmin(1)], 1)
        assigned = x.clone()
        assigned[rows, steps, :] = x[rows, steps, :] * 100
        return assigned


def compiled_and_saved(model: nn.Module) -> str | None:
    return raised(lambda: torch.jit.save(torch.jit.script(model), io.BytesIO()))


def traced_function() -> str | None:
    trace = torch.jit.trace(UsesDoubled(), (X,))
    return raised(lambda: torch.jit.save(trace, io.BytesIO()))


def cells(kind: str) -> str | None:
    return torchscript_export(torch.jit.script(Cells(kind)), [X], [Y])


def export_flag() -> str | None:
    asked: list[bool] = []

    def ask(x: Tensor) -> Tensor:
        asked.append(torch.onnx.is_in_onnx_export())
        return x + 1

    torch.jit.trace(ask, (X,))
    return None if all(asked) else "is_in_onnx_export() is false in a trace outside of the exporter"


def loop_sizes() -> str | None:
    from torch._higher_order_ops.while_loop import while_loop
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    def sizes() -> None:
        context: StatelessSymbolicContext[Any, Any] = StatelessSymbolicContext(
            dynamic_sizes=[DimDynamic.DYNAMIC] * X.dim()
        )
        with FakeTensorMode(shape_env=ShapeEnv()) as mode:
            x = mode.from_tensor(X, symbolic_context=context)
            carried = while_loop(lambda at, x: at < 3, lambda at, x: (at + 1, x * 2), (torch.zeros(()), x))
            assert [*map(str, carried[1].shape)] == [*map(str, x.shape)], "the sizes are others"

    return raised(sizes)


def rounded_sizes() -> str | None:
    import math

    return capture(lambda x: x[:, :, : math.ceil(x.shape[2] * 0.7)], [LINES], [LONGER])


def encoder() -> str | None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0)
    model = nn.TransformerEncoder(layer, 1).eval()
    behind, before = torch.tensor([[False, False, True]]), torch.tensor([[True, False, False]])
    x = torch.randn(1, 3, 4)
    return capture(lambda x, mask: model(x, src_key_padding_mask=mask), [x, behind], [x, before])


def decoder() -> str | None:
    layer = nn.TransformerDecoderLayer(4, 2, 8, batch_first=True, dropout=0.0)
    model = nn.TransformerDecoder(layer, 1).eval()
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    x = torch.randn(1, 3, 4)
    return capture(lambda x, mask: model(x, x, tgt_mask=mask), [x, mask], [x, mask * 0])


def experts() -> str | None:
    from transload.models.loading.torchvision_ops import register_torchvision_stubs

    register_torchvision_stubs()
    from transformers.models.mixtral.configuration_mixtral import MixtralConfig
    from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock

    config = MixtralConfig(hidden_size=8, intermediate_size=8, num_local_experts=4, num_experts_per_tok=2)
    block = MixtralSparseMoeBlock(config).eval()
    return dynamo_export(block, [torch.randn(2, 3, 8)], [torch.randn(3, 5, 8)])


CASES: dict[str, Canary] = {
    **{f"swap:{name}": partial(capture, case[0], [case[1]], [case[2]]) for name, case in CAPTURED.items()},
    "swap:torch.zeros": partial(
        dynamo_export, lambda x: (torch.zeros(2, dtype=torch.complex64) + x[0, 0, :2]).real, [X]
    ),
    **{
        f"trace:{owner}.{name}": partial(traced, owner, name)
        for owner, library in OWNERS.items()
        for name in TRACED
        if hasattr(library, name)
    },
    "swap:torch.autograd.Function.apply": traced_function,
    "swap:torch.jit.frontend.parse_def": partial(compiled_and_saved, UsesDoubled()),
    "swap:torch.jit._recursive.try_compile_fn": partial(compiled_and_saved, UsesBoundApply()),
    **{f"swap:torch.nn.{kind}.forward": partial(cells, kind) for kind in ("GRUCell", "RNNCell")},
    "swap:torch._C._jit_pass_onnx_remove_inplace_ops_for_onnx": lambda: torchscript_export(
        torch.jit.script(AssignedRows()), [X], [Y], opset=17
    ),
    "swap:torch.onnx._internal.torchscript_exporter._globals.GLOBALS._in_onnx_export": export_flag,
    "swap:torch._higher_order_ops.while_loop": loop_sizes,
    "rewrite:torch.export.save.math.ceil, math.floor, round": rounded_sizes,
    "rewrite:torch.nn.TransformerEncoder.forward": encoder,
    "rewrite:torch.nn.TransformerDecoder.forward": decoder,
    "rewrite:transformers.integrations.moe.use_experts_implementation": experts,
}

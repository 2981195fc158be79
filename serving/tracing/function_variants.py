"""An operator as another function: an approximation, another rule of rounding or coordinates, or nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from .argument_variants import Bound, CallVariant, run_bound
from .operator_trace import OperatorCall

_Row = tuple[str, str, Callable[[Any, Bound], Any]]  # class, words, function of torch and the arguments by name


def _same(bound: Bound) -> Any:
    """Return the first tensor of a call."""
    import torch

    return next(value for value in bound.values() if isinstance(value, torch.Tensor))


def _swish(torch: Any, bound: Bound) -> Any:
    x = _same(bound)
    return x * torch.sigmoid(1.702 * x)


def _depth_first(_torch: Any, bound: Bound) -> Any:
    x, factor = _same(bound), int(bound["upscale_factor"])
    count, channels, height, width = x.shape
    parts = x.reshape(count, factor, factor, channels // factor**2, height, width)
    return parts.permute(0, 3, 4, 1, 5, 2).reshape(count, -1, height * factor, width * factor)


def _resized(mode: str, **options: Any) -> Callable[[Any, Bound], Any]:
    def resize(torch: Any, bound: Bound) -> Any:
        x = _same(bound)
        size = bound.get("output_size")
        factors = None if size else bound.get("scale_factors")
        resized = torch.nn.functional.interpolate
        return resized(x, [*size] if size else None, [*factors] if factors else None, mode, **options)

    return resize


def _asymmetric(torch: Any, bound: Bound) -> Any:
    """Resize linearly with output coordinate / scale as the input coordinate."""
    x = _same(bound)
    sizes = bound.get("output_size") or [
        int(size * factor) for size, factor in zip(x.shape[2:], bound["scale_factors"], strict=True)
    ]
    for axis, size in zip(range(2, x.dim()), sizes, strict=True):
        at = torch.arange(size, dtype=x.dtype) * (x.shape[axis] / size)
        low = at.floor().clamp(0, x.shape[axis] - 1).long()
        high = (low + 1).clamp(max=x.shape[axis] - 1)
        share = (at - low).reshape([-1] + [1] * (x.dim() - 1 - axis))
        x = x.index_select(axis, low) * (1 - share) + x.index_select(axis, high) * share
    return x


def _reset_before(torch: Any, bound: Bound) -> Any:
    """Run a GRU whose reset gate is applied before the linear layer, ONNX's default. One layer, one direction."""
    x, state, weights = bound["input"], bound["hx"], bound["params"]
    if bound["num_layers"] != 1 or bound["bidirectional"]:
        raise RuntimeError("several layers or directions")
    steps = x.transpose(0, 1) if bound["batch_first"] else x
    inner = [*weights, *([torch.zeros(weights[0].shape[0])] * 2 if len(weights) == 2 else [])]
    own, hidden, own_bias, bias = inner[:4]
    (_, _, hidden_n), (_, _, bias_n) = hidden.chunk(3), bias.chunk(3)
    h, outputs = state[0], []
    for step in steps:
        given_r, given_z, given_n = (step @ own.T + own_bias).chunk(3, -1)
        inner_r, inner_z, _ = (h @ hidden.T + bias).chunk(3, -1)
        r, z = torch.sigmoid(given_r + inner_r), torch.sigmoid(given_z + inner_z)
        n = torch.tanh(given_n + (r * h) @ hidden_n.T + bias_n)
        h = (1 - z) * n + z * h
        outputs.append(h)
    sequence = torch.stack(outputs)
    return sequence.transpose(0, 1) if bound["batch_first"] else sequence, h[None]


def _backward_not_reversed(torch: Any, bound: Bound, run: Callable[[], Any]) -> Any:
    results = run()
    sequence = results[0]
    half = sequence.shape[-1] // 2
    time = 1 if bound["batch_first"] else 0
    turned = torch.cat([sequence[..., :half], sequence[..., half:].flip(time)], -1)
    return (turned, *results[1:])


def _undilated(call: OperatorCall) -> Callable[[Any, Bound], Any]:
    def run(_torch: Any, bound: Bound) -> Any:
        if max(bound["dilation"]) == 1:
            raise RuntimeError("no dilation")
        pads = [pad // dilation for pad, dilation in zip(bound["padding"], bound["dilation"], strict=True)]
        return run_bound(call, {**bound, "dilation": [1] * len(pads), "padding": pads})

    return run


def _shifted(call: OperatorCall, before: int) -> Callable[[Any, Bound], Any]:
    """Pad a convolution's or a pooling's input more at its end, as TensorFlow's SAME does."""

    def run(torch: Any, bound: Bound) -> Any:
        pads = bound["padding"]
        pads = [pads] * (_same(bound).dim() - 2) if isinstance(pads, int) else [*pads]
        if not any(pads):
            raise RuntimeError("no padding")
        sides = [side for pad in reversed(pads) for side in (max(0, pad - before), pad + max(0, before - 1))]
        value = float("-inf") if "max_pool" in call.operator else 0.0
        name = next(name for name, tensor in bound.items() if tensor is _same(bound))
        padded = torch.nn.functional.pad(bound[name], sides, value=value)
        return run_bound(call, {**bound, name: padded, "padding": [0] * len(pads)})

    return run


_FUNCTIONS: Mapping[str, tuple[_Row, ...]] = {
    "gelu": (("approximate function", "it computes x sigmoid(1.702 x)", _swish),),
    "pixel_shuffle": (("layout", "depth comes before the columns and rows (DCR for CRD)", _depth_first),),
    "round": (("rounding mode", "halves are rounded away from zero",
               lambda torch, bound: torch.sign(_same(bound)) * (_same(bound).abs() + 0.5).floor()),
              ("rounding mode", "halves are rounded up", lambda _torch, bound: (_same(bound) + 0.5).floor())),
    "floor": (("rounding mode", "it rounds towards zero", lambda _torch, bound: _same(bound).trunc()),
              ("rounding mode", "it rounds to the nearest", lambda _torch, bound: _same(bound).round())),
    "remainder": (("rounding mode", "the remainder has the sign of the dividend",
                   lambda torch, bound: torch.fmod(bound["self"], bound["other"])),),
    "hardsigmoid": (("scale", "its slope is 0.2 where the model has 1/6",
                     lambda _torch, bound: (_same(bound) * 0.2 + 0.5).clamp(0, 1)),),
    "relu6": (("saturation", "it is not cut at 6", lambda _torch, bound: _same(bound).clamp(min=0)),),
    "relu": (("saturation", "it is cut at 6", lambda _torch, bound: _same(bound).clamp(0, 6)),),
    "softmax": (("wrong axis", "it runs over all axes but the first",
                 lambda torch, bound: torch.softmax(_same(bound).flatten(1), 1).reshape(_same(bound).shape)),
                ("approximate function", "it is a log softmax",
                 lambda torch, bound: torch.log_softmax(_same(bound), bound["dim"]))),
    "log_softmax": (("approximate function", "it is a softmax without its logarithm",
                     lambda torch, bound: torch.softmax(_same(bound), bound["dim"])),),
    "upsample_bilinear2d": (("coordinates", "output coordinates are divided by the scale", _asymmetric),
                            ("coordinates", "it takes the nearest pixel", _resized("nearest"))),
    "upsample_nearest2d": (("coordinates", "it takes the nearest centre", _resized("nearest-exact")),
                           ("coordinates", "it is linear", _resized("bilinear", align_corners=False))),
    "gru": (("gate order", "the reset gate is applied before the linear layer", _reset_before),),
    "max_pool2d": (("wrong argument", "it is a mean",
                    lambda torch, bound: torch.nn.functional.avg_pool2d(
                        _same(bound), bound["kernel_size"], bound["stride"] or None, bound["padding"])),),
    "argmax": (("off by one", "classes count from one less",
                lambda _torch, bound: _same(bound).argmax(bound["dim"]) - 1),
               ("off by one", "classes count from one more",
                lambda _torch, bound: _same(bound).argmax(bound["dim"]) + 1)),
    "div": (("rounding mode", "it rounds down", lambda _torch, bound: bound["self"] // bound["other"]),),
    "std": (("wrong argument", "it divides by n where the model has n - 1",
             lambda _torch, bound: _same(bound).std(bound.get("dim"), correction=0, keepdim=bound["keepdim"])),),
    "var": (("wrong argument", "it divides by n where the model has n - 1",
             lambda _torch, bound: _same(bound).var(bound.get("dim"), correction=0, keepdim=bound["keepdim"])),),
}  # fmt: skip


def function_variants(call: OperatorCall, bound: Bound) -> Iterator[CallVariant]:
    """Yield other functions that a converter may have put in an operator's place."""
    import torch

    rows = [*_FUNCTIONS.get(call.operator, ())]
    if "dilation" in bound and isinstance(bound["dilation"], list | tuple):
        rows.append(("dilation", "it runs without its dilation", _undilated(call)))
    if ("padding" in bound and "kernel_size" in bound) or "conv" in call.operator:
        rows += [("padding", "the padding is wider at the end", _shifted(call, before)) for before in (1, 2)]
    if call.operator in ("lstm", "gru") and bound.get("bidirectional"):
        words = "the backward direction's steps are not turned round"
        rows.append(("layout", words, lambda torch, bound: _backward_not_reversed(
            torch, bound, lambda: run_bound(call, bound))))  # fmt: skip
    rows.append(("operator lost", "it is not there", lambda _torch, bound: _same(bound)))
    for error_class, words, function in rows:
        yield CallVariant(error_class, words, partial(function, torch))

"""A call of an operator with one argument as converters get it wrong: another axis, epsilon, padding, order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING, Any

from .operator_trace import OperatorCall

if TYPE_CHECKING:
    import torch

_EPSILONS = (0.0, 1e-12, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
_FACTORS = (0.0, 0.01, 0.1, 0.2, 0.25, 0.3, 0.5, 1.0, 2.0, -1.0)
_MASKS = (-1.0, -10.0, -100.0, -1e4, -65504.0, -1e9, float("-inf"))
_TEXTS: Mapping[str, tuple[Any, ...]] = {
    "approximate": ("none", "tanh"),
    "mode": ("constant", "reflect", "replicate", "circular"),
    "rounding_mode": (None, "floor", "trunc"),
}
# The class of an error by the argument that is wrong.
_CLASSES: Mapping[str, str] = {
    "eps": "eps", "dim": "wrong axis", "dims": "wrong axis", "dim0": "wrong axis", "dim1": "wrong axis",
    "padding": "padding", "pad": "padding", "ceil_mode": "padding", "count_include_pad": "padding", "mode": "padding",
    "approximate": "approximate function", "rounding_mode": "rounding mode", "bias": "lost bias",
    "batch_first": "layout", "negative_slope": "scale", "scale": "scale", "beta": "scale", "alpha": "sign",
    "running_mean": "stale statistics", "running_var": "stale statistics", "align_corners": "coordinates",
}  # fmt: skip
_SWITCHES = ("training", "train", "keepdim", "cudnn_enabled", "cudnn_enable", "sparse")  # change no eager answer
_MOST_PERMUTED = 4  # axes

Bound = dict[str, Any]  # arguments by their names in the schema


@dataclass(frozen=True)
class CallVariant:
    """A wrong way to compute an operator. `compute` takes its arguments by name."""

    error_class: str
    words: str  # "eps is 0.001 where the model has 1e-05"
    compute: Callable[[Bound], Any]


def bound_arguments(call: OperatorCall, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Bound:
    """Return arguments by their names in the operator's schema, with its defaults."""
    schema = call.function._schema.arguments
    bound = {argument.name: argument.default_value for argument in schema if argument.has_default_value()}
    named = dict(zip((argument.name for argument in schema), arguments, strict=False))
    return {argument.name: {**bound, **named, **keywords}.get(argument.name) for argument in schema}


def run_bound(call: OperatorCall, bound: Bound) -> Any:
    """Run an operator with arguments by their names."""
    schema = call.function._schema.arguments
    positional = [bound[argument.name] for argument in schema if not argument.kwarg_only]
    return call.function(*positional, **{item.name: bound[item.name] for item in schema if item.kwarg_only})


def argument_variants(call: OperatorCall, bound: Bound) -> Iterator[CallVariant]:
    """Yield the call with one argument changed, the commonest errors first."""
    tensors = [name for name, value in bound.items() if _is_tensor(value)]
    is_recurrent = "params" in bound  # its kernel reads past its weights if their shapes do not fit (torch 2.12)
    for argument in () if is_recurrent else call.function._schema.arguments:
        name, value = argument.name, bound[argument.name]
        for other, words in _other_values(name, str(argument.type), value, _rank(bound)):
            yield _changed(call, name, other, _CLASSES.get(name, "wrong argument"), words)
    for at, name in enumerate(tensors):
        for other in tensors[at + 1 :]:
            if bound[name].shape == bound[other].shape:
                yield _swapped(call, name, other)
    for name, value in bound.items():
        if isinstance(value, list | tuple) and value and all(map(_is_tensor, value)):
            yield from _list_variants(call, name, value)
    for name in tensors:
        yield from _tensor_variants(call, name, bound[name])


def _changed(call: OperatorCall, name: str, other: Any, error_class: str, words: str) -> CallVariant:
    return CallVariant(error_class, words, lambda bound: run_bound(call, {**bound, name: other}))


def _swapped(call: OperatorCall, first: str, second: str) -> CallVariant:
    words = f"{first} and {second} have changed places"
    return CallVariant(
        "swapped operands", words,
        lambda bound: run_bound(call, {**bound, first: bound[second], second: bound[first]}),
    )  # fmt: skip


def _mapped(call: OperatorCall, name: str, change: Callable[[Any], Any], error_class: str, words: str) -> CallVariant:
    return CallVariant(error_class, words, lambda bound: run_bound(call, {**bound, name: change(bound[name])}))


def _other_values(name: str, kind: str, value: Any, rank: int) -> Iterator[tuple[Any, str]]:
    """Yield other values of an argument that is no tensor, with words for the difference."""
    said = "nothing" if value is None else _short(value)
    for other in _candidates(name, kind, value, rank):
        if other != value:
            yield other, f"{name} is {_short(other)} where the model has {said}"


def _candidates(name: str, kind: str, value: Any, rank: int) -> list[Any]:
    if _is_tensor(value):
        return []
    if name in _TEXTS or name == "eps":
        return [*_TEXTS.get(name, _EPSILONS)]
    if name in ("dim", "dims", "dim0", "dim1") and rank:
        return _other_axes(value, rank)
    if isinstance(value, list | tuple) and all(isinstance(item, int) for item in value):
        return _other_sizes(name, [*value])
    return _other_numbers(name, kind, value)


def _other_axes(value: Any, rank: int) -> list[Any]:
    if isinstance(value, int):
        return [axis for axis in range(rank) if axis != value % rank]
    return [[axis] for axis in range(rank)] if isinstance(value, list | tuple) and len(value) == 1 else []


def _other_numbers(name: str, kind: str, value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [] if name in _SWITCHES else [not value]
    if isinstance(value, float) or (isinstance(value, int) and kind in ("number", "Scalar", "Optional[number]")):
        masks = _MASKS if value < -1e3 else ()
        return [*masks, -value, *_FACTORS, value * 1.0001]
    if isinstance(value, int):
        divisors = [other for other in (1, 2, 4, 8, 16, 32) if value % other == 0] if "groups" in name else []
        return [*divisors, value + 1, value - 1]
    return [1.0] if value is None and name == "scale" else []


def _other_sizes(name: str, value: list[int]) -> list[list[int]]:
    if name == "pad":
        mirrored = [side for at in range(0, len(value) - 1, 2) for side in (value[at + 1], value[at])]
        return [mirrored, value[::-1], [0] * len(value)]
    if name in ("padding", "stride", "dilation", "output_padding"):
        return [value[::-1], [0 if "padding" in name else 1] * len(value), [size + 1 for size in value]]
    return []


def _list_variants(call: OperatorCall, name: str, value: Any) -> Iterator[CallVariant]:
    count = len(value)
    if count == 2:
        yield _mapped(call, name, lambda items: [*items][::-1], "swapped operands", f"{name} come in the other order")
    gates = {"lstm": 4, "gru": 3}.get(call.operator)
    if gates is None or name != "params":
        return
    for order in permutations(range(gates)):
        if order != tuple(range(gates)):
            yield _mapped(call, name, _reordered(gates, order), "gate order", f"the gates stand in the order {order}")
    yield _mapped(call, name, lambda items: [item if item.dim() > 1 else item * 0 for item in items], "lost bias",
                  "the biases are lost")  # fmt: skip
    for words, change in _roundings():
        rounded = f"the weights are rounded to {words}"
        yield _mapped(call, name, partial(_map_items, change), "dtype narrowed", rounded)
    half = count // 2
    if [item.shape for item in value[:half]] != [item.shape for item in value[half:]]:
        return
    yield _mapped(call, name, lambda items: [*items[half:], *items[:half]], "swapped operands",
                  "the weights of the two directions have changed places")  # fmt: skip


def _reordered(gates: int, order: tuple[int, ...]) -> Callable[[Any], Any]:
    import torch

    def change(items: Any) -> Any:
        return [torch.cat([item.chunk(gates, 0)[at] for at in order], 0) for item in items]

    return change


def _tensor_variants(call: OperatorCall, name: str, value: torch.Tensor) -> Iterator[CallVariant]:
    optional = any(item.name == name and "Optional" in str(item.type) for item in call.function._schema.arguments)
    if optional and not name.startswith("running"):  # without one of the statistics the kernel reads memory of nobody
        error_class = _CLASSES.get(name, "lost weight")
        yield _changed(call, name, None, error_class, f"{name} is lost")
    if name == "running_mean":
        stale = {"running_mean": value * 0, "running_var": value * 0 + 1}
        words = "the running statistics are those of a fresh layer"
        yield CallVariant("stale statistics", words, lambda bound: run_bound(call, {**bound, **stale}))
    if not value.is_floating_point():
        return
    for words, change in _roundings():
        yield _mapped(call, name, change, "dtype narrowed", f"{name} is rounded to {words}")
    yield _mapped(call, name, lambda tensor: -tensor, "sign", f"{name} has the opposite sign")
    yield from _layout_variants(call, name, value)


def _layout_variants(call: OperatorCall, name: str, value: torch.Tensor) -> Iterator[CallVariant]:
    axes = range(value.dim())
    for axis in axes:
        if value.shape[axis] > 1:
            yield _mapped(call, name, partial(_reverse, axis=axis), "layout", f"axis {axis} of {name} is reversed")
            if value.shape[axis] % 2 == 0:
                words = f"the halves of {name} along axis {axis} have changed places"
                yield _mapped(call, name, partial(_exchange_halves, axis=axis), "layout", words)
    if 2 <= value.dim() <= _MOST_PERMUTED:
        for order in permutations(axes):
            if order != tuple(axes):
                words = f"the axes of {name} lie in the order {order}"
                yield _mapped(call, name, partial(_permute, order=order), "layout", words)


def _map_items(change: Callable[[Any], Any], items: Any) -> list[Any]:
    return [*map(change, items)]


def _reverse(tensor: torch.Tensor, axis: int) -> torch.Tensor:
    return tensor.flip(axis)


def _exchange_halves(tensor: torch.Tensor, axis: int) -> torch.Tensor:
    return tensor.roll(tensor.shape[axis] // 2, axis)


def _permute(tensor: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    return tensor.permute(order).reshape(tensor.shape)


def _roundings() -> list[tuple[str, Callable[[Any], Any]]]:
    import torch

    return [
        ("float16", lambda tensor: tensor.to(torch.float16).to(tensor.dtype)),
        ("bfloat16", lambda tensor: tensor.to(torch.bfloat16).to(tensor.dtype)),
        ("10 bits", _to_tf32),
    ]


def _to_tf32(tensor: torch.Tensor) -> torch.Tensor:
    """Round to the 10 bits of TF32, to the nearest."""
    import torch

    bits = tensor.float().contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32).to(tensor.dtype)


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _rank(bound: Bound) -> int:
    return next((value.dim() for value in bound.values() if _is_tensor(value)), 0)


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)

"""A call of an operator with a weight as the constants of a copy give it, also where a batch norm is folded in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.signature import Array
from .argument_variants import Bound, CallVariant, run_bound
from .operator_trace import OperatorCall

if TYPE_CHECKING:
    import torch

_ROUNDING = 1e-5  # of a weight's largest element: folding in float32 changes less
_MEDIANS = 10.0  # that an element differs by more than the others, which a reduced precision rounds
_ALIKE = 0.9  # least cosine of two weights that differ in most elements, as by a factor


@dataclass(frozen=True)
class CopiedWeights:
    """The constants of a copy's departing operators. `orders` yields one in another shape, for each order of axes."""

    constants: Sequence[Array]
    name_of: Callable[[torch.Tensor], str]  # a weight's in the model
    orders: Callable[[Array, Sequence[int]], Iterable[Array]]

    def variants(self, call: OperatorCall, bound: Bound, partner: Bound | None) -> Iterator[CallVariant]:
        """Yield the call with each of its weights that a constant gives otherwise.
        `partner`: the arguments of the layer whose result a batch norm reads, or of the batch norm behind a layer."""
        for argument, tensor in bound.items():
            name = self.name_of(tensor) if hasattr(tensor, "untyped_storage") and tensor.is_floating_point() else ""
            own = _array(tensor) if name else np.empty(0)
            for value in self._values(argument, bound, partner, own.shape) if own.size else ():
                if (changed := _changed_elements(own, value)) is not None:
                    yield _with_weight(call, argument, name, own, np.where(changed, value, own))

    def _values(self, argument: str, bound: Bound, partner: Bound | None, shape: Sequence[int]) -> Iterator[Array]:
        """Yield what a weight may be by the constants: one of them as it is, or without what is folded into it."""
        yield from self._fitting(shape)
        is_norm = "running_var" in bound
        norm, layer = (bound, partner) if is_norm else (partner, bound)
        if norm is None or norm["running_var"] is None:
            return
        mean, variance = (_array(norm[name]) for name in ("running_mean", "running_var"))
        gamma, beta, bias = (
            np.full_like(mean, default) if tensor is None else _array(tensor)
            for tensor, default in ((norm["weight"], 1), (norm["bias"], 0), (layer and layer["bias"], 0))
        )
        deviation = np.sqrt(variance + norm["eps"])
        scale = gamma / deviation
        weight = np.ones_like(mean) if layer is None else _array(layer["weight"])
        axis = int(bool(layer and layer.get("transposed", "output_padding" in layer)))
        if weight.shape[axis] != len(mean):  # a transposed convolution in groups
            return
        others = tuple(at for at in range(weight.ndim) if at != axis)
        for folded in self._fitting(weight.shape):
            factors = (folded * weight).sum(others) / (weight * weight).sum(others)  # by least squares
            if not is_norm and argument == "weight":
                yield folded / np.expand_dims(scale, others)
            elif is_norm and argument in ("weight", "running_var"):
                yield factors * deviation if argument == "weight" else (gamma / factors) ** 2 - norm["eps"]
        for folded in self._fitting(mean.shape):
            if is_norm and argument == "bias":
                yield folded - (bias - mean) * scale
            elif argument in ("bias", "running_mean"):
                shift = (folded - beta) / scale
                yield bias - shift if is_norm else shift + mean

    def _fitting(self, shape: Sequence[int]) -> Iterator[Array]:
        for constant in self.constants:
            yield from self.orders(constant.astype(np.float64), shape)


def _array(tensor: Any) -> Array:
    array: Array = tensor.detach().double().numpy()
    return array


def _changed_elements(own: Array, value: Array) -> Array | None:
    """Return where a weight has other elements than the model's; None where it has none, or is another weight."""
    value = np.where(np.isfinite(value), value, own)
    difference = np.abs(value - own)
    largest = float(np.abs(own).max())
    changed: Array = difference > max(_ROUNDING * largest, _MEDIANS * float(np.median(difference)))
    if 0 < np.count_nonzero(changed) <= own.size // 2:
        return changed
    norms = float(np.linalg.norm(value) * np.linalg.norm(own))
    is_alike = norms > 0 and float((value * own).sum()) > _ALIKE * norms
    return np.full(own.shape, True) if is_alike and difference.max() > _ROUNDING * largest else None


def _with_weight(call: OperatorCall, argument: str, name: str, own: Array, value: Array) -> CallVariant:
    def compute(bound: Bound) -> object:
        import torch

        weight = torch.from_numpy(np.ascontiguousarray(value)).to(bound[argument].dtype)
        return run_bound(call, {**bound, argument: weight})

    return CallVariant("weight", f"{name}{_describe_change(own, value)}", compute)


def _describe_change(own: Array, value: Array) -> str:
    """Say which elements of a weight are others, and by how much."""
    places = np.argwhere(own != value)
    is_one = [len(set(indices)) == 1 < size for indices, size in zip(places.T, own.shape, strict=True)]
    shown = [str(index) if alone or len(places) == 1 else ":" for index, alone in zip(places[0], is_one, strict=True)]
    while shown and shown[-1] == ":":
        shown.pop()
    name = f"[{', '.join(shown)}]" if shown else ""
    if len(places) == 1:
        at = tuple(places[0])
        return f"{name} is {value[at]:.6g} where the model has {own[at]:.6g}"
    was, now = own[own != value], value[own != value]
    factor = float((was * now).sum() / max(float((was * was).sum()), np.finfo(np.float64).tiny))
    if np.allclose(now, factor * was, rtol=1e-3, atol=1e-3 * float(np.abs(was).max())):
        return f"{name} is {factor:.4g} x the model's"
    return f"{name} differs from the model's in {len(places)} elements, by up to {np.abs(now - was).max():.3g}"


def name_channels(candidate: Array, reference: Array) -> str:
    """Name the channels of a result that depart alone, "channel 3 of 16"; empty where most depart."""
    best: tuple[float, str] = (0.5, "")
    with np.errstate(all="ignore"):
        errors = np.square(candidate.astype(np.float64) - reference)
    for axis in range(min(1, errors.ndim - 1), errors.ndim):
        sums = errors.sum(tuple(at for at in range(errors.ndim) if at != axis))
        wrong = np.flatnonzero(~(sums <= 1e-3 * np.nanmax(sums)))
        if len(wrong) / len(sums) <= best[0] and (len(wrong) / len(sums) < best[0] or not best[1]):
            kind = "channel" if axis in (1, errors.ndim - 1) else f"axis {axis}"
            runs = np.split(wrong, np.flatnonzero(np.diff(wrong) > 1) + 1)
            texts = [str(run[0]) if len(run) == 1 else f"{run[0]}..{run[-1]}" for run in runs]
            best = len(wrong) / len(sums), f"{kind}{'s' * (len(wrong) > 1)} {', '.join(texts)} of {len(sums)}"
    return best[1]

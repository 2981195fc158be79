"""A call of an operator with a weight as the constants of a copy give it, also where a batch norm is folded in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ...models.signature import Array
from .argument_variants import Bound, CallVariant, run_bound
from .operator_trace import OperatorCall

if TYPE_CHECKING:
    import torch

# Weights of which one may be changed with the same effect: arguments of a call, and their values in the copy.
_Alternatives: TypeAlias = list[tuple[Bound, str, Array]]
_ROUNDING = 1e-5  # of a weight's largest element: folding in float32 changes less
_MEDIANS = 10.0  # that an element differs by more than the others, which a reduced precision rounds
_PROPORTIONAL = 0.02  # of changed elements: what is left beside a common factor, as int8 rounds
_ALIKE = 0.9  # least cosine of two weights that differ in most elements, as by a factor


@dataclass(frozen=True)
class CopiedWeights:
    """The constants of a copy's diverging operators. `orders` yields one in another shape, for each order of axes."""

    constants: Sequence[Array]
    name_of: Callable[[torch.Tensor], str]  # a weight's in the model
    orders: Callable[[Array, Sequence[int]], Iterable[Array]]
    least_db: float  # that one explains a result to, beside the others, which a reduced precision rounds

    def variants(self, call: OperatorCall, bound: Bound, partner: Bound | None) -> Iterator[CallVariant]:
        """Yield the call with each of its weights that a constant gives otherwise, and name those that may be as well.
        `partner`: the arguments of the layer whose result a batch norm reads, or of the batch norm behind a layer."""
        for alternatives in (*self._plain(bound), *self._folded(bound, partner)):
            words, changed = [], None
            for owner, argument, value in alternatives:
                name = self.name_of(owner[argument]) if _is_weight(owner[argument]) else ""
                own = _array(owner[argument]) if name else np.empty(0)
                if name and (where := _changed_elements(own, value)) is not None:
                    words.append(f"{name}{_describe_change(own, weight := np.where(where, value, own))}")
                    changed = changed or ((argument, weight) if owner is bound else None)
            if changed:
                yield CallVariant("weight", ", or ".join(words), partial(_run_with, call, *changed))

    def _plain(self, bound: Bound) -> Iterator[_Alternatives]:
        for argument in filter(lambda argument: _is_weight(bound[argument]), bound):
            yield from ([(bound, argument, value)] for value in self._fitting(bound[argument].shape))

    def _folded(self, bound: Bound, partner: Bound | None) -> Iterator[_Alternatives]:
        """Yield what the weights of a batch norm, and those of the layer before it, may be where both are one layer."""
        norm, layer = (bound, partner or {}) if "running_var" in bound else (partner or {}, bound)
        if norm.get("running_var") is None:
            return
        mean, variance = _array(norm["running_mean"]), _array(norm["running_var"])
        gamma, beta, bias = (
            np.full_like(mean, default) if tensor is None else _array(tensor)
            for tensor, default in ((norm["weight"], 1), (norm["bias"], 0), (layer.get("bias"), 0))
        )
        deviation = np.sqrt(variance + norm["eps"])
        scale = gamma / deviation
        weight = _array(layer["weight"]) if layer else np.ones_like(mean)
        axis = int(layer.get("transposed", "output_padding" in layer))
        if weight.shape[axis] != len(mean):  # a transposed convolution in groups
            return
        rest_axes = tuple(at for at in range(weight.ndim) if at != axis)
        for folded in self._fitting(weight.shape):
            factors = (folded * weight).sum(rest_axes) / (weight * weight).sum(rest_axes)  # by least squares
            variance_of_copy = (gamma / factors) ** 2 - norm["eps"]
            yield [(norm, "running_var", variance_of_copy), (norm, "weight", factors * deviation)]
            yield [(layer, "weight", folded / np.expand_dims(scale, rest_axes))] if layer else []
        for folded in self._fitting(mean.shape):
            shift = (folded - beta) / scale
            of_norm = [(norm, "bias", folded - (bias - mean) * scale), (norm, "running_mean", bias - shift)]
            yield [*of_norm, (layer, "bias", shift + mean)] if layer else of_norm

    def _fitting(self, shape: Sequence[int]) -> Iterator[Array]:
        for constant in self.constants:
            yield from self.orders(constant.astype(np.float64), shape)


def _is_weight(value: Any) -> bool:
    return hasattr(value, "untyped_storage") and value.is_floating_point()


def _run_with(call: OperatorCall, argument: str, weight: Array, bound: Bound) -> Any:
    import torch

    value = torch.from_numpy(np.ascontiguousarray(weight)).to(bound[argument].dtype)
    return run_bound(call, {**bound, argument: value})


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
    if np.linalg.norm(now - factor * was) < _PROPORTIONAL * np.linalg.norm(now):
        return f"{name} is {factor:.4g} x the model's"
    return f"{name} differs from the model's in {len(places)} elements, by up to {np.abs(now - was).max():.3g}"


def name_channels(candidate: Array, reference: Array | None) -> str:
    """Name the channels of a result that depart alone, "channel 3 of 16"; empty where most depart."""
    best: tuple[float, str] = (0.5, "")
    if reference is None:
        return ""
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

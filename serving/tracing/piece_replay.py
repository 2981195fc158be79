"""Replay a few recorded calls with one of them wrong in a known way: does that give the candidate's value?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...models.signature import Array
from .argument_variants import Bound, CallVariant, argument_variants, bound_arguments, run_bound
from .function_variants import function_variants
from .operator_trace import OperatorCall, tensors_in
from .traced_model import array_of
from .weight_variants import CopiedWeights

if TYPE_CHECKING:
    import torch

_SURE_DB = 110.0  # an explanation as good as this is not bettered by another
_GAIN_DB = 15.0  # an explanation must agree this much better than the plain result ...
_LEAST_DB = 85.0  # ... and at least this well

Agreement = Callable[[Array, Array], float]  # of a value with the expected, in dB


@dataclass(frozen=True)
class Explanation:
    """The call of a piece that is wrong, and how."""

    call: OperatorCall
    error_class: str
    words: str
    agreement_db: float


class PieceReplay:
    """Calls of a trace in their order. `number_of` gives the number of a tensor's value."""

    def __init__(
        self, calls: Sequence[OperatorCall], number_of: Callable[[torch.Tensor], int | None], weights: CopiedWeights
    ) -> None:
        self._calls, self._number_of, self._weights = calls, number_of, weights

    def explain(
        self, value: int, expected: Array, plain_db: float, agreement: Agreement, seconds: float
    ) -> Explanation | None:
        """Return the error of one call that best gives `expected` as the piece's value of that number, if one does."""
        import torch

        deadline = time.monotonic() + seconds
        best: Explanation | None = None
        with torch.inference_mode():
            known = self._replay({}, 0, None)
            for at in reversed(range(len(self._calls))):
                call = self._calls[at]
                for variant in self._variants(at, known):
                    if time.monotonic() > deadline:
                        return best
                    result = self._result(known, at, variant, value)
                    if result is None or result.shape != expected.shape or result.dtype != expected.dtype:
                        continue
                    db = agreement(expected, result)
                    least = min(_LEAST_DB, self._weights.least_db) if variant.error_class == "weight" else _LEAST_DB
                    if db >= max(least, plain_db + _GAIN_DB) and (best is None or db > best.agreement_db + 3):
                        best = Explanation(call, variant.error_class, variant.words, db)
                    if best is not None and best.agreement_db >= _SURE_DB:
                        return best
        return best

    def _variants(self, at: int, known: Mapping[int, Any]) -> Iterator[CallVariant]:
        call = self._calls[at]
        try:
            bound = self._bound(call, known)
        except RuntimeError:
            return
        yield from argument_variants(call, bound)
        yield from function_variants(call, bound)
        # Last: the weights of a copy also hold what another epsilon or a narrower dtype has made of them.
        yield from self._weights.variants(call, bound, self._partner(call, bound, known))

    def _partner(self, call: OperatorCall, own: Bound, known: Mapping[int, Any]) -> Bound | None:
        """Return the arguments of the layer before a batch norm, or of the batch norm behind a layer, if there is."""
        is_norm = "running_var" in own
        for other in self._calls:
            layer, norm = (other, call) if is_norm else (call, other)
            bound = self._bound(other, known) if norm.reads[:1] == layer.writes else {}
            if {"weight", "bias"} <= bound.keys() and is_norm != ("running_var" in bound):
                return bound
        return None

    def _result(self, known: Mapping[int, Any], at: int, variant: CallVariant, value: int) -> Array | None:
        """Return the piece's value with a variant in the place of a call; None where something cannot be computed."""
        try:
            tensor = self._replay(known, at, variant).get(value)
        except (RuntimeError, TypeError, ValueError, IndexError, ArithmeticError, StopIteration):
            return None
        return None if tensor is None else array_of(tensor)

    def _replay(self, known: Mapping[int, Any], first: int, variant: CallVariant | None) -> dict[int, Any]:
        """Run the calls from `first` on, that one by a variant; return the values by number."""
        values = dict(known)
        for at, call in enumerate(self._calls[first:], first):
            bound = self._bound(call, values)
            results = run_bound(call, bound) if variant is None or at != first else variant.compute(bound)
            values |= dict(zip(call.writes, tensors_in(results), strict=False))
        return values

    def _bound(self, call: OperatorCall, values: Mapping[int, Any]) -> Bound:
        """Return the arguments of a call, with replayed values in their places. What it writes into is copied."""

        def replayed(item: Any) -> Any:
            if isinstance(item, list | tuple):
                return type(item)(map(replayed, item))
            number = self._number_of(item) if hasattr(item, "untyped_storage") else None
            tensor = item if number is None else values.get(number, item)
            return tensor.clone() if call.function._schema.is_mutable and hasattr(tensor, "clone") else tensor

        arguments, keywords = replayed(call.arguments), {name: replayed(item) for name, item in call.keywords.items()}
        return bound_arguments(call, arguments, keywords)

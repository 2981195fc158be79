"""The parts of a reference and of a candidate that depart, and the pair of values between which they do.

A pair counts once the candidate's value in the place of the reference's makes what comes after it agree again.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...models.signature import Array
from ...serving.tracing.operator_trace import EndTrace, OperatorCall
from .followed_answer import FollowedAnswer, FollowedReference, ValuePair
from .locate_records import CandidateGraph
from .regions import DataFlow
from .value_match import is_telling, likely_orders

_SAME_DB = 60.0  # values that agree so well with a pair's tell nothing about what comes after it
_MOST_PAIRS = 60  # that are tried for one place
_WITNESSES = 2  # values that must agree again for a pair to count; else an output
_PATIENCE = 40  # operators after a pair within which they must


@dataclass(frozen=True)
class Departure:
    """The operators of both graphs between values that both have and the wrong outputs, in their order."""

    answer: FollowedAnswer
    reference: Sequence[int]
    candidate: Sequence[int]
    flow: DataFlow  # the candidate's
    unequal: frozenset[str]  # values of the candidate that the reference lacks

    @classmethod
    def of(
        cls, answer: FollowedAnswer, graph: CandidateGraph, values: Collection[str], wrong: Sequence[str]
    ) -> Departure:
        """Return the departing parts behind the wrong outputs; `values`: the candidate's that tell something."""
        flow = DataFlow([row.reads for row in graph.operators], [row.writes for row in graph.operators])
        unequal = frozenset(values) - answer.equal_names
        numbers = [answer.numbers[name] for name in wrong if name in answer.numbers]
        names = [graph.outputs[name] for name in wrong if name in graph.outputs]
        reference = answer.flow.region_with_ends(numbers, answer.is_known)
        return cls(answer, reference, flow.region_with_ends(names, lambda name: name not in unequal), flow, unequal)

    def reference_piece(self, pair: ValuePair) -> list[OperatorCall]:
        """Return the reference's calls between known values and a pair."""
        last = self.answer.calls[pair.call]
        before = self.answer.flow.region(last.reads, self.answer.is_known)
        return [self.answer.calls[at] for at in sorted({*before, pair.call})]

    def candidate_piece(self, name: str) -> list[int]:
        """Return the candidate's operators between known values and a value."""
        return self.flow.region_with_ends([name], lambda other: other not in self.unequal)

    def pairs(self, values: FollowedReference) -> list[ValuePair]:
        """Return pairs of unequal values of one size, the likeliest first: near the known values, and alike."""
        own_steps = self.answer.flow.distances(self.reference, self.answer.is_known)
        steps = self.flow.distances(self.candidate, lambda name: name not in self.unequal)
        ranked = []
        for number, pair in self._unequal_results():
            array = self.answer.arrays[number]
            for operator in self.candidate:
                for name in self.unequal.intersection(self.flow.writes[operator]):
                    own = values.values.arrays[name]
                    for match in likely_orders(name, own, array) if own.dtype.kind == array.dtype.kind else ():
                        likeness = max(0.0, min(match.agreement_db, 100.0)) / 10
                        rank = own_steps[pair[0]] + steps[operator] - likeness
                        ranked.append((rank, ValuePair(*pair, name, match.array, match.agreement_db)))
        return [pair for _, pair in sorted(ranked, key=lambda row: (row[0], row[1].call))][:_MOST_PAIRS]

    def _unequal_results(self) -> Iterator[tuple[int, tuple[int, int]]]:
        for index in self.reference:
            for at, number in enumerate(self.answer.calls[index].writes):
                if not self.answer.is_known(number):
                    yield number, (index, at)

    def last_pair(self, wrong: Sequence[str], graph: CandidateGraph, answers: dict[str, Array]) -> ValuePair | None:
        """Return the pair of a wrong output with itself, which explains it without a doubt, and tells least."""
        for name in wrong:
            number = self.answer.numbers.get(name)
            index = None if number is None else self.answer.flow.producer(number)
            if number is None or index is None or answers[name].shape != self.answer.outputs[name].shape:
                continue
            at = self.answer.calls[index].writes.index(number)
            return ValuePair(index, at, graph.outputs[name], answers[name], self.answer.outputs_db[name])
        return None


@dataclass
class PairTrial:
    """Whether a pair explains what comes after it, by an answer of the reference with the candidate's value there."""

    reference: FollowedReference
    departure: Departure
    overrides: Sequence[ValuePair]  # of places that were located before
    deadline: float

    def first_explaining(self, pairs: Sequence[ValuePair]) -> ValuePair | None:
        """Return the first pair with enough witnesses, else the first with one: where every layer is wrong, the next
        one ends the agreement. None without any."""
        likely: ValuePair | None = None
        for pair in pairs:
            if time.monotonic() > self.deadline:
                break
            count = self._count_witnesses(pair)
            if count >= _WITNESSES:
                return pair
            likely = likely or (pair if count else None)
        return likely

    def _count_witnesses(self, pair: ValuePair) -> int:
        """Return how many of the candidate's values agree again; an output that does stands for enough of them."""
        answer, least_db = self.departure.answer, self.reference.least_db
        alike = {match.name for match in self.reference.values.matches(pair.array) if match.agreement_db > _SAME_DB}
        hoped = self.departure.unequal - alike - {pair.name}
        witnesses: set[str] = set()

        def listen(call: OperatorCall, produced: Sequence[Array | None]) -> None:
            for override in (*self.overrides, pair):
                if override.call == call.index and (array := produced[override.at]) is not None:
                    array[...] = override.array
            if call.index > pair.call:
                witnesses.update(self._equal_again(call, produced, hoped))
            if len(witnesses) >= _WITNESSES or call.index > pair.call + _PATIENCE:
                raise EndTrace

        def stored(call: OperatorCall) -> list[Array] | None:
            results = [array for array in answer.results.get(call.index, ()) if array is not None]
            changes = call.function._schema.is_mutable or call.function.is_view
            same_count = len(results) == len(call.function._schema.returns)
            return results if call.index < pair.call and same_count and not changes else None

        traced = self.reference.run(listen, stored)
        healed = (
            answer.outputs_db[name] < least_db <= self.reference.agreement(name, array)
            for name, array in traced.outputs.items()
        )
        return _WITNESSES if any(healed) else len(witnesses)

    def _equal_again(self, call: OperatorCall, produced: Sequence[Array | None], hoped: frozenset[str]) -> set[str]:
        names: set[str] = set()
        for at, array in enumerate(produced):
            if array is not None and is_telling(array):
                equal = self.reference.take_over(call, at, array)
                names |= hoped.intersection(() if call.is_view else equal)
        return names


def finite_or_none(db: float) -> float | None:
    """Return an agreement in dB as JSON takes it."""
    return round(float(db), 1) if np.isfinite(db) else None

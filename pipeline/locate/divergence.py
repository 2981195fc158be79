"""The parts of a reference and of a candidate that depart, and the pair of values between which they do.

A pair counts once the candidate's value in the place of the reference's makes what comes after it agree again.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...models.signature import Array
from ...serving.tracing.operator_trace import EndTrace, OperatorCall
from .followed_answer import FollowedAnswer, FollowedReference, ValuePair
from .locate_records import CandidateGraph
from .regions import DataFlow
from .value_match import is_telling, likely_orders

_SAME_DB = 60.0  # values that agree so well with a pair's tell nothing about what comes after it
_MOST_PAIRS = 60  # that are tried for one place, or for an earlier one
_WITNESSES = 2  # values that must agree again for a pair to count; else an output
_PATIENCE = 40  # operators after a pair within which they must


@dataclass(frozen=True)
class Divergence:
    """The operators of both graphs between values that both have and the wrong outputs, in their order."""

    answer: FollowedAnswer
    reference: Sequence[int]
    candidate: Sequence[int]
    flow: DataFlow  # the candidate's
    unequal: frozenset[str]  # values of the candidate that the reference lacks, and that tell something

    @classmethod
    def of(
        cls, answer: FollowedAnswer, graph: CandidateGraph, values: Collection[str], wrong: Sequence[str]
    ) -> Divergence:
        """Return the diverging parts behind the wrong outputs; `values`: the candidate's that tell something."""
        flow = DataFlow([row.reads for row in graph.operators], [row.writes for row in graph.operators])
        unequal = frozenset(values) - answer.equal_names
        numbers = [answer.numbers[name] for name in wrong if name in answer.numbers]
        names = [graph.outputs[name] for name in wrong if name in graph.outputs]
        reference = answer.flow.region_with_ends(numbers, answer.is_known)
        divergence = cls(answer, reference, (), flow, unequal)
        return replace(divergence, candidate=flow.region_with_ends(names, divergence.is_equal))

    @classmethod
    def before(cls, answer: FollowedAnswer, graph: CandidateGraph, values: Collection[str], failing: int) -> Divergence:
        """Return the candidate's operators between values that both have and one that fails. It has no values
        after that one, so the reference's diverging part is all that it lacks."""
        divergence = cls.of(answer, graph, values, ())
        flow = divergence.flow
        before = flow.region(flow.reads[failing], divergence.is_equal)
        lost = [call.index for call in answer.calls if not any(map(answer.is_known, call.writes))]
        return replace(divergence, reference=lost, candidate=sorted({*before, failing}))

    def first_lost_call(self) -> OperatorCall:
        """Return the first call that reads what a lone operator of the candidate does, else the first call of the
        reference's diverging part after which nothing is known: of operators that were fused the candidate lacks the
        values, but it has what comes after them."""
        flow = self.answer.flow
        names = {name for name in self.flow.reads[self.candidate[0]] if len(self.candidate) == 1}
        read = {number for number, equal in self.answer.names.items() if names.intersection(equal)}
        if readers := [call for call in self.answer.calls if read.intersection(call.reads)]:
            return readers[0]
        for at in self.reference:
            later = {at}
            for after in range(at + 1, len(flow.reads)):
                if any(flow.producer(number) in later for number in flow.reads[after]):
                    later.add(after)
            if later.issubset(self.reference):
                return self.answer.calls[at]
        return self.answer.calls[-1]

    def is_equal(self, name: str) -> bool:
        """Return whether the reference has a value of the candidate."""
        return name not in self.unequal and not self.answer.lacks(name)

    def is_known(self, name: str) -> bool:
        """Return whether the reference has a value, or it is a few integers: mostly they are sizes and positions, which
        the reference has no tensors for."""
        return self.is_equal(name) or name in self.answer.candidate_integers

    def reference_piece(self, pair: ValuePair) -> list[OperatorCall]:
        """Return the reference's calls between known values and a pair."""
        last = self.answer.calls[pair.call]
        before = self.answer.flow.region(last.reads, self.answer.is_known)
        return [self.answer.calls[at] for at in sorted({*before, pair.call})]

    def candidate_piece(self, name: str, *, with_integers: bool = False) -> list[int]:
        """Return the candidate's operators between known values and a value; `with_integers`: also those that compute
        sizes and positions which the reference lacks."""
        return self.flow.region_with_ends([name], self.is_equal if with_integers else self.is_known)

    def calls_before(self, pair: ValuePair) -> set[int | None]:
        """Return the reference's calls in the piece of a pair before its own, and those that give the piece inputs."""
        piece = self.reference_piece(pair)
        inputs = {self.answer.flow.producer(number) for call in piece for number in call.reads}
        return ({call.index for call in piece} | inputs) - {pair.call}

    def names_before(self, pair: ValuePair) -> frozenset[str]:
        """Return the candidate's values that are computed in the piece of a pair before its own."""
        operators = {*self.candidate_piece(pair.name, with_integers=True)} - {self.flow.producer(pair.name)}
        return frozenset(name for at in operators for name in self.flow.writes[at])

    def with_idle(self, operators: Sequence[int], values: Mapping[str, Array], *, moving: bool) -> list[int]:
        """Return operators and those before them that change no value; `moving`: also those that move values, whose
        results count as equal in any order."""
        chosen, pending = set(operators), [name for at in operators for name in self.flow.reads[at]]
        while pending:
            at = self.flow.producer(name := pending.pop())
            if at is not None and at not in chosen and _is_idle(self.flow.reads[at], name, values, moving=moving):
                chosen.add(at)
                pending += self.flow.reads[at]
        return sorted(chosen)

    def pairs(self, values: FollowedReference) -> list[ValuePair]:
        """Return pairs of unequal values of one size, the likeliest first: near the known values, and alike."""
        own_steps = defaultdict(int, self.answer.flow.distances(self.reference, self.answer.is_known))
        steps = self.flow.distances(self.candidate, self.is_equal)
        ranked = []
        for number, pair in (*self._unequal_results(), *self._changed_results()):
            array = self.answer.arrays[number]
            for operator in self.candidate:
                for name in self.unequal.intersection(self.flow.writes[operator]):
                    own = values.values.arrays[name]
                    for match in likely_orders(name, own, array) if own.dtype.kind == array.dtype.kind else ():
                        likeness = max(0.0, min(match.agreement_db, 100.0)) / 10
                        rank = own_steps[pair[0]] + steps[operator] - likeness
                        ranked.append((rank, ValuePair(*pair, name, match.array, match.agreement_db)))
        return [pair for _, pair in sorted(ranked, key=lambda row: (row[0], row[1].call))]

    def _unequal_results(self) -> Iterator[tuple[int, tuple[int, int]]]:
        for index in self.reference:
            for at, number in enumerate(self.answer.calls[index].writes):
                if number in self.answer.arrays and not self.answer.is_known(number):
                    yield number, (index, at)

    def _changed_results(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield known results that the diverging operators read: the candidate may have changed them afterwards."""
        read = dict.fromkeys(number for index in self.reference for number in self.answer.calls[index].reads)
        for number in read:
            index = self.answer.flow.producer(number)
            if index is not None and number in self.answer.names and not self.answer.calls[index].is_view:
                yield number, (index, self.answer.calls[index].writes.index(number))

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


def _is_idle(reads: Iterable[str], result: str, values: Mapping[str, Array], *, moving: bool) -> bool:
    """Return whether an operator's result has the elements of one of its inputs; `moving`: in any order."""
    own = values.get(result)
    inputs = [values[name] for name in reads if name in values]
    if own is None or own.size < 2:
        return False
    if not moving:
        return any(np.array_equal(array, own) for array in inputs)
    alike = (array for array in inputs if array.size == own.size and array.dtype == own.dtype)
    return any(np.array_equal(np.sort(array, None), np.sort(own, None)) for array in alike)


@dataclass
class PairTrial:
    """Whether a pair explains what comes after it, by an answer of the reference with the candidate's value there."""

    reference: FollowedReference
    divergence: Divergence
    overrides: Sequence[ValuePair]  # of places that were located before
    deadline: float

    def earliest_explaining(self, pairs: Sequence[ValuePair]) -> ValuePair | None:
        """Return a pair that explains what comes after it, and before which none does; None without any."""
        divergence = self.divergence
        best = pair = self.first_explaining(pairs[:_MOST_PAIRS])
        while pair is not None:
            best = pair
            calls, names = divergence.calls_before(pair), divergence.names_before(pair)
            earlier = [other for other in pairs if other.call in calls and other.name in names]
            pair = self.first_explaining(earlier[:_MOST_PAIRS], least=_WITNESSES)
        return best

    def first_explaining(self, pairs: Sequence[ValuePair], least: int = 1) -> ValuePair | None:
        """Return the first pair with enough witnesses, else the first with one: where every layer is wrong, the next
        one ends the agreement. None without any."""
        likely: ValuePair | None = None
        for pair in pairs:
            if time.monotonic() > self.deadline:
                break
            count = self._count_witnesses(pair)
            if count >= _WITNESSES:
                return pair
            likely = likely or (pair if count >= least else None)
        return likely

    def _count_witnesses(self, pair: ValuePair) -> int:
        """Return how many of the candidate's values agree again; an output that does stands for enough of them.
        A value that the candidate has, and changes afterwards, explains an output or nothing: other operators may read
        it unchanged."""
        answer, least_db = self.divergence.answer, self.reference.least_db
        alike = {match.name for match in self.reference.values.matches(pair.array) if match.agreement_db > _SAME_DB}
        hoped = self.divergence.unequal - alike - {pair.name}
        witnesses: set[str] = set()
        is_changed = answer.calls[pair.call].writes[pair.at] in answer.names

        def listen(call: OperatorCall, produced: Sequence[Array | None]) -> None:
            for override in (*self.overrides, pair):
                if override.call == call.index and (array := produced[override.at]) is not None:
                    array[...] = override.array
            if call.index > pair.call:
                witnesses.update(self._equal_again(call, produced, hoped))
            if not is_changed and (len(witnesses) >= _WITNESSES or call.index > pair.call + _PATIENCE):
                raise EndTrace

        def stored(call: OperatorCall) -> list[Array] | None:
            results = [array for array in answer.results.get(call.index, ()) if array is not None]
            changes = call.function._schema.is_mutable or call.function.is_view
            same_count = len(results) == len(call.function._schema.returns)
            return results if call.index < pair.call and same_count and not changes else None

        try:
            traced = self.reference.run(listen, stored)
        except (IndexError, RuntimeError):  # the model cannot go on from the value: an index beyond its table
            return 0 if is_changed else len(witnesses)
        healed = (
            answer.outputs_db[name] < least_db <= self.reference.agreement(name, array)
            for name, array in traced.outputs.items()
        )
        return _WITNESSES if any(healed) else 0 if is_changed else len(witnesses)

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

"""An answer of the reference in which a candidate's values take the place of its own, wherever they are equal.

So every operator gets what the candidate had, and its result differs from the candidate's by the operator's own error
alone, not by what was inherited.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from ...models.signature import Array
from ...serving.tracing.operator_trace import OperatorCall
from ...serving.tracing.traced_model import ListenArrays, ReplaceArrays, TracedModel, rerun_wider
from .locate_records import Capture
from .regions import DataFlow
from .value_match import EXACT_DB, CandidateValues, agreement_db, is_telling, plain_key, worst_element_db

PlainKey: TypeAlias = tuple[int, bytes]
_LEAST_DB = 30.0  # two values that agree less are never equal
_LEAST_ELEMENT_DB = 60.0  # of each element, where small ones count as much as large ones


@dataclass(frozen=True)
class Equality:
    """When two values are equal: as far above the float32 noise of their operator, and in each element or overall."""

    margin_db: float = 25.0  # below the noise of the operator itself
    by_element: bool = False


@dataclass(frozen=True)
class ValuePair:
    """A value of the reference, results[at] of a call, and the candidate's that stands in its place."""

    call: int
    at: int
    name: str
    array: Array  # the candidate's, in the reference's order of axes
    own_db: float  # agreement of the two


@dataclass(frozen=True)
class FollowedAnswer:
    """The values of one answer of the reference, and which of them the candidate has."""

    calls: Sequence[OperatorCall]
    flow: DataFlow
    results: Mapping[int, Sequence[Array | None]]  # by index of the call
    arrays: Mapping[int, Array]  # those that tell something, by number of the value
    names: Mapping[int, Sequence[str]]  # the candidate's equal values, by number
    numbers: Mapping[str, int]  # of the outputs
    outputs: Mapping[str, Array]
    outputs_db: Mapping[str, float]  # agreement of the candidate's
    number_of: Callable[[Any], int | None]  # a tensor's
    plain: Mapping[int, PlainKey]  # the values that tell nothing, by number
    candidate_plain: Mapping[str, PlainKey]  # the same of the candidate, by name
    candidate_integers: frozenset[str]  # those of them that are no floats

    def is_known(self, number: int) -> bool:
        """Return whether the candidate has a value; one that tells nothing counts where any value is equal to it."""
        if number in self.plain:
            return self.plain[number] in self._candidate_keys
        return number in self.names or number not in self.arrays

    def lacks(self, name: str) -> bool:
        """Return whether a value of the candidate that tells nothing is equal to none of the reference."""
        return name in self.candidate_plain and self.candidate_plain[name] not in self._keys

    @cached_property
    def _keys(self) -> frozenset[PlainKey]:
        return frozenset(self.plain.values())

    @cached_property
    def _candidate_keys(self) -> frozenset[PlainKey]:
        return frozenset(self.candidate_plain.values())

    @property
    def equal_names(self) -> frozenset[str]:
        """The candidate's values that the reference has."""
        return frozenset(name for names in self.names.values() for name in names)


class FollowedReference:
    """The reference, answering with a candidate's values. `least_db`: two values that agree so well are equal."""

    def __init__(self, model: TracedModel, capture: Capture, least_db: float) -> None:
        self._model, self._capture, self.least_db = model, capture, least_db
        self.values = CandidateValues({name: array for name, array in capture.values.items() if is_telling(array)})
        rest = {name: array for name, array in capture.values.items() if name not in self.values.arrays}
        self._plain = {name: plain_key(array) for name, array in rest.items() if array.dtype.kind in "fiub"}
        self._integers = frozenset(name for name in self._plain if rest[name].dtype.kind != "f")
        self.equality = Equality()

    def answer(self, overrides: Collection[ValuePair]) -> FollowedAnswer:
        """Let the reference answer, with the candidate's value in each of the overrides."""
        results: dict[int, Sequence[Array | None]] = {}
        arrays: dict[int, Array] = {}
        names: dict[int, Sequence[str]] = {}
        plain: dict[int, PlainKey] = {}
        replaced = {(pair.call, pair.at): pair for pair in overrides}

        def listen(call: OperatorCall, produced: Sequence[Array | None]) -> None:
            for at, array in enumerate(produced):
                pair = replaced.get((call.index, at))
                if array is None:
                    continue
                if pair is None and not is_telling(array):
                    if array.dtype.kind in "fiub":
                        plain[call.writes[at]] = plain_key(array)
                    continue
                if pair is not None:
                    array[...] = pair.array
                equal = [pair.name] if pair else self.take_over(call, at, array)
                arrays[call.writes[at]] = array.copy()
                if equal:
                    names[call.writes[at]] = equal
            results[call.index] = [None if array is None else array.copy() for array in produced]

        traced = self.run(listen)
        flow = DataFlow([call.reads for call in traced.calls], [call.writes for call in traced.calls])
        outputs = {name: array for name, array in traced.outputs.items() if name in self._capture.answers}
        agreements = {name: self.agreement(name, array) for name, array in outputs.items()}
        return FollowedAnswer(
            traced.calls, flow, results, arrays, names, traced.numbers, outputs, agreements, traced.number_of,
            plain, self._plain, self._integers,
        )  # fmt: skip

    def run(self, listen: ListenArrays, stored: ReplaceArrays = lambda _call: None) -> Any:
        """Let the reference answer the candidate's call."""
        return self._model.run(self._capture.feeds, listen, stored)

    def agreement(self, output: str, array: Array) -> float:
        """Return the agreement of the candidate's output with an array, in dB."""
        own = self._capture.answers[output]
        return agreement_db(own, array) if own.shape == array.shape else -np.inf

    def take_over(self, call: OperatorCall, at: int, array: Array) -> list[str]:
        """Put the candidate's equal value into `array`, a result of a call; return the names of all equal ones."""
        matches = self.values.matches(array)
        if not matches or matches[0].agreement_db < _LEAST_DB:
            return []
        limit = self.least_db
        if matches[0].agreement_db < limit:
            wide = rerun_wider(call)
            noise_db = agreement_db(array, wide[at]) if at < len(wide) and wide[at].shape == array.shape else EXACT_DB
            limit = max(_LEAST_DB, min(limit, noise_db - self.equality.margin_db))
        equal = [match for match in matches if match.agreement_db >= limit]
        if self.equality.by_element:
            equal = [match for match in equal if worst_element_db(match.array, array) >= _LEAST_ELEMENT_DB]
        if equal and not call.is_view:
            array[...] = equal[0].array
        return [match.name for match in equal]

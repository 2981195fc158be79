"""Follow a candidate through its reference, operator by operator, to those that compute something else.

follow    inputs {model, capture}   -> FollowFacts
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...models.job import Job
from ...serving.tracing.operator_trace import OperatorCall
from ...serving.tracing.piece_replay import Explanation, PieceReplay
from ...serving.tracing.traced_model import TracedModel
from ...serving.tracing.weight_variants import CopiedWeights, name_channels
from .divergence import Divergence, PairTrial, finite_or_none
from .failed_shape import FailedShape
from .followed_answer import Equality, FollowedAnswer, FollowedReference, ValuePair
from .locate_records import Capture, FollowFacts, FollowOptions, PlaceFacts
from .value_match import agreement_db, orders

_EXPLAIN_S = 20.0  # in which errors of one place are tried
_EQUALITIES = (Equality(), Equality(margin_db=10.0), Equality(margin_db=0.0), Equality(margin_db=0.0, by_element=True))


def follow(job: Job) -> Mapping[str, Any]:
    """Find the places at which a captured candidate departs from the model in inputs["model"].

    FollowOptions -> FollowFacts.
    """
    options = FollowOptions.from_json(job.options)
    model = TracedModel(job.inputs["model"], options.threads)
    return Follower(model, Capture.read(job.inputs["capture"]), options).places().to_json()


class Follower:
    """The search for the places, in one process with the reference."""

    def __init__(self, model: TracedModel, capture: Capture, options: FollowOptions) -> None:
        self._model, self._capture, self._options = model, capture, options
        self._reference = FollowedReference(model, capture, options.least_db)
        self._least_db = options.least_db
        self._deadline = time.monotonic() + options.seconds

    def places(self) -> FollowFacts:
        """Return the places, the first first, and whether the rest follows from them.

        Each place's value is taken from the candidate, and what departs then is searched for the next one.
        """
        if self._capture.graph.failing is not None:
            return self._failure(self._capture.graph.failing)
        overrides: list[ValuePair] = []
        places: list[PlaceFacts] = []
        answer = self._first_answer()
        while wrong := self._wrong_outputs(answer):
            if len(places) == self._options.most or time.monotonic() > self._deadline:
                break
            pair, place = self._find_place(answer, wrong, overrides)
            if place is not None:
                places.append(place)
            if pair is None:
                break
            overrides.append(pair)
            try:
                answer = self._reference.answer(overrides)
            except (IndexError, RuntimeError):  # the model cannot go on from the candidate's value
                break
        return FollowFacts(
            places=tuple(places),
            rest_follows=not wrong,
            values=len(answer.arrays),
            matched=len(answer.names),
            outputs_db={name: finite_or_none(db) for name, db in answer.outputs_db.items()},
            note=self._note(wrong, places),
        )

    def _note(self, wrong: Sequence[str], places: Sequence[PlaceFacts]) -> str:
        if wrong and not places:
            return "no value inside the copy is equal to one of the model's, so none can be followed"
        return "more places were not looked for" if wrong and len(places) == self._options.most else ""

    def _failure(self, failing: int) -> FollowFacts:
        """Return the place at which a candidate stops, which has values up to there alone."""
        answer = self._reference.answer([])
        divergence = Divergence.before(answer, self._capture.graph, self._reference.values.arrays, failing)
        shape = FailedShape.find(divergence, self._capture.values)
        if shape is not None:
            operators, call = sorted({*divergence.candidate, shape.operator}), shape.call
            place = replace(self._place_of(call, operators), error_class="layout", explanation=shape.words)
        else:
            place = self._place_of(divergence.first_lost_call(), divergence.candidate)
        return FollowFacts(
            places=(place,), rest_follows=False, values=len(answer.arrays), matched=len(answer.names),
            note="there are no outputs to compare",
        )  # fmt: skip

    def _first_answer(self) -> FollowedAnswer:
        """Return the reference's answer with the candidate's equal values. Where these explain all, as small errors
        within the rounding of their operators may, values must be the more alike to be equal. At last outputs must
        agree as `validate` asks it of a model with little noise: above the usual least."""
        usual_db = self._options.least_db
        for least_db in sorted({usual_db, *(limit for limit in self._options.limits_db.values() if limit > usual_db)}):
            self._least_db = self._reference.least_db = least_db
            for equality in _EQUALITIES:
                self._reference.equality = equality
                answer = self._reference.answer([])
                if self._wrong_outputs(answer):
                    return answer
        return answer

    def _wrong_outputs(self, answer: FollowedAnswer) -> list[str]:
        least_db, limits_db = self._least_db, self._options.limits_db
        return [name for name, db in answer.outputs_db.items() if db < min(least_db, limits_db.get(name, least_db))]

    def _find_place(
        self, answer: FollowedAnswer, wrong: Sequence[str], overrides: Sequence[ValuePair]
    ) -> tuple[ValuePair | None, PlaceFacts | None]:
        """Find the first pair of values that explains wrong outputs, and describe its place. There is none where the
        candidate has no value of the reference."""
        graph = self._capture.graph
        divergence = Divergence.of(answer, graph, self._reference.values.arrays, wrong)
        trial = PairTrial(self._reference, divergence, overrides, self._deadline)
        pair = trial.earliest_explaining(divergence.pairs(self._reference))
        if pair is None and not answer.names:
            return None, None
        pair = pair or divergence.last_pair(wrong, graph, dict(self._capture.answers))
        if pair is None:
            return None, self._describe_start(divergence)
        return pair, self._describe(divergence, pair)

    def _describe(self, divergence: Divergence, pair: ValuePair) -> PlaceFacts:
        """Describe a place by the call that explains it, else by its last call."""
        piece = divergence.reference_piece(pair)
        explanation = self._explain(divergence, pair, piece) if self._options.explain else None
        likely = next((call for call in reversed(piece) if not call.is_view), piece[-1])
        call = explanation.call if explanation else likely
        operators = divergence.candidate_piece(pair.name, with_integers=explanation is None)
        operators = divergence.with_idle(operators, self._capture.values, moving=call.is_view)
        place = self._place_of(call, operators)
        channels = name_channels(pair.array, divergence.answer.results[pair.call][pair.at])
        names = tuple(call.operator for call in piece)
        place = replace(place, own_db=finite_or_none(pair.own_db), piece=names, channels=channels)
        if explanation is None:
            return place
        db = finite_or_none(explanation.agreement_db)
        return replace(place, error_class=explanation.error_class, explanation=explanation.words, explained_db=db)

    def _explain(self, divergence: Divergence, pair: ValuePair, piece: Sequence[OperatorCall]) -> Explanation | None:
        """Look for the error of one call that gives the candidate's value, also in what brings the piece its inputs."""
        answer = divergence.answer
        calls = {call.index: call for call in piece}
        pending = [number for call in piece for number in call.reads]
        while pending:
            at = answer.flow.producer(pending.pop())
            if at is not None and at not in calls and answer.calls[at].is_view:
                calls[at] = answer.calls[at]
                pending += answer.calls[at].reads
        arrays = {**self._capture.constants, **self._capture.values}
        operators = divergence.candidate_piece(pair.name, with_integers=True)
        read = dict.fromkeys(name for at in operators for name in divergence.flow.reads[at] if name in arrays)
        name_of, in_orders = self._model.weight_name, partial(orders, permute=True)
        weights = CopiedWeights([arrays[name] for name in read], name_of, in_orders, self._least_db)
        replay = PieceReplay([calls[at] for at in sorted(calls)], answer.number_of, weights)
        number = answer.calls[pair.call].writes[pair.at]
        return replay.explain(number, pair.array, pair.own_db, agreement_db, _EXPLAIN_S)

    def _describe_start(self, divergence: Divergence) -> PlaceFacts:
        """Describe the first operators of both that depart, where no pair of values explains the rest."""
        calls = [divergence.answer.calls[at] for at in divergence.reference] or [divergence.answer.calls[-1]]
        operators = divergence.with_idle(divergence.candidate[:1], self._capture.values, moving=True)
        return self._place_of(next((call for call in calls if not call.is_view), calls[0]), operators)

    def _place_of(self, call: OperatorCall, operators: Sequence[int]) -> PlaceFacts:
        nodes = tuple(str(self._capture.graph.operators[at]) for at in operators)
        return PlaceFacts(operator=call.operator, module=call.module, line=call.line, nodes=nodes)

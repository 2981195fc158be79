"""The command `locate`: find the operator, the module and the source line at which a copy departs from its model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...converters.steps import STEPS
from ...models.errors import BadRequest, DiskFull, Exit, TransloadError
from ...models.formats import Target
from ...serving.runtimes.runtime_table import default_runtimes
from ..locate.locate_records import CaptureFacts, FollowFacts, PlaceFacts
from ..locate.value_recorder import locatable
from ..options.request import RunRequest
from ..plan.context import Context, LocalSettings
from ..plan.loaded_model import LoadedModel
from ..plan.model_argument import ModelRequest, candidate_request, kind_of, reference_request, start_of
from ..plan.run_inputs import RunInputs, load_model, record_reference, resolve_inputs
from ..plan.source_python import require_torch_there, with_source_python
from ..progress.progress import Progress
from ..result.schema import Verdict
from .candidates import check_candidate, check_same_inputs
from .stages.locate_divergence import FollowedCopy, capture_call, follow_call
from .workspace import close_workers, document_of, new_run_context, report_disk_full, write_document


@dataclass(frozen=True)
class LocateResult:
    """Where a candidate departs from its model: the call that shows it, and the places."""

    capture: CaptureFacts
    follow: FollowFacts | None  # None where the answers agree, or the candidate gave none
    folder: Path
    target: Target  # of the candidate
    doubts: tuple[str, ...] = ()  # that the verdict is under
    model: str = ""  # that it was compared with
    recorded_source: Mapping[str, str] | None = None  # where a record named the model
    artifact: str = ""  # as it was named

    @property
    def can_keep_float(self) -> bool:
        """Whether a copy that keeps some layers in float32 departs less."""
        return self.capture.departs and any(
            step.target == self.target and step.on_request == "keep-float" for step in STEPS
        )

    @property
    def decided(self) -> tuple[Verdict, Exit]:
        """A candidate that departs fails, wherever that is."""
        return (Verdict.FAIL, Exit.FAIL) if self.capture.departs else (Verdict.PASS, Exit.PASS)

    @property
    def places(self) -> tuple[PlaceFacts, ...]:
        """The places, the first first."""
        return self.follow.places if self.follow else ()

    @property
    def document(self) -> dict[str, Any]:
        """locate.json."""
        call = {name: value for name, value in self.capture.to_json().items() if name not in ("peak_rss_bytes", "cure")}
        cure = {} if self.capture.cure is None else {"cure": self.capture.cure.to_json()}
        rest = {} if self.follow is None else {"rest_follows": self.follow.rest_follows, "values": self.follow.values,
                                               "matched": self.follow.matched, "note": self.follow.note}  # fmt: skip
        head = {**document_of(self.decided, doubts=self.doubts), "recorded_source": self.recorded_source}
        return {**head, "call": call, **cure, **rest, "places": [place.to_json() for place in self.places]}


@dataclass(frozen=True)
class LocateAllResult:
    """Where each of several artifacts departs. `unlocated`: why others were not searched, by artifact. Those `left_out`
    are of a format that never is, and leave no verdict open."""

    results: tuple[LocateResult, ...]
    unlocated: Mapping[str, str]
    folder: Path
    left_out: Collection[str] = ()

    @property
    def decided(self) -> tuple[Verdict, Exit]:
        """One that departs fails all; else what was not searched leaves it open."""
        if any(result.capture.departs for result in self.results):
            return Verdict.FAIL, Exit.FAIL
        is_open = self.unlocated.keys() - {*self.left_out}
        return (Verdict.INCONCLUSIVE, Exit.INCONCLUSIVE) if is_open else (Verdict.PASS, Exit.PASS)

    @property
    def document(self) -> dict[str, Any]:
        """locate.json: that of each artifact, by its folder or file."""
        artifacts = {result.artifact: result.document for result in self.results}
        return {**document_of(self.decided), "artifacts": artifacts, "unlocated": dict(self.unlocated)}


def locate_all(
    request: RunRequest, candidates: Sequence[str], against: ModelRequest, local: LocalSettings, progress: Progress,
    *, seconds: float = 120.0,
) -> LocateAllResult:  # fmt: skip
    """Find the first operators of each candidate whose results their inputs do not explain.
    Leaves a folder with logs, a script per step and locate.json. Of several candidates, one that cannot be searched
    ends no other's search. Raises TransloadError where none can be, or the model is not in PyTorch."""
    errors: dict[str, TransloadError] = {}
    results: list[LocateResult] = []
    for candidate in candidates:
        try:
            _check_kinds(candidate, against.text)
        except BadRequest as error:
            errors[candidate] = error
    if len(errors) == len(candidates):
        raise errors[candidates[0]]
    against = with_source_python(request, against, progress)
    require_torch_there(against, "locate")
    context = new_run_context(request, f"locate-{Path(candidates[0]).stem}", local, progress)
    with report_disk_full(context.folder), close_workers(context):
        context.executor.expect(["torch"], context.limits())
        for candidate in (text for text in candidates if text not in errors):
            try:
                name = Path(candidate).name if len(candidates) > 1 else ""
                results.append(_locate(context, candidate, against, seconds, name))
            except DiskFull:
                raise
            except TransloadError as error:
                errors[candidate] = error
        if not results:
            raise next(iter(errors.values()))
        unlocated = {candidate: error.what for candidate, error in errors.items()}
        result = LocateAllResult(tuple(results), unlocated, context.folder, [*filter(_is_closed, errors)])
        write_document(context.folder / "locate.json", (results[0] if len(candidates) == 1 else result).document)
    return result


def _locate(context: Context, candidate: str, against: ModelRequest, seconds: float, name: str) -> LocateResult:
    """Search one candidate; `name`: what tells its steps from those of others."""
    loaded = load_model(context, candidate_request(candidate, against.inputs))
    reference = reference_request(candidate, against, loaded.model.signature.inputs)
    inputs = resolve_inputs(context, reference, samples_only=True)
    check_same_inputs(candidate, loaded.model.signature, against.text, inputs.model.signature)
    copy = FollowedCopy(_start(loaded), loaded.stored, loaded.flex, name)
    facts, follow = _search(context, copy, replace(inputs, recorder=None), seconds)
    if not facts.mismatch and (follow is None or not follow.places):
        with context.progress.stage("reference") as stage:
            recorded = record_reference(context, inputs, "torch", threads=context.limits().threads)
            stage.note = "all calls of validate"
        facts, follow = _search(context, copy, replace(inputs, reference=recorded), seconds)
    return LocateResult(
        facts, follow, context.folder, copy.target, context.doubts, against.text, against.recorded_source, candidate
    )


def _search(
    context: Context, copy: FollowedCopy, inputs: RunInputs, seconds: float
) -> tuple[CaptureFacts, FollowFacts | None]:
    """Search the calls that the reference has answered for one at which the candidate departs, and follow that."""
    with context.progress.stage(copy.step("capture")) as stage:
        captured = capture_call(context, copy, inputs)
        facts = CaptureFacts.from_json(captured.facts)
        stage.note = _describe_capture(facts)
    if not facts.departs:
        return facts, None
    with context.progress.stage(copy.step("follow")) as stage:
        follow = follow_call(context, copy, inputs, captured, seconds)
        stage.note = "nothing to follow"
        if follow is not None:
            stage.note = f"{follow.matched} of {follow.values} values of the model are in the candidate"
    return facts, follow


def _check_kinds(candidate: str, against: str) -> None:
    check_candidate(candidate, default_runtimes())
    start = start_of(against)
    if _is_closed(candidate):
        raise BadRequest(
            f"the values inside a model of {start_of(candidate)} cannot be followed",
            fix=f"name a copy in {', '.join(locatable())}",
        )
    if start is not None and not start.format.spec.is_program:
        raise BadRequest(
            f"{against} is no model in PyTorch: it is {start.format}, whose operators name no source line",
            fix="name the model's code with --against, or its .pt2 file",
        )
    kind_of(against)


def _is_closed(candidate: str) -> bool:
    """Return whether a candidate is of a format whose inner values cannot be followed."""
    target = start_of(candidate)
    return target is not None and not target.format.spec.recorder


def _start(loaded: LoadedModel) -> Target:
    if loaded.start is None:
        raise ValueError(f"{loaded.model.name} is a source")
    return loaded.start


def _describe_capture(facts: CaptureFacts) -> str:
    if not facts.departs:
        return f"agrees in {facts.calls} calls"
    if facts.error:
        return f"no answer at {facts.call}"
    agreement = "no number" if facts.agreement_db is None else f"{facts.agreement_db:.0f} dB"
    return f"departs at {facts.call}: {agreement}"

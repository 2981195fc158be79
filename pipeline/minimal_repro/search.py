"""Search for minimal repros: for a target without a route, the smallest failing piece as a script for a bug report.

A worker searches (piece_search.py), in bounded time. A search that finds nothing or fails is reported, and changes
nothing else: the target is lost already.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ...converters.steps import STEPS, Step
from ...models.code_digest import entry_digest
from ...models.errors import DiskFull, SearchTimeout, TransloadError
from ...models.formats import Precision, Target
from ...models.store import Stored
from ..drift.rules import LEAST_SQNR_DB
from ..plan.context import Context
from ..plan.route_actions import verification_runtime
from ..plan.route_outcomes import FailedStep, without_store_paths
from ..plan.router import TargetResult
from ..plan.run_inputs import RunInputs
from ..result.schema import RouteStatus, SmallestRow
from ..workers.engine import Action
from ..workers.fork_server import framework_of
from .script import PIECE
from .search_records import PieceFacts, SearchOptions

_GRACE_S = 180.0  # for the trial that runs when the request's seconds are over
_LONGER_FACTOR = 10  # of the suggested time, if it was too short
_MAX_FAILURES = 2  # of one target that are searched

_SEARCH = f"{__package__}.piece_search"
_PT2_ENTRY, _TORCH_ENTRY = f"{_SEARCH}:find_program_piece", f"{_SEARCH}:find_module"
_GRAPH_ENTRY = f"{_SEARCH}:find_graph_piece"
_EXPORT = next(step for step in STEPS if step.name == "torch.export")  # exports a piece of a program again
_LIBRARIES = {
    "lowering": "transload",
    "torch": "PyTorch",
    "tf2onnx": "tf2onnx",
    "tflite": "TensorFlow",
}
# Fixes for operators at which a step is known to fail.
_KNOWN_FIXES: Mapping[tuple[str, str], str] = {
    ("lowering", "NonZero"): "return a mask, and look for its places on the client",
}


@dataclass(frozen=True)
class MinimalRepro:
    """The smallest failing piece that was found for a target without an artifact."""

    target: str
    route: tuple[str, ...]  # up to the step that fails
    operators: int | None  # of a graph or an exported program; None for a module
    message: str  # one sentence: the operator or the module, its line, how it fails
    script: str  # relative to the folder of the results
    fix: str
    operator: str | None = None  # None: it is a module

    def to_json(self) -> dict[str, object]:
        """Return its row in convert.json."""
        first = {"target": self.target, "route": self.route, "operators": self.operators}
        return {**first, "what": self.message, "script": self.script, "fix": self.fix, "operator": self.operator}

    @property
    def row(self) -> SmallestRow:
        """Its row in run.json."""
        parts = (self.target, self.route, self.operators, self.message, self.script, self.fix, self.operator)
        return SmallestRow(*parts)


def find_repros(context: Context, prepared: RunInputs, results: Sequence[TargetResult]) -> tuple[MinimalRepro, ...]:
    """Find a minimal repro for each target without a route, within the request's time for searches.
    A step that prevents several targets is searched once."""
    started = time.monotonic()
    deadline = started + context.request.convert.search_seconds
    known: dict[tuple[str, ...], MinimalRepro | None] = {}
    in_user_python = bool(prepared.model.ref and prepared.model.ref.python)
    verified = [str(result.target) for result in results if result.stored]
    repros = []
    for result in results:
        for failure in _searchable_failures(result, in_user_python=in_user_python):
            names = failure.route.names
            if names not in known and time.monotonic() >= deadline:
                known[names] = None
                if deadline > started:
                    context.progress.note(f"what {names[-1]} fails at is not looked for: {_longer_search(context)}")
            if names not in known:
                context.progress.step(f"{result.target}: looking for what {names[-1]} fails at")
                known[names] = _find_repro(context, prepared, result.target, failure, verified)
            if repro := known[names]:
                repros.append(replace(repro, target=str(result.target)))
                break
    return tuple(repros)


def _searchable_failures(result: TargetResult, *, in_user_python: bool) -> Iterator[FailedStep]:
    """Yield the failures that can be searched; wrong answers first, as nobody else would notice them.
    `in_user_python`: the model lives in another interpreter, and its modules cannot be counted on here."""
    if result.stored is not None:
        return
    modules = {_TORCH_ENTRY} if in_user_python else set()
    fitting = [failure for failure in result.failures if {*_entries_for(failure)} - modules]
    yield from sorted(fitting, key=lambda failure: failure.status is not RouteStatus.WRONG)[:_MAX_FAILURES]


def _entries_for(failure: FailedStep) -> list[str]:
    """Return the entries that can search a failure, the one with the smallest pieces first."""
    step = failure.route.steps[-1]
    is_reduced = step.target.precision is not Precision.FP32
    if step.environment or step.calibrates or (is_reduced and failure.status is RouteStatus.WRONG):
        return []
    if step.source and step.source.precision is Precision.FP32 and step.source.format.spec.cutter:
        return [_GRAPH_ENTRY]
    if any(framework_of(part.requires) != "torch" for part in failure.route.steps):  # one process runs the chain
        return []
    program_entries = [_PT2_ENTRY] if step.source and step.source.format.spec.is_program else []
    source_entries = [_TORCH_ENTRY] if failure.route.steps[0].source is None else []
    return program_entries + source_entries


def _find_repro(
    context: Context, prepared: RunInputs, target: Target, failure: FailedStep, verified: Sequence[str]
) -> MinimalRepro | None:
    step = failure.route.steps[-1]
    name = f"smallest.{target.slug}.{step.name}"
    stored = _run_search(context, prepared, name, failure)
    if stored is None:
        return None
    repeat = context.folder / "repeat"
    for file in stored.folder.iterdir():
        if file.name.startswith(PIECE):
            copy = partial(shutil.copytree, dirs_exist_ok=True) if file.is_dir() else shutil.copyfile
            copy(file, repeat / file.name.replace(PIECE, name, 1))
    facts = PieceFacts.from_json(stored.facts)
    message = f"{step.name} fails at {facts.where}: {without_store_paths(facts.message)}"
    fix = _suggest_fix(step.name, facts, verified)
    if not facts.complete:
        message += f"; the search ended after {_time_allowed(context)}, and there may be a smaller piece"
        fix += f"; {_longer_search(context)}"
    return MinimalRepro(
        target=str(target),
        route=failure.route.names,
        operators=facts.operators,
        message=message,
        script=f"repeat/{name}.py",
        fix=fix,
        operator=None if facts.operators is None else facts.operator,
    )


def _run_search(context: Context, prepared: RunInputs, name: str, failure: FailedStep) -> Stored | None:
    """Return the piece of the first entry that finds one."""
    for entry in _entries_for(failure):
        try:
            return context.executor.perform(_action(context, prepared, name, failure, entry))
        except DiskFull:
            raise
        except TransloadError as error:
            reason = error.what
            if isinstance(error, SearchTimeout):
                reason = f"{reason} of {_time_allowed(context)}; {_longer_search(context)}"
    step = failure.route.steps[-1]
    context.progress.note(f"{step.target}: no smaller piece was found that {step.name} fails at: {reason}")
    return None


def _time_allowed(context: Context) -> str:
    return f"{context.request.convert.search_seconds:g} s"


def _longer_search(context: Context) -> str:
    """Return how a user can search longer, which continues from the stored results."""
    return f"--search-seconds {context.request.convert.search_seconds * _LONGER_FACTOR:g} searches on"


def _chain(failure: FailedStep, entry: str) -> tuple[Step, ...]:
    """Return the steps that convert a piece."""
    step = failure.route.steps[-1]
    return {_PT2_ENTRY: (_EXPORT, step), _TORCH_ENTRY: failure.route.steps}.get(entry, (step,))


def _action(context: Context, prepared: RunInputs, name: str, failure: FailedStep, entry: str) -> Action:
    step, chain = failure.route.steps[-1], _chain(failure, entry)
    own_db = context.request.validate_.sqnr_db if step.target.precision is Precision.FP32 else None
    least_db = failure.limit_db or own_db or LEAST_SQNR_DB[step.target.precision]
    run_by = verification_runtime(step.target).requires
    requires = tuple(dict.fromkeys([*(name for chain_step in chain for name in chain_step.requires), *run_by]))
    is_source = entry == _TORCH_ENTRY
    return Action(
        name=name,
        entry=entry,
        inputs={
            "source": prepared.source if is_source else failure.source,
            "data": prepared.data,
            "reference": prepared.reference,
        },
        options=SearchOptions(
            step=step.name,
            reason=failure.reason,
            chain=tuple((chain_step.entry, chain_step.options) for chain_step in chain),
            target=str(step.target),
            least_db=least_db,
            seconds=context.request.convert.search_seconds,
            model=prepared.model.name,
            requires=requires,
        ).to_json(),
        requires=("onnx", "onnxruntime", *requires),
        framework=framework_of(step.requires),
        code="".join(entry_digest(chain_step.entry) for chain_step in chain)
        + (prepared.model.code if is_source else ""),
        root=prepared.model.root if is_source else None,
        reads=prepared.model.reads if is_source else (),
        limits=replace(context.convert_limits(), seconds=context.request.convert.search_seconds + _GRACE_S),
        remembers_refusal=True,
    )


def _suggest_fix(step: str, facts: PieceFacts, verified: Sequence[str]) -> str:
    """Return what helps: a known fix or the step's own, verified targets, and else where to report the defect."""
    library_key = re.split(r"[-.@]", step)[0]
    known_fix = _KNOWN_FIXES.get((library_key, facts.operator), facts.fix)
    note = [f"{' and '.join(verified)} {'is' if len(verified) == 1 else 'are'} there and verified"] if verified else []
    library = "ONNX Runtime" if facts.unopened_by == "onnxruntime" else _LIBRARIES.get(library_key, "the step's author")
    own_fix = "write that line in other operators, or " if facts.line else ""
    if facts.size_refused:
        own_fix = "where your sizes keep to that, fix such an axis or give it bounds in --input, or "
    report = f"{own_fix}send the script and its files to {library}"
    return "; ".join(filter(None, [known_fix, *note, "" if facts.fix else report]))

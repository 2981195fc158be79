"""When no route leads to a target: the smallest piece of the model that fails, as a script for a bug report.

A worker looks for the piece (onnx.py, tensorflow.py, pt2.py, torch.py), in bounded time.
It is help for a target that is lost already: where nothing is found, or the looking itself fails, that is said, and
nothing else changes.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...converters import third_party
from ...converters.steps import STEPS, Step
from ...models.code_digest import entry_digest
from ...models.errors import DiskFull, TransloadError
from ...models.formats import Format, Precision, Target
from ...models.store import Stored
from ..context import Context
from ..drift.rules import LEAST_SQNR_DB
from ..intake.run_inputs import RunInputs
from ..plan.route_actions import verification_runtime
from ..plan.router import FailedStep, TargetResult, without_store_paths
from ..result.schema import RouteStatus
from ..workers.engine import Action
from ..workers.fork_server import framework_of
from .script import PIECE
from .trial import OUT_OF_TIME

_GRACE_S = 180.0  # beyond the seconds that the request gives a search, for the trial that runs at their end
_MORE = 10  # times as long, where they were too few
_MOST_TRIED = 2  # failures of one target that are looked into

_ONNX, _PT2, _TORCH = (f"{__package__}.{kind}_search:shrink" for kind in ("onnx", "pt2", "torch"))
_OF_GRAPH = {
    Format.ONNX: _ONNX,
    Format.SAVED_MODEL: f"{__package__}.tensorflow_search:of_saved_model",
    Format.TFLITE: f"{__package__}.tensorflow_search:of_tflite",
}
_EXPORT = next(step for step in STEPS if step.name == "torch.export")  # what makes a program of a piece of one
_LIBRARIES = {
    "onnx2tf": "onnx2tf",
    "lowering": "transload",
    "torch": "PyTorch",
    "tf2onnx": "tf2onnx",
    "tflite": "TensorFlow",
}
# What helps where a step is known to fail at an operator (docs/design/onnx2tf.md, tests of both exporters).
_KNOWN: Mapping[tuple[str, str], str] = {
    ("onnx2tf", "Resize"): "an ONNX file of opset 17 is converted rightly, and so is nearest in place of linear",
    ("onnx2tf", "CumSum"): "multiply with a triangular matrix instead",
    ("onnx2tf", "TopK"): "sort on the client, or leave TopK out of the exported part",
    ("lowering", "NonZero"): "return a mask, and look for its places on the client",
}


@dataclass(frozen=True)
class Smallest:
    """The smallest piece that was found for a target which is not there."""

    target: str
    route: tuple[str, ...]  # up to the step that fails
    operators: int | None  # of a graph or an exported program; None where it is a module
    what: str  # one sentence: the operator or the module, its line, how it fails
    script: str  # relative to the folder of the results
    fix: str


def smallest_pieces(context: Context, prepared: RunInputs, made: Sequence[TargetResult]) -> tuple[Smallest, ...]:
    """A piece for each target that no route led to, as far as one is found. A step that keeps several targets from
    being made is looked into once. None is begun when the request's time for searches is over."""
    started = time.monotonic()
    until = started + context.request.convert.search_seconds
    known: dict[tuple[str, ...], Smallest | None] = {}
    there = [str(each.target) for each in made if each.stored]
    found = []
    for each in made:
        for failure in _worth_a_look(each):
            names = failure.route.names
            if names not in known and time.monotonic() >= until:
                known[names] = None
                if until > started:
                    context.progress.note(f"what {names[-1]} fails at is not looked for: {_search_on(context)}")
            if names not in known:
                context.progress.step(f"{each.target}: looking for what {names[-1]} fails at")
                known[names] = _look(context, prepared, each.target, failure, there)
            if piece := known[names]:
                found.append(replace(piece, target=str(each.target)))
                break
    return tuple(found)


def _worth_a_look(made: TargetResult) -> Iterator[FailedStep]:
    """The failures that can be looked into; wrong answers first, as nobody else would find them."""
    if made.stored is not None:
        return
    fitting = [each for each in made.failures if _lookers(each)]
    yield from sorted(fitting, key=lambda each: each.status is not RouteStatus.WRONG)[:_MOST_TRIED]


def _lookers(failure: FailedStep) -> list[str]:
    """The entries that can look into a failure, the one that finds the smallest pieces first."""
    step = failure.route.steps[-1]
    reduced = step.target.precision is not Precision.FP32
    if step.environment or step.calibrates or (reduced and failure.status is RouteStatus.WRONG):
        return []
    if step.source and step.source.precision is Precision.FP32 and step.source.format in _OF_GRAPH:
        return [_OF_GRAPH[step.source.format]]
    if any(framework_of(each.requires) != "torch" for each in failure.route.steps):  # one process does them all
        return []
    of_program = [_PT2] if step.source == Target(Format.PT2) else []
    of_source = [_TORCH] if failure.route.steps[0].source is None else []
    return of_program + of_source


def _look(
    context: Context, prepared: RunInputs, target: Target, failure: FailedStep, there: Sequence[str]
) -> Smallest | None:
    step = failure.route.steps[-1]
    name = f"smallest.{target.slug}.{step.name}"
    stored = _found(context, prepared, name, failure)
    if stored is None:
        return None
    repeat = context.folder / "repeat"
    for file in stored.folder.iterdir():
        if file.name.startswith(PIECE):
            _copy(file, repeat / file.name.replace(PIECE, name, 1))
    facts = stored.facts
    what, fix = (
        f"{step.name} fails at {facts['where']}: {without_store_paths(facts['what'])}",
        _mend(step.name, facts, there),
    )
    if not facts["whole"]:
        what += f"; the search ended after {_given(context)}, and there may be a smaller piece"
        fix += f"; {_search_on(context)}"
    return Smallest(
        target=str(target),
        route=failure.route.names,
        operators=facts.get("operators"),
        what=what,
        script=f"repeat/{name}.py",
        fix=fix,
    )


def _found(context: Context, prepared: RunInputs, name: str, failure: FailedStep) -> Stored | None:
    """The piece that the first entry finds which finds one."""
    for entry in _lookers(failure):
        try:
            return context.executor.perform(_action(context, prepared, name, failure, entry))
        except DiskFull:
            raise
        except TransloadError as error:
            why = error.what
            if why == OUT_OF_TIME:
                why = f"{why} of {_given(context)}; {_search_on(context)}"
    step = failure.route.steps[-1]
    context.progress.note(f"{step.target}: no smaller piece was found that {step.name} fails at: {why}")
    return None


def _given(context: Context) -> str:
    return f"{context.request.convert.search_seconds:g} s"


def _search_on(context: Context) -> str:
    """How a person has it looked for longer: what was made meanwhile is kept."""
    return f"--search-seconds {context.request.convert.search_seconds * _MORE:g} searches on"


def _chain(failure: FailedStep, entry: str) -> tuple[Step, ...]:
    """The steps that a piece goes through."""
    step = failure.route.steps[-1]
    return {_PT2: (_EXPORT, step), _TORCH: failure.route.steps}.get(entry, (step,))


def _action(context: Context, prepared: RunInputs, name: str, failure: FailedStep, entry: str) -> Action:
    step, chain = failure.route.steps[-1], _chain(failure, entry)
    least_db = LEAST_SQNR_DB[step.target.precision]
    if step.target.precision is Precision.FP32:
        least_db = context.request.validate_.sqnr_db
    run_by = verification_runtime(step.target).requires
    requires = tuple(dict.fromkeys([*(name for each in chain for name in each.requires), *run_by]))
    of_source = entry == _TORCH
    return Action(
        name=name,
        entry=entry,
        inputs={
            "source": prepared.source if of_source else failure.source,
            "data": prepared.data,
            "reference": prepared.reference,
        },
        options={
            "step": step.name,
            "reason": failure.reason,
            "chain": [[each.entry, dict(each.options)] for each in chain],
            "target": str(step.target),
            "least_db": least_db,
            "seconds": context.request.convert.search_seconds,
            "model": prepared.model.name,
            "requires": list(requires),
        },
        requires=("onnx", "onnxruntime", *requires),
        framework=framework_of(step.requires),
        code="".join(entry_digest(each.entry) for each in chain) + (prepared.model.code if of_source else ""),
        root=prepared.model.root if of_source else None,
        folders=tuple(folder for each in chain for folder in third_party.folders(each)),
        limits=replace(context.convert_limits(), seconds=context.request.convert.search_seconds + _GRACE_S),
        remembers_refusal=True,
    )


def _mend(step: str, facts: Mapping[str, Any], there: Sequence[str]) -> str:
    """What helps now: a spelling that is known to work, or what the step itself says; another target; else who should
    hear of it."""
    kind = re.split(r"[-.@]", step)[0]
    known = _KNOWN.get((kind, facts["operator"]), facts["fix"])
    others = [f"{' and '.join(there)} {'is' if len(there) == 1 else 'are'} there and verified"] if there else []
    not_run = facts["what"].startswith("onnxruntime cannot open")
    library = "ONNX Runtime" if not_run else _LIBRARIES.get(kind, "the step's author")
    own = "write that line in other operators, or " if facts["line"] else ""
    if "its program is for sizes with " in facts["what"]:  # serving/runtimes/torch_callable.py
        own = "where your sizes keep to that, fix such an axis or give it bounds in --input, or "
    report = f"{own}send the script and its files to {library}"
    return "; ".join(filter(None, [known, *others, "" if facts["fix"] else report]))


def _copy(file: Path, to: Path) -> None:
    if file.is_dir():
        shutil.copytree(file, to, dirs_exist_ok=True)
    else:
        shutil.copyfile(file, to)

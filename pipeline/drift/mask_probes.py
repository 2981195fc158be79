"""Masks that hide all, or nothing, of a model's samples, and samples that are blank: what it answers to them is asked,
and its copies owe it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ...models.errors import TransloadError
from ...models.probes.masks import Fill
from ...models.signature import TensorSpec
from .integer_probes import WORD_BITS, reach_told
from .probe_evidence import unlike
from .recorded_answers import Answers, Probe, Series

_ORDER = (Fill.NONE, Fill.ALL, Fill.SOME_NONE, Fill.SOME_ALL)  # what is plain to say first


def values_told(probe: Probe, specs: Sequence[TensorSpec]) -> str:
    """With which values that no sample holds: with mask all false. Empty where there are none."""
    if probe.as_sampled:
        return ""
    boolean = {spec.name: spec.dtype == "bool" for spec in specs}
    fills = [f"{name} {fill.told(boolean=boolean[name])}" for name, fill in probe.fills.items()]
    return f"with {' and '.join([*([reach_told(probe.reach)] if probe.reach else []), *fills])}"


def mend_told(probe: Probe) -> str:
    """What helps whose samples are never so. Empty where all samples are."""
    least = min(probe.sizes.values(), default=None)
    if least in (0, 1):
        return f"where that size never comes, say so: {next(iter(probe.sizes))}={least + 1}.."
    if not probe.fills and not 0 < probe.bits <= WORD_BITS:
        return ""
    when = "such a mask never comes" if probe.fills else "such integers never come"
    return f"where {'no sample is so' if probe.is_blank else when}, give samples of yours: --data FILE.npz"


def filled(
    inputs: Sequence[TensorSpec], batch: int, usual: Series, ask: Callable[[Probe], Iterable[Answers]]
) -> list[tuple[Probe, Series]]:
    """Every mask in `inputs` filled, all of them at once; where that has no answer, each by itself. The probes that
    there is an answer to, with it. `usual`: the answers to the samples."""
    found: list[tuple[Probe, Series]] = []
    for fill in _ORDER:
        names = [spec.name for spec in inputs if not (fill.in_rows and len(spec.shape) < _WITH_ROWS)]
        for chosen in [names, *([name] for name in names if len(names) > 1)]:
            probe = Probe(batch, fills=dict.fromkeys(chosen, fill))
            answers = _answers(probe, inputs, usual, ask) if chosen else None
            if answers is not None:
                found.append((probe, answers))
            if answers is not None and chosen == names:
                break
    return found


def blank(
    inputs: Sequence[TensorSpec], batch: int, usual: Series, ask: Callable[[Probe], Iterable[Answers]]
) -> list[tuple[Probe, Series]]:
    """The same of `inputs` of floats, all of them at once."""
    probe = Probe(batch, fills={spec.name: Fill.BLANK for spec in inputs})
    answers = _answers(probe, inputs, usual, ask) if inputs else None
    return [] if answers is None else [(probe, answers)]


_WITH_ROWS = 2  # axes: of a mask of one, a row is all that a call has


def _answers(
    probe: Probe, inputs: Sequence[TensorSpec], usual: Series, ask: Callable[[Probe], Iterable[Answers]]
) -> Series | None:
    said = values_told(probe, inputs)
    try:
        answers = [*ask(probe)]
    except TransloadError as error:
        print(f"the model itself does not answer {said}: {error.what}")  # for the step's log
        return None
    if why := unlike(usual, answers):
        print(f"not asked {said}: {why}")
    return None if why else answers

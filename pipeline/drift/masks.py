"""Masks that hide all, or nothing, of a model's samples: what it answers to them is asked, and its copies owe it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ...models.errors import TransloadError
from ...models.masks import Fill
from ...models.signature import TensorSpec
from .integers import reach_told
from .recorded import Answers, Probe, Series
from .unlike import unlike

_ORDER = (Fill.NONE, Fill.ALL, Fill.SOME_NONE, Fill.SOME_ALL)  # what is plain to say first


def values_told(probe: Probe, specs: Sequence[TensorSpec]) -> str:
    """With which values that no sample holds: with mask all false. Empty where there are none."""
    if probe.as_sampled:
        return ""
    boolean = {spec.name: spec.dtype == "bool" for spec in specs}
    fills = [f"{name} {fill.told(boolean=boolean[name])}" for name, fill in probe.fills.items()]
    return f"with {' and '.join([*([reach_told(probe.reach)] if probe.reach else []), *fills])}"


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

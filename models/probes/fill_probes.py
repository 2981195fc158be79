"""Search for the fills that a model answers: masks that hide all or nothing, and blank samples.

Its copies are asked the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from ..errors import TransloadError
from ..signature import TensorSpec
from .evidence import Answers, Series, nothing_finite, unlike
from .masks import STRESS, Fill
from .probe_set import Probe, describe_values

AskProbe: TypeAlias = Callable[[Probe], Iterable[Answers]]  # raises TransloadError where the model has no answer

# The plainest to describe comes first.
_ORDER = (Fill.NONE, Fill.ALL, Fill.SOME_NONE, Fill.SOME_ALL, Fill.LEFT, Fill.HOLES, Fill.SINGLE)
_MIN_RANK = 2  # for fills of single rows: a mask of rank 1 is one row


def find_mask_fills(
    masks: Sequence[TensorSpec], batch: int, usual: Series, ask: AskProbe
) -> list[tuple[Probe, Series]]:
    """Ask with every mask filled, all at once; where that has no answer, with each by itself.
    `usual` are the answers to the samples. Returns the probes that the model answers, with its answers."""
    answered: list[tuple[Probe, Series]] = []
    for fill in _ORDER:
        names = [spec.name for spec in masks if not ((fill.in_rows or fill.is_pattern) and len(spec.shape) < _MIN_RANK)]
        for chosen in [names, *([name] for name in names if len(names) > 1)]:
            probe = Probe(batch, fills=dict.fromkeys(chosen, fill))
            answers = _telling_answers(probe, masks, usual, ask) if chosen else None
            if answers is not None:
                answered.append((probe, answers))
            if answers is not None and chosen == names:
                break
    return answered


def find_blank_fills(
    floats: Sequence[TensorSpec], batch: int, usual: Series, ask: AskProbe
) -> list[tuple[Probe, Series]]:
    """Ask with all inputs of floats blank at once, and return as find_mask_fills does."""
    probe = Probe(batch, fills={spec.name: Fill.BLANK for spec in floats})
    answers = _telling_answers(probe, floats, usual, ask) if floats else None
    return [] if answers is None else [(probe, answers)]


def find_stress(
    floats: Sequence[TensorSpec], batch_of: Callable[[Fill], int], usual: Series, ask: AskProbe
) -> list[tuple[Probe, Series]]:
    """Ask with all inputs of floats at once, one call for each kind of stress, and return as find_mask_fills does.
    NaN and infinities are asked in each input alone, too: a model may guard one of them, and hand on those of another.
    """
    probes: list[Probe] = []
    for fill in STRESS if floats else ():
        alone = [[spec] for spec in floats] if fill.is_undefined and len(floats) > 1 else []
        groups = [[*floats], *alone]
        probes += (Probe(batch_of(fill), fills={spec.name: fill for spec in group}) for group in groups)
    answered = ((probe, _telling_answers(probe, floats, usual, ask)) for probe in probes)
    return [(probe, answers) for probe, answers in answered if answers is not None]


def _telling_answers(probe: Probe, specs: Sequence[TensorSpec], usual: Series, ask: AskProbe) -> Series | None:
    values = describe_values(probe, specs)
    try:
        answers = [*ask(probe)]
    except TransloadError as error:
        print(f"the model itself does not answer {values}: {error.what}")  # for the step's log
        return None
    if reason := (nothing_finite(answers) if probe.is_undefined else unlike(usual, answers)):
        print(f"not asked {values}: {reason}")
    return None if reason else answers

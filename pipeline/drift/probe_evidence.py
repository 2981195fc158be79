"""Whether what a model answers to inputs that no sample holds tells anything of its copies."""

from __future__ import annotations

import numpy as np

from .recorded_answers import Series

_LARGER = 4  # times the usual size of an output: what was put in are sizes themselves
_SMALL = 256  # elements, which no output is too large with


def unlike(usual: Series, answers: Series) -> str | None:
    """Why the answers tell nothing: they have grown, or are no numbers where the usual ones are."""
    for name in answers[0]:
        before, here = ([call[name] for call in calls] for calls in (usual, answers))
        most = max(array.size for array in before)
        if max(array.size for array in here) > max(_LARGER * most, _SMALL):
            return f"the output {name} grows with what is put in"
        if all(np.isfinite(array).all() for array in before) and not all(np.isfinite(array).all() for array in here):
            return f"the output {name} is not finite"
    return None


def is_level(usual: Series, answers: Series) -> bool:
    """Whether no answer is much larger than the usual ones: in what is compared as a whole, a wrong one then does not
    hide behind the rest."""
    return all(_largest(answers, name) <= _LARGER * _largest(usual, name) for name in answers[0])


def _largest(calls: Series, name: str) -> float:
    """Of what an output holds."""
    return max(float(np.max(np.abs(call[name].astype(np.float64)), initial=0.0)) for call in calls)

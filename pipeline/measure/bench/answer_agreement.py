"""A look at whether the measured models answer alike: a fast wrong answer is no answer.

This is no proof, which `transload validate` gives: it looks at the answer to the first feed, and its limit is far off.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ...drift.numbers.numeric import compare
from .rounds import Series

LEAST_SQNR_DB = 10.0  # int8 copies of small models lie at 15 to 40 dB


def doubt_answers(series: Series, reference: Series | None) -> Iterator[str]:
    """Yield a sentence where the answers to the first feed differ from the reference's beyond 10 dB (signal over
    noise), or in their shapes."""
    if reference is None or series is reference or series.answers is None or reference.answers is None:
        return
    ours, theirs = series.answers, reference.answers
    if ours["shapes"] != theirs["shapes"]:
        yield f"it answers with shapes {ours['shapes']} and the reference with {theirs['shapes']}: two different models"
        return
    pairs = zip(theirs["outputs"], ours["outputs"], strict=True)
    drifts = (compare(np.array(answer), np.array(wanted)).sqnr_db for wanted, answer in pairs)
    least_db = min((db for db in drifts if db is not None), default=math.inf)  # None: equal answers
    if least_db < LEAST_SQNR_DB:
        yield f"its answers lie {least_db:.0f} dB from the reference's: validate it before its speed counts"

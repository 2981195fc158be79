"""What is wrong with data, and the one rule that says whether a command refuses or doubts it (docs/data.md)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ..errors import BadRequest
from ..job import JsonRecord

_MOST_REFUSED = 3  # faults that one error names


class DataFault(StrEnum):
    """A kind of fault of samples or labels."""

    SAMPLE_NOT_FINITE = "sample-not-finite"
    LABEL_NOT_FINITE = "label-not-finite"
    LABEL_OUTSIDE = "label-outside"
    CLASS_MISSING = "class-missing"
    IN_TRAIN_AND_TEST = "in-train-and-test"
    CONSTANT_COLUMN = "constant-column"
    LABEL_AS_FEATURE = "label-as-feature"


class DataUse(StrEnum):
    """What a command needs data for."""

    TRAINING = "training"
    ANSWERS = "answers"  # a model and its copies are compared
    TIMES = "times"  # they are measured


# All other faults are doubted, where answers count.
_REFUSED: Mapping[DataFault, Collection[DataUse]] = {
    DataFault.SAMPLE_NOT_FINITE: (DataUse.TRAINING,),
    DataFault.LABEL_NOT_FINITE: tuple(DataUse),
    DataFault.LABEL_OUTSIDE: tuple(DataUse),
}


@dataclass(frozen=True, kw_only=True)
class DataFinding(JsonRecord):
    """One fault, in a sentence with its column and its first row."""

    fault: str  # a DataFault
    text: str
    fix: str = ""
    rows: tuple[int, ...] = ()  # the first of the samples that have it, from 0
    accepted: bool = False  # the model answers these samples with finite numbers, or the recipe's loss does

    def is_refused(self, use: DataUse) -> bool:
        """Return whether a command with this use refuses it; else it is doubted, where answers count."""
        return not self.accepted and use in _REFUSED.get(DataFault(self.fault), ())


def doubts_of_data(findings: Sequence[DataFinding], use: DataUse) -> tuple[str, ...]:
    """Return a sentence for each doubted fault. Raises BadRequest where a fault is refused."""
    if refused := [finding for finding in findings if finding.is_refused(use)]:
        texts = [finding.text for finding in refused[:_MOST_REFUSED]]
        more = [f"{len(refused) - _MOST_REFUSED} more faults"] if len(refused) > _MOST_REFUSED else []
        raise BadRequest("; ".join([*texts, *more]), fix=refused[0].fix)
    return () if use is DataUse.TIMES else tuple(finding.text for finding in findings if not finding.accepted)

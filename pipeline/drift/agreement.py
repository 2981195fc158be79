"""Sentences on how well a right copy agrees: at which batches, sizes and integers, and which were not asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from ...models.probes.stress_values import SAMPLED, describe_ranges
from ...models.signature import Bounds
from .probe_result import CheckResult
from .recorded_answers import ReferenceRecord
from .rules import FAIL


@dataclass(frozen=True)
class Agreement:
    """What the reference was asked, and for which sizes the copy and the data are."""

    record: ReferenceRecord
    bounds: Mapping[str, Bounds]  # of the copy's axes
    data_sizes: Mapping[str, int]  # of the axes other than the batch

    @property
    def _batch(self) -> str | None:
        return self.record.signature.batch

    def describe(self, results: Sequence[CheckResult], sqnr_db: float | None) -> str:
        """Say in one sentence how well a right copy agrees, and where that was seen."""
        batch = self._batch or ""
        sampled = [result.probe for result in results if result.probe.as_sampled]
        alone = [probe for probe in sampled if {batch}.issuperset(probe.sizes)]
        batches = dict.fromkeys(str(probe.sizes.get(batch, probe.batch)) for probe in alone)
        seen = [f"batches {', '.join(batches)}{self._limits(self._batch)}"] if self._batch is not None else []
        seen += [self._sizes_seen(axis, sizes) for axis, sizes in self.sizes(results).items()]
        how = "to the last bit" if sqnr_db is None else f"to {sqnr_db:.0f} dB"
        where = f"at {' and '.join(seen)}" if seen else f"in {results[0].row['samples']} calls"
        doubt = next((f"; {result.judgement.reason}" for result in results if result.judgement.reason), "")
        return f"agrees {how} {where}{self._integers_seen(results)}{doubt}"

    def _integers_seen(self, results: Sequence[CheckResult]) -> str:
        """Say with which integers the copy was right, where random samples stand for all."""
        of_integers = (result for result in results if result.probe.reach)
        right = [result.probe.reach for result in takewhile(lambda result: not result.judgement.reason, of_integers)]
        reach = right[-1] if right else dict.fromkeys(self.record.reach, SAMPLED)
        return f", with {describe_ranges(reach)}{'' if right else ' alone'}" if reach else ""

    def sizes(self, results: Sequence[CheckResult]) -> dict[str, list[int]]:
        """Return the sizes of each axis other than the batch at which the copy did not fail, the data's own first."""
        good = [result.probe.sizes for result in results if result.verdict != FAIL and result.probe.as_sampled]
        own = {axis: [size] if any(not sizes for sizes in good) else [] for axis, size in self.data_sizes.items()}
        sizes_by_axis = {
            axis: [*sizes, *(probed[axis] for probed in good if axis in probed)] for axis, sizes in own.items()
        }
        return {axis: [*dict.fromkeys(sizes)] for axis, sizes in sizes_by_axis.items()}

    def doubt_single_size(self, results: Sequence[CheckResult]) -> str | None:
        """Say what is missing where a dynamic axis was seen at one size alone, which tells nothing of any other."""
        filled = {axis: [size for size in sizes if size] for axis, sizes in self.sizes(results).items()}
        seen = {axis: sizes for axis, sizes in filled.items() if len(sizes) < 2}
        axis = next(iter(seen), None)
        if axis is None:
            return None
        fixed = f"write {seen[axis][0]} for {axis} in --input, or " if seen[axis] else ""
        return f"one size of {axis} is no evidence that it is dynamic: {fixed}give the bounds within which it answers"

    def _sizes_seen(self, axis: str, sizes: Sequence[int]) -> str:
        return f"{axis} {', '.join(map(str, sizes))}{' alone' if len(sizes) < 2 else ''}{self._limits(axis)}"

    def _limits(self, axis: str | None) -> str:
        """Describe the sizes of an axis that show nothing.

        The copy may accept fewer sizes than the model; the model may fail at a size, or answer all samples alike there.
        """
        own, models = (bounds.get(axis or "") for bounds in (self.bounds, self.record.signature.bounds))
        limits = f" (this copy is for {axis}={own} alone)" if own and own != models else ""
        refused, constant = (sizes.get(axis or "", ()) for sizes in (self.record.refused, self.record.constant))
        if refused:
            limits += f" (the model itself does not answer at {', '.join(map(str, refused))})"
        limits += f" (at {', '.join(map(str, constant))} its answers are all alike)" if constant else ""
        most = max(self._sizes_asked(axis), default=0)
        return f"{limits} (not asked beyond {most} of {models})" if models and 0 < most < (models.high or 0) else limits

    def _sizes_asked(self, axis: str | None) -> list[int]:
        """Return the sizes of an axis that were tried."""
        own = [probe.batch for probe in self.record.probes] if axis == self._batch else [self.data_sizes[axis or ""]]
        probed = (probe.sizes[axis] for probe in self.record.probes if axis and axis in probe.sizes)
        return [*own, *probed, *self.record.refused.get(axis or "", ())]

"""What is kept of the calls of one probe: sums of the differences, some calls for a hint, and the metric's part."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...models.probes.evidence import Answers
from ...models.probes.probe_set import PROBE_SAMPLES
from .metrics.metric_tally import MetricTally
from .mismatch_hints import explain, join
from .numbers.column_drift import ColumnAxes
from .numbers.numeric import OutputDrift, compare
from .recorded_answers import split_by_sample


@dataclass
class ProbeTally:
    """Sums over the calls of one probe. `batched`: answers have samples along axis 0."""

    batched: bool
    axes: ColumnAxes = field(default_factory=dict)  # of outputs with columns, where these count
    drifts: dict[str, OutputDrift] = field(default_factory=dict)
    metric: MetricTally = field(default_factory=MetricTally)
    calls: list[tuple[Answers, Answers]] = field(default_factory=list)  # candidate and reference: some of the first
    kept: int = 0  # samples in `calls`
    lost: str | None = None  # what the copy answers to NaN where the model answers NaN
    order: str | None = None  # of the copy's outputs, in a sentence, where it is not the model's
    ties: int = 0  # numbers that differ where rounding decides them

    def add(self, candidate: Answers, reference: Answers, samples: int) -> None:
        """Add one call."""
        if self.kept < PROBE_SAMPLES:
            self.calls.append((candidate, reference))
            self.kept += samples
        candidate, reference = (split_by_sample(side, batched=self.batched) for side in (candidate, reference))
        for name, array in reference.items():
            drift = compare(candidate[name], array, axes=self.axes.get(name, ()))
            self.drifts[name] = self.drifts.get(name, OutputDrift()).merge(drift)

    def explain(self) -> str | None:
        """Say what the wrong answers look like: in one call, else in several (one sample alone tells little)."""
        candidate, reference = zip(*self.calls, strict=True)
        of_first = explain(candidate[0], reference[0], batched=self.batched)
        return (
            of_first
            or self._explain_steps()
            or explain(
                *(
                    join([split_by_sample(call, batched=self.batched) for call in side])
                    for side in (candidate, reference)
                )
            )
        )

    def _explain_steps(self) -> str | None:
        """Say how far outputs of 8 bits are from the reference's, where they are the ones that differ."""
        wrong = {name: drift for name, drift in self.drifts.items() if drift.mismatches}
        dtypes = {str(self.calls[0][1][name].dtype) for name in wrong}
        if not wrong or not dtypes <= {"int8", "uint8"}:
            return None
        steps = max(drift.max_abs for drift in wrong.values())
        how_far = "by one step of 8 bits" if steps == 1 else f"by {steps:.0f} steps of 8 bits at most"
        cause = ", as runtimes that round after each operator do" if steps == 1 else ""
        return f"{how_far}{cause}; convert the float model that was quantised, or a file whose outputs are floats"

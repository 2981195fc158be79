"""Which inputs a copy is asked: all kinds of them, and the module that makes each.

    samples         the user's file, a recipe's test set, or random ones            samples, random_inputs
    batches         the first samples at batches 1, 2 and 5, within the bounds      sizes.batches_within
    sizes           every other dynamic axis at a second size and at its least;
                    a batch of 0 where the bounds allow it                          sizes.other_sizes
    far sizes       large batches; bounds at both ends and between                  far_probes
    masks, blanks   masks that hide all or nothing, floats that are all zero        masks, fill_probes
    stress          floats: large, tiny, tails, ones, ties, NaN, infinities         stress_floats, fill_probes
    declared        rows from end to end of each declared range                     declared_values
    near constants  rows on both sides of the numbers that a graph compares with    thresholds, threshold_rows
    pairs           every two of: sizes of each axis, batches, masks, declared      covering
    integers        negative and large ones, as far as the model answers, and the
                    last row of every table                                         stress_values, integer_range
    last bits       the next float, for the reference alone: is it steady?          stress_values.with_other_last_bits

Masks, blanks and integers are asked where the samples are random, stress is asked of every fp32 copy, what is declared
of every copy but int8 ones. The reference is asked first (pipeline/drift/reference.py): what it refuses, or what tells
nothing (evidence), no copy is asked. feeds makes the arrays of a call. Converters try a program before that at
two_sizes and at far_sizes; accepted_sizes finds sizes for a hint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from ..dataset import Dataset
from ..signature import Array, TensorSpec
from .masks import Fill, apply_fills
from .stress_floats import apply_stress
from .stress_values import IntegerRange, describe_ranges, with_integers

PROBE_SAMPLES = 20  # least number of samples in the probe of the largest batch, where there are so many
SIZE_SAMPLES = 10  # the same for a probe of a smaller batch, or of another size of an axis
BATCH_SAMPLES = 4  # that do at a smaller batch, where answers vary among them
FIRST_BITS = 3  # of the smallest integers that replace the samples': a sign or a rounding shows there
FIRST_NUMBERS = 40  # least number of integers of each input in such a probe
LEVEL_SAMPLES = 5  # least number of samples in a probe of integers
FILL_CALLS = 2  # in a probe of filled masks: every second call keeps its values (masks.py)
STRESS_SAMPLES = 2  # in a probe of stress values, of which one call holds all
DECLARED = "declared values"  # the source of rows that go through the declared ranges: declared_values.py
NEAR = "values near constants"  # the source of rows on both sides of a graph's own numbers, up to a power of ten
OF_COPY = f"{NEAR} of the copy"
WORD_BITS = 31  # of an int32: with larger ones the runtimes themselves are wrong (docs/design/drift.md)

ProbeKey: TypeAlias = tuple[
    int, tuple[tuple[str, int], ...], tuple[tuple[str, IntegerRange], ...], tuple[tuple[str, Fill], ...], str
]  # the fields of a Probe in their order


@dataclass(frozen=True)
class Probe:
    """Calls of one batch size, and what is changed in the samples that they are made of."""

    batch: int
    sizes: Mapping[str, int] = field(default_factory=dict)  # axes of another size than the data has
    reach: Mapping[str, IntegerRange] = field(default_factory=dict)  # inputs of other integers than the samples'
    fills: Mapping[str, Fill] = field(default_factory=dict)  # masks that hide all or nothing, and blank inputs
    source: str = ""  # which rows its calls are made of: the samples, or others that the reference keeps by this name

    @classmethod
    def of_key(cls, key: ProbeKey) -> Probe:
        """Make the probe of a key."""
        batch, sizes, reach, fills, source = key
        return cls(batch, dict(sizes), dict(reach), dict(fills), source)

    @property
    def key(self) -> ProbeKey:
        """What tells it from other probes."""
        sizes, reach, fills = tuple(self.sizes.items()), tuple(self.reach.items()), tuple(self.fills.items())
        return self.batch, sizes, reach, fills, self.source

    @property
    def as_sampled(self) -> bool:
        """Whether its inputs hold the samples' values, cropped or not."""
        return not (self.reach or self.fills or self.source)

    @property
    def is_near(self) -> bool:
        """Whether its rows lie beside a graph's own numbers."""
        return self.source.startswith(NEAR)

    @property
    def is_empty(self) -> bool:
        """Whether an axis is empty. Answers may then hold nothing, and the probe asks only whether they come."""
        return 0 in self.sizes.values()

    @property
    def is_blank(self) -> bool:
        """Whether floats in it are all zero.
        Rounding then says which of equal numbers is the largest. The probe asks only whether an answer is a number."""
        return Fill.BLANK in self.fills.values()

    @property
    def is_stress(self) -> bool:
        """Whether floats in it are stress values."""
        return any(fill.is_stress for fill in self.fills.values())

    @property
    def is_paired(self) -> bool:
        """Whether it takes two samples to hold all of its stress values."""
        return any(fill.is_paired for fill in self.fills.values())

    @property
    def is_tied(self) -> bool:
        """Whether floats in it are all equal, or lie where rounding turns."""
        return any(fill in (Fill.ONES, Fill.TIES) for fill in self.fills.values())

    @property
    def is_undefined(self) -> bool:
        """Whether floats in it are NaN or infinite."""
        return any(fill.is_undefined for fill in self.fills.values())

    @property
    def bits(self) -> int:
        """Of the largest integer that replaces the samples'; 0 where none does."""
        return max((reach.bits for reach in self.reach.values()), default=0)

    def of(self, data: Dataset) -> Dataset:
        """Return the rows of its source with this probe's integers and fills."""
        if not (self.reach or self.fills):
            return data
        samples = with_integers(data.rows(0, PROBE_SAMPLES), self.reach)
        return apply_stress(samples, self.fills) if self.is_stress else apply_fills(samples, self.fills, self.batch)

    def rows(self, data: Dataset, samples: int | None = None) -> Iterator[Array]:
        """Yield the rows of each call: the first samples of `data`, from the start again where there are fewer.
        There they begin one further, so that a copy which counts samples from the start again is told.
        `samples` is how many the probe sees at least; None leaves that to the probe."""
        wanted = self._samples_wanted(data) if samples is None else samples
        most = -(-len(data) // self.batch) if self.source else len(data) // self.batch
        calls = max(1, min(-(-wanted // self.batch), most))
        for call in range(calls):
            rows = np.arange(call * self.batch, (call + 1) * self.batch)
            yield (rows + rows // len(data)) % len(data)

    def _samples_wanted(self, data: Dataset) -> int:
        if self.source:
            return len(data)
        if self.is_stress:
            return STRESS_SAMPLES
        if self.fills:
            return FILL_CALLS * self.batch
        if self.reach:
            fewest = max(1, min(int(data.inputs[name][0].size) for name in self.reach))
            samples = max(LEVEL_SAMPLES, -(-self._integers_wanted // fewest))
            return samples if self.bits <= FIRST_BITS or samples <= PROBE_SAMPLES else LEVEL_SAMPLES
        return SIZE_SAMPLES if self.sizes else PROBE_SAMPLES

    @property
    def _integers_wanted(self) -> int:
        """How many integers of an input show all that this probe can show: every row of a table, once."""
        if self.bits <= FIRST_BITS:
            return FIRST_NUMBERS
        ends = [reach.ends for reach in self.reach.values() if reach.is_table]
        return max((most - least + 1 for least, most in ends), default=1)


def describe_values(probe: Probe, specs: Sequence[TensorSpec]) -> str:
    """Name the values that no sample holds, as in "with mask all false"; empty where the probe has none."""
    if probe.as_sampled:
        return ""
    boolean = {spec.name: spec.dtype == "bool" for spec in specs}
    fills = [f"{name} {fill.describe(boolean=boolean[name])}" for name, fill in probe.fills.items()]
    kinds = [probe.source] if probe.source else []
    return f"with {' and '.join([*kinds, *([describe_ranges(probe.reach)] if probe.reach else []), *fills])}"


def suggest_fix(probe: Probe) -> str:
    """Say what helps where the user's samples are never like this probe; empty where the question is a fair one."""
    least = min(probe.sizes.values(), default=None)
    if least in (0, 1):
        return f"where that size never comes, say so: {next(iter(probe.sizes))}={least + 1}.."
    if probe.is_stress:
        return f"where no sample is so, say which values come: {next(iter(probe.fills))}=... in LOW..HIGH"
    if not probe.fills and not 0 < probe.bits <= WORD_BITS:
        return ""
    when = "such a mask never comes" if probe.fills else "such integers never come"
    return f"where {'no sample is so' if probe.is_blank else when}, give samples of yours: --data FILE.npz"

"""What everything else is held against: the reference's answers to the test set, at several batches, with each other
dynamic axis at several sizes, and with other integers than random samples hold. The answers to the latter two are found
by trying: a model need not take every size and every integer, and what it refuses itself no copy is asked.

answer    inputs {model, data}   -> answers.npz, probes.npz, record.json; {device, samples, refused}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...models.dataset import Dataset
from ...models.errors import BadRequest, TransloadError
from ...models.job import Job
from ...models.probes.feeds import feeds_of, sizes_in, whole
from ...models.probes.masks import blanks, masks
from ...models.probes.sizes import batches_within, bounds_within, empty_axes
from ...models.probes.stress_values import Reach, as_floats, free_integers, with_ones, with_other_last_bits
from ...models.signature import Array, Bounds, TensorSpec
from ...serving.runtimes.provider_check import check_device
from ...serving.session import Session
from .accepted_sizes import sizes_fix
from .integer_range import Search
from .mask_probes import blank, filled
from .numeric import combine, compare
from .recorded_answers import (
    ANSWERS,
    PROBE_SAMPLES,
    PROBES,
    SIZE_SAMPLES,
    Answers,
    Key,
    Probe,
    Record,
    Series,
    by_sample,
    write_calls,
    write_record,
)
from .sessions import batches_of, open_for, read_test_set

CHUNK = 256
_VALUES_FIX = "give samples of yours that hold such as it takes: --data FILE.npz"


def answer(job: Job) -> Mapping[str, Any]:
    """Record what the model in inputs["model"] (a source or an artifact) answers to the test set.

    Options: runtime, device, threads, batches, chunk, model; probes_only: not the whole set, which only `validate`
    reads, and which takes most of the time; random: the samples are, and masks that hide all or nothing are tried in
    their place; tries: so are other integers, so many times at most. Facts: device, samples, refused
    ({axis: {size: why}}).

    Raises BadRequest where the model answers the same question in two ways (it is in training mode, or draws random
    numbers): nothing can be held against that.
    """
    options = job.options
    with closing(open_for(job, "model", options["runtime"])) as session:
        wrong = check_device(session, options.get("device", "cpu"))
        if wrong:
            raise BadRequest(f"the reference did not run where it should: {wrong}", fix="name a device that is there")
        data = read_test_set(job, session.signature.inputs)
        asked = _Asked(session, data)
        asked.batches(batches_within(session.signature.inputs, batches_of(job)))
        asked.check_repeats()
        steady_db = asked.steadiness()
        chunk = None
        if not options.get("probes_only"):
            chunk, answers = asked.whole(int(options.get("chunk", CHUNK)))
            write_calls(job.out / ANSWERS, [answers])
        if options.get("random"):
            asked.masks()
        asked.sizes()
        reach = asked.numbers(options["tries"]) if "tries" in options else {}
        device = session.device
    write_calls(job.out / PROBES, list(asked.found.values()))
    refused = {axis: [*sizes] for axis, sizes in asked.refused.items()}
    probes = tuple(map(Probe.of_key, asked.found))
    write_record(job.out, Record(session.signature, probes, chunk, refused, asked.constant, reach, steady_db))
    return {"device": device, "samples": len(data), "refused": asked.refused}


@dataclass
class _Asked:
    """What one session was asked, and what it answered."""

    session: Session
    data: Dataset
    found: dict[Key, Series] = field(default_factory=dict)
    refused: dict[str, dict[int, str]] = field(default_factory=dict)
    constant: dict[str, list[int]] = field(default_factory=dict)

    def batches(self, batches: Sequence[int]) -> None:
        """Ask at each batch size, all other axes as the data has them."""
        signature = self.session.signature
        largest = max(batches)
        for batch in batches:
            probe = Probe(batch)
            try:
                samples = PROBE_SAMPLES if batch == largest else SIZE_SAMPLES
                self.found[probe.key] = self._ask(probe, probe.rows(self.data, samples))
            except TransloadError as error:
                own = sizes_in(self.data, signature)
                sizes = {signature.batch or "": batch, **own}
                at = ", ".join(f"{axis}={size}" for axis, size in sizes.items() if axis)
                where = f" at {at}" if at else ""
                if names := self._refused_integers(probe):
                    where, fix = f"{where} to these integers of {' and '.join(names)}, but to ones", _VALUES_FIX
                else:
                    fix = sizes_fix(signature.inputs, own, partial(self._takes, batch)) if own else _VALUES_FIX
                raise BadRequest(f"the model itself does not answer{where}: {error.what}", fix=fix) from error

    def _takes(self, batch: int, sizes: Mapping[str, int]) -> bool:
        """Whether there is an answer to the first samples at these sizes."""
        probe = Probe(batch, sizes)
        try:
            self._ask(probe, [next(probe.rows(self.data))])
        except TransloadError:
            return False
        return True

    def _refused_integers(self, probe: Probe) -> Sequence[str]:
        """The inputs in which ones in place of what they hold have an answer: one of them, else all. Empty where the
        sizes are at fault, or what is no integer."""
        names = [spec.name for spec in free_integers(self.session.signature.inputs)]
        for chosen in [*([name] for name in names), *([names] if len(names) > 1 else [])]:
            data = with_ones(self.data, chosen)
            try:
                list(self._answers(probe, probe.rows(data), data))
            except TransloadError:
                continue
            return chosen
        return ()

    def whole(self, chunk: int) -> tuple[int, list[Answers]]:
        """Ask the whole test set, `chunk` samples at a time, or as many as the model takes."""
        signature = self.session.signature
        bounds = bounds_within(signature.inputs, signature.batch)
        chunk = bounds.nearest(min(chunk, len(self.data)))
        return chunk, self._ask(Probe(chunk), whole(len(self.data), chunk, bounds.low))

    def check_repeats(self) -> None:
        """Hold the reference against itself, at the largest batch: a model that draws numbers draws most of them
        there. Threads may round differently; more than that is another answer."""
        probe = Probe(self._largest)
        again = self._ask(probe, [next(probe.rows(self.data))])[0]
        drift = combine({name: compare(again[name], array) for name, array in self.found[probe.key][0].items()})
        if drift.non_finite or drift.mismatches or (drift.sqnr_db is not None and drift.sqnr_db < 60):
            raise BadRequest(
                "the reference gives two answers to the same inputs: it draws random numbers, or keeps something "
                "between two calls",
                fix="make it again from the model in eval mode, drawing nothing; what it keeps (a buffer, a variable) "
                "can be an input and an output of it",
            )

    def steadiness(self) -> float | None:
        """The signal to noise of the answers, in dB, where inputs differ in their last bits. A model that multiplies
        rounding errors has copies that no check can tell from wrong ones. None where nothing is rounded, or it changes
        nothing."""
        if not any(array.dtype.kind == "f" for array in self.data.inputs.values()):
            return None
        probe = Probe(self._largest)
        rows = next(probe.rows(self.data))
        try:
            (nudged,) = self._answers(probe, [rows], with_other_last_bits(self.data.rows(0, probe.batch)))
        except TransloadError:  # numbers that are just within what it takes
            return None
        return combine({name: compare(nudged[name], array) for name, array in self.found[probe.key][0].items()}).sqnr_db

    def sizes(self) -> None:
        """Ask with each axis other than the batch at another size than the data has, and at its least; and with a batch
        of 0, where it may be empty. What is empty in the data has nothing to fill it with."""
        signature = self.session.signature
        batch = self._largest
        own = sizes_in(self.data, signature)
        for axis, size in own.items():
            if size == 0:
                continue
            bounds = bounds_within(signature.inputs, axis)
            tried: dict[int, bool] = {size: True}
            for other in _other_sizes(size, bounds):
                tried[other] = self._size(batch, axis, other, own)
                if tried[other]:
                    break
            if bounds.low not in tried:
                self._size(batch, axis, bounds.low, own)
        if signature.batch in empty_axes(signature.inputs):
            self._size(batch, signature.batch, 0, own)

    def _size(self, batch: int, axis: str, size: int, own: Mapping[str, int]) -> bool:
        """Ask with `axis` at `size`; where that is refused, with all axes that are as large, which may be one axis
        under several names. Whether there is an answer that tells something."""
        alike = {other: size for other, known in own.items() if known == own.get(axis)}
        why = ""
        for sizes in ({axis: size}, *([alike] if len(alike) > 1 else [])):
            probe = Probe(batch, sizes)
            if probe.key in self.found:
                return True
            try:
                answers = self._ask(probe, probe.rows(self.data))
            except TransloadError as error:
                why = why or error.what
                continue
            misfit = _misfit(self.session.signature.outputs, answers)
            if misfit and not _misfit(self.session.signature.outputs, self.found[Probe(batch).key]):
                why = why or misfit
                continue
            if probe.is_empty or (self._varies(answers) and all(map(_is_filled, answers))):
                self.found[probe.key] = answers
                return True
            self.constant.setdefault(axis, []).append(size)
            return False
        self.refused.setdefault(axis, {})[size] = why
        print(f"the model itself does not answer at {axis}={size}: {why}")  # for the step's log
        return False

    def masks(self) -> None:
        """Ask with masks that hide all, or nothing, and with blank samples: of few, for there are several fills."""
        found = masks(self.session.signature.inputs)
        few = min((batch for batch, *_ in self.found if batch > 1), default=self._largest)
        usual = self.found[Probe(few).key]
        self.found |= {probe.key: answers for probe, answers in filled(found, few, usual, self._numbers)}
        found = blanks(self.session.signature.inputs)
        self.found |= {probe.key: answers for probe, answers in blank(found, few, usual, self._numbers)}

    def numbers(self, tries: int) -> dict[str, Reach]:
        """Ask with other integers than random samples hold. How large they may be, by input."""
        usual = self.found[Probe(self._largest).key]
        search = Search(self.session.signature.inputs, self._largest, usual, self._numbers, tries=tries)
        reach = search.widest()
        self.found |= {probe.key: answers for probe, answers in search.levels}
        return reach

    def _numbers(self, probe: Probe, rounded: Sequence[str] = ()) -> Iterator[Answers]:
        data = as_floats(probe.of(self.data), rounded)
        return self._answers(probe, probe.rows(data), data)

    @property
    def _largest(self) -> int:
        """The largest batch that was asked."""
        return max(batch for batch, *_ in self.found)

    def _varies(self, calls: Iterable[Answers]) -> bool:
        """Whether answers differ between samples: else any constant agrees with them."""
        parts = [by_sample(call, batched=self.session.signature.batch is not None) for call in calls]
        drifts = {name: compare(array, array) for name, array in parts[0].items()}
        for part in parts[1:]:
            drifts = {name: drift.merge(compare(part[name], part[name])) for name, drift in drifts.items()}
        return combine(drifts).varies

    def _ask(self, probe: Probe, rows: Iterable[Array]) -> list[Answers]:
        return [*self._answers(probe, rows, self.data)]

    def _answers(self, probe: Probe, rows: Iterable[Array], data: Dataset) -> Iterator[Answers]:
        session = self.session
        return (session.run(feeds_of(data, each, session.signature, probe.sizes)) for each in rows)


def _misfit(outputs: Sequence[TensorSpec], answers: Series) -> str | None:
    """How answers contradict what the model says of its outputs, which some files say wrongly of all of them. Of a
    picture smaller than its kernel TensorFlow's convolution gives what lay in memory, in the shape of the picture."""
    for answer in answers:
        for spec in outputs:
            shape = answer[spec.name].shape
            known = [(size, axis) for size, axis in zip(shape, spec.shape, strict=False) if isinstance(axis, int)]
            if len(shape) != len(spec.shape) or any(size != axis for size, axis in known):
                return f"its answer has the shape {[*shape]}, where it says {spec}"
    return None


def _is_filled(answers: Answers) -> bool:
    """Whether each output holds anything to compare: of a picture smaller than a kernel runtimes leave nothing, or
    raise an error."""
    return all(array.size for array in answers.values())


def _other_sizes(size: int, bounds: Bounds) -> Iterator[int]:
    """Sizes to try in place of `size`, in this order: smaller ones first, for the samples hold enough for them; half
    and double, because some models take multiples alone."""
    wanted = (size - max(1, size // 3), size - 1, size // 2, size + 1, size + size // 2 + 1, 2 * size)
    return (other for other in dict.fromkeys(wanted) if other in bounds.filled and other != size)

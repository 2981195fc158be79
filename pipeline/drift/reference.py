"""Record the reference's answers, against which every copy is checked.

It is asked the test set, at several batches, with each other dynamic axis at several sizes, and with masks and integers
that random samples do not hold (models/probes/probe_set.py). A model need not take every size and every integer: the
probes are found by trying, and what the model refuses itself no copy is asked.

answer    inputs {model, data}   -> answers/, samples.npz, probes.npz, record.json; {device, samples, refused}
          inputs {model, data, reference, near}   -> the files of the reference, with answers to the rows in near
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...models.dataset import Dataset, read_dataset, take
from ...models.errors import BadRequest, TransloadError
from ...models.job import Job
from ...models.probes.declared_values import declared_rows
from ...models.probes.feeds import make_feeds
from ...models.probes.probe_set import DECLARED, Probe
from ...models.probes.sizes import batches_within, bounds_within
from ...models.probes.threshold_rows import NEAR_S, find_threshold_rows
from ...serving.runtimes.provider_check import check_device
from ...serving.session import WatchedSession, WideningSession
from .call_time_limit import CallTimeLimit, limit_calls
from .drift_records import AnswerFacts, AnswerOptions
from .float64_reference import Float64Reference
from .noise_floor import Cause, OutputNoise
from .pair_probing import ask_pairs
from .recorded_answers import (
    PROBES,
    RECORD,
    ReferenceRecord,
    read_calls,
    read_record,
    write_calls,
    write_record,
    write_sources,
)
from .reference_probing import ReferenceProbing
from .rounding_ties import TIES
from .sessions import batches_of, default_runtime, open_for, read_test_set


def answer(job: Job) -> Mapping[str, Any]:
    """Record what the model in inputs["model"] (a source or an artifact) answers to the test set.

    AnswerOptions -> AnswerFacts.

    Raises BadRequest where the model answers the same question in two ways (it is in training mode, or draws random
    numbers): no copy can be compared with that.
    """
    options = AnswerOptions.from_json(job.options)
    runtime = options.runtime or default_runtime(job.inputs["model"])
    limit = CallTimeLimit(job.answer_s)
    with closing(limit_calls(open_for(job, "model", runtime, options), limit)) as session:
        wrong = check_device(session, options.device)
        if wrong:
            raise BadRequest(f"the reference did not run where it should: {wrong}", fix="name a device that is there")
        data = read_test_set(job, session.signature.inputs)
        probing = ReferenceProbing(session, data)
        near = job.inputs.get("near")
        chunk = _ask_probes(probing, job, options) if near is None else None
        if near is not None:
            _ask_proposed(probing, near, options)
        reach = {} if options.tries is None else probing.ask_integers(options.tries)
        device, takes_not_finite = session.device, probing.takes(options.not_finite)
        probing.measure_last_bits({})
        float64: tuple[OutputNoise, ...] = ()
        if isinstance(session, WideningSession):
            indices = [name for name, integers in reach.items() if integers.has_end]
            truth = Float64Reference(session, probing.data_of, probing.telling, indices)
            float64 = truth.measure(probing.series)
        if float64:
            probing.noise[Cause.FLOAT64] = float64[[*probing.series].index(probing.telling.key)]
            probing.measure_last_bits(truth.marks)
            truth.write_ties(job.out, None if chunk is None else probing.rows_of_set(chunk))
    write_calls(job.out / PROBES, list(probing.series.values()))
    write_sources(job.out, probing.sources)
    refused = {axis: [*sizes] for axis, sizes in probing.refused.items()}
    probes = tuple(map(Probe.of_key, probing.series))
    steadiness = tuple(probing.steadiness.get(key, {}) for key in probing.series)
    noise = probing.noise, float64, steadiness
    constants = probing.near.thresholds, probing.near.unreached
    record = ReferenceRecord(session.signature, probes, chunk, refused, probing.constant, reach, *noise, constants)
    write_record(job.out, record)
    if near is not None:
        _extend(job.out, job.inputs["reference"])
    facts = AnswerFacts(device=device, samples=len(data), refused=probing.refused, answers_not_finite=takes_not_finite)
    return facts.to_json()


def _ask_probes(probing: ReferenceProbing, job: Job, options: AnswerOptions) -> int | None:
    """Ask all but integers that no sample holds; return the samples of a call of the whole test set, where it was."""
    inputs = probing.session.signature.inputs
    probing.ask_batches(batches_within(inputs, batches_of(options)))
    probing.ask_last_bits()
    probing.check_repeats()
    chunk = probing.record_set(job.out, options)
    if options.random:
        probing.ask_fills()
    if options.stress:
        probing.ask_stress()
    probing.ask_sizes()
    probing.ask_far_sizes()
    if options.random:
        probing.ask_full_masks()
    if (declared := declared_rows(inputs, probing.data)) is not None:
        probing.ask_rows(DECLARED, declared)
    ask_pairs(probing)
    if options.constants:
        _ask_constants(probing)
    return chunk


def _ask_constants(probing: ReferenceProbing) -> None:
    """Ask rows on both sides of the numbers that the model compares values with, where it can be watched."""
    if not isinstance(session := probing.session, WatchedSession):
        return
    with suppress(TransloadError):
        near = probing.near = find_threshold_rows(session.signature, probing.data, session.watch)
        print(f"{near}, in {near.seconds:.1f} s of {NEAR_S:g} s")  # for the step's log
        _ask_near(probing, near.rows)


def _ask_proposed(probing: ReferenceProbing, proposed: Path, options: AnswerOptions) -> None:
    """Ask nothing but the rows that are proposed near the constants of a copy."""
    probing.ask_batches(batches_within(probing.session.signature.inputs, batches_of(options))[-1:])
    _ask_near(probing, {path.stem.replace("_", " "): read_dataset(path) for path in sorted(proposed.glob("*.npz"))})


def _extend(folder: Path, before: Path) -> None:
    """Put a record ahead of the answers near constants that the folder holds, and copy the rest of it.
    Answers without marks of what rounding decides are left out, where the record has such marks."""
    old, new = read_record(before), read_record(folder)
    files = [name for name in (PROBES, TIES) if (before / name).is_file()]
    has_all = all((folder / name).is_file() for name in files)
    added = [at for at, probe in enumerate(new.probes) if probe.is_near and has_all]
    for name in files:
        more = read_calls(folder / name) if added else []
        write_calls(folder / name, [*read_calls(before / name), *(more[at] for at in added)])
    for path in before.iterdir():
        if path.name not in (PROBES, TIES, RECORD):
            (shutil.copytree if path.is_dir() else shutil.copyfile)(path, folder / path.name)
    probes = *old.probes, *(new.probes[at] for at in added)
    float64 = *(old.float64 or [{}] * len(old.probes)), *(new.float64[at] if new.float64 else {} for at in added)
    steadiness = *old.steadiness, *(new.steadiness[at] for at in added)
    write_record(folder, replace(old, probes=probes, float64=float64, steadiness=steadiness))


def _ask_near(probing: ReferenceProbing, groups: Mapping[str, Dataset]) -> None:
    """Ask groups of rows near constants, those to which the model answers finite numbers."""
    signature = probing.session.signature
    bounds = bounds_within(signature.inputs, signature.batch)

    def is_finite(row: int) -> bool:
        with suppress(TransloadError):
            answers = probing.session.run(make_feeds(rows, np.full(bounds.low, row), signature))
            return all(np.isfinite(array).all() for array in answers.values() if array.dtype.kind == "f")
        return False

    for source, rows in groups.items():
        finite = [row for row in range(len(rows)) if is_finite(row)]
        if finite:
            probing.ask_rows(source, take(rows, np.array(finite)))

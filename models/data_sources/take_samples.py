"""The step that makes a data folder of a user's samples. Runs in a worker.

A data folder holds what a recipe's data step writes (models/training/data.py): test.npz and calibration.npz. However
many samples there are, a few megabytes of them are in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..data_checks.data_findings import DataFault, DataFinding
from ..data_checks.sample_checks import DataPlace, check_dataset
from ..dataset import CALIBRATION, CALIBRATION_SAMPLES, TEST, Dataset, read_dataset, take, write_dataset
from ..errors import BadRequest
from ..job import Job
from ..job_records import DataFacts, SourceSamplesOptions
from ..probes.feeds import check_samples, group_into_calls
from ..probes.samples import check_file
from ..signature import TensorSpec
from ..sources import CodeRef
from .code_samples import read_code
from .data_argument import DataKind, source_digest
from .image_folder import describe_images, image_labels, read_images
from .sample_writer import Chunk, collect
from .tables import describe_table, read_table, table_columns

_CALIBRATION_SEED = 12
_LABEL_NAMES = {"class", "classes", "outcome", "target", "targets"}  # that are no feature's


def take_samples(job: Job) -> Mapping[str, Any]:
    """Write a data folder from a user's samples: SourceSamplesOptions -> DataFacts.

    All samples are the test set; up to 256 of them, drawn at random, calibrate int8. feeds.py says what a source holds
    for each input.
    Raises BadRequest where the source is missing, holds no samples, or does not fit the inputs."""
    options, scratch = SourceSamplesOptions.from_json(job.options), Path.cwd() / "samples"
    inputs = options.inputs
    samples = _read(options, inputs, scratch)
    if not len(samples):
        raise BadRequest(f"{options.place} holds no samples", fix="give at least one; more tell more")
    data = group_into_calls(inputs, samples)
    _check_names(options.place, inputs, data)
    check_samples(inputs, data)
    findings, in_call = _find_faults(options, samples), len(samples) // len(data)
    write_dataset(job.out / TEST, data)
    calibration = _draw(data)
    write_dataset(job.out / CALIBRATION, calibration)
    names, sentences = _describe(options, inputs)
    return DataFacts(
        test=len(data),
        calibration=len(calibration),
        labels=data.labels is not None,
        label_names=names,
        label_source=f"the data {Path(options.place).name}" if names else "",
        preprocessing=sentences,
        findings=tuple(replace(fault, rows=tuple(at // in_call for at in fault.rows)) for fault in findings),
    ).to_json()


def _check_names(place: str, inputs: Sequence[TensorSpec], data: Dataset) -> None:
    """Raise BadRequest where the arrays of a source are not called as the model's inputs are."""
    names, arrays = [spec.name for spec in inputs], sorted(data.inputs)
    if arrays != sorted(names):
        extra = [name for name in arrays if name not in names]
        labels = f", labels={extra[0]}" if len(extra) == 1 and len(arrays) == len(names) + 1 else ""
        raise BadRequest(
            f"{place} holds the arrays {', '.join(arrays)}, and the model takes the inputs {', '.join(names)}",
            fix=f"name the arrays as the inputs{' and the labels' * bool(labels)}: "
            f"numpy.savez(FILE, {', '.join(f'{name}=array' for name in names)}{labels})",
        )


def _describe(options: SourceSamplesOptions, inputs: Sequence[TensorSpec]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the names of labels by number, and how the source's samples became inputs, where its kind says so."""
    kind, path = DataKind(options.kind), Path(options.place)
    if kind is DataKind.IMAGES:
        return image_labels(path), (describe_images(inputs, options.images),)
    return describe_table(path, inputs, options.table) if kind is DataKind.TABLE else ({}, ())


def _read(options: SourceSamplesOptions, inputs: Sequence[TensorSpec], scratch: Path) -> Dataset:
    kind, path = DataKind(options.kind), Path(options.place)
    if kind is DataKind.IMAGES and source_digest(kind, options.place) != options.sha256:
        raise BadRequest(f"{path} has changed since this command began", fix="run again when the folder is finished")
    if kind in (DataKind.ARRAYS, DataKind.TABLE):
        check_file(path, options.sha256)
    if kind is DataKind.ARRAYS:
        return read_dataset(path, inputs, scratch).rows(0, options.samples or None)
    return collect(_chunks(kind, options, inputs), scratch, options.place, options.samples)


def _chunks(kind: DataKind, options: SourceSamplesOptions, inputs: Sequence[TensorSpec]) -> Iterator[Chunk]:
    if kind is DataKind.IMAGES:
        return read_images(Path(options.place), inputs, options.images)
    if kind is DataKind.TABLE:
        return read_table(Path(options.place), inputs, options.table)
    return read_code(CodeRef(options.place, options.root), inputs)


def _find_faults(options: SourceSamplesOptions, samples: Dataset) -> list[DataFinding]:
    """Return the faults of the samples as the user has them, with the columns of a table by their names."""
    path = Path(options.place)
    if options.kind != DataKind.TABLE:
        return check_dataset(samples, DataPlace(path.name))
    columns, label, unread = table_columns(path, options.inputs, options.table)
    findings = check_dataset(samples, DataPlace(path.name, "row", columns, label or ""))
    names = [*unread, *(name for held in columns.values() for name in held)]
    if label is None and (suspects := [name for name in names if name.lower() in _LABEL_NAMES]):
        use = "is not read" if suspects[0] in unread else "is taken as a feature"
        hint = f"if it is one, give --data {path.name}?label={suspects[0]}"
        text = f"{path.name}: the column {suspects[0]} {use}, and none as the label: {hint}"
        findings.append(DataFinding(fault=DataFault.LABEL_AS_FEATURE, text=text))
    return findings


def _draw(data: Dataset) -> Dataset:
    """Return up to 256 samples in an order that depends on the seed alone. Only they are read."""
    count = min(len(data), CALIBRATION_SAMPLES)
    return take(data, np.random.default_rng(_CALIBRATION_SEED).choice(len(data), count, replace=False))

"""The data of a model that brings none: samples of a user's file, or random ones.

A data folder holds what a recipe's data step writes (models/training/data.py): test.npz and calibration.npz.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..dataset import CALIBRATION, CALIBRATION_SAMPLES, MADE_BY, TEST, Dataset, read_dataset, shuffled, write_dataset
from ..errors import BadRequest
from ..job import Job
from ..job_records import DataFacts, FileSamplesOptions, RandomSamplesOptions
from ..signature import TensorSpec, batch_axis
from ..store import digest_of
from .feeds import SAMPLES, check_samples, group_into_calls, sample_specs
from .random_inputs import sample_tensors
from .sizes import example_sizes

RANDOM_SAMPLES = 64
LEAST_SAMPLES = 8  # however large a sample is: probes at batches 1, 2 and 5 need several different ones
MOST_BYTES = 256_000_000  # of the random samples of one split
_TEST_SEED, _CALIBRATION_SEED = 11, 12


def take_samples(job: Job) -> Mapping[str, Any]:
    """Write a data folder from a user's .npz file: FileSamplesOptions -> DataFacts.

    All samples are the test set; up to 256 of them, in shuffled order, calibrate int8. feeds.py says what a file holds
    for each input.
    Raises BadRequest where the file is missing, holds no samples, or does not fit the signature."""
    options = FileSamplesOptions.from_json(job.options)
    path, signature = Path(options.path), options.signature
    check_file(path, options.sha256)
    try:
        data = read_dataset(path, signature.inputs)
    except (MemoryError, OverflowError) as error:
        raise BadRequest(f"{path} says that it holds more than this machine can", fix=MADE_BY) from error
    if not len(data):
        raise BadRequest(f"{path} holds no samples", fix="give at least one; more tell more")
    data = group_into_calls(signature.inputs, data)
    check_samples(signature.inputs, data)
    write_dataset(job.out / TEST, data)
    calibration = shuffled(data, _CALIBRATION_SEED).rows(0, CALIBRATION_SAMPLES)
    write_dataset(job.out / CALIBRATION, calibration)
    return DataFacts(test=len(data), calibration=len(calibration), labels=data.labels is not None).to_json()


def make_samples(job: Job) -> Mapping[str, Any]:
    """Write a data folder of random samples: RandomSamplesOptions -> DataFacts.
    random_inputs.py says which numbers they hold; bytes are drawn over their whole range. The test set and the
    calibration set are different draws of fixed seeds: 64 samples each, fewer where they would take more than 256 MB.
    A dynamic axis other than the batch gets a size of its own, within its bounds."""
    signature = RandomSamplesOptions.from_json(job.options).signature
    sizes = _sizes(signature.inputs)
    specs = sample_specs(signature.inputs)
    for name, seed in ((TEST, _TEST_SEED), (CALIBRATION, _CALIBRATION_SEED)):
        write_dataset(job.out / name, Dataset(sample_tensors(specs, sizes, seed, whole_bytes=True)))
    return DataFacts(test=sizes[SAMPLES], calibration=sizes[SAMPLES], labels=False, random=True).to_json()


def _sizes(specs: Sequence[TensorSpec]) -> dict[str, int]:
    """Choose a size for every axis of the samples, with as many samples as fit."""
    sizes = {**example_sizes(specs, 1), SAMPLES: 1, batch_axis(specs) or SAMPLES: 1}
    one_sample = sample_specs(specs)
    sample_bytes = sum(math.prod(spec.sized(sizes)) * np.dtype(spec.dtype).itemsize for spec in one_sample)
    count = max(LEAST_SAMPLES, min(RANDOM_SAMPLES, MOST_BYTES // max(1, sample_bytes)))
    return {**sizes, SAMPLES: count, batch_axis(specs) or SAMPLES: count}


def check_file(path: Path, sha256: str) -> None:
    """Check a file that a user named against the digest that the run began with.
    Raises BadRequest where it is missing, empty, or has changed."""
    if not path.is_file():
        raise BadRequest(f"no such file: {path}", fix="check the path")
    if not path.stat().st_size:
        raise BadRequest(f"{path} is empty", fix="copy it again, or make it again")
    if digest_of(path) != sha256:
        raise BadRequest(f"{path} has changed since this command began", fix="run again when the file is finished")

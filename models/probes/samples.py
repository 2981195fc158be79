"""The data of a model that brings none, and for which the user gives none: random samples.

A data folder holds what a recipe's data step writes (models/training/data.py): test.npz and calibration.npz.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..dataset import CALIBRATION, TEST, Dataset, read_dataset, write_dataset
from ..errors import BadRequest
from ..job import Job
from ..job_records import DataFacts, RandomSamplesOptions
from ..signature import TensorSpec, batch_axis
from ..store import digest_of
from .feeds import SAMPLES, sample_specs
from .random_inputs import sample_tensors
from .sizes import example_sizes

EXAMPLES = "examples.npz"  # in the folder of a source: the samples of its example inputs
RANDOM_SAMPLES = 64
LEAST_SAMPLES = 8  # however large a sample is: probes at batches 1, 2 and 5 need several different ones
MOST_BYTES = 256_000_000  # of the random samples of one split
_TEST_SEED, _CALIBRATION_SEED = 11, 12


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


def take_examples(job: Job) -> Mapping[str, Any]:
    """Write a data folder of the example inputs beside the source in inputs["source"] -> DataFacts."""
    samples = read_dataset(job.inputs["source"] / EXAMPLES)
    for name in (TEST, CALIBRATION):
        write_dataset(job.out / name, samples)
    return DataFacts(test=len(samples), calibration=len(samples), labels=False).to_json()


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

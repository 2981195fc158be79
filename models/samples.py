"""The data of a model that brings none: samples out of a user's file, or random ones. Needs numpy only.

A data folder holds what a recipe's data step writes (models/zoo/data.py): test.npz, and calibration.npz.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .dataset import LABELS, MADE_BY, Dataset, read_dataset, write_dataset
from .errors import BadRequest
from .job import Job
from .signature import Signature, TensorSpec, check_feeds
from .zoo.build import sample_tensors
from .zoo.data import CALIBRATION, CALIBRATION_SAMPLES, TEST, shuffled

RANDOM_SAMPLES = 64
LEAST_SAMPLES = 8  # however large one is: probes at batches 1, 2 and 5 need some to tell apart
MOST_BYTES = 256_000_000  # of the random samples of one split
_TEST_SEED, _CALIBRATION_SEED = 11, 12
_OTHER_AXES = 5  # the size of the first dynamic axis that is not the batch; the next is 7, and so on


def check_batch_axis(specs: Sequence[TensorSpec]) -> None:
    """Hold the inputs of a model against what is asked of them for now: the first axis is the dynamic batch.

    Raises BadRequest with the first input that is otherwise.
    """
    for spec in specs:
        if spec.name == LABELS:
            raise BadRequest(
                f"an input may not be called {LABELS!r}: data files keep the labels under that name",
                fix="rename that input of the model",
            )
        if not spec.shape or not isinstance(spec.shape[0], str):
            what = "has a fixed first axis" if spec.shape else "has no axis at all"
            raise BadRequest(
                f"the input {spec} {what}, and for now the first axis of every input must be dynamic: the batch",
                fix=f"make it dynamic, as in {_with_batch(spec)}",
            )


def _with_batch(spec: TensorSpec) -> str:
    return str(TensorSpec(spec.name, spec.dtype, ("batch", *spec.shape[1:])))


def take_samples(job: Job) -> Mapping[str, Any]:
    """Write a data folder out of a user's .npz file. Options: path (absolute), sha256, signature (JSON).

    All samples are the test set; up to 256 of them, in shuffled order, calibrate int8. Facts: test, calibration,
    labels (whether there are any).

    Raises BadRequest where the file is none, holds no samples, or does not fit the signature.
    """
    path = Path(job.options["path"])
    signature = Signature.from_json(job.options["signature"])
    check_file(path, job.options["sha256"])
    try:
        data = read_dataset(path)
    except (MemoryError, OverflowError) as error:
        raise BadRequest(f"{path} says that it holds more than this machine can", fix=MADE_BY) from error
    if not len(data):
        raise BadRequest(f"{path} holds no samples", fix="give at least one; more tell more")
    check_feeds(signature.inputs, data.inputs)
    write_dataset(job.out / TEST, data)
    calibration = shuffled(data, _CALIBRATION_SEED).rows(0, CALIBRATION_SAMPLES)
    write_dataset(job.out / CALIBRATION, calibration)
    return {"test": len(data), "calibration": len(calibration), "labels": data.labels is not None}


def make_samples(job: Job) -> Mapping[str, Any]:
    """Write a data folder of random samples. Options: signature (JSON).

    Floats are normal around 0.3, integers 0 to 3, the test set and the calibration set are different draws of fixed
    seeds: 64 samples each, fewer where they would take more than 256 MB. A dynamic axis other than the batch gets a
    size of its own. Facts: test, calibration, labels (false).
    """
    signature = Signature.from_json(job.options["signature"])
    check_batch_axis(signature.inputs)
    sizes = _sizes(signature.inputs)
    for name, seed in ((TEST, _TEST_SEED), (CALIBRATION, _CALIBRATION_SEED)):
        write_dataset(job.out / name, Dataset(sample_tensors(signature.inputs, sizes, seed)))
    count = sizes[signature.inputs[0].dynamic_axes[0]]
    return {"test": count, "calibration": count, "labels": False}


def _sizes(specs: Sequence[TensorSpec]) -> dict[str, int]:
    """A size for every dynamic axis; the batch is as many samples as fit."""
    batches = {spec.dynamic_axes[0] for spec in specs}
    sizes: dict[str, int] = {}
    for spec in specs:
        for axis in spec.dynamic_axes.values():
            if axis not in batches:
                sizes.setdefault(axis, _OTHER_AXES + 2 * len(sizes))
    sample_bytes = sum(_bytes(spec, {**sizes, **dict.fromkeys(batches, 1)}) for spec in specs)
    count = max(LEAST_SAMPLES, min(RANDOM_SAMPLES, MOST_BYTES // max(1, sample_bytes)))
    return {**sizes, **dict.fromkeys(batches, count)}


def _bytes(spec: TensorSpec, sizes: Mapping[str, int]) -> int:
    shape = [axis if isinstance(axis, int) else sizes[axis] for axis in spec.shape]
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(spec.dtype).itemsize


def check_file(path: Path, sha256: str) -> None:
    """Hold a file that a user named against the digest that the run began with.

    Raises BadRequest where it is not there, is empty, or has changed.
    """
    if not path.is_file():
        raise BadRequest(f"no such file: {path}", fix="check the path")
    if not path.stat().st_size:
        raise BadRequest(f"{path} is empty", fix="copy it again, or make it again")
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
            raise BadRequest(f"{path} has changed since this command began", fix="run again when the file is finished")

"""The data step: what a run judges on, and what int8 is calibrated on. Runs in a worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..dataset import Dataset, write_dataset
from ..job import Job
from ..job_records import CodeOptions, DataFacts
from ..loading.code_refs import load_recipe
from ..loading.user_code import user_code
from ..probes.feeds import check_samples
from ..recipe import Recipe, Splits
from ..signature import Array, Signature
from ..sources import CodeRef

TEST, CALIBRATION = "test.npz", "calibration.npz"
CALIBRATION_SAMPLES = 256
_SEED = 0


def prepare_data(job: Job) -> Mapping[str, Any]:
    """Write a recipe's full test split, and up to 256 training samples in shuffled order: CodeOptions -> DataFacts."""
    ref = CodeOptions.from_json(job.options).code_ref
    splits = load_splits(load_recipe(ref), ref)
    calibration = shuffled(splits.train, _SEED).rows(0, CALIBRATION_SAMPLES)
    write_dataset(job.out / TEST, splits.test)
    write_dataset(job.out / CALIBRATION, calibration)
    return DataFacts(test=len(splits.test), calibration=len(calibration)).to_json()


def load_splits(recipe: Recipe, ref: CodeRef) -> Splits:
    """The recipe's data, held against its signature.

    Raises BadRequest where an input is missing or of another dtype or shape, or where there are no labels.
    """
    with user_code(f"the data of {recipe.name}", ref):
        splits = recipe.data()
        for name in ("train", "validation", "test"):
            _check(getattr(splits, name), recipe.signature, name)
    return splits


def _check(data: Dataset, signature: Signature, name: str) -> None:
    check_samples(signature.inputs, data)
    if data.labels is None:
        raise ValueError(f"the {name} split has no labels")


def shuffled(data: Dataset, seed: int) -> Dataset:
    """The same samples in an order that depends on the seed alone."""
    return take(data, np.random.default_rng(seed).permutation(len(data)))


def take(data: Dataset, rows: Array) -> Dataset:
    """The samples at `rows`, copied."""
    labels = None if data.labels is None else data.labels[rows]
    return Dataset({name: array[rows] for name, array in data.inputs.items()}, labels)

"""The data step: the samples that a run is judged on and that int8 is calibrated on. Runs in a worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..dataset import CALIBRATION, CALIBRATION_SAMPLES, TEST, Dataset, shuffled, write_dataset
from ..job import Job
from ..job_records import CodeOptions, DataFacts
from ..loading.code_refs import load_recipe
from ..loading.user_code import user_code
from ..probes.feeds import check_samples
from ..recipe import Recipe, Splits
from ..sources import CodeRef

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
    """Load the recipe's data, and check it against its signature.
    Raises BadRequest where an input is missing or of another dtype or shape, or where there are no labels."""
    with user_code(f"the data of {recipe.name}", ref):
        splits = recipe.data()
        for name in ("train", "validation", "test"):
            split: Dataset = getattr(splits, name)
            check_samples(recipe.signature.inputs, split)
            if split.labels is None:
                raise ValueError(f"the {name} split has no labels")
    return splits

"""The data step: the samples that a run is judged on and that int8 is calibrated on. Runs in a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..data_checks.data_findings import DataFault, DataFinding
from ..data_checks.sample_checks import DataPlace, check_dataset
from ..data_checks.split_overlap import LEARNT, find_overlap, write_digests
from ..dataset import CALIBRATION, CALIBRATION_SAMPLES, TEST, Dataset, shuffled, take, write_dataset
from ..job import Job
from ..job_records import CodeOptions, DataFacts
from ..loading.build import call_model
from ..loading.code_refs import load_recipe
from ..loading.user_code import user_code
from ..probes.feeds import check_samples
from ..recipe import Recipe, Splits
from ..sources import CodeRef

_SEED = 0


def prepare_data(job: Job) -> Mapping[str, Any]:
    """Write a recipe's full test split, and up to 256 training samples in shuffled order: CodeOptions -> DataFacts."""
    ref = CodeOptions.from_json(job.options).code_ref
    recipe = load_recipe(ref)
    splits = load_splits(recipe, ref)
    calibration = shuffled(splits.train, _SEED).rows(0, CALIBRATION_SAMPLES)
    write_dataset(job.out / TEST, splits.test)
    write_dataset(job.out / CALIBRATION, calibration)
    write_digests(job.out / LEARNT, splits.train)
    overlap = find_overlap(job.out, splits.test, DataPlace("the test split"))
    findings = (*find_faults(recipe, splits), *overlap)
    return DataFacts(test=len(splits.test), calibration=len(calibration), findings=findings).to_json()


def load_splits(recipe: Recipe, ref: CodeRef) -> Splits:
    """Load the recipe's data, and check it against its signature.
    Raises BadRequest where an input is missing or of another dtype or shape, or where there are no labels."""
    with user_code(f"the data of {recipe.name}", ref):
        splits = recipe.data()
        for name, split in vars(splits).items():
            check_samples(recipe.signature.inputs, split)
            if split.labels is None:
                raise ValueError(f"the {name} split has no labels")
    return splits


def find_faults(recipe: Recipe, splits: Splits) -> list[DataFinding]:
    """Return the faults of the splits. One of values is accepted where net and loss make finite numbers of them."""
    findings: list[DataFinding] = []
    for name, split in vars(splits).items():
        place = DataPlace(f"the {name} split", is_learnt_from=name == "train")
        for fault in check_dataset(split, place, recipe.signature.outputs):
            if fault.rows:
                findings.append(replace(fault, accepted=_accepts(recipe, split, fault)))
            elif place.is_learnt_from or fault.fault == DataFault.CLASS_MISSING:
                findings.append(fault)
    return findings


def _accepts(recipe: Recipe, split: Dataset, fault: DataFinding) -> bool:
    """Return whether the untrained net and the loss make finite numbers and gradients of the samples with a fault."""
    import torch

    samples = take(split, np.array(fault.rows))
    try:
        torch.manual_seed(_SEED)
        net = recipe.net().eval()
        inputs = [torch.from_numpy(samples.inputs[spec.name]) for spec in recipe.signature.inputs]
        loss = recipe.training.loss(
            call_model(net, recipe.signature, inputs), torch.from_numpy(np.asarray(samples.labels))
        )
        loss.backward()  # type: ignore[no-untyped-call]
    except Exception:  # noqa: BLE001  (whatever net and loss raise at such values says that they do not take them)
        return False
    gradients = [weight.grad for weight in net.parameters() if weight.grad is not None]
    return all(bool(torch.isfinite(values).all()) for values in (loss, *gradients))

"""The checks that stand beside transload's: Polygraphy's, torch.onnx's and onnx2tf's, each by its documented rule.

They compare a copy with PyTorch in float32 on inputs of their own making, as their users do:

- Polygraphy: its DataLoader (uniform 0..1, integers 0 and 1, one iteration) and CompareFunc.simple with its defaults,
  rtol = atol = 1e-5, where the package is there (requirements.txt).
- torch.testing.assert_close, with its defaults rtol 1.3e-6 and atol 1e-5, on random inputs as an export is given:
  the check of torch.onnx's tutorials.
- torch.onnx.export(verify=True): torch's own VerificationInfo on the same inputs, and its limits: 5e-3 absolute and
  0.1 relative.
- onnx2tf -cotof: numpy.allclose with rtol 0 and atol 1e-4 on ones, in whatever order of axes agrees.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from itertools import permutations
from pathlib import Path

import numpy as np
import torch
from benchmark_models import Model
from declarations import Array, Feeds, draw_feeds, middle_sizes
from runtimes import ModuleRun, Run

PACKAGES = Path(__file__).resolve().parent / ".packages"
TOOLS = ("polygraphy", "torch assert_close", "torch verify=True", "onnx2tf -cotof")


def verdicts(model: Model, run: Run) -> dict[str, str]:
    """Return by tool "pass" or "fail", or "error" where the copy gave no answer (which a user sees)."""
    rules: dict[str, tuple[Feeds | None, Callable[[list[Array], list[Array]], bool]]] = {
        "polygraphy": (_polygraphy_feeds(model), _polygraphy_agrees),
        "torch assert_close": (_example(model), _close),
        "torch verify=True": (_example(model), _verified),
        "onnx2tf -cotof": (_ones(model), _matches),
    }
    found = {}
    for tool, (feeds, agrees) in rules.items():
        if feeds is None:
            found[tool] = "not installed"
            continue
        reference = ModuleRun(model.build())(feeds)
        try:
            answers = run(feeds)
        except Exception:  # noqa: BLE001  whatever a runtime raises
            found[tool] = "error"
            continue
        found[tool] = "pass" if agrees(reference, answers) else "fail"
    return found


def _example(model: Model) -> Feeds:
    """Return random inputs as an export is given them."""
    return draw_feeds(model.inputs, np.random.default_rng(12), middle_sizes(model.inputs, 2))


def _ones(model: Model) -> Feeds:
    sizes = middle_sizes(model.inputs, 1)
    return {one_input.name: np.ones(one_input.shape(sizes), one_input.dtype) for one_input in model.inputs}


@cache
def _has_polygraphy() -> bool:
    if PACKAGES.is_dir() and str(PACKAGES) not in sys.path:
        sys.path.append(str(PACKAGES))
    try:
        import polygraphy.comparator  # noqa: F401
    except ImportError:
        return False
    return True


def _polygraphy_feeds(model: Model) -> Feeds | None:
    """Return what Polygraphy's loader draws for the model's inputs, at batch 1."""
    if not _has_polygraphy():
        return None
    from polygraphy.common import TensorMetadata
    from polygraphy.comparator import DataLoader

    sizes, metadata = middle_sizes(model.inputs, 1), TensorMetadata()
    for one_input in model.inputs:
        metadata.add(one_input.name, np.dtype(one_input.dtype), one_input.shape(sizes))
    (feeds,) = DataLoader(input_metadata=metadata, iterations=1)
    return {name: np.asarray(array) for name, array in feeds.items()}


def _polygraphy_agrees(reference: list[Array], answers: list[Array]) -> bool:
    from polygraphy.comparator import CompareFunc, IterationResult
    from polygraphy.logger import G_LOGGER

    G_LOGGER.module_severity = G_LOGGER.CRITICAL
    sides = [
        IterationResult({f"output_{at}": array for at, array in enumerate(side)}, runner_name=name)
        for name, side in (("torch", reference), ("copy", answers))
    ]
    return all(bool(result) for result in CompareFunc.simple()(*sides).values())


def _close(reference: list[Array], answers: list[Array]) -> bool:
    try:
        for one, other in zip(reference, answers, strict=True):
            torch.testing.assert_close(torch.from_numpy(other.copy()), torch.from_numpy(one.copy()))
    except AssertionError:
        return False
    return True


def _verified(reference: list[Array], answers: list[Array]) -> bool:
    from torch.onnx._internal.exporter._verification import VerificationInfo

    for one, other in zip(reference, answers, strict=True):
        if one.shape != other.shape:
            return False
        info = VerificationInfo.from_tensors("output", torch.from_numpy(one.copy()), torch.from_numpy(other.copy()))
        if info.max_abs_diff >= 5e-3 or info.max_rel_diff >= 1e-1:
            return False
    return True


def _matches(reference: list[Array], answers: list[Array]) -> bool:
    return all(
        any(
            moved.shape == one.shape and np.allclose(one, moved, rtol=0.0, atol=1e-4, equal_nan=True)
            for moved in (other.transpose(order) for order in permutations(range(other.ndim)))
        )
        for one, other in zip(reference, answers, strict=True)
    )

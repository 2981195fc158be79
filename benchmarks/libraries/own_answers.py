"""Weights for a model, and its answers to fresh inputs. Runs in the libraries' environment, alone.

    ENV/bin/python own_answers.py JOB.json

Builds the model as a user would, sets the statistics of its batch norms from random inputs, as training does, and
writes weights.pt, where it has any, and answers.npz (inputs, outputs) to the job's folder. Uses nothing of transload.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

Array = np.ndarray[Any, np.dtype[Any]]
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    out = Path(job["out"])
    sys.path.append(job["nets"])
    torch.manual_seed(7)
    model = build_model(job["code"], job["settings"])
    fill_zeros(model)
    generator = np.random.default_rng(3)
    calibrate(model, [draw(spec, job["sizes"], 16, generator) for spec in job["inputs"]])
    if model.state_dict():
        torch.save(model.state_dict(), out / "weights.pt")
    inputs = [draw(spec, job["sizes"], job["batch"], generator) for spec in job["inputs"]]
    with torch.no_grad():
        outputs = flatten(model(*[torch.from_numpy(values) for values in inputs]))
    names = [spec.partition("=")[0] for spec in job["inputs"]]
    arrays = {f"input:{name}": values for name, values in zip(names, inputs, strict=True)}
    arrays |= {f"output:{place}": values.numpy() for place, values in enumerate(outputs)}
    np.savez(out / "answers.npz", **arrays)  # type: ignore[arg-type]


def build_model(code: str, settings: Sequence[str]) -> nn.Module:
    """Make the model of `FILE.py:NAME` or `package.module:NAME` with settings NAME=VALUE."""
    module, _, path = code.partition(":")
    factory: Any = importlib.import_module(module.removesuffix(".py"))
    for name in path.split("."):
        factory = getattr(factory, name)
    pairs = [setting.partition("=")[::2] for setting in settings]
    model: nn.Module = factory(**{name: value_of(text) for name, text in pairs})
    return model.eval()


def value_of(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def fill_zeros(model: nn.Module) -> None:
    """Give weights that a constructor set to zero small values: zeros would make answers that do not vary."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.is_floating_point() and weight.numel() > 1 and not weight.any():
                weight.normal_(0, 0.05)


def calibrate(model: nn.Module, inputs: Sequence[Array]) -> None:
    """Set the running statistics of batch norms from a batch, as training leaves them."""
    norms = [module for module in model.modules() if isinstance(module, NORMS) and module.track_running_stats]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    if norms:
        with torch.no_grad():
            model(*[torch.from_numpy(values) for values in inputs])
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.eval()
        norm.momentum = momentum


def draw(spec: str, sizes: Mapping[str, int], batch: int, generator: np.random.Generator) -> Array:
    """Draw values for NAME=DTYPE[dims] in LOW..HIGH, with the sizes of named axes."""
    match = re.fullmatch(r"\w+=(\w+)\[(.*)\](?: in (\S+)\.\.(\S+))?", spec)
    if match is None:
        raise ValueError(f"{spec!r} is no input")
    dtype, dims, low, high = match.groups()
    names = [dim.partition("=")[0] for dim in dims.split(",")]
    shape = [int(name) if name.isdigit() else {"batch": batch, **sizes}[name] for name in names]
    if dtype.startswith("int"):
        return generator.integers(int(low), int(high) + 1, shape).astype(dtype)
    if low is None:
        return generator.standard_normal(shape).astype(dtype)
    return generator.uniform(float(low), float(high), shape).astype(dtype)


def flatten(outputs: Any) -> list[torch.Tensor]:
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    values = outputs.values() if isinstance(outputs, dict) else outputs
    return [tensor for value in values for tensor in flatten(value)]


if __name__ == "__main__":
    main()

"""Exported program from ONNX, by way of a readable module that is stored beside it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...models.artifact import Artifact, read_artifact
from ...models.errors import Refused
from ...models.job import Job
from ...models.probes.user_samples import draws_user_samples
from ..onnx_graph.graph import OnnxModel, read_model
from ..onnx_to_torch.generate_module import WEIGHTS, GeneratedModule, generate
from ..onnx_to_torch.module_writer import torch_tensor
from ..onnx_to_torch.safe_names import comment
from .model_calls import example_inputs
from .pt2_from_source import write_bounded

if TYPE_CHECKING:
    import torch

MODULE = "model.py"
_IMPORTED = count()


@draws_user_samples
def pt2_from_onnx(job: Job) -> Mapping[str, Any]:
    """Write the artifact in inputs["source"] as a module (model.py, weights.safetensors) and its exported program.
    The program has the signature's dynamic axes, with bounds if it is valid for fewer sizes. Raises Refused if an
    operator cannot be converted, or torch.export does not keep a dynamic axis."""
    source = read_artifact(job.inputs["source"])
    model = read_model(source.path)
    _check_names(model, source)
    result = generate(model, example_inputs(source.signature), source.signature.bounds)
    write_module(result, job.out)
    module = load_module(job.out)
    write_bounded(module, module, source.signature, job)
    return {"operators": result.operators, "opset": result.opset, "weights": len(result.weights), "module": MODULE}


def write_module(generated: GeneratedModule, folder: Path) -> None:
    """Write the module's text and its weights."""
    from safetensors.torch import save_file

    (folder / MODULE).write_text(generated.text, encoding="ascii")
    weights = {name: torch_tensor(array) for name, array in generated.weights.items()}
    save_file(weights, folder / WEIGHTS)


def load_module(folder: Path) -> torch.nn.Module:
    """Load the module in a folder, with its weights."""
    name = f"generated_model_{next(_IMPORTED)}"  # unique: torch keeps the first module that it met by a name
    spec = spec_from_file_location(name, folder / MODULE)
    if spec is None or spec.loader is None:  # a path that ends in .py has both
        raise FileNotFoundError(folder / MODULE)
    module = module_from_spec(spec)
    sys.modules[name] = module  # torch.export looks there for the functions of a loop
    previous = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # it would add a __pycache__ to the artifact
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = previous
    loaded: torch.nn.Module = module.load()
    return loaded


def _check_names(model: OnnxModel, source: Artifact) -> None:
    """Raise Refused if the model's names differ from the record's, which is written beside the module too."""
    for side, names, recorded in (
        ("inputs", [spec.name for spec in model.inputs], [spec.name for spec in source.signature.inputs]),
        ("outputs", list(model.graph.outputs), [spec.name for spec in source.signature.outputs]),
    ):
        if names != recorded:
            raise Refused(
                f"the ONNX model's {side} are {comment(', '.join(names))}, its record says {', '.join(recorded)}",
                fix="convert the source to ONNX anew",
            )

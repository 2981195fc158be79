"""ONNX to an exported program, by way of a readable module that lies beside it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...models.artifact import Artifact, read_artifact, write_artifact
from ...models.errors import Refused
from ...models.exported_program import save_program
from ...models.formats import PAYLOAD, Format, Target
from ...models.job import Job
from ..onnx_graph.graph import Model, read_model
from ..onnx_to_torch.generate_module import WEIGHTS, Generated, generate
from ..onnx_to_torch.module_writer import torch_tensor
from ..onnx_to_torch.safe_names import comment
from .pt2_from_source import answer_everywhere, example_inputs, export
from .size_bounds import settle

if TYPE_CHECKING:
    import torch

MODULE = "model.py"
_IMPORTED = count()


def pt2_from_onnx(job: Job) -> Mapping[str, Any]:
    """Write the artifact in inputs["source"] as a module (model.py, weights.safetensors), and the exported program of
    that module with the signature's dynamic axes; with their bounds, where it is for fewer sizes.

    Raises Refused where an operator cannot be carried, or torch.export does not keep a dynamic axis.
    """
    source = read_artifact(job.inputs["source"])
    model = read_model(source.path)
    _check_names(model, source)
    made = generate(model, example_inputs(source.signature), source.signature.bounds)
    write_module(made, job.out)
    module = load_module(job.out)
    program = export(module, source.signature)
    signature = settle(program, module, source.signature)
    answer_everywhere(program, module, signature)
    save_program(program, signature, job.out / PAYLOAD[Format.PT2])
    write_artifact(job.out, Target(Format.PT2), signature)
    return {"operators": made.operators, "opset": made.opset, "weights": len(made.weights), "module": MODULE}


def write_module(made: Generated, folder: Path) -> None:
    """The module's text and its weights."""
    from safetensors.torch import save_file

    (folder / MODULE).write_text(made.text, encoding="ascii")
    weights = {name: torch_tensor(array) for name, array in made.weights.items()}
    save_file(weights, folder / WEIGHTS)


def load_module(folder: Path) -> torch.nn.Module:
    """The module in a folder, with its weights."""
    name = f"generated_model_{next(_IMPORTED)}"  # of its own: torch keeps the first module that it met by a name
    spec = spec_from_file_location(name, folder / MODULE)
    if spec is None or spec.loader is None:  # a path that ends in .py has both
        raise FileNotFoundError(folder / MODULE)
    module = module_from_spec(spec)
    sys.modules[name] = module  # where torch.export looks for the functions of a loop
    writes = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # else there is a __pycache__ in the artifact
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = writes
    loaded: torch.nn.Module = module.load()
    return loaded


def _check_names(model: Model, source: Artifact) -> None:
    """The record is written beside the module: it must not promise other names."""
    for side, have, want in (
        ("inputs", [spec.name for spec in model.inputs], [spec.name for spec in source.signature.inputs]),
        ("outputs", list(model.graph.outputs), [spec.name for spec in source.signature.outputs]),
    ):
        if have != want:
            raise Refused(
                f"the ONNX model's {side} are {comment(', '.join(have))}, its record says {', '.join(want)}",
                fix="convert the source to ONNX anew",
            )

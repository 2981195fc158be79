"""TFLite from an exported program by litert-torch: the second route, and the cross-check of our own lowering.

It converts through JAX and MLIR and never sees ONNX, so its errors differ from ours. It keeps NCHW, and accepts a
dynamic axis for few models (docs/design/litert.md). Its libraries clash with TensorFlow's, so it usually runs in an
environment of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter
from inspect import Signature as Arguments
from typing import Any

from ...models.artifact import read_artifact
from ...models.errors import Refused
from ...models.exported_program import load_program
from ...models.formats import Format, Target
from ...models.job import Job
from ...models.signature import Signature
from ..lazy_import import torch
from ..patches import private_torch
from ..to_pytorch.model_calls import dynamic_shapes, example_inputs
from ..write_converted import write_converted


def tflite_from_pt2(job: Job) -> Mapping[str, Any]:
    """Convert the exported program in inputs["source"], with its dynamic axes, under the signature's names.

    Raises Refused if an input's name is no identifier: it becomes the name of an argument.
    """
    import litert_torch

    source = read_artifact(job.inputs["source"])
    names = [spec.name for spec in source.signature.inputs]
    if bad := [name for name in names if not name.isidentifier()]:
        raise Refused(f"litert-torch names arguments, and {bad[0]!r} cannot be one", fix="rename that input")
    examples = dict(zip(names, example_inputs(source.signature), strict=True))
    shapes = dict(zip(names, dynamic_shapes(source.signature), strict=True))
    converted = litert_torch.convert(
        _with_signature_names(load_program(source.path), source.signature),
        sample_kwargs=examples,
        dynamic_shapes=shapes if any(shapes.values()) else None,
        enable_x64=True,  # else int64 inputs become int32
    )
    converted.export(str(job.out / Format.TFLITE.spec.payload))
    write_converted(job, Target(Format.TFLITE), source.signature)
    return {"version": litert_torch.__version__}


def _with_signature_names(program: torch.export.ExportedProgram, signature: Signature) -> torch.nn.Module:
    """Wrap the program in a module with the signature's names for arguments and outputs, which litert-torch keeps."""
    inner = program.module()
    names = [spec.name for spec in signature.inputs]
    outputs = [spec.name for spec in signature.outputs]

    def forward(*positional: torch.Tensor, **by_name: torch.Tensor) -> dict[str, torch.Tensor]:
        arguments = {**dict(zip(names, positional, strict=False)), **by_name}
        results = private_torch.tree_leaves(inner(*[arguments[name] for name in names]))
        return dict(zip(outputs, results, strict=True))

    forward.__signature__ = Arguments(  # type: ignore[attr-defined]  # torch.export reads the names from it
        [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    )

    class Named(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner
            self.forward = forward
            self.training = False

        def train(self, mode: bool = True) -> Named:  # noqa: ARG002  (an exported program has one mode and refuses others)
            return self

    return Named()

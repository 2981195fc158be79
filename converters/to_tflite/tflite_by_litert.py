"""An exported program to TFLite by litert-torch: the second route, and the cross-check of our own lowering.

It goes by way of JAX and MLIR and never sees ONNX, so what it gets wrong is not what we get wrong. It keeps NCHW; a
dynamic axis it takes for few models (docs/design/litert.md). Its libraries clash with TensorFlow's: it usually runs in
an environment of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter
from inspect import Signature as Arguments
from typing import TYPE_CHECKING, Any

from ...models.artifact import read_artifact, write_artifact
from ...models.errors import Refused
from ...models.exported_program import load_program
from ...models.formats import PAYLOAD, Format, Target
from ...models.job import Job
from ...models.signature import Signature
from ..to_pytorch.pt2_from_source import dynamic_shapes, example_inputs

if TYPE_CHECKING:
    import torch


def tflite_from_pt2(job: Job) -> Mapping[str, Any]:
    """Convert the exported program in inputs["source"], with its dynamic axes, under the signature's names.

    Raises Refused where a name of an input is no identifier: it becomes an argument's.
    """
    import litert_torch

    source = read_artifact(job.inputs["source"])
    names = [spec.name for spec in source.signature.inputs]
    if bad := [name for name in names if not name.isidentifier()]:
        raise Refused(f"litert-torch names arguments, and {bad[0]!r} cannot be one", fix="rename that input")
    examples = dict(zip(names, example_inputs(source.signature), strict=True))
    shapes = dict(zip(names, dynamic_shapes(source.signature), strict=True))
    made = litert_torch.convert(
        _named(load_program(source.path), source.signature),
        sample_kwargs=examples,
        dynamic_shapes=shapes if any(shapes.values()) else None,
        enable_x64=True,  # else int64 inputs become int32
    )
    made.export(str(job.out / PAYLOAD[Format.TFLITE]))
    write_artifact(job.out, Target(Format.TFLITE), source.signature)
    return {"version": litert_torch.__version__}


def _named(program: torch.export.ExportedProgram, signature: Signature) -> torch.nn.Module:
    """The program as a module whose arguments and outputs have the signature's names; litert-torch keeps those."""
    import torch

    inner = program.module()
    names = [spec.name for spec in signature.inputs]
    outputs = [spec.name for spec in signature.outputs]

    def forward(*given: Any, **by_name: Any) -> dict[str, Any]:
        taken = {**dict(zip(names, given, strict=False)), **by_name}
        made = torch.utils._pytree.tree_leaves(inner(*[taken[name] for name in names]))
        return dict(zip(outputs, made, strict=True))

    forward.__signature__ = Arguments(  # type: ignore[attr-defined]  # torch.export reads the names from it
        [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    )

    class Named(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner
            self.forward = forward
            self.training = False

        def train(self, mode: bool = True) -> Named:  # noqa: ARG002  (an exported program knows one mode, and says so)
            return self

    return Named()

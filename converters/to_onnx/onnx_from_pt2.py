"""ONNX from an exported program by torch's dynamo exporter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...models.artifact import read_artifact
from ...models.errors import Refused
from ...models.exported_program import load_program
from ...models.formats import Format
from ...models.job import Job
from ..conversion_records import OnnxExportOptions
from ..lazy_import import torch
from ..patches.torch_onnx_dynamo.complex_numbers import complex_refused, register_complex_translations
from ..patches.torch_onnx_dynamo.constant_algebra import fold_constant_algebra
from ..patches.torch_onnx_dynamo.translations import exact_rewriting, translations
from ..patches.torch_onnx_dynamo.untranslated import untranslated
from .embed_weights import embed_weights
from .finish_model import PROTOBUF_LIMIT_BYTES, check_names_differ, finish, output_alias

DYNAMO_OPSET = 20  # has Gelu and GridSample as operators, and onnxruntime and TensorFlow both run it


def onnx_from_pt2(job: Job) -> Mapping[str, Any]:
    """Export the captured program in inputs["source"], by default at DYNAMO_OPSET: OnnxExportOptions."""
    source = read_artifact(job.inputs["source"])
    check_names_differ(source.signature)
    program = load_program(source.path)
    fold_constant_algebra(program)
    register_complex_translations()
    try:
        with exact_rewriting():
            exported = torch.onnx.export(
                program,
                dynamo=True,
                opset_version=OnnxExportOptions.from_json(job.options).opset or DYNAMO_OPSET,
                input_names=[spec.name for spec in source.signature.inputs],
                output_names=[output_alias(spec) for spec in source.signature.outputs],
                optimize=True,
                verbose=False,
                custom_translation_table=translations(),
            )
    except Exception as error:
        if refused := complex_refused(error, program) or untranslated(error):
            raise refused from error
        raise
    if exported is None:
        raise Refused("torch.onnx.export returned no program", fix="read the log of this step")
    path = job.out / Format.ONNX.spec.payload
    exported.save(str(path), external_data=True)  # weights go to a file beside it without a copy in memory
    facts = finish(job, source.signature)
    embed_weights(path, PROTOBUF_LIMIT_BYTES)
    return facts

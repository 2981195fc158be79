"""Import an .onnx file, and check the one of an artifact."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ....models.artifact import Artifact, write_artifact
from ....models.formats import Format, Target
from ....models.job import Job
from ....models.probes.samples import check_file
from ....models.store import digest_of
from ...calibrated_ranges import calibrated_ranges
from ..file_import import checked_file, provenance_of_file
from ..output_axes import name_output_axes
from ..reader_records import FileFacts
from ..requested_inputs import apply_request
from ..shared_batch import call_once, check_one_batch, onnx_runner
from .onnx_file import OnnxFile, check_external, parse_onnx


def import_onnx(job: Job) -> Mapping[str, Any]:
    """Import an .onnx file: FileOptions -> FileFacts.

    Raises BadRequest if it is no complete model, or its data lies outside its own folder.
    """
    options, path = checked_file(job, Format.ONNX)
    requested = options.inputs
    file = OnnxFile(parse_onnx(path), path)
    file.check_nodes()
    external = check_external(file.model, path)
    for name, digest in options.external.items():
        check_file(path.parent / name, digest)
    file.load_external()
    file.sort()
    file.refuse_plugins()
    declared = file.signature(requested)
    signature = apply_request(declared, requested, file.unnamed)
    file.declare(signature)
    file.check()
    file.write(job.out)
    payload = job.out / Format.ONNX.spec.payload
    open_model = cache(lambda: onnx_runner(payload))
    if not requested:
        check_one_batch(path, signature.inputs, file.unnamed, open_model)
    if file.has_loops():
        call_once(signature.inputs, open_model)
    named = name_output_axes(signature, open_model)
    if named != signature:
        file.declare(named)
        file.write(job.out)
    write_artifact(job.out, Target(Format.ONNX), named, provenance=provenance_of_file(options))
    digests = {name: digest_of(path.parent / name) for name in external}
    calibrated = calibrated_ranges(payload, Format.ONNX)
    return FileFacts(signature=named, external=digests, calibrated=calibrated).to_json()


def check_onnx(artifact: Artifact, *, trust: bool) -> None:  # noqa: ARG001  (no operator of ONNX does more than compute)
    """Check the file of an artifact. Raises BadRequest."""
    model = parse_onnx(artifact.path)
    check_external(model, artifact.path)
    OnnxFile(model, artifact.path).check_nodes()

"""Import a file of torch.export.save, describe it, and check the one of an artifact."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ....models.artifact import Artifact
from ....models.errors import BadRequest
from ....models.exported_program import recorded_signature
from ....models.formats import Format
from ....models.job import Job
from ....models.signature import Signature
from ...to_pytorch.pt2_signature import check_axes, describe_program, write_flat
from ..describe_file import counted, side_texts, signature_or_note
from ..file_import import checked_file, store_file
from ..reader_records import FileDescription
from ..requested_inputs import apply_request
from ..torch_archive import archive_texts, archive_versions, torch_weights
from .pt2_file import check_pt2, load_pt2
from .pt2_upgrade import is_old_layout, upgrade_pt2


def import_pt2(job: Job) -> Mapping[str, Any]:
    """Import a file of torch.export.save, of torch 2.2 or later: FileOptions -> FileFacts.

    Raises BadRequest if it is no complete program, or reading it would run code.
    """
    options, path = checked_file(job, Format.PT2)
    payload = path
    if is_old_layout(path):
        payload = Path("upgraded.pt2")
        upgrade_pt2(path, payload)
    check_pt2(payload, trust=options.trust, source=path)
    program = load_pt2(payload, path)
    declared, call = describe_program(program, path)
    if call is None:
        declared = _with_recorded_names(declared, recorded_signature(payload))
    signature = apply_request(declared, options.inputs)
    check_axes(program, signature, path)
    if call is not None:
        write_flat(program, signature, call, job.out)
    return store_file(job, Format.PT2, signature, payload if call is None else None)


def _with_recorded_names(declared: Signature, recorded: Signature | None) -> Signature:
    """Return the program's signature with the names of its record, if that has the same inputs and outputs."""
    if recorded is None or _comparable_parts(recorded) != _comparable_parts(declared):
        return declared
    inputs, outputs = (
        tuple(replace(spec, name=recorded_spec.name) for spec, recorded_spec in zip(specs, recorded_specs, strict=True))
        for specs, recorded_specs in ((declared.inputs, recorded.inputs), (declared.outputs, recorded.outputs))
    )
    try:
        return apply_request(Signature(inputs, outputs), recorded.inputs)
    except BadRequest:  # the record has other axes
        return declared


def _comparable_parts(signature: Signature) -> list[object]:
    """Return what a record must share with a program; sizes of outputs are not always known."""
    inputs = [
        (spec.dtype, [None if isinstance(axis, str) else axis for axis in spec.shape]) for spec in signature.inputs
    ]
    return [inputs, [(spec.dtype, len(spec.shape)) for spec in signature.outputs]]


def check_payload(artifact: Artifact, *, trust: bool) -> None:
    """Check the file of an artifact. Raises BadRequest."""
    check_pt2(artifact.path, trust=trust)


def describe_pt2(path: Path) -> FileDescription:
    """Describe a file. Raises BadRequest."""
    check_pt2(path)
    program = load_pt2(path)
    signature, note = signature_or_note(lambda: describe_program(program, path)[0])
    constants = (value for value in program.constants.values() if hasattr(value, "dtype"))
    tensors = [*program.state_dict.values(), *constants]
    calls = (str(node.target) for node in program.graph.nodes if node.op == "call_function")
    with zipfile.ZipFile(path) as archive:
        return FileDescription(
            producer="PyTorch",
            versions=tuple(archive_versions(archive)),
            inputs=side_texts(signature, "inputs"),
            outputs=side_texts(signature, "outputs"),
            operators=counted(calls),
            weights=torch_weights(tensors),
            metadata=archive_texts(archive),
            notes=note,
        )

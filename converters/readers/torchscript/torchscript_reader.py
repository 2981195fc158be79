"""Import a file of torch.jit.save, describe it, and check the one of an artifact."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ....models.artifact import Artifact
from ....models.formats import Format
from ....models.job import Job
from ....models.probes.user_samples import draws_user_samples
from ....models.signature import check_inputs
from ...conversion_records import StoredWeights
from ..describe_file import counted, plain_text
from ..file_import import checked_file, store_file
from ..reader_records import FileDescription, FileFacts
from ..torch_archive import archive_texts, archive_versions, torch_weights
from .torchscript_file import check_torchscript, describe_torchscript, load_torchscript, write_flat_torchscript


@draws_user_samples
def import_torchscript(job: Job) -> Mapping[str, Any]:
    """Import a file of torch.jit.save, which does not declare its inputs: FileOptions -> FileFacts.

    Raises BadRequest if it is no complete archive, holds weights without code, or could reach beyond PyTorch's
    operators.
    """
    options, path = checked_file(job, Format.TORCHSCRIPT)
    check_torchscript(path, trust=options.trust)
    check_inputs(options.inputs)
    module = load_torchscript(path, trust=options.trust)
    signature, call, notes = describe_torchscript(module, options.inputs, path)
    if call is not None:
        write_flat_torchscript(module, signature, call, job.out / Format.TORCHSCRIPT.spec.payload)
    facts = store_file(job, Format.TORCHSCRIPT, signature, path if call is None else None)
    return replace(FileFacts.from_json(facts), notes=notes).to_json()


def check_payload(artifact: Artifact, *, trust: bool) -> None:
    """Check the file of an artifact. Raises BadRequest."""
    check_torchscript(artifact.path, trust=trust)


def describe_torchscript_file(path: Path) -> FileDescription:
    """Describe a file. Raises BadRequest."""
    check_torchscript(path)
    module = load_torchscript(path)
    forward: Any = getattr(module, "forward", None)
    arguments = forward.schema.arguments[1:] if forward is not None else ()
    graph: Any = getattr(module, "inlined_graph", None) if forward is not None else None
    tensors = [*module.parameters(), *module.buffers()]
    with zipfile.ZipFile(path) as archive:
        frozen = [entry for entry in archive.infolist() if "/constants/" in entry.filename]
        size = sum(entry.file_size for entry in frozen)
        constants = (StoredWeights(dtype="constants", tensors=len(frozen), bytes=size),) if frozen else ()
        return FileDescription(
            producer="PyTorch",
            versions=tuple(archive_versions(archive)),
            inputs=tuple(plain_text(f"{argument.name}: {argument.type}") for argument in arguments),
            outputs=tuple(
                plain_text(str(value.type)) for value in (forward.schema.returns if forward is not None else ())
            ),
            operators=counted(node.kind() for node in graph.nodes()) if graph is not None else {},
            weights=(*torch_weights(tensors), *constants),
            metadata=archive_texts(archive),
            notes=("TorchScript declares no dtypes and no shapes",),
        )

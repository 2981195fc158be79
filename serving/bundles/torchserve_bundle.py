"""TorchServe: a model archive (.mar) in a model store; config.properties is a template.

The layout of an archive is that of torch-model-archiver 0.12: the files, and MAR-INF/MANIFEST.json.
"""

from __future__ import annotations

import json

from ...models.artifact import RECORD
from .bundle_records import Archive, ArchiveKind, BundleSource, Files
from .standalone_files import RUNTIME, standalone

_ARCHIVER = "0.12.0"  # whose layout this is
_HANDLER = "handler.py"


def write_torchserve(source: BundleSource) -> Files:
    """Return TorchServe's folder `model_store`, with the archive of the model in it."""
    payload = source.artifact.path
    manifest = {
        "runtime": "python",
        "model": {
            "modelName": source.name,
            "serializedFile": payload.name,
            "handler": _HANDLER,
            "modelVersion": f"{source.version}.0",
        },
        "archiverVersion": _ARCHIVER,
    }
    archive = Archive(
        ArchiveKind.ZIP,
        {
            "MAR-INF/MANIFEST.json": json.dumps(manifest, indent=2),
            payload.name: payload,
            RECORD: source.artifact.folder / RECORD,
            _HANDLER: standalone("torchserve_handler"),
            f"{RUNTIME}.py": standalone(RUNTIME),
        },
    )
    return {f"model_store/{source.name}.mar": archive}

"""TorchServe: a model archive (.mar) in a model store, and config.properties.

The layout of an archive is that of torch-model-archiver 0.12: the files, and MAR-INF/MANIFEST.json.
"""

from __future__ import annotations

import json

from ...models.artifact import RECORD
from .bundle_records import Archive, ArchiveKind, BundleSource, Files
from .standalone_files import RUNTIME, standalone

START = "torchserve --start --foreground --ts-config config.properties --model-store model_store"

_ARCHIVER = "0.12.0"  # whose layout this is
_HANDLER = "handler.py"


def write_torchserve(source: BundleSource) -> Files:
    """Return the folder `model_store` with the archive, and config.properties."""
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
    return {f"model_store/{source.name}.mar": archive, "config.properties": _properties(source)}


def _properties(source: BundleSource) -> str:
    """Return the settings of a server on this machine alone, which needs no token for that reason."""
    return (
        "inference_address=http://127.0.0.1:8080\n"
        "management_address=http://127.0.0.1:8081\n"
        "metrics_address=http://127.0.0.1:8082\n"
        "disable_token_authorization=true\n"
        f"load_models={source.name}.mar\n"
    )

"""The model archive has the layout of torch-model-archiver, and the server's settings load it."""

from __future__ import annotations

import json
from collections.abc import Callable

from transload.models.formats import Format
from transload.serving.bundles.bundle_records import Archive, ArchiveKind, BundleSource, System
from transload.serving.bundles.systems import bundle_files


def test_the_archive_holds_payload_handler_and_manifest(make_source: Callable[..., BundleSource]) -> None:
    source = make_source(Format.TORCHSCRIPT, name="digits", version=2)
    files = bundle_files(source, System.TORCHSERVE)
    archive = files["model_store/digits.mar"]
    assert isinstance(archive, Archive)
    assert archive.kind is ArchiveKind.ZIP
    assert list(archive.members) == [
        "MAR-INF/MANIFEST.json", "model.pt", "artifact.json", "handler.py", "artifact_runtime.py",
    ]  # fmt: skip
    assert json.loads(str(archive.members["MAR-INF/MANIFEST.json"])) == {
        "runtime": "python",
        "model": {
            "modelName": "digits", "serializedFile": "model.pt", "handler": "handler.py", "modelVersion": "2.0",
        },
        "archiverVersion": "0.12.0",
    }  # fmt: skip


def test_the_server_listens_on_this_machine_alone(make_source: Callable[..., BundleSource]) -> None:
    settings = dict(
        line.split("=", 1)
        for line in str(
            bundle_files(make_source(Format.TORCHSCRIPT), System.TORCHSERVE)["config.properties"]
        ).splitlines()
    )
    assert settings["load_models"] == "model.mar"
    addresses = [value for key, value in settings.items() if key.endswith("_address")]
    assert len(addresses) == 3
    assert all(address.startswith("http://127.0.0.1:") for address in addresses)

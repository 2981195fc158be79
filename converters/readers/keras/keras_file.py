"""Check of a .keras file from an untrusted source, before Keras reads it.

A .keras file is a zip of a JSON, which names the classes of layers and their arguments, and weights in HDF5. Keras's
own safe mode has been bypassed several times (CVE-2025-1550, 2025-8747, 2025-9905, 2026-1462). So the JSON is checked
here first: only layers, initialisers and other classes of Keras itself are accepted.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from zipfile import ZipFile

from ....models.errors import BadRequest
from ....models.keras_model import load_keras
from ....models.library_messages import first_line
from ...lazy_import import keras
from ..file_content import MAX_RATIO, opened_archive

_SAVE_AGAIN = "copy it again, or save it again with model.save(FILE.keras)"
_EXPORT = "where you trust it, load it yourself, call model.export(FOLDER), and name that folder"
_CONFIG, _METADATA, _WEIGHTS = "config.json", "metadata.json", ("model.weights.h5", "model.weights.npz")
_MODULES = (
    "keras", "keras.layers", "keras.models", "keras.initializers", "keras.regularizers", "keras.constraints",
    "keras.activations", "keras.dtype_policies", "keras.quantizers", "keras.losses", "keras.metrics",
    "keras.optimizers", "keras.src.models", "keras.src.layers", "keras.src.ops", "builtins",
)  # fmt: skip
# Classes of Keras's own that run code or read data beyond the file's numbers.
_REFUSED = {
    "Lambda": "Python code",
    "__lambda__": "Python code",
    "TFSMLayer": "a layer that loads another SavedModel",
    "TorchModuleWrapper": "a pickled PyTorch module",
    "JaxLayer": "code of JAX",
    "FlaxLayer": "code of JAX",
    "__typespec__": "a class of TensorFlow's own",
}
_FILE_ARGUMENTS = ("vocabulary",)  # arguments that Keras takes for a file's name if they are text


def check_keras(path: Path) -> None:
    """Raise BadRequest if a .keras file is broken, holds code, or refers to other files."""
    with path.open("rb") as file:
        if file.read(8) == b"\x89HDF\r\n\x1a\n":
            raise BadRequest(
                f"{path} is a file of Keras 2 (HDF5), which may hold code that is run",
                fix="call it FILE.h5 and name the Python that it was saved by, with --python, or save it as FILE.keras",
            )
    with opened_archive(path, ".keras file", _SAVE_AGAIN) as archive:
        _check_archive(archive, path)


def load_checked_keras(path: Path) -> keras.Model:
    """Load the model in a file that `check_keras` has passed. Raises BadRequest if Keras cannot read it."""
    try:
        return load_keras(path)
    except Exception as error:
        raise BadRequest(
            f"{path} is no model that Keras {keras.__version__} reads: {first_line(error)}",
            fix="name the Python that it was saved by, with --python (docs/environments.md), or save it again with "
            "model.save(FILE.keras), by a version of Keras that is not newer than this one",
        ) from error


def _check_archive(archive: ZipFile, path: Path) -> None:
    names = archive.namelist()
    if any(PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts for name in names):
        raise BadRequest(f"{path} names files outside of itself", fix=_SAVE_AGAIN)
    weights = [name for name in names if name in _WEIGHTS]
    if not {_CONFIG, _METADATA} <= set(names) or len(weights) != 1 or len(set(names)) != len(names):
        raise BadRequest(f"{path} is no .keras file: it lacks its configuration or its weights", fix=_SAVE_AGAIN)
    config, metadata = (json.loads(archive.read(name)) for name in (_CONFIG, _METADATA))
    if not (isinstance(config, dict) and isinstance(metadata, dict)):
        raise BadRequest(f"{path} is no .keras file: its configuration is no object", fix=_SAVE_AGAIN)
    config.pop("compile_config", None)  # the settings of training are not used
    for described in _objects(config):
        _check_object(described, path)
    if weights[0].endswith(".h5"):
        _check_hdf5(archive.read(weights[0]), path)


def _objects(config: object) -> Iterator[dict[str, Any]]:
    """Yield every object that a configuration describes, at any depth."""
    pending = [config]  # an untrusted file could exceed the limit of recursion
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            yield item
            pending += item.values()
        elif isinstance(item, list):
            pending += item


def _check_object(described: dict[str, Any], path: Path) -> None:
    for key in _FILE_ARGUMENTS:
        if isinstance(described.get(key), str):
            raise BadRequest(f"{path} reads the file {described[key]!r} when it is loaded", fix=_EXPORT)
    class_name = described.get("class_name")
    if not isinstance(class_name, str):
        return
    config = described.get("config")
    name = config.get("name") if isinstance(config, dict) else None
    label = f"{class_name} {name!r}" if name else class_name
    if class_name in _REFUSED:
        raise BadRequest(f"{path} holds {_REFUSED[class_name]} ({label}), which is not run", fix=_EXPORT)
    if "module" not in described and "registered_name" not in described:
        return  # a tensor, a slice, a number
    module, registered = described.get("module"), described.get("registered_name")
    known = isinstance(module, str) and any(module == root or module.startswith(f"{root}.") for root in _MODULES)
    if not known or (isinstance(registered, str) and ">" in registered):
        raise BadRequest(f"{path} holds {label} of {module or registered}, whose code is not Keras's own", fix=_EXPORT)


def _check_hdf5(content: bytes, path: Path) -> None:
    """Raise BadRequest if weights lie in other files, or declare more bytes than memory could hold."""
    import h5py

    total = 0
    with h5py.File(io.BytesIO(content), "r") as file:
        pending = [file]
        while pending:
            group = pending.pop()
            for name in group:
                link = group.get(name, getlink=True)
                if not isinstance(link, h5py.HardLink):
                    raise BadRequest(f"{path} keeps the weights {name!r} behind a link", fix=_SAVE_AGAIN)
                item = group[name]
                if isinstance(item, h5py.Group):
                    pending.append(item)
                    continue
                if item.external or item.is_virtual:
                    raise BadRequest(f"{path} keeps the weights {item.name!r} in another file", fix=_SAVE_AGAIN)
                total += item.nbytes
    if total > MAX_RATIO * max(1, len(content)):
        raise BadRequest(f"{path} says that its weights are far larger than it is", fix=_SAVE_AGAIN)

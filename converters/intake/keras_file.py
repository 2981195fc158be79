"""A .keras file that nobody vouches for: held against what loading it would run or read, before Keras sees it.

A .keras file is a zip: a JSON that names the classes of layers and what they are made with, and weights in HDF5.
Keras's own safe mode has been got round several times (CVE-2025-1550, 2025-8747, 2025-9905, 2026-1462), so the JSON is
read here first: layers, initialisers and the like of Keras itself are taken, and nothing else.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from ...models.errors import BadRequest
from ...models.foreign_errors import first_line
from ...models.keras_model import load_keras

_AGAIN = "copy it again, or save it again with model.save(FILE.keras)"
_EXPORT = "where you trust it, load it yourself, call model.export(FOLDER), and name that folder"
_CONFIG, _WEIGHTS = "config.json", ("model.weights.h5", "model.weights.npz")
_MODULES = (
    "keras", "keras.layers", "keras.models", "keras.initializers", "keras.regularizers", "keras.constraints",
    "keras.activations", "keras.dtype_policies", "keras.quantizers", "keras.losses", "keras.metrics",
    "keras.optimizers", "keras.src.models", "keras.src.layers", "keras.src.ops", "builtins",
)  # fmt: skip
# Classes of Keras's own that run or read something that is not the file's numbers.
_REFUSED = {
    "Lambda": "Python code",
    "__lambda__": "Python code",
    "TFSMLayer": "a layer that loads another SavedModel",
    "TorchModuleWrapper": "a pickled PyTorch module",
    "JaxLayer": "code of JAX",
    "FlaxLayer": "code of JAX",
    "__typespec__": "a class of TensorFlow's own",
}
_READS_FILES = ("vocabulary",)  # arguments that are taken for a file's name where they are text
# What zipfile, json and h5py raise over bytes that are not what they should be.
_BROKEN = (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError, ValueError, LookupError, TypeError)
_MOST_TIMES = 100  # what an archive may unpack to, times its own size: Keras itself does not compress


def check_keras(path: Path) -> None:
    """Hold a .keras file against what is not taken.

    Raises BadRequest where it is no whole one, holds code, or leads out of itself.
    """
    with path.open("rb") as file:
        if file.read(8) == b"\x89HDF\r\n\x1a\n":
            raise BadRequest(
                f"{path} is a file of Keras 2 (HDF5), which may hold code that is run", fix="save it as FILE.keras"
            )
    try:
        with zipfile.ZipFile(path) as archive:
            _check_archive(archive, path)
    except _BROKEN as error:
        raise BadRequest(f"{path} is not a whole .keras file: {first_line(error)}", fix=_AGAIN) from error


def load_given_keras(path: Path) -> Any:
    """The model in a file that `check_keras` has passed.

    Raises BadRequest where Keras cannot read it.
    """
    import keras

    try:
        return load_keras(path)
    except Exception as error:
        raise BadRequest(
            f"{path} is no model that Keras {keras.__version__} reads: {first_line(error)}",
            fix="save it again with model.save(FILE.keras), by a version of Keras that is not newer than this one",
        ) from error


def _check_archive(archive: zipfile.ZipFile, path: Path) -> None:
    entries = archive.infolist()
    if sum(entry.file_size for entry in entries) > _MOST_TIMES * max(1, path.stat().st_size):
        raise BadRequest(f"{path} unpacks to far more than its own size", fix=_AGAIN)
    names = [entry.filename for entry in entries]
    if any(PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts for name in names):
        raise BadRequest(f"{path} names files outside of itself", fix=_AGAIN)
    weights = [name for name in names if name in _WEIGHTS]
    if _CONFIG not in names or len(weights) != 1 or len(set(names)) != len(names):
        raise BadRequest(f"{path} is no .keras file: it lacks its configuration or its weights", fix=_AGAIN)
    config = json.loads(archive.read(_CONFIG))
    if not isinstance(config, dict):
        raise BadRequest(f"{path} is no .keras file: its configuration is no object", fix=_AGAIN)
    config.pop("compile_config", None)  # how it was trained is not read
    for each in _objects(config):
        _check_object(each, path)
    if weights[0].endswith(".h5"):
        _check_hdf5(archive.read(weights[0]), path)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object that a configuration describes, however deep."""
    todo = [value]  # not by recursion: the depth is the file's
    while todo:
        found = todo.pop()
        if isinstance(found, dict):
            yield found
            todo += found.values()
        elif isinstance(found, list):
            todo += found


def _check_object(found: dict[str, Any], path: Path) -> None:
    for key in _READS_FILES:
        if isinstance(found.get(key), str):
            raise BadRequest(f"{path} reads the file {found[key]!r} when it is loaded", fix=_EXPORT)
    kind = found.get("class_name")
    if not isinstance(kind, str):
        return
    config = found.get("config")
    name = config.get("name") if isinstance(config, dict) else None
    where = f"{kind} {name!r}" if name else kind
    if kind in _REFUSED:
        raise BadRequest(f"{path} holds {_REFUSED[kind]} ({where}), which is not run", fix=_EXPORT)
    if "module" not in found and "registered_name" not in found:
        return  # a tensor, a slice, a number
    module, registered = found.get("module"), found.get("registered_name")
    known = isinstance(module, str) and any(module == each or module.startswith(f"{each}.") for each in _MODULES)
    if not known or (isinstance(registered, str) and ">" in registered):
        raise BadRequest(f"{path} holds {where} of {module or registered}, whose code is not Keras's own", fix=_EXPORT)


def _check_hdf5(content: bytes, path: Path) -> None:
    """Weights may lie in other files, or be said to be larger than memory."""
    import h5py

    total = 0
    with h5py.File(io.BytesIO(content), "r") as file:
        todo = [file]
        while todo:
            group = todo.pop()
            for name in group:
                link = group.get(name, getlink=True)
                if not isinstance(link, h5py.HardLink):
                    raise BadRequest(f"{path} keeps the weights {name!r} behind a link", fix=_AGAIN)
                found = group[name]
                if isinstance(found, h5py.Group):
                    todo.append(found)
                    continue
                if found.external or found.is_virtual:
                    raise BadRequest(f"{path} keeps the weights {found.name!r} in another file", fix=_AGAIN)
                total += found.nbytes
    if total > _MOST_TIMES * max(1, len(content)):
        raise BadRequest(f"{path} says that its weights are far larger than it is", fix=_AGAIN)

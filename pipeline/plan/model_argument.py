"""The MODEL argument of a command: the forms that it may have, and which of them a text names.

    net.py   net.py:Net   package.module:make   zoo:digits-cnn   torchvision:resnet18   timm:resnet10t   hf:FOLDER
    model.onnx   model.pt2   model.pt   model.keras   model.tflite   a SavedModel's folder   out/onnx

The form of the text and the names of files decide. Only a worker looks into the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Protocol

from ...models.artifact import RECORD, read_artifact
from ...models.errors import BadRequest
from ...models.formats import Format, Target, formats
from ...models.loading.checkpoints.file_head import check_head
from ...models.signature import TensorSpec
from ...models.sources import LIBRARIES
from ...models.store import Stored
from ...models.user_python.inside.tensorflow_model import KERAS_FILES
from ...models.user_python.interpreter import UserPython
from ...serving.clients.model_url import is_model_url

ACCEPTED = (
    "FILE.py[:NAME], package.module:NAME, zoo:NAME, torchvision:NAME, timm:NAME, hf:FOLDER, FILE.onnx, FILE.pt2, "
    "FILE.pt (TorchScript), FILE.keras, FILE.tflite, a SavedModel's folder, or the folder of an artifact"
)
_ACCEPTED_FIX = f"name {ACCEPTED} (docs/convert.md)"
_NO_CODE = "name the model's code, and this file with --weights"
_NO_FOLDER = "name the folder of a SavedModel, with its variables"
_HDF5 = (
    "a file of HDF5, which Keras 2 kept models in, with code that is run",
    "where you trust it, name the Python that it was saved by, with --python, or load it with Keras there and save it "
    "with model.save(FILE.keras)",
)
# Suffixes that are refused by name: what such a file is, and the fix.
_REFUSED = {
    ".ckpt": ("a checkpoint", _NO_CODE), ".safetensors": ("weights without their model", _NO_CODE),
    ".pb": ("a TensorFlow graph", _NO_FOLDER), ".pbtxt": ("a TensorFlow graph", _NO_FOLDER),
    ".h5": _HDF5, ".hdf5": _HDF5, ".toml": ("a pipeline file, which 'transload run' takes", _ACCEPTED_FIX),
}  # fmt: skip
_SHOWN = 200  # characters of an argument that a sentence repeats


class ModelKind(Enum):
    """A model that is neither a file nor a folder of another program."""

    CODE = "code"
    ARTIFACT = "artifact"


class SourceCheck(Protocol):
    """What the record of an artifact says of its model's digests. Both raise BadRequest where one has changed."""

    @property
    def root(self) -> str:
        """The folder that the model's code imports from."""

    @property
    def document(self) -> dict[str, str]:
        """The model, the artifact that names it, and its digests."""

    def check(self, code: str) -> None:
        """Check the digest of the code, or of the file."""

    def check_weights(self, source: Stored) -> None:
        """Check the weights of the loaded model."""


@dataclass(frozen=True)
class ModelRequest:
    """A MODEL argument, with the inputs and the data named beside it. Its weights stand in the RunRequest."""

    text: str
    inputs: tuple[TensorSpec, ...] = ()
    data: str | None = None  # what --data names
    copy_inputs: tuple[TensorSpec, ...] = ()  # of a copy of it, for code that nothing else says the inputs of
    python: UserPython | None = None  # the interpreter that its code lives in, where that is not ours
    recorded: SourceCheck | None = None  # by which the model was found

    @property
    def recorded_source(self) -> dict[str, str] | None:
        """What an artifact's record says of it; None where the user named it."""
        return None if self.recorded is None else self.recorded.document


def kind_of(text: str) -> ModelKind | Format:
    """Return which kind of model a MODEL argument names, by its form and by the files at its path.
    For a file, or a folder that transload did not write, that is its format.
    Raises BadRequest where there is no such file, or none of a known kind, and for the URL of a served model."""
    path = Path(text)
    _check_findable(path)
    if is_model_url(text):
        raise BadRequest(
            f"{text} is served elsewhere, and only validate and bench take it, as a candidate",
            fix="name the model itself, or an artifact of it",
        )
    if text.partition(":")[0] in ("zoo", *LIBRARIES) and ":" in text:
        return ModelKind.CODE
    if path.is_dir() and (path / RECORD).is_file():
        return ModelKind.ARTIFACT
    if path.is_dir():
        return _format_of_folder(path)
    suffix = path.suffix.lower()
    form = next((form for form in formats() if suffix in form.spec.suffixes), None)
    in_file = any(f"{ending}:" in text for ending in (".py", *KERAS_FILES))
    of_code = ".py" in path.suffixes or in_file or _is_module(text)
    if of_code and form is None and suffix not in _REFUSED:
        return ModelKind.CODE
    if not path.exists():
        raise BadRequest(f"no such file: {text}", fix="check the path; it starts at the folder you run transload in")
    _check_content(path)
    if form is None:
        content, fix = _REFUSED.get(suffix, ("no model of a kind that is known", _ACCEPTED_FIX))
        raise BadRequest(f"{text} is {content}, and is not taken as a model", fix=fix)
    return form


def _format_of_folder(path: Path) -> Format:
    """Return the format of a folder by what it holds. Raises BadRequest."""
    for form in formats():
        if any((path / name).is_file() for name in form.spec.marks):
            return form
    raise _folder_error(path)


def _check_findable(path: Path) -> None:
    """Raise BadRequest where the file system cannot look for a path: its name is too long, or a folder is closed."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        pass  # it is code, or nothing
    except OSError as error:
        message = f"{str(path)[:_SHOWN]} cannot be looked for: {error.strerror}"
        raise BadRequest(message, fix=_ACCEPTED_FIX) from error


def _check_content(path: Path) -> None:
    """Raise BadRequest where a file is plainly no model, whatever its name says. One that cannot be read is left to
    its reader."""
    with suppress(OSError):
        if path.is_file():  # reading a pipe waits for its writer
            check_head(path)


def _is_module(text: str) -> bool:
    """Return whether the text has the form `package.module` or `package.module:NAME`, and names no file."""
    place, _, name = text.partition(":")
    parts = [*place.split("."), *(name.split(".") if name else [])]
    return all(part.isidentifier() for part in parts) and not Path(text).exists()


def _folder_error(path: Path) -> BadRequest:
    if (path / "config.json").is_file():
        return BadRequest(f"{path} is no artifact; it looks like a model of transformers", fix=f"name it hf:{path}")
    inside = sorted(str(record.parent) for record in (*path.glob(f"*/{RECORD}"), *path.glob(f"artifacts/*/{RECORD}")))
    fix = f"name one of {', '.join(inside)}" if inside else _ACCEPTED_FIX
    return BadRequest(f"{path} holds no model: there is neither {RECORD} nor saved_model.pb in it", fix=fix)


def start_of(text: str) -> Target | None:
    """Return the format that the routes of a model begin at, or None for a source. Reads an artifact's record only."""
    kind = kind_of(text)
    if kind is ModelKind.ARTIFACT:
        return read_artifact(Path(text)).target
    return None if kind is ModelKind.CODE else Target(kind)


def in_keras_file(text: str) -> str | None:
    """Return the text for the model in a file of Keras that another interpreter loads (CodeRef); None for other texts.
    Raises BadRequest where there is no such file."""
    if not text.endswith(KERAS_FILES):
        return None
    if not Path(text).is_file():
        raise BadRequest(f"no such file: {text}", fix="check the path; it starts at the folder you run transload in")
    return f"{text}:model"


def candidate_request(text: str, inputs: Sequence[TensorSpec]) -> ModelRequest:
    """Return the request for a candidate. Only a file that does not say its own needs `inputs`."""
    return ModelRequest(text, tuple(inputs) if _lacks_inputs(text) else ())


def reference_request(candidate: str, against: ModelRequest, copy_inputs: tuple[TensorSpec, ...]) -> ModelRequest:
    """Return the request for the reference model of a candidate that has the inputs `copy_inputs`.
    Inputs that were meant for the candidate are dropped. Code that says nothing of its inputs has those of its copy."""
    for_candidate = (
        not is_model_url(candidate) and _lacks_inputs(candidate) and kind_of(against.text) is ModelKind.ARTIFACT
    )
    return replace(against, inputs=() if for_candidate else against.inputs, copy_inputs=copy_inputs)


def _lacks_inputs(text: str) -> bool:
    """Return whether a MODEL argument is a file that does not say what inputs it takes."""
    kind = kind_of(text)
    return isinstance(kind, Format) and not kind.spec.declares_inputs

"""A model that is still Python: where its code lies, and the weights beside it.

The folder of a source holds `source.json` and, where the model has weights of its own, `weights.safetensors`.
Building the module needs torch and runs the user's code: models/loading/build.py does it, in a worker.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from .errors import BadRequest
from .signature import Signature
from .untrusted_files import read_json
from .user_python.inside.tensorflow_model import KERAS_FILES
from .user_python.interpreter import UserPython

RECORD = "source.json"
WEIGHTS = "weights.safetensors"
DEFAULT_NAME = "RECIPE"
LIBRARIES: Mapping[str, tuple[str, ...]] = {  # the modules that a model of theirs needs
    "torchvision": ("torchvision",),
    "timm": ("timm", "torchvision"),
    "hf": ("transformers",),
}


@dataclass(frozen=True, slots=True)
class RecordedSettings:
    """Arguments that a checkpoint records for the factory of its model (loading/checkpoints/hyper_parameters.py)."""

    file: str = ""  # its name
    values: Mapping[str, Any] = field(default_factory=dict, hash=False)  # JSON
    open_names: tuple[str, ...] = ()  # those that **kwargs takes, too

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> RecordedSettings:
        """Read what `asdict` gives."""
        return cls(record.get("file", ""), record.get("values", {}), tuple(record.get("open_names", ())))


@dataclass(frozen=True, slots=True)
class CodeRef:
    """A reference to a Python object.
    `path/to/file.py[:NAME]`, `package.module[:NAME]`, `zoo:digits-cnn`, or a model of a library: `torchvision:NAME`,
    `timm:NAME`, `hf:FOLDER`. NAME is RECIPE where it is left out. `root` is the folder that goes last on sys.path in
    the worker, so that the user's own imports work, and that a relative path starts at. `settings` are arguments of the
    factory that makes the model, JSON values by name (models/loading/factory_arguments.py); those that are not set are
    `recorded` ones, of its checkpoint. `python`: the interpreter that the model lives in, where that is not ours.
    The model in a file of Keras is `old.keras:model` there."""

    text: str
    root: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    recorded: RecordedSettings = field(default_factory=RecordedSettings, hash=False)
    python: UserPython | None = None

    @property
    def library(self) -> str | None:
        """The library of the model, torchvision, timm or hf; None for other models."""
        kind, colon, _ = self.text.partition(":")
        return kind if colon and kind in LIBRARIES else None

    @property
    def reads(self) -> tuple[str, ...]:
        """Where the object comes from: the folders `root`, that of the file or its package, that of an `hf:FOLDER`; and
        the file itself, which a node of a cluster may lack where it has the folder."""
        if self.library == "hf":
            return (self.text.partition(":")[2],)
        folders = [Path(self.root)] if self.root else []
        if self.file:
            folder = self.file.parent
            while (folder / "__init__.py").is_file():
                folder = folder.parent
            folders += [folder, self.file]
        return (*map(str, folders), *(self.python.folders if self.python else ()))

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that a worker may start for it: another interpreter."""
        return self.python.programs if self.python else ()

    @property
    def recipe(self) -> str | None:
        """The name of a recipe in the zoo, or None."""
        return self.text.removeprefix("zoo:") if self.text.startswith("zoo:") else None

    @property
    def place(self) -> str:
        """The file or the module, without the name of the object."""
        return self._split[0]

    @property
    def name(self) -> str:
        """The object in it; RECIPE where none is named, empty for a library."""
        return self._split[1] or ("" if self.library else DEFAULT_NAME)

    @property
    def file(self) -> Path | None:
        """The file of code or of Keras, absolute; None where a module is named. A relative path starts at `root`."""
        is_file = self.place.endswith((".py", *KERAS_FILES))
        return (Path(self.root or "") / self.place).absolute() if is_file else None

    @property
    def is_keras_file(self) -> bool:
        """Whether it is the model in a file of Keras, which another interpreter loads."""
        return self.place.endswith(KERAS_FILES)

    @property
    def _split(self) -> tuple[str, str]:
        if self.library:
            return self.library, self.text.partition(":")[2]
        if self.text.endswith(".py"):
            return self.text, ""
        place, colon, name = self.text.rpartition(":")
        return (place, name) if colon else (self.text, "")


def code_ref(
    text: str, root: str | None, settings: Mapping[str, Any] | None = None, python: UserPython | None = None
) -> CodeRef:
    """Make the reference for a word of a user in the folder `root`; where no code of theirs runs there is no root.
    `python`: the interpreter that their code lives in, where that is not ours."""
    library = CodeRef(text).library
    if library == "hf":
        folder = (Path(root or "") / text.partition(":")[2]).absolute()
        return CodeRef(f"hf:{folder}", None, settings or {})
    if library or text.startswith("zoo:"):
        return CodeRef(text, None, settings or {})
    place, colon, name = text.partition(":")
    if root is not None and _is_hidden(place, Path(root).absolute()):
        text = f"{place}.py{colon}{name}"
    return CodeRef(text, root, settings or {}, python=python)


def _is_hidden(module: str, root: Path) -> bool:
    """Return whether a word for a user's file in `root` (`types` for types.py) also names an importable module.
    That module, Python's own or an installed one, would be imported in its place."""
    if not module.isidentifier() or not (root / f"{module}.py").is_file():
        return False
    search_path = [path for path in sys.path if path and Path(path).absolute() != root]  # python -m puts root there
    return module in sys.stdlib_module_names or PathFinder.find_spec(module, search_path) is not None


def public_name(ref: CodeRef) -> str:
    """Return the text of a model that is code, without the folders of an absolute path."""
    text = ref.text
    if ref.library == "hf":
        return f"hf:{Path(text.partition(':')[2]).name}"
    place, colon, name = text.partition(":")
    return f"{Path(place).name}{colon}{name}" if Path(place).is_absolute() else text


@dataclass(frozen=True, slots=True)
class Source:
    """The record in `source.json`.
    `code` is the digest of the code that builds the model: other code, other source. `call` says how forward is called
    (call_convention.py: Call, as JSON); None: with the inputs by position."""

    ref: CodeRef
    signature: Signature
    code: str
    call: Mapping[str, Any] | None = None


def write_source(folder: Path, source: Source) -> None:
    """Record a source in `folder`; its weights lie there already."""
    called = {"call": dict(source.call)} if source.call is not None else {}
    python = source.ref.python
    ref = {**asdict(source.ref), "python": python.to_json() if python else None}
    if not source.ref.recorded.values:
        del ref["recorded"]
    record = {"ref": ref, "signature": source.signature.to_json(), "code": source.code, **called}
    (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n")


def is_source(folder: Path) -> bool:
    """Return whether `folder` holds a source, and not an artifact."""
    return (folder / RECORD).is_file()


def read_source(folder: Path) -> Source:
    """Read the source that `write_source` has recorded in `folder`. Raises BadRequest where there is none."""
    try:
        record = read_json(folder / RECORD)
        recorded = RecordedSettings.from_json(record["ref"].pop("recorded", {}))
        python = record["ref"].pop("python", None)
        interpreter = UserPython.from_json(python) if python else None
        ref = CodeRef(**record["ref"], recorded=recorded, python=interpreter)
        signature = Signature.from_json(record["signature"])
        return Source(ref, signature, record["code"], record.get("call"))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadRequest(f"{folder} holds no source: {error}", fix="name a model: zoo:NAME or FILE.py:NAME") from error

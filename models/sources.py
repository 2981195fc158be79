"""A model that is still Python: where its code lies, and the weights beside it.

The folder of a source holds `source.json` and, where the model has weights of its own, `weights.safetensors`.
Building the module needs torch and runs the user's code: models/zoo/build.py does it, in a worker.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from .errors import BadRequest
from .signature import Signature

RECORD = "source.json"
WEIGHTS = "weights.safetensors"
DEFAULT_NAME = "RECIPE"


@dataclass(frozen=True, slots=True)
class CodeRef:
    """Where a Python object lies: `path/to/file.py[:NAME]`, `package.module[:NAME]`, or `zoo:digits-cnn`.

    `root` is the folder that goes last on sys.path in the worker, so that the user's own imports work,
    and that a relative path starts at. NAME is RECIPE where it is left out.
    """

    text: str
    root: str | None = None

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
        """The object in it; RECIPE where none is named."""
        return self._split[1] or DEFAULT_NAME

    @property
    def file(self) -> Path | None:
        """The Python file, absolute, or None where a module is named. A relative path starts at `root`."""
        return (Path(self.root or "") / self.place).absolute() if self.place.endswith(".py") else None

    @property
    def _split(self) -> tuple[str, str]:
        if self.text.endswith(".py"):
            return self.text, ""
        place, colon, name = self.text.rpartition(":")
        return (place, name) if colon else (self.text, "")


@dataclass(frozen=True, slots=True)
class Source:
    """What `source.json` records. `code` is the digest of the code that builds the model: other code, other source."""

    ref: CodeRef
    signature: Signature
    code: str


def write_source(folder: Path, source: Source) -> None:
    """Record a source in `folder`; its weights lie there already."""
    record = {"ref": asdict(source.ref), "signature": source.signature.to_json(), "code": source.code}
    (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n")


def is_source(folder: Path) -> bool:
    """Whether `folder` holds a source, and not an artifact."""
    return (folder / RECORD).is_file()


def read_source(folder: Path) -> Source:
    """The source that `write_source` has recorded in `folder`.

    Raises BadRequest where there is none.
    """
    try:
        record = json.loads((folder / RECORD).read_text())
        return Source(CodeRef(**record["ref"]), Signature.from_json(record["signature"]), record["code"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadRequest(f"{folder} holds no source: {error}", fix="name a model: zoo:NAME or FILE.py:NAME") from error

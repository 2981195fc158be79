"""What an artifact was made from, in a file beside it: `validate`, `locate` and `bench` find the model by it again.

Paths in the file start at the artifact's own folder, so that it holds from any working folder, and after the whole
project has been moved. It belongs to a machine, as tuning.json does, and has no digest in the artifact's list.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...models.artifact import BESIDE, MADE_FROM
from ...models.artifact import RECORD as ARTIFACT_RECORD
from ...models.atomic_files import write_whole
from ...models.errors import BadRequest
from ...models.job import JsonRecord
from ...models.signature import TensorSpec, parse_input
from ...models.sources import WEIGHTS
from ...models.store import Stored, digest_of
from ...models.untrusted_files import read_json
from ...models.user_python.inside.tensorflow_model import KERAS_FILES
from ..options.request import RunRequest
from .model_argument import ModelRequest
from .run_inputs import ModelWithData

_NO_PATH = ("zoo", "torchvision", "timm")
_SHOWN = 12  # digits of a digest in a sentence
_NAME_IT = "name the model with --against"


@dataclass(frozen=True, kw_only=True)
class SourceRecord(JsonRecord):
    """The model, its weights, inputs and data as the user named them; relative paths start at the artifact's folder."""

    root: str  # the folder that the model's code imports from
    model: Mapping[str, Any]  # [model] of a pipeline file
    train: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    data: str = ""
    sha256: str  # of the code, or of the file
    weights: str = ""  # the digest of the weights that were loaded or trained; empty for a file


@dataclass(frozen=True)
class RecordedSource:
    """The model that artifacts were made from, as it is found from here."""

    artifact: str
    record: SourceRecord
    folder: Path
    root: str

    @property
    def text(self) -> str:
        """The MODEL argument. Raises BadRequest where it has been moved."""
        return self._path_from_here(str(self.record.model["recipe"]), "the model")

    @property
    def document(self) -> dict[str, str]:
        """What `--json` says of it: `recorded_source`."""
        digests = {"sha256": self.record.sha256, "weights_sha256": self.record.weights}
        return {"model": self.text, "artifact": self.artifact} | {key: value for key, value in digests.items() if value}

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs that were named."""
        return tuple(map(parse_input, self.record.inputs))

    @property
    def data(self) -> str | None:
        """The samples that were named. Raises BadRequest where they have been moved."""
        return self._path_from_here(self.record.data, "the data", "name them with --data") if self.record.data else None

    def section(self, overrides: Mapping[str, Any]) -> dict[str, Any]:
        """Return the section [model]: what is recorded, under what the user named now."""
        section = {**self.record.model, "recipe": self.text}
        if self.record.model.get("weights") and overrides.get("weights") is None:
            weights = self._path_from_here(str(section["weights"]), "the weights", "name them with --weights")
            section["weights"] = str(Path(weights).absolute())
        return section | {name: value for name, value in overrides.items() if value not in (None, {})}

    def check(self, code: str) -> None:
        """Raise BadRequest where the model's code or file has changed."""
        if code != self.record.sha256:
            raise self._changed("its code" if self.record.weights else "it", self.record.sha256, code)

    def check_weights(self, source: Stored) -> None:
        """Raise BadRequest where the weights of a loaded source are others than those the artifact was made from."""
        weights = source.folder / WEIGHTS
        digest = digest_of(weights) if self.record.weights and weights.is_file() else self.record.weights
        if digest != self.record.weights:
            raise self._changed("its weights", self.record.weights, digest)

    def _changed(self, part: str, recorded: str, digest: str) -> BadRequest:
        return BadRequest(
            f"{self.artifact} was made from {self.text}, and {part} changed since: the record has {recorded[:_SHOWN]}, "
            f"and {digest[:_SHOWN]} is there",
            fix=f"convert it again; or {_NAME_IT}, to compare with that one",
        )

    def _path_from_here(self, text: str, role: str, fix: str = _NAME_IT) -> str:
        """Return a recorded text with its path from here."""
        prefix, place = ("hf:", text[3:]) if text.startswith("hf:") else ("", text)
        if not place.startswith(".."):
            return text
        head = re.split(r"[:?]", place)[0]
        path = Path(os.path.normpath(self.folder.absolute() / head))
        if not path.exists():
            raise BadRequest(f"{self.artifact} says {role} lay at {path}, and nothing is there", fix=fix)
        here = Path.cwd()
        return f"{prefix}{path.relative_to(here) if path.is_relative_to(here) else path}{place[len(head) :]}"


def write_recorded_source(
    folder: Path, place: Path, request: RunRequest, model: ModelRequest | None, inputs: ModelWithData
) -> None:
    """Write the record into `folder`, an artifact's that will lie at `place`. `model` is None for a run's recipe."""
    root = Path(request.root or ".").absolute()
    section = request.model.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"trust", "version"})
    section = {name: value for name, value in section.items() if value not in (None, {})}
    section["recipe"] = _from(place, request.model.recipe, root)
    if request.model.weights:
        section["weights"] = os.path.relpath(root / request.model.weights, place.absolute())
    if request.model.python and os.sep in request.model.python:
        section["python"] = str(root / request.model.python)
    data = (model.data if model else None) or request.data
    weights, file = inputs.source.folder / WEIGHTS, root / request.model.recipe
    record = SourceRecord(
        root=os.path.relpath(root, place.absolute()),
        model=section,
        train=request.train.model_dump(mode="json", exclude_unset=True),
        inputs=tuple(map(str, model.inputs)) if model else (),
        data=_from(place, data, root) if data else "",
        sha256=inputs.model.code or digest_of(file, without=BESIDE),
        weights=digest_of(weights) if weights.is_file() else "",
    )
    write_whole(folder / MADE_FROM, json.dumps(record.to_json(), indent=1) + "\n")


def _from(place: Path, text: str, root: Path) -> str:
    """Return a text with its path from the folder `place`; the name of a module or of a library's model as it is."""
    prefix, named = ("hf:", text[3:]) if text.startswith("hf:") else ("", text)
    head = re.split(r"[:?]", named)[0]
    is_file = head.endswith((".py", *KERAS_FILES)) or (root / named.partition("?")[0]).exists()
    if not prefix and (not is_file or named.partition(":")[0] in _NO_PATH):
        return text
    return f"{prefix}{os.path.relpath(root / head, place.absolute())}{named[len(head) :]}"


def find_source(candidates: Iterable[str]) -> RecordedSource | None:
    """Return what the candidates were made from, None where no record says it.
    Raises BadRequest where a record is broken, or two of them name different models."""
    sources = [source for text in candidates if (source := _read(text))]
    for other in sources[1:]:
        if _same(other) != _same(sources[0]):
            raise BadRequest(
                f"{sources[0].artifact} was made from {sources[0].text}, and {other.artifact} from another model or "
                f"other weights, {other.text}",
                fix="name artifacts of one model, or the model that all are compared with, by --against",
            )
    return sources[0] if sources else None


def require_source(candidates: Sequence[str]) -> RecordedSource:
    """Return what the candidates were made from. Raises BadRequest where no record says it."""
    source = find_source(candidates)
    if source is None:
        raise BadRequest(
            f"nothing says what {', '.join(candidates)} was made from: no record of transload's lies beside it",
            fix="name that model with --against",
        )
    return source


def _read(text: str) -> RecordedSource | None:
    folder = Path(text)
    if not (folder / ARTIFACT_RECORD).is_file() or not (folder / MADE_FROM).is_file():
        return None
    try:
        record = SourceRecord.from_json(read_json(folder / MADE_FROM))
        texts = [
            record.root,
            record.sha256,
            record.model["recipe"],
            record.data,
            record.weights,
            record.model.get("weights", ""),
        ]
        if not all(isinstance(value, str) and value.isprintable() for value in texts):
            raise ValueError("a path in it is no text")
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadRequest(f"{folder / MADE_FROM} cannot be read: {error}", fix=_NAME_IT) from error
    root = os.path.normpath(folder.absolute() / record.root)
    return RecordedSource(text, record, folder, root)


def _same(source: RecordedSource) -> tuple[str, ...]:
    return source.text, source.record.sha256, source.record.weights

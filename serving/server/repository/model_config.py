"""Which models a server holds, and which versions of each: TF Serving's model_config_list, as records."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....models.artifact import RECORD
from ....models.errors import BadRequest
from ....models.formats import formats
from ....models.untrusted_files import read_plain
from ...wire.tfserving_messages import Message, stock

_FIRST = 1  # the version of an artifact that stands in no folder of versions
_FIX = "write it as TF Serving's documentation of model_config_list says"
_LAYOUT = "name the folder of an artifact, or one with a folder per version (1, 2, ...)"
_MOST_DIGITS = 18  # of a version, which is an int64
_NAME = re.compile(r"[\w.-]+")
_MOST_NAME_BYTES = 128
SAVED_MODEL = "saved_model.pb"
_MODEL_SUFFIXES = {suffix for form in formats() for suffix in form.spec.suffixes}


def is_model_name(name: str) -> bool:
    """Return whether a model may be called so: the name stands in URLs and in the names of files."""
    return _NAME.fullmatch(name) is not None and len(name.encode()) <= _MOST_NAME_BYTES


@dataclass(frozen=True, slots=True)
class VersionPolicy:
    """Which of the versions in a model's folder are served: the `latest` N, all, or those that are named."""

    latest: int = 1
    is_all: bool = False
    specific: tuple[int, ...] = ()

    def choose(self, numbers: Collection[int]) -> set[int]:
        """Return the versions to serve, of those that are there."""
        if self.specific:
            return {*self.specific} & {*numbers}
        ordered = sorted(numbers, reverse=True)
        return set(ordered if self.is_all else ordered[: self.latest])


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One model: its name, the folder that holds its versions (or is an artifact itself), and what to serve of it."""

    name: str
    base_path: Path
    policy: VersionPolicy = VersionPolicy()
    labels: Mapping[str, int] = field(default_factory=dict)

    def versions(self, loaded: Collection[int] = (), still_s: float = 0.0) -> dict[int, Path]:
        """Return the models of the versions to serve, of those that are loaded and those that stand still."""
        models = versions_in(self.base_path)
        while True:  # each time without those that are still being written: mostly once
            chosen = {number: models[number] for number in self.policy.choose(models)}
            moving = {number for number in {*chosen} - {*loaded} if not is_still(chosen[number], still_s)}
            if not moving:
                return chosen
            models = {number: model for number, model in models.items() if number not in moving}

    def check_versions(self) -> None:
        """Raises BadRequest where the folder lacks a version that is to be served."""
        folders = versions_in(self.base_path)
        if missing := sorted({*self.policy.specific} - {*folders}):
            raise BadRequest(f"{self.base_path} has no version {missing[0]} of the model {self.name}", fix=_LAYOUT)
        if not folders:
            raise BadRequest(f"{self.base_path} holds no model", fix=_LAYOUT)


def versions_in(base_path: Path) -> dict[int, Path]:
    """Return the models of all versions: folders with a number as their name; the path itself as version 1, where it is
    an artifact, a SavedModel or a file. The only model file of a version's folder stands for it, as Triton's
    1/model.onnx."""
    if base_path.is_file() or _holds_model(base_path):
        return {_FIRST: base_path}
    try:
        names = [entry.name for entry in base_path.iterdir() if is_version(entry.name)]
    except OSError:
        return {}
    models = {int(name): _model_in(base_path / name) for name in names}
    return {number: model for number, model in models.items() if model is not None}


def is_still(model: Path, seconds: float) -> bool:
    """Whether nothing of a model was written for so long: one that is being copied could be opened half."""
    if not seconds:
        return True
    try:
        changes = [path.stat().st_ctime for path in (model, *model.rglob("*"))]  # a copy may set st_mtime back
    except OSError:
        return False
    return max(changes) + seconds <= time.time()


def is_version(text: str) -> bool:
    """Whether a text is the number of a version."""
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS


def _model_in(folder: Path) -> Path | None:
    """Return the model of a version: the folder itself, or its only model file."""
    if _holds_model(folder):
        return folder
    files = [entry for entry in folder.iterdir() if entry.suffix in _MODEL_SUFFIXES] if folder.is_dir() else []
    return files[0] if len(files) == 1 else None


def _holds_model(folder: Path) -> bool:
    return (folder / RECORD).is_file() or (folder / SAVED_MODEL).is_file()


def read_config_file(path: Path) -> list[ModelConfig]:
    """Read a file of --model-config-file: a ModelServerConfig as protobuf text.
    Raises BadRequest where it cannot be read, or names a model without a folder."""
    from google.protobuf import text_format

    try:
        message = text_format.Parse(read_plain(path).decode(), stock().ModelServerConfig())
    except (OSError, UnicodeDecodeError, text_format.ParseError) as error:
        raise BadRequest(f"{path} is no model_config_list: {error}", fix=_FIX) from error
    return configs_of(message, path.absolute().parent)


def configs_of(message: Message, folder: Path) -> list[ModelConfig]:
    """Return the models of a ModelServerConfig; paths are relative to `folder`. Raises BadRequest."""
    if message.WhichOneof("config") != "model_config_list":
        raise BadRequest("a ModelServerConfig without model_config_list", fix=_FIX)
    configs = [_config_of(record, folder) for record in message.model_config_list.config]
    names = [config.name for config in configs]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise BadRequest(f"model_config_list names {', '.join(repeated)} twice", fix="give each model one config")
    return configs


def _config_of(record: Message, folder: Path) -> ModelConfig:
    if not record.name or not record.base_path or "\0" in record.base_path:
        raise BadRequest("a config of model_config_list lacks its name or base_path", fix=_FIX)
    labels: dict[str, Any] = dict(record.version_labels)
    return ModelConfig(record.name, folder / record.base_path, _policy_of(record), labels)


def _policy_of(record: Message) -> VersionPolicy:
    policy = record.model_version_policy
    match policy.WhichOneof("policy_choice"):
        case "all":
            return VersionPolicy(is_all=True)
        case "specific":
            if not policy.specific.versions:
                raise BadRequest(f"the specific versions of {record.name} are none", fix="name at least one")
            return VersionPolicy(specific=tuple(policy.specific.versions))
        case _:
            return VersionPolicy(latest=max(1, policy.latest.num_versions))

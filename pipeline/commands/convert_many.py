"""The command `convert` for several models: side by side, each in a folder of its own, with one convert.json."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from ...models.errors import BadRequest, Exit, TransloadError
from ..intake.model_argument import ModelRequest
from ..progress import Progress
from ..request import RunRequest
from ..result.schema import Verdict
from ..settings import LocalSettings
from ..workers.worker_slots import WorkerSlots
from .convert import ConvertResult, convert
from .workspace import check_writable, document_of, write_document

_WORST_FIRST = (Exit.USAGE, Exit.TOOLCHAIN, Exit.FAIL, Exit.INCONCLUSIVE, Exit.PASS)


@dataclass(frozen=True)
class ConvertedModel:
    """The result of one model of several, in `folder`; a model that could not be taken has its `error` instead."""

    name: str
    model: str  # the text by which the user named it
    folder: Path
    converted: ConvertResult | None
    error: TransloadError | None = None

    @property
    def decided(self) -> tuple[Verdict, Exit]:
        """Verdict over its targets; where it could not be taken, the error's own status."""
        if self.converted:
            return self.converted.decided
        return Verdict.FAIL, self.error.exit_code if self.error else Exit.USAGE

    @property
    def document(self) -> dict[str, Any]:
        """Its part of convert.json."""
        error = {"what": self.error.what, "fix": self.error.fix} if self.error else None
        parts = self.converted.document if self.converted else {"artifacts": [], "smallest": []}
        verdict, status = self.decided
        row = {"name": self.name, "model": self.model, "verdict": str(verdict), "exit_code": int(status)}
        return {**row, "error": error, "artifacts": parts["artifacts"], "smallest": parts["smallest"]}


@dataclass(frozen=True)
class ConvertManyResult:
    """The results of several models, in `folder`/<name>/."""

    models: tuple[ConvertedModel, ...]
    folder: Path

    @property
    def decided(self) -> tuple[Verdict, Exit]:
        """The worst verdict: a model that could not be taken, then no route left, wrong answers, no evidence."""
        return min((model.decided for model in self.models), key=lambda decided: _WORST_FIRST.index(decided[1]))

    @property
    def document(self) -> dict[str, Any]:
        """convert.json; the paths of a model's artifacts are relative to the folder of its name."""
        return {**document_of(self.decided), "models": [model.document for model in self.models]}


def convert_models(
    requests: Sequence[tuple[RunRequest, ModelRequest]], out: Path, local: LocalSettings, progress: Progress
) -> ConvertManyResult:
    """Convert every model to `out`/<name>/, as `convert` does for one. They share the worker slots of one model.

    Raises BadRequest where `out` cannot be written to; the failure of one model is in its row.
    """
    check_writable(out, "--out")
    slots = WorkerSlots(local.jobs)
    names = unique_names([model.text for _, model in requests])
    width = max(map(len, names))

    def convert_model(name: str, request: RunRequest, model: ModelRequest) -> ConvertedModel:
        folder, own_progress = out / name, progress.of(name, width)
        try:
            result = convert(request, model, folder, local, own_progress, slots=slots)
        except TransloadError as error:
            own_progress.note(error.what)
            return ConvertedModel(name, model.text, folder, None, error)
        return ConvertedModel(name, model.text, folder, result)

    with ThreadPoolExecutor(min(local.jobs, len(requests))) as pool:
        futures = [pool.submit(convert_model, name, *pair) for name, pair in zip(names, requests, strict=True)]
        try:
            result = ConvertManyResult(tuple(future.result() for future in futures), out)
        except BaseException:
            for future in futures:
                future.cancel()
            slots.stop()
            raise
    write_document(out / "convert.json", result.document)
    return result


def unique_names(models: Sequence[str]) -> list[str]:
    """Return a folder name for each model, as `digits-cnn` or `net-Net`; equal names get numbers.

    Raises BadRequest where a model is named twice.
    """
    model_by_name: dict[str, str] = {}
    for text in models:
        if text in model_by_name.values():
            raise BadRequest(f"the model {text} is named twice", fix="name every model once")
        plain = _plain_name(text)
        numbered = (f"{plain}-{number}" for number in count(2))
        model_by_name[next(name for name in chain([plain], numbered) if name not in model_by_name)] = text
    return list(model_by_name)


_SCHEMES = ("zoo", "torchvision", "timm", "hf")


def _plain_name(text: str) -> str:
    place, colon, name = text.rpartition(":")
    if not colon or "/" in name or "\\" in name:  # the colon is no separator before an object, or belongs to a drive
        place, name = text, ""
    stem = "" if place in _SCHEMES else Path(place).name
    stem = re.sub(r"\.(py|onnx|pt2|pt|pth|tflite|keras)$", "", stem)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(filter(None, (stem, name)))).strip("-.") or "model"

"""Several models in one `convert`: side by side in shared slots, each in its own folder, one convert.json of all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from ...models.errors import BadRequest, Exit, TransloadError
from ..intake.model import Asked, check_writable
from ..progress import Progress
from ..request import RunRequest
from ..result.schema import Verdict
from ..settings import Places
from ..workers.worker_slots import WorkerSlots
from .convert import Converted, convert
from .validate_bench import document, write

_WORST = (Exit.USAGE, Exit.TOOLCHAIN, Exit.FAIL, Exit.INCONCLUSIVE, Exit.PASS)


@dataclass(frozen=True)
class ConvertedModel:
    """What became of one model of several, in `folder`. One that could not be taken has the `error` that says why."""

    name: str
    model: str  # as it was named
    folder: Path
    converted: Converted | None
    error: TransloadError | None = None

    @property
    def decided(self) -> tuple[Verdict, Exit]:
        """Of its targets; the error's own status where it could not be taken."""
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
class ConvertedModels:
    """What `convert` made of several models, in `folder`/<name>/."""

    models: tuple[ConvertedModel, ...]
    folder: Path

    @property
    def decided(self) -> tuple[Verdict, Exit]:
        """The worst of them: one that could not be taken, then no route left, then wrong answers, then no evidence."""
        return min((each.decided for each in self.models), key=lambda each: _WORST.index(each[1]))

    @property
    def document(self) -> dict[str, Any]:
        """convert.json; the paths of a model's artifacts are relative to the folder of its name."""
        return {**document(self.decided), "models": [each.document for each in self.models]}


def convert_models(
    asked: Sequence[tuple[RunRequest, Asked]], out: Path, places: Places, progress: Progress
) -> ConvertedModels:
    """Every model in `out`/<name>/, as `convert` leaves one. No more workers than for one model: they share slots.

    Raises BadRequest where `out` cannot be written to; what happens to one model is in its row.
    """
    check_writable(out, "--out")
    slots = WorkerSlots(places.jobs)
    names = names_of([each.text for _, each in asked])
    width = max(map(len, names))

    def one(name: str, request: RunRequest, model: Asked) -> ConvertedModel:
        folder, part = out / name, progress.of(name, width)
        try:
            return ConvertedModel(name, model.text, folder, convert(request, model, folder, places, part, slots=slots))
        except TransloadError as error:
            part.note(error.what)
            return ConvertedModel(name, model.text, folder, None, error)

    with ThreadPoolExecutor(min(places.jobs, len(asked))) as pool:
        futures = [pool.submit(one, name, *each) for name, each in zip(names, asked, strict=True)]
        try:
            done = ConvertedModels(tuple(future.result() for future in futures), out)
        except BaseException:
            for future in futures:
                future.cancel()
            slots.stop()
            raise
    write(out / "convert.json", done.document)
    return done


def names_of(models: Sequence[str]) -> list[str]:
    """A folder's name for each model, of what it is called: `digits-cnn`, `net-Net`. Those that are alike get numbers.

    Raises BadRequest where a model is named twice.
    """
    found: dict[str, str] = {}
    for text in models:
        if text in found.values():
            raise BadRequest(f"the model {text} is named twice", fix="name every model once")
        plain = _plain(text)
        numbered = (f"{plain}-{at}" for at in count(2))
        found[next(name for name in chain([plain], numbered) if name not in found)] = text
    return list(found)


_SCHEMES = ("zoo", "torchvision", "timm", "hf")


def _plain(text: str) -> str:
    place, colon, name = text.rpartition(":")
    if not colon or "/" in name or "\\" in name:  # no object in a file, and no drive
        place, name = text, ""
    stem = "" if place in _SCHEMES else Path(place).name
    stem = re.sub(r"\.(py|onnx|pt2|pt|pth|tflite|keras)$", "", stem)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(filter(None, (stem, name)))).strip("-.") or "model"

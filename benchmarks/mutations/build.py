"""Make the artifacts: the model's own by transload, other right copies by the plain libraries, and the mutants."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmark_models import NETS, Model, by_name, labelled_samples, user_feeds
from declarations import Feeds, draw_feeds, middle_sizes
from edits_files import Base
from exports import export
from file_mutants import REDUCED, FileCopy
from mutants import ONNX, SAVED_MODEL, TFLITE, TORCHSCRIPT, Mutant
from onnx_edit import GraphEdit, Site
from runtimes import ModuleRun

FORMATS = (ONNX, TORCHSCRIPT, SAVED_MODEL, TFLITE)
_MAKERS = ("benchmark_models", "build", "by_hand", "declared_mutants", "exports", "mutants", "onnx_edit", "right")
PAYLOADS = {ONNX: "model.onnx", TORCHSCRIPT: "model.pt", SAVED_MODEL: "saved_model", TFLITE: "model.tflite"}
PAYLOADS |= {form: PAYLOADS[form.partition(":")[0]] for form in REDUCED}


@dataclass(frozen=True)
class Artifact:
    """A copy of a model, right or wrong."""

    name: str
    model: str
    form: str
    candidate: Path  # what a user gives to transload validate
    payload: Path  # what the format's library opens
    route: str
    mutant: Mutant | None = None
    sites: tuple[Site, ...] = ()
    made_by_convert: bool = False  # transload's own copy of the model
    kind: str = ""  # of a copy that was edited in its own format; empty: right
    is_overflow_of_delegates: bool = False  # FileCopy

    @property
    def right(self) -> bool:
        """Whether nothing was broken."""
        return self.mutant is None and not self.kind


class Builder:
    """Makes artifacts in a folder, each once, and anew where this folder's code has changed."""

    def __init__(self, work: Path) -> None:
        self.digest = _code_digest()
        self.work = work / f"built-{self.digest}"
        self.store = work / "store"

    def inputs(self, model: Model) -> list[str]:
        """Return the arguments of --input, with the ends of integers where this transload reads them."""
        return [one_input.declaration(with_values=takes_values()) for one_input in model.inputs]

    def data(self, model: Model) -> str | None:
        """Return the user's samples, where the model has some: with labels, or with a part of the declared values."""
        if not (model.with_labels or model.has_data):
            return None
        path = self.work / "data" / f"{model.name}.npz"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            arrays: dict[str, Any] = dict(user_feeds(model))
            if model.with_labels:
                arrays = labelled_samples(model, ModuleRun(model.build())(arrays))
            np.savez(path, **arrays)
        return str(path)

    def own(self, model: Model) -> list[Artifact]:
        """Return the model's copies as `transload convert` makes them."""
        out = self.work / "made" / model.name
        if not all((out / form / PAYLOADS[form]).exists() for form in FORMATS):
            self._convert(model.argument, FORMATS, out, self.inputs(model))
        return [
            Artifact(
                f"right/{model.name}/{form}/transload", model.name, form, out / form, out / form / PAYLOADS[form],
                _route_of(out / form),
                made_by_convert=True,
            )
            for form in FORMATS
            if (out / form / PAYLOADS[form]).exists()
        ]  # fmt: skip

    def own_in(self, model: Model, form: str) -> Artifact:
        """Return transload's own copy in one format or reduced precision. Raises RuntimeError where there is none."""
        if form in FORMATS:
            copy = next((artifact for artifact in self.own(model) if artifact.form == form), None)
        else:
            out = self.work / "made" / f"{model.name}.{form.replace(':', '-')}"
            folder = out / form.replace(":", "-")
            if not out.exists():
                self._convert(model.argument, [form], out, self.inputs(model))
            name, path = f"right/{model.name}/{form}/transload", folder / PAYLOADS[form]
            is_made = path.exists()
            copy = (
                Artifact(name, model.name, form, folder, path, _route_of(folder), made_by_convert=True)
                if is_made
                else None
            )
        if copy is None:
            raise RuntimeError(f"transload made no {form} of {model.name}")
        return copy

    def edited(self, copy: FileCopy) -> Artifact:
        """Make a copy that is edited in its own format, with the record that its converter would write.
        A SavedModel has none, as those that others save."""
        from transload.models.artifact import read_artifact, write_artifact
        from transload.models.formats import parse_target

        model = by_name()[copy.model]
        base = self.own_in(model, copy.base)
        folder = self.work / "edited" / copy.name.replace("/", ".").replace(":", "-")
        path, notes = folder / PAYLOADS[copy.form], folder / "sites.json"
        if not notes.exists():
            folder.mkdir(parents=True, exist_ok=True)
            sites = copy.edit(Base(model.build(), base.payload, samples(model)), path)
            if copy.form != SAVED_MODEL:
                write_artifact(folder, parse_target(copy.form), read_artifact(base.candidate).signature)
            notes.write_text(json.dumps([vars(site) for site in sites]))
        sites = tuple(Site(**row) for row in json.loads(notes.read_text()))
        candidate = path if copy.form == SAVED_MODEL else folder
        return Artifact(
            copy.name,
            model.name,
            copy.form,
            candidate,
            path,
            copy.variant,
            sites=sites,
            kind=copy.kind,
            is_overflow_of_delegates=copy.is_overflow_of_delegates,
        )

    def mutant(self, mutant: Mutant, form: str) -> Artifact:
        """Make a mutant in one format. Raises what its edit or the converter raises."""
        model = by_name()[mutant.model]
        folder = self.work / "mutants" / mutant.name(form).replace("/", ".")
        if form == TORCHSCRIPT:
            return self._scripted(mutant, model, folder)
        path, sites = self._exported(mutant, model) if mutant.of_module else self._edited(mutant, model)
        if form == ONNX:
            return Artifact(mutant.name(form), model.name, form, path, path, "edited", mutant, sites)
        if not (folder / form / PAYLOADS[form]).exists():
            self._convert(str(path), [form], folder, self.inputs(model))
        payload = folder / form / PAYLOADS[form]
        if not payload.exists():
            raise RuntimeError(f"transload made no {form} of the faulty file")
        return Artifact(mutant.name(form), model.name, form, folder / form, payload, "edited, lowered", mutant, sites)

    def _exported(self, mutant: Mutant, model: Model) -> tuple[Path, tuple[Site, ...]]:
        """Return the ONNX file of a faulty module."""
        path = self.work / "mutants" / mutant.name(ONNX).replace("/", ".") / PAYLOADS[ONNX]
        if not path.exists() and mutant.of_module:
            module = model.build()
            mutant.of_module(module)
            path.parent.mkdir(parents=True, exist_ok=True)
            export(module, model, path)
        return path, ()

    def _edited(self, mutant: Mutant, model: Model) -> tuple[Path, tuple[Site, ...]]:
        if mutant.edit is None:
            raise ValueError(f"{mutant.kind} is no edit of a graph")
        own = next(artifact for artifact in self.own(model) if artifact.form == ONNX)
        path = self.work / "mutants" / mutant.name(ONNX).replace("/", ".") / PAYLOADS[ONNX]
        graph = GraphEdit.load(own.payload, model.build())
        mutant.edit(graph)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            graph.save(path)
        return path, tuple(graph.sites)

    def _scripted(self, mutant: Mutant, model: Model, folder: Path) -> Artifact:
        if mutant.of_module is None:
            raise ValueError(f"{mutant.kind} is no edit of a module")
        module = model.build()
        site = mutant.of_module(module)
        source = _source_of(model, site.module)
        path = folder / PAYLOADS[TORCHSCRIPT]
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            traced(model, module).save(str(path))
        sites = (Site(site.operator, site.op_type, site.module, source),)
        return Artifact(mutant.name(TORCHSCRIPT), model.name, TORCHSCRIPT, path, path, "edited, traced", mutant, sites)

    def _convert(self, model: str, forms: Sequence[str], out: Path, inputs: Sequence[str]) -> None:
        import transload

        shutil.rmtree(out, ignore_errors=True)
        transload.convert(model, list(forms), out=out, inputs=list(inputs), store=self.store, jobs=1)


def samples(model: Model) -> list[Feeds]:
    """Return samples to calibrate with, one a call."""
    feeds = user_feeds(model)
    return [{name: array[at : at + 1] for name, array in feeds.items()} for at in range(64)]


def _code_digest() -> str:
    """Return a digest of the models and of what edits and exports them."""
    here = NETS.parent
    files = sorted([*NETS.glob("*.py"), *here.glob("edits_*.py"), *(here / f"{name}.py" for name in _MAKERS)])
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]


@cache
def takes_values() -> bool:
    """Whether this transload reads the ends of integers in --input ("ids=int64[batch] in 0..9")."""
    from transload.models.errors import BadRequest
    from transload.models.signature import parse_input

    try:
        parse_input("ids=int64[batch] in 0..9")
    except BadRequest:
        return False
    return True


def traced(model: Model, module: torch.nn.Module) -> Any:
    """Trace a module with small inputs of its declaration."""
    feeds = draw_feeds(model.inputs, np.random.default_rng(5), middle_sizes(model.inputs, 2))
    tensors = tuple(torch.from_numpy(array) for array in feeds.values())
    return torch.jit.trace(module, tensors, check_trace=False)  # type: ignore[no-untyped-call]


def _route_of(folder: Path) -> str:
    record = json.loads((folder / "artifact.json").read_text())
    route = record.get("route") or record.get("provenance", {}).get("route") or ["transload convert"]
    return " > ".join(route) if isinstance(route, list) else str(route)


def _source_of(model: Model, path: str) -> str:
    """Return the line in which a module calls a part of its own, "nets/vision.py:28"."""
    file = NETS / model.ref.partition(":")[0]
    call = re.compile(rf"self\.{re.escape(path.rpartition('.')[2])}\(")
    lines = file.read_text().splitlines()
    found = [at for at, line in enumerate(lines, 1) if call.search(line)]
    return f"nets/{file.name}:{found[0]}" if len(found) == 1 else ""

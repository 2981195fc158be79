"""Load a model that is kept in a file, in a SavedModel's folder, or as an artifact of transload."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...models.artifact import read_artifact
from ...models.errors import BadRequest
from ...models.formats import Format, Target, parse_target
from ...models.signature import Signature
from ...models.store import Stored, digest_of
from ..context import Context
from ..drift.sessions import DEFAULT_RUNTIME
from ..workers.engine import Action
from ..workers.fork_server import framework_of
from .loaded_model import LoadedModel, ModelDescription, require_libraries
from .model_argument import ModelKind, ModelRequest

_INTAKE = "transload.converters.intake.take_in"
# The libraries with which a worker reads a file or an artifact of a format.
_READ_WITH: Mapping[Format, tuple[str, ...]] = {
    Format.ONNX: ("onnx",), Format.PT2: ("torch",), Format.TORCHSCRIPT: ("torch",),
    Format.SAVED_MODEL: ("google.protobuf",), Format.KERAS: ("keras", "tensorflow"), Format.TFLITE: ("ai_edge_litert",),
}  # fmt: skip


def load_file(context: Context, request: ModelRequest, kind: ModelKind) -> LoadedModel:
    """Load a model that is a file, or a SavedModel's folder.

    Raises BadRequest where it is refused, ToolMissing where a library that reads it is not installed.
    """
    path = Path(request.text).absolute()
    target = Target(Format(kind))
    requires = _READ_WITH[target.format]
    require_libraries(request.text, requires)
    options: dict[str, Any] = {"path": str(path), "sha256": digest_of(path), **_trust_options(context)}
    if request.inputs:
        options["inputs"] = [spec.to_json() for spec in request.inputs]

    def load(external: Mapping[str, Any]) -> Stored:
        return context.executor.perform(
            Action(
                f"given.{path.stem}",
                f"{_INTAKE}:take_in_{kind.replace('-', '_')}",
                options={**options, **external},
                requires=requires,
                framework=framework_of(requires),
                limits=context.limits(),
            )
        )

    stored = load({})
    recorded: Mapping[str, str] = stored.facts.get("external", {})
    present = {name: _digest_or_none(path.parent / name) for name in recorded}
    if present != recorded:  # the store had the model, and the data files beside it have changed since
        stored = load({"external": {name: digest or "" for name, digest in present.items()}})
    return LoadedModel(ModelDescription(path.stem, Signature.from_json(stored.facts["signature"])), stored, target)


def load_artifact(context: Context, request: ModelRequest) -> LoadedModel:
    """Load the artifact in a folder.

    Raises BadRequest where it is refused, ToolMissing where a library that reads it is not installed.
    """
    if request.inputs:
        raise BadRequest(f"{request.text} is an artifact, and says what it takes", fix="leave --input out")
    folder = Path(request.text).resolve()
    model_format = read_artifact(folder).target.format
    if model_format not in DEFAULT_RUNTIME:
        raise BadRequest(f"no runtime takes {model_format}", fix=f"name an artifact of {', '.join(DEFAULT_RUNTIME)}")
    requires = _READ_WITH.get(model_format, ())
    require_libraries(request.text, requires)
    stored = context.executor.perform(
        Action(
            f"given.{folder.name}",
            f"{_INTAKE}:take_in_artifact",
            options={"path": str(folder), "sha256": digest_of(folder), **_trust_options(context)},
            requires=requires,
            framework=framework_of(requires),
            limits=context.limits(),
        )
    )
    description = ModelDescription(Path(request.text).name, Signature.from_json(stored.facts["signature"]))
    return LoadedModel(description, stored, parse_target(stored.facts["target"]))


def _trust_options(context: Context) -> dict[str, bool]:
    """Return the option that lets a model do more than compute, where the request has it."""
    return {"trust": True} if context.request.model.trust else {}


def _digest_or_none(path: Path) -> str | None:
    return digest_of(path) if path.is_file() else None

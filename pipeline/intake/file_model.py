"""Load a model that is kept in a file, in a SavedModel's folder, or as an artifact of transload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ...converters.intake.intake_records import ArtifactFacts, FileFacts, FileOptions
from ...models.artifact import read_artifact
from ...models.errors import BadRequest
from ...models.formats import Format, Target, parse_target
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
    options = FileOptions(
        path=str(path), sha256=digest_of(path), inputs=request.inputs, trust=context.request.model.trust
    )

    def load(external: Mapping[str, str]) -> Stored:
        return context.executor.perform(
            Action(
                f"given.{path.stem}",
                f"{_INTAKE}:take_in_{kind.replace('-', '_')}",
                options=replace(options, external=external).to_json(),
                requires=requires,
                framework=framework_of(requires),
                limits=context.limits(),
            )
        )

    stored = load({})
    facts = FileFacts.from_json(stored.facts)
    recorded = facts.external or {}
    present = {name: _digest_or_none(path.parent / name) for name in recorded}
    if present != recorded:  # the store had the model, and the data files beside it have changed since
        stored = load({name: digest or "" for name, digest in present.items()})
        facts = FileFacts.from_json(stored.facts)
    return LoadedModel(ModelDescription(path.stem, facts.signature), stored, target)


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
            options=FileOptions(
                path=str(folder), sha256=digest_of(folder), trust=context.request.model.trust
            ).to_json(),
            requires=requires,
            framework=framework_of(requires),
            limits=context.limits(),
        )
    )
    facts = ArtifactFacts.from_json(stored.facts)
    description = ModelDescription(Path(request.text).name, facts.signature)
    return LoadedModel(description, stored, parse_target(facts.target), facts.flex)


def _digest_or_none(path: Path) -> str | None:
    return digest_of(path) if path.is_file() else None

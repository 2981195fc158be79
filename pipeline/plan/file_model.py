"""Load a model that is kept in a file, in a SavedModel's folder, or as an artifact of transload."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ...converters.readers.reader_records import ArtifactFacts, FileDescription, FileFacts, FileOptions
from ...models.artifact import BESIDE, read_artifact
from ...models.errors import BadRequest, StepFailed, StepOutOfMemory, StepTimeout
from ...models.formats import Format, Target, parse_target
from ...models.store import Stored, digest_of, size_of
from ...models.untrusted_files import check_plain
from ..workers.engine import Action
from ..workers.fork_server import framework_of
from ..workers.isolation import Limits
from .context import Context
from .data_step import samples_of_request
from .loaded_model import LoadedModel, ModelDescription, ranges_of, require_libraries
from .model_argument import ModelRequest

_MORE_TIME = "give it more time with --model-seconds"
_BLOCK_BYTES = 512  # the unit of st_blocks, on every file system
_MOST_COUNTED = 10_000  # files beside an ONNX file
_ARTIFACT = "transload.converters.readers.artifact_import:import_artifact"
_DESCRIBE = "transload.converters.readers.describe_file:describe_file"


def load_file(context: Context, request: ModelRequest, model_format: Format) -> LoadedModel:
    """Load a model that is a file, or a SavedModel's folder.
    Raises BadRequest where it is refused, ToolMissing where a library that reads it is not installed."""
    path, spec = Path(request.text).absolute(), model_format.spec
    # Nothing but the names of its inputs is known of such a file: it is called to know more.
    data = None if spec.declares_inputs else samples_of_request(context, request)
    read = partial(
        _read, context, request, path, name=path.stem, entry=spec.reader, model_format=model_format, data=data
    )
    stored = read()
    facts = FileFacts.from_json(stored.facts)
    recorded = facts.external or {}
    present = {name: _digest_or_none(path.parent / name) for name in recorded}
    if present != recorded:  # the store had the model, and the data files beside it have changed since
        stored = read(external={name: digest or "" for name, digest in present.items()})
        facts = FileFacts.from_json(stored.facts)
    return LoadedModel(
        ModelDescription(path.stem, facts.signature), stored, Target(model_format), notes=facts.notes,
        calibrated=ranges_of(facts.calibrated), is_quantised=bool(facts.calibrated),
    )  # fmt: skip


def load_artifact(context: Context, request: ModelRequest) -> LoadedModel:
    """Load the artifact in a folder.
    Raises BadRequest where it is refused, ToolMissing where a library that reads it is not installed."""
    if request.inputs:
        raise BadRequest(f"{request.text} is an artifact, and says what it takes", fix="leave --input out")
    folder = Path(request.text).resolve()
    model_format = read_artifact(folder).target.format
    stored = _read(context, request, folder, name=folder.name, entry=_ARTIFACT, model_format=model_format)
    facts = ArtifactFacts.from_json(stored.facts)
    description = ModelDescription(Path(request.text).name, facts.signature)
    calibrated = ranges_of(facts.calibrated)
    return LoadedModel(description, stored, parse_target(facts.target), facts.flex, calibrated=calibrated)


def describe_file(context: Context, text: str, model_format: Format) -> FileDescription:
    """Return what a model's file says of itself.
    Raises BadRequest where it is refused, ToolMissing where a library that reads it is not installed."""
    path = Path(text).absolute()
    stored = _read(
        context,
        ModelRequest(text),
        path,
        name=path.stem,
        entry=_DESCRIBE,
        model_format=model_format,
        format=str(model_format),
    )
    return FileDescription.from_json(stored.facts)


def _read(
    context: Context, request: ModelRequest, path: Path, *, name: str, entry: str, model_format: Format,
    data: Stored | None = None, **known: Any,
) -> Stored:  # fmt: skip
    """Let a worker read the model at `path`. `known`: further options, as `external` where data files lie beside it."""
    spec = model_format.spec
    requires = spec.requires
    require_libraries(request.text, requires)
    check_plain(path)
    trust = context.request.model.trust
    limits = context.intake_limits(size_of_model(path, model_format))
    digest = digest_of(path, without=BESIDE)
    if request.recorded:
        request.recorded.check(digest)
    options = FileOptions(path=str(path), sha256=digest, inputs=request.inputs, trust=trust, **known)
    action = Action(
        f"given.{name}",
        entry,
        inputs={"data": data} if data else {},
        options=options.to_json(),
        requires=requires,
        framework=framework_of(requires),
        reads=(str(path), *((str(path.parent),) if spec.has_data_beside else ())),
        tools={"package": spec.package} if spec.package else {},
        limits=limits,
    )
    try:
        with limits_named(request.text, limits):
            return context.executor.perform(action)
    except StepFailed as error:  # of a library that reads it, or of its process: what it says is in the log
        raise BadRequest(f"{request.text} cannot be read: {error.what}", fix=f"copy it again; {error.fix}") from error


@contextmanager
def limits_named(text: str, limits: Limits, *, more_time: str = _MORE_TIME) -> Iterator[None]:
    """Refuse the file `text` in one sentence where reading it takes more than its limits."""
    try:
        yield
    except StepTimeout as error:
        raise BadRequest(f"{text} was not read in {limits.seconds:.3g} s", fix=more_time) from error
    except StepOutOfMemory as error:
        raise BadRequest(
            f"reading {text} took more memory than {limits.memory_bytes / 1e9:.3g} GB",
            fix="where you trust whoever made it, give --trust, and it may take what a conversion may",
        ) from error


def size_of_model(path: Path, model_format: Format) -> int:
    """Return the bytes of a model's file or folder; where its weights may lie in further files, also of what may hold
    them, beside it or one below, as far as the disk has it. What is counted too much only makes the limits wider."""
    if not model_format.spec.has_data_beside or path.is_dir():
        return size_of(path)
    beside = islice(chain(path.parent.glob("*"), path.parent.glob("*/*")), _MOST_COUNTED)
    status = [file.stat() for file in beside if file.is_file()]
    return sum(min(file.st_size, _BLOCK_BYTES * file.st_blocks) for file in status)


def _digest_or_none(path: Path) -> str | None:
    return digest_of(path) if path.is_file() else None

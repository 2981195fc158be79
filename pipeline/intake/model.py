"""The model that a person names, whatever it is kept in: taken in, with data and the reference's answers.

    net.py   net.py:Net   package.module:make   zoo:digits-cnn   torchvision:resnet18   timm:resnet10t   hf:FOLDER
    model.onnx   model.pt2   model.pt   model.keras   model.tflite   a SavedModel's folder   out/onnx

What a word means is told by its form; what lies behind it, only a worker looks at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from ...converters.steps import missing
from ...models.artifact import RECORD, read_artifact
from ...models.errors import BadRequest, ToolMissing
from ...models.formats import PAYLOAD, Format, Target, parse_target
from ...models.signature import Signature, TensorSpec
from ...models.sources import LIBRARIES
from ...models.store import Stored, digest_of
from ...serving.runtimes.runtime_table import RUNTIMES
from ..context import Context
from ..drift.sessions import DEFAULT_RUNTIME, runtime_for
from ..workers.engine import Action
from ..workers.fork_server import framework_of
from ..workers.interpreters import lacking
from . import prepare
from .code_model import take_code
from .prepare import Begun, Described, Meanwhile, Prepared, nothing

_GIVEN = "transload.converters.intake.take_in"
_SAMPLES = "transload.models.probes.samples"
TAKEN = (
    "FILE.py[:NAME], package.module:NAME, zoo:NAME, torchvision:NAME, timm:NAME, hf:FOLDER, FILE.onnx, FILE.pt2, "
    "FILE.pt (TorchScript), FILE.keras, FILE.tflite, a SavedModel's folder, or the folder of an artifact"
)
# What is not taken; told apart so that the sentence can name it.
_NOT_TAKEN = {
    ".ckpt": "a checkpoint", ".safetensors": "weights without their model", ".pb": "a TensorFlow graph",
    ".h5": "a file of HDF5, which Keras 2 kept models in, with code that is run", ".pbtxt": "a TensorFlow graph",
    ".hdf5": "a file of HDF5, which Keras 2 kept models in, with code that is run", ".toml": "a pipeline file",
}  # fmt: skip
_MENDS = {
    ".ckpt": "name the model's code, and this file with --weights",
    ".safetensors": "name the model's code, and this file with --weights",
    ".pb": "name the folder of a SavedModel, with its variables",
    ".pbtxt": "name the folder of a SavedModel, with its variables",
    ".h5": "where you trust it, load it with Keras and save it with model.save(FILE.keras)",
    ".hdf5": "where you trust it, load it with Keras and save it with model.save(FILE.keras)",
}


class Kind(StrEnum):
    """How a model is kept."""

    CODE = "code"
    ARTIFACT = "artifact"
    # In a file, or a folder of another's making: each is called as its format is.
    ONNX = "onnx"
    PT2 = "pt2"
    TORCHSCRIPT = "torchscript"
    SAVED_MODEL = "saved-model"
    KERAS = "keras"
    TFLITE = "tflite"


_SUFFIXES = {
    ".onnx": Kind.ONNX, ".pt2": Kind.PT2, ".pt": Kind.TORCHSCRIPT, ".pth": Kind.TORCHSCRIPT, ".keras": Kind.KERAS,
    ".tflite": Kind.TFLITE,
}  # fmt: skip
# What a worker needs to look at a file of a format, or at an artifact.
_READ_WITH: Mapping[Format, tuple[str, ...]] = {
    Format.ONNX: ("onnx",), Format.PT2: ("torch",), Format.TORCHSCRIPT: ("torch",),
    Format.SAVED_MODEL: ("google.protobuf",), Format.KERAS: ("keras", "tensorflow"), Format.TFLITE: ("ai_edge_litert",),
}  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """A model by its word, and what it may not say of itself. Weights stand in the request."""

    text: str
    inputs: tuple[TensorSpec, ...] = ()
    data: Path | None = None


@dataclass(frozen=True)
class Taken:
    """A model that is in the store. `start`: what it is kept in; None: a source in PyTorch."""

    model: Described
    stored: Stored
    start: Target | None = None

    @property
    def runtime(self) -> str:
        """What answers for it: PyTorch, eager, for a source; else what its format is checked in."""
        return "torch" if self.start is None else runtime_for(self.start.format, self.stored.facts.get("flex", ()))


def kind_of(text: str) -> Kind:
    """What a model's word names, by its form and by what lies there.

    Raises BadRequest where nothing lies there, or something that is not taken.
    """
    path = Path(text)
    if text.partition(":")[0] in ("zoo", *LIBRARIES) and ":" in text:
        return Kind.CODE
    if path.is_dir() and (path / RECORD).is_file():
        return Kind.ARTIFACT
    if path.is_dir() and any((path / name).is_file() for name in ("saved_model.pb", "saved_model.pbtxt")):
        return Kind.SAVED_MODEL
    if path.is_dir():
        raise _refused_folder(path)
    suffix = path.suffix.lower()
    if (
        suffix not in _SUFFIXES
        and suffix not in _NOT_TAKEN
        and (".py" in path.suffixes or ".py:" in text or _is_module(text))
    ):
        return Kind.CODE
    if not path.exists():
        raise BadRequest(f"no such file: {text}", fix="check the path; it starts at the folder you run transload in")
    if suffix not in _SUFFIXES:
        what = _NOT_TAKEN.get(suffix, "no model of a kind that is known")
        mend = _MENDS.get(suffix, f"name {TAKEN}")
        raise BadRequest(f"{text} is {what}, and is not taken as a model", fix=mend)
    return _SUFFIXES[suffix]


def _is_module(text: str) -> bool:
    """`package.module:NAME` or `package.module`: dots and names, and no file."""
    place, _, name = text.partition(":")
    parts = [*place.split("."), *(name.split(".") if name else [])]
    return all(part.isidentifier() for part in parts) and not Path(text).exists()


def _refused_folder(path: Path) -> BadRequest:
    if (path / "config.json").is_file():
        return BadRequest(f"{path} is no artifact; it looks like a model of transformers", fix=f"name it hf:{path}")
    inside = sorted(str(record.parent) for record in (*path.glob(f"*/{RECORD}"), *path.glob(f"artifacts/*/{RECORD}")))
    mend = f"name one of {', '.join(inside)}" if inside else f"name {TAKEN}"
    return BadRequest(f"{path} holds no artifact: there is no {RECORD} in it", fix=mend)


def start_of(text: str) -> Target | None:
    """What the routes of a model begin at; None where it is a source. Reads a record at most."""
    kind = kind_of(text)
    if kind is Kind.ARTIFACT:
        return read_artifact(Path(text)).target
    return None if kind is Kind.CODE else Target(Format(kind))


def candidate_asked(text: str, inputs: Sequence[TensorSpec]) -> Asked:
    """A candidate by its word: what it takes it says itself, but for a TorchScript file."""
    return Asked(text, tuple(inputs) if kind_of(text) is Kind.TORCHSCRIPT else ())


def without_inputs_of(candidate: str, against: Asked) -> Asked:
    """The model that a candidate is held against, less the inputs that were meant for the candidate."""
    mine = kind_of(candidate) is Kind.TORCHSCRIPT and kind_of(against.text) is Kind.ARTIFACT
    return replace(against, inputs=()) if mine else against


def prepare_given(
    context: Context, asked: Asked, *, probes_only: bool = False, meanwhile: Meanwhile = nothing
) -> Prepared:
    """The model, the data that it is judged on, and its own answers: to all of it, or to the probes of a conversion.

    Raises TransloadError.
    """
    with context.progress.stage("model") as stage:
        taken = take_model(context, asked)
        takes = f"{taken.model.name}: {', '.join(map(str, taken.model.signature.inputs))}"
        stage.note = "; ".join([takes, *taken.stored.facts.get("notes", ())])
    with context.progress.stage("reference") as stage:
        require_runtime(taken.runtime)
        data = take_data(context, taken, asked.data)
        begun = Begun(model=taken.model, source=taken.stored, data=data, start=taken.start)
        with meanwhile(begun), _called_as_given(context, taken, asked.text):
            reference = prepare.answer_reference(
                context, taken.model, taken.stored, data, taken.runtime, probes_only=probes_only
            )
        stage.note = f"{_count(data, asked.data, taken)} answered by {taken.runtime}"
    return Prepared(**vars(begun), reference=reference)


@contextmanager
def _called_as_given(context: Context, taken: Taken, text: str) -> Iterator[None]:
    """What a runtime says of a file, said of the one that the person named and not of ours in the store."""
    try:
        yield
    except BadRequest as error:
        if taken.start is None:
            raise
        what, fix = error.what.replace(str(taken.stored.folder / PAYLOAD[taken.start.format]), text), error.fix
        if what.startswith(f"{taken.runtime} cannot open"):
            log = context.folder / "logs" / "reference.log"
            fix = f"copy {text} again, or make it of operators that {taken.runtime} has; it says more in {log}"
        raise type(error)(what, fix=fix) from error


def take_model(context: Context, asked: Asked) -> Taken:
    """The model in the store.

    Raises BadRequest where it cannot be taken as it is, ToolMissing where a library is not here.
    """
    kind = kind_of(asked.text)
    if kind is Kind.CODE:
        return Taken(*take_code(context, asked.text, asked.inputs))
    given = context.request.model
    if asked.text == given.recipe and (given.weights is not None or given.settings):
        option = "--set" if given.weights is None else "--weights"
        raise BadRequest(f"{asked.text} is no code, and has weights of its own", fix=f"leave {option} out")
    if kind is Kind.ARTIFACT:
        return _take_artifact(context, asked)
    return _take_file(context, asked, kind)


def _take_file(context: Context, asked: Asked, kind: Kind) -> Taken:
    path = Path(asked.text).absolute()
    target = Target(Format(kind))
    requires = _READ_WITH[target.format]
    require(asked.text, requires)
    options: dict[str, Any] = {"path": str(path), "sha256": digest_of(path), **_trust(context)}
    if asked.inputs:
        options["inputs"] = [spec.to_json() for spec in asked.inputs]

    def take(more: Mapping[str, Any]) -> Stored:
        return context.executor.perform(
            Action(
                f"given.{path.stem}",
                f"{_GIVEN}:{kind.replace('-', '_')}_given",
                options={**options, **more},
                requires=requires,
                framework=framework_of(requires),
                limits=context.limits(),
            )
        )

    stored = take({})
    recorded: Mapping[str, str] = stored.facts.get("external", {})
    here = {name: _digest_or_none(path.parent / name) for name in recorded}
    if here != recorded:  # found in the store, and the data files beside it have changed since
        stored = take({"external": {name: digest or "" for name, digest in here.items()}})
    return Taken(Described(path.stem, Signature.from_json(stored.facts["signature"])), stored, target)


def _trust(context: Context) -> dict[str, bool]:
    """The option that lets a model do more than compute, where the request gives it."""
    return {"trust": True} if context.request.model.trust else {}


def _digest_or_none(path: Path) -> str | None:
    return digest_of(path) if path.is_file() else None


def _take_artifact(context: Context, asked: Asked) -> Taken:
    if asked.inputs:
        raise BadRequest(f"{asked.text} is an artifact, and says what it takes", fix="leave --input out")
    folder = Path(asked.text).resolve()
    form = read_artifact(folder).target.format
    if form not in DEFAULT_RUNTIME:
        raise BadRequest(f"no runtime takes {form}", fix=f"name an artifact of {', '.join(DEFAULT_RUNTIME)}")
    requires = _READ_WITH.get(form, ())
    require(asked.text, requires)
    stored = context.executor.perform(
        Action(
            f"given.{folder.name}",
            f"{_GIVEN}:artifact_given",
            options={"path": str(folder), "sha256": digest_of(folder), **_trust(context)},
            requires=requires,
            framework=framework_of(requires),
            limits=context.limits(),
        )
    )
    signature = Signature.from_json(stored.facts["signature"])
    return Taken(Described(Path(asked.text).name, signature), stored, parse_target(stored.facts["target"]))


def take_data(context: Context, taken: Taken, given: Path | None) -> Stored:
    """The samples: a file's, else a recipe's own, else random ones.

    Raises BadRequest where the file does not fit the model.
    """
    signature = taken.model.signature.to_json()
    if given is None and taken.model.metric:
        return prepare.prepare_data(context, taken.model)
    if given is None:
        action = Action("data", f"{_SAMPLES}:make_samples", options={"signature": signature}, limits=context.limits())
        return context.executor.perform(action)
    if not given.is_file():
        raise BadRequest(f"no such file: {given}", fix="check --data; it names an .npz file of inputs by name")
    options = {"path": str(given.absolute()), "sha256": digest_of(given), "signature": signature}
    return context.executor.perform(
        Action("data", f"{_SAMPLES}:take_samples", options=options, limits=context.limits())
    )


def _count(data: Stored, given: Path | None, taken: Taken) -> str:
    kind = "" if given or taken.model.metric else "random "
    return f"{data.facts['test']} {kind}samples"


def require(what: str, libraries: tuple[str, ...]) -> None:
    """Raises ToolMissing where a library that `what` needs is not here."""
    _refuse_lacking(what, missing(libraries))


def require_runtime(name: str) -> None:
    """Raises ToolMissing where the runtime cannot be loaded here."""
    _refuse_lacking(f"the runtime {name}", lacking(RUNTIMES[name]))


def _refuse_lacking(what: str, lacking: str | None) -> None:
    if lacking:
        raise ToolMissing(f"{what} {lacking}, which is not installed", fix="install it (transload doctor shows how)")


def check_writable(folder: Path, option: str) -> None:
    """Make the folder that a command leaves its results in.

    Raises BadRequest where it cannot be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise BadRequest(f"{folder} cannot be made: {why}", fix=f"name another folder with {option}") from error
    if not os.access(folder, os.W_OK):
        raise BadRequest(f"{folder} cannot be written to", fix=f"name another folder with {option}")

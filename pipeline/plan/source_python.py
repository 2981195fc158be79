"""Which interpreter a user's model lives in: the one that they name, else the one of their project, else ours.

Named: `--python PATH`, `[model] python`, or TRANSLOAD_PYTHON_SOURCE; `self` is ours. By itself: the active environment,
or the nearest .venv or venv beside or above the model's file, where it has torch or TensorFlow. Nothing is run to find
it but the interpreter itself, in a worker (models/user_python/inside/inspect_python.py).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...models.errors import BadRequest, StepFailed
from ...models.loading.source_folders import import_folders
from ...models.sources import LIBRARIES, CodeRef
from ...models.user_python.describe_python import PythonOptions
from ...models.user_python.inside.conversation import TENSORFLOW
from ...models.user_python.inside.tensorflow_model import KERAS_FILES
from ...models.user_python.interpreter import TORCH, UserPython
from ..options.request import RunRequest
from ..progress.progress import Progress
from ..workers.compiler import programs_to_start
from ..workers.isolation import Limits, Spawn, run_alone
from .model_argument import ModelKind, ModelRequest, in_keras_file, kind_of

VARIABLE = "TRANSLOAD_PYTHON_SOURCE"
OURS = "self"
_ENTRY = "transload.models.user_python.describe_python:describe_python"
_NAMES = (".venv", "venv")
_ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")  # what an active environment sets
_MODULES = {TORCH: "torch|torchvision|timm|lightning|pytorch_lightning", TENSORFLOW: "tensorflow|keras|tf_keras"}
_LIMIT_S = 90.0
_MEMORY_BYTES = 2 << 30


def with_source_python(request: RunRequest, model: ModelRequest, progress: Progress) -> ModelRequest:
    """Return the request with the interpreter that the model lives in, where that is not ours, and say which.
    Raises BadRequest where one is named that cannot be used."""
    option, variable = request.model.python, os.environ.get(VARIABLE)
    in_file = in_keras_file(model.text) if option not in (None, OURS) else None
    if in_file:
        model = replace(model, text=in_file)
    is_code = kind_of(model.text) is ModelKind.CODE
    if not is_code or model.text.partition(":")[0] in ("zoo", *LIBRARIES):
        if option not in (None, OURS):
            is_named = model.text.partition(":")[0] in LIBRARIES
            fix = "write a function that makes it there, and name that: FILE.py:make; or " if is_named else ""
            raise BadRequest(f"--python is for code of yours, and {model.text} is none", fix=f"{fix}leave --python out")
        return model
    named = option or variable
    if named == OURS:
        _note_dropped_path(progress)
        return model
    file = _code_file(CodeRef(model.text, request.root))
    is_ours = file is not None and _imports_ours(file)
    if is_ours and option:
        raise BadRequest(
            f"{model.text} imports transload, as a recipe does, and is made by our interpreter",
            fix="leave --python out, or put the model into a file of its own that does not, and name that",
        )
    python: UserPython | None
    if named and not is_ours:  # the variable is for every command
        place = _located(named, request.root if option else None)
        python = with_framework(_ask(place, trust=request.model.trust, optional=False), file)
    else:
        python = _choose(file, os.environ, progress, trust=request.model.trust)
    if python is None:
        _note_dropped_path(progress)
        return model
    own = map(str, import_folders(Path(request.root or "."))[1:])  # its root is there already
    python = replace(python, pythonpath=tuple(dict.fromkeys((*python.pythonpath, *own))))
    how = "" if named else f"; --python {OURS} turns this off"
    progress.note(f"model of {_shown(python)}: {python.summary}{how}", once=f"python {python.path} of {model.text}")
    return replace(model, python=python)


def require_torch_there(model: ModelRequest, command: str) -> None:
    """Raise BadRequest where a model is one of Keras in another interpreter, and the command reads modules of torch."""
    if model.python and model.python.framework == TENSORFLOW:
        raise BadRequest(
            f"{command} takes no model of Keras or TensorFlow in another interpreter, and {model.text} is one",
            fix="convert it, and name its copies; validate and convert take it",
        )


def likely_framework(text: str, named: str | None) -> str:
    """Return the framework of a model that would be looked for in another interpreter, without starting any: empty for
    one of ours."""
    if named not in (None, OURS) and in_keras_file(text):
        return TENSORFLOW
    named = named or os.environ.get(VARIABLE)
    if kind_of(text) is not ModelKind.CODE or text.partition(":")[0] in ("zoo", *LIBRARIES) or named == OURS:
        return ""
    file = _code_file(CodeRef(text, str(Path().absolute())))
    near = file is not None and not _imports_ours(file) and any(project_interpreters(file, os.environ))
    return _frameworks_of(file)[0] if named or near else ""


def _choose(file: Path | None, environment: Mapping[str, str], progress: Progress, *, trust: bool) -> UserPython | None:
    """Return the first interpreter of the model's project that has the model's framework; None where ours will do.
    An active one that cannot be asked is named in a note."""
    if file is None or _imports_ours(file):
        return None
    for path in project_interpreters(file, environment):
        try:
            python = _ask(str(path), trust=trust, optional=True)
        except (BadRequest, StepFailed) as error:
            if _is_active(path, environment):
                progress.note(f"the active environment is not asked: {error.what}", once=f"not asked {path}")
            continue
        with contextlib.suppress(BadRequest):  # nobody named it
            python = with_framework(python, file)
            return python if _is_active(path, environment) else _within_project(python)
    return None


def with_framework(python: UserPython, file: Path | None) -> UserPython:
    """Return the interpreter with the framework of the model in a file, by what that imports and what is there.
    Raises BadRequest where it has not what the model needs."""
    wanted = _frameworks_of(file)
    present = [name for name in wanted if getattr(python, name)]
    if not present:
        lacking = " and no ".join("TensorFlow" if name == TENSORFLOW else name for name in wanted)
        raise BadRequest(
            f"{python.path} (Python {python.version}) has no {lacking}",
            fix="name the interpreter that the model runs in, or give --python self",
        )
    return replace(python, framework=present[0])


def _frameworks_of(file: Path | None) -> Sequence[str]:
    """Return the frameworks that the model in a file may be of, by what the file imports, the likeliest first."""
    code = file.read_bytes() if file and file.suffix == ".py" else b""
    imported = [name for name, modules in _MODULES.items() if _imports(code, modules)]
    if file and file.suffix in KERAS_FILES:
        return [TENSORFLOW]
    return imported if len(imported) == 1 else [TORCH, TENSORFLOW]


def _is_active(python: Path, environment: Mapping[str, str]) -> bool:
    """Return whether an interpreter is of the environment that the user has activated."""
    active = (environment.get(variable) for variable in _ACTIVE)
    return any(python.is_relative_to(Path(folder).absolute()) for folder in active if folder)


def _within_project(python: UserPython) -> UserPython:
    """Return an interpreter that lies beside the model with those of its folders that are a Python's or its project's.
    A stranger's project could hold a program that names others, and the worker would be let into them."""
    below_home = [folder for folder in python.folders if not Path.home().is_relative_to(folder)]
    own = [folder for folder in below_home if _is_python_folder(Path(folder))]
    near = [*own, str(python.environment.parent), *python.pythonpath]
    folders = (folder for folder in below_home if any(Path(folder).is_relative_to(place) for place in near))
    return replace(python, folders=tuple(folders))


def _is_python_folder(folder: Path) -> bool:
    """Return whether a folder is that of an environment, or of an installed Python."""
    is_environment = (folder / "pyvenv.cfg").is_file() or (folder / "conda-meta").is_dir()
    return is_environment or any(folder.glob("lib*/python3*/os.py"))


def project_interpreters(file: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield the interpreters that a model's file may belong to and that are not ours, the likeliest first.
    An active environment that is called .venv or venv belongs to the folder it lies in, and counts for files there;
    any other active environment counts for every file."""
    folders = []
    for variable in _ACTIVE:
        if environment.get(variable):
            active = Path(environment[variable]).absolute()
            if active.name not in _NAMES or file.is_relative_to(active.parent):
                folders.append(active)
    near = (parent / name for parent in file.parents for name in _NAMES)
    folders += [folder for folder in near if (folder / "pyvenv.cfg").is_file()][:1]
    ours = {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}
    for folder in dict.fromkeys(folders):
        python = folder / "bin" / "python"
        if folder.resolve() not in ours and python.exists() and os.access(python, os.X_OK):
            yield python


def _code_file(ref: CodeRef) -> Path | None:
    """Return the file of the model's code, or where its module would lie under the root."""
    if ref.file:
        return ref.file if ref.file.is_file() else None
    bases = (folder.joinpath(*ref.place.split(".")) for folder in import_folders(Path(ref.root or ".")))
    files = (file for base in bases for file in (base.with_suffix(".py"), base / "__init__.py"))
    return next((file for file in files if file.is_file()), None)


def _imports_ours(file: Path) -> bool:
    """Return whether a file imports transload, as a recipe does: it is made for our interpreter."""
    return file.suffix == ".py" and _imports(file.read_bytes(), "transload")


def _imports(code: bytes, modules: str) -> bool:
    return re.search(rb"^\s*(from|import)\s+(%b)\b" % modules.encode(), code, re.MULTILINE) is not None


def _located(named: str, root: str | None) -> str:
    """Return the path of a named interpreter, or of the one in a named environment. Raises BadRequest."""
    path = Path(root or "", named).expanduser().absolute()
    if path.is_dir():
        path = path / "bin" / "python"
    elif not path.exists() and os.sep not in named and (found_path := shutil.which(named)):
        path = Path(found_path)
    if not path.exists():
        raise BadRequest(
            f"no such interpreter: {path}", fix="name a Python or its environment, as in --python .venv/bin/python"
        )
    with path.open("rb") as stream:
        if stream.read(2) == b"#!":
            raise BadRequest(
                f"{path} is a script that starts a Python",
                fix="name that one: " + f"{path.name} -c 'import sys; print(sys.executable)' prints it",
            )
    return str(path)


def _ask(path: str, *, trust: bool, optional: bool) -> UserPython:
    """Let a worker ask an interpreter for its record. Raises BadRequest, StepFailed."""
    programs = programs_to_start(path)
    pythonpath = tuple(
        str(Path(part).absolute()) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part
    )
    pythonpath = tuple(part for part in pythonpath if not (Path(part) / "transload" / "pipeline").is_dir())
    base = os.environ.get("PYTHONUSERBASE", "")
    options = PythonOptions(
        path=path, programs=programs, pythonpath=pythonpath, optional=optional, home=str(Path.home()), user_base=base
    )
    limits = Limits(_LIMIT_S, memory_bytes=_MEMORY_BYTES, starts=programs, walled=not trust)
    with tempfile.TemporaryDirectory(prefix="transload-python-") as folder:
        scratch = Path(folder)
        own = [str(place) for place in _folders_of(Path(path)) if _is_python_folder(place)]
        user_sites = map(str, Path(base or Path.home() / ".local").glob("lib/python*/site-packages"))
        reads = (*own, *pythonpath, *user_sites)
        spawn = Spawn(scratch / "log", scratch / "cwd", limits, reads=reads)
        job = {"inputs": {}, "out": folder, "options": options.to_json()}
        return UserPython.from_json(run_alone(_ENTRY, job, spawn))


def _folders_of(path: Path) -> Iterator[Path]:
    """Yield the folders that an interpreter starts from: its environment's, and the one that this was made of."""
    for program in (path, path.resolve()):
        yield program.parent.parent
    settings = path.parent.parent / "pyvenv.cfg"
    if settings.is_file():
        for line in settings.read_text(errors="replace").splitlines():
            name, _, value = line.partition("=")
            if name.strip() == "home":
                yield Path(value.strip()).parent


def _shown(python: UserPython) -> str:
    """Return the environment's folder as a person would name it from here."""
    here, folder = Path.cwd(), python.environment
    return f"./{folder.relative_to(here)}" if folder.is_relative_to(here) and folder != here else python.path


def _note_dropped_path(progress: Progress) -> None:
    """Say that our own interpreter does not read the user's PYTHONPATH, where there is one."""
    folders = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    read = {folder.resolve() for folder in import_folders(Path())}
    unread = [part for part in folders if Path(part).resolve() not in read]
    dropped = [part for part in unread if not (Path(part) / "transload" / "pipeline").is_dir()]
    if dropped:
        progress.note(
            f"PYTHONPATH={os.pathsep.join(dropped)} is not read here: name the model's interpreter with --python, "
            "which does, or start in the folder of its packages or beside the pyproject.toml that names it",
            once="PYTHONPATH",
        )

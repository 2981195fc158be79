"""Import Python objects of the user's, and turn errors of their code into one sentence. Worker only.

The user's root goes last on sys.path: a file of theirs that has the name of one of Python's or ours hides neither.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO, cast

from ..errors import BadRequest, ToolMissing, TransloadError
from ..job import WALLED
from ..library_messages import first_line, text_of
from ..sources import CodeRef
from ..store import is_disk_full
from ..user_python.inside.user_code_import import last_public_name
from .source_folders import import_folders
from .torchvision_ops import register_torchvision_stubs
from .user_frames import FRAME

_PROCESS_ERROR = "\nOriginal Traceback (most recent call last):\n"  # torch._utils.ExceptionWrapper
_RELATIVE = re.compile(rb"^\s*from\s+\.", re.MULTILINE)
_PRIVATE = "_transload_user_"  # a user's json.py becomes this module and a suffix, not json


def load_object(ref: CodeRef) -> Any:
    """Load the object that `ref` names from a file or a module of the user's.
    Raises BadRequest where the file, the module or the name is not there, or the import raises."""
    register_torchvision_stubs()  # their code may import it, or timm
    with working_in_root(ref):
        module = _from_file(ref.file, ref.root) if ref.file else _from_name(ref)
    value: Any = module
    for part in ref.name.split("."):
        if not hasattr(value, part):
            raise BadRequest(
                f"{ref.place} holds no {ref.name}", fix=f"name what it holds: {ref.place}:{last_public_name(module)}"
            )
        value = getattr(value, part)
    return value


@contextmanager
def working_in_root(ref: CodeRef) -> Iterator[None]:
    """Make the user's root the current folder while their code makes a model: `configs/x.yaml` starts there."""
    before = Path.cwd()
    if ref.root is not None:
        os.chdir(ref.root)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def user_code(
    activity: str, ref: CodeRef, fix: str | None = None, failure: type[BadRequest] = BadRequest
) -> Iterator[None]:
    """Turn any error of the user's code into one `failure` that names file and line.

    `fix` is for code of a library, which the user does not change. A process that the code forked ends here: it must
    not do our work a second time. Entries removed from sys.path and streams that were closed or replaced are restored:
    later work imports and prints."""
    ours, paths, streams = os.getpid(), [*sys.path], (sys.stdout, sys.stderr)
    try:
        yield
    except TransloadError:
        raise
    except BaseException as error:  # a KeyboardInterrupt is theirs, too: Ctrl-C does not reach a worker
        if is_disk_full(error):
            raise  # nobody's code is at fault
        raise _refused(activity, ref, error, fix if ref.library else None, failure) from error
    finally:
        if os.getpid() != ours:
            os._exit(0)
        sys.path.extend(path for path in paths if path not in sys.path)
        sys.stdout, sys.stderr = map(_open, (sys.stdout, sys.stderr), streams)


def _open(theirs: object, ours: TextIO | None) -> TextIO:
    """Return a stream that can be written to and flushed.
    It is theirs, where that is one: two over one buffer would close it for each other. An object of theirs that has
    `write` need not have more."""
    for stream in (theirs, ours):
        if isinstance(stream, io.TextIOBase) and not stream.closed:
            return cast("TextIO", stream)
    return Path(os.devnull).open("w")


def _refused(
    activity: str, ref: CodeRef, error: BaseException, fix: str | None, failure: type[BadRequest]
) -> BadRequest:
    folders = _folders(ref.file, ref.root)
    place = _place(error, folders)
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package and not any((folder / package).exists() or (folder / f"{package}.py").exists() for folder in folders):
        return ToolMissing(
            f"{activity} needs {package}, which is not installed ({place})",
            fix=f"name the Python that has it with --python, or install {package} where transload is installed",
        )
    if isinstance(error, SystemExit):
        return failure(
            f"{activity} called exit({'' if error.code is None else repr(error.code)[:100]}) at {place}",
            fix='keep what ends the program, or reads its arguments, under `if __name__ == "__main__":`',
        )
    if isinstance(error, PermissionError) and error.filename and not fix and os.environ.get(WALLED):
        folder = "the folder of the model's code, which it may read and not write"
        fix = f"put {error.filename} into {folder}, or give --trust"
    if isinstance(error, FileNotFoundError) and not Path(error.filename or "").is_absolute() and not fix:
        fix = "the code runs in a folder of its own: name the file as Path(__file__).parent / NAME"
    message = first_line(error.msg if isinstance(error, SyntaxError) else _told(error), 300, nothing="no message")
    return failure(
        f"{activity} raised {type(error).__name__} at {place}: {message}",
        fix=f"{fix or 'mend ' + place.rpartition(':')[0]}; the log has the traceback",
    )


def _from_file(file: Path, root: str | None) -> ModuleType:
    if not file.is_file():
        raise BadRequest(f"no such file: {file}", fix="check the path; it starts at the folder you run transload in")
    name, base = _module_name(file, root)
    _append_to_path(base, *_folders(file, root))
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) == str(file):
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise BadRequest(f"{file} is no Python file", fix="name a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look a module up by its name
    try:
        with user_code(f"importing {file.name}", CodeRef(str(file), root)):
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _from_name(ref: CodeRef) -> ModuleType:
    _append_to_path(*_folders(None, ref.root))
    try:
        absent = importlib.util.find_spec(ref.place) is None
    except (ImportError, ValueError):
        absent = True
    if absent:
        raise BadRequest(
            f"there is no recipe, file or module {ref.text!r}",
            fix="name zoo:RECIPE (`transload zoo` lists them), FILE.py[:NAME] or package.module[:NAME]",
        )
    with user_code(f"importing {ref.place}", ref):
        return importlib.import_module(ref.place)


def _module_name(file: Path, root: str | None) -> tuple[str, Path]:
    """Return the name to import a file under, and the folder that the name starts at.
    A file in a package keeps its dotted name, so that its relative imports work. So does one in a namespace package:
    a folder without __init__.py that it imports its siblings from."""
    base, parts = file.parent, [file.stem]
    while (base / "__init__.py").is_file():
        parts.insert(0, base.name)
        base = base.parent
    if len(parts) == 1 and _RELATIVE.search(file.read_bytes()):
        start = max((folder for folder in _folders(None, root) if folder in file.parents), default=base)
        folders = file.parent.relative_to(start).parts
        if folders and all(map(str.isidentifier, folders)) and not _is_elsewhere(folders[0], start):
            parts, base = [*folders, file.stem], start
    return (".".join(parts) if len(parts) > 1 else _PRIVATE + file.stem), base


def _is_elsewhere(package: str, folder: Path) -> bool:
    """Return whether a package's name means another one than that in the user's folder."""
    search_path = [path for path in sys.path if path and Path(path).absolute() != folder]
    return package in sys.stdlib_module_names or PathFinder.find_spec(package, search_path) is not None


def _folders(file: Path | None, root: str | None) -> list[Path]:
    return [*(import_folders(Path(root)) if root else ()), *([file.parent] if file else [])]


def _append_to_path(*folders: Path) -> None:
    sys.path.extend(path for path in dict.fromkeys(map(str, folders)) if path not in sys.path)


def _place(error: BaseException, folders: list[Path]) -> str:
    """Return file:line of the user's own code that an error came from, else of any code."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    frames += [(name, int(line)) for name, line in FRAME.findall(text_of(error))] if _is_of_process(error) else []
    own = [frame for frame in frames if _is_own(Path(frame[0]), folders)]
    name, line = (own or frames)[-1]
    return f"{name}:{line}"


def _is_own(file: Path, folders: list[Path]) -> bool:
    """Return whether a file is the user's, and not of a library in an environment that lies in their folder."""
    return "site-packages" not in file.parts and any(file.is_relative_to(folder) for folder in folders)


def _is_of_process(error: BaseException) -> bool:
    """Return whether an error comes from a process of a DataLoader, whose traceback torch puts into the message."""
    return _PROCESS_ERROR in text_of(error)


def _told(error: BaseException) -> object:
    """Return the error, or the last line of its message, where the traceback of another process stands before it."""
    if not _is_of_process(error):
        return error
    return text_of(error).strip().splitlines()[-1].removeprefix(f"{type(error).__name__}: ")

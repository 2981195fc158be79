"""An error that a user's code raised in another interpreter, as one of ours."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import BadRequest, StepFailed, ToolMissing, TransloadError
from ..library_messages import first_line
from .interpreter import UserPython

# torch writes the traceback of another process so, and loading/user_code.py finds the user's line in it.
_TRACEBACK = "\nOriginal Traceback (most recent call last):\n"
_INSIDE = Path(__file__).parent / "inside"


@dataclass(frozen=True)
class RemoteError:
    """The record of an error (inside/failures.py)."""

    kind: str  # the name of its class
    message: str
    frames: tuple[tuple[str, int], ...] = ()  # files and lines that led to it
    module: str = ""  # that is not there
    fix: str = ""

    @staticmethod
    def of(record: Any) -> RemoteError:
        """Return the error in a reply. Raises ValueError where it is none."""
        try:
            frames = tuple((str(name), int(line)) for name, line in record.get("frames", ()))
            texts = {name: str(record.get(name, "")) for name in ("module", "fix")}
            return RemoteError(str(record["kind"]), str(record["message"]), frames, **texts)
        except (TypeError, LookupError, AttributeError) as error:
            raise ValueError("no error is told so") from error


def remote_failure(record: Any, stage: str, python: UserPython, *, call: bool) -> Exception:
    """Return the error for a record of the other interpreter.
    That of a `call` is of the class that was raised there, where Python has it, for whoever tries inputs."""
    try:
        error = RemoteError.of(record)
    except ValueError:
        return StepFailed(f"{python.path} answered with something that is no error", fix="the log has more")
    if error.kind == "Refusal":
        return BadRequest(error.message, fix=error.fix or "the log has more")
    return _raised_there(error) if call else _in_words(error, stage, python)


def _raised_there(error: RemoteError) -> Exception:
    """Return an error of the same class, with the lines that led to it in its message."""
    known = getattr(builtins, error.kind, None)
    plain = isinstance(known, type) and issubclass(known, Exception) and not issubclass(known, OSError | UnicodeError)
    kind: type[Exception] = known if plain and known is not None else type(error.kind, (RuntimeError,), {})
    lines = "".join(f'  File "{name}", line {line}\n' for name, line in error.frames)
    return kind(f"{error.message}{_TRACEBACK}{lines}{error.kind}: {_line(error)}")


def _in_words(error: RemoteError, stage: str, python: UserPython) -> TransloadError:
    """Return the sentence for an error at a stage, with the user's own line where one led to it."""
    own = [frame for frame in error.frames if not _is_installed(frame[0], python)]
    if package := error.module.partition(".")[0]:
        name, line = (own or error.frames or [(python.path, 0)])[-1]
        return ToolMissing(
            f"{stage} needs {package}, which {python.path} has not ({name}:{line})",
            fix=f"install it there, {python.path} -m pip install {package}, or name another with --python",
        )
    if not own:
        return BadRequest(
            f"{stage} in {python.path} raised {error.kind}: {_line(error)}",
            fix="mend that environment, or name another with --python; the log has the traceback",
        )
    name, line = own[-1]
    return BadRequest(
        f"{stage} in {python.path} raised {error.kind} at {name}:{line}: {_line(error)}",
        fix=f"mend {name}; the log has the traceback",
    )


def _line(error: RemoteError) -> str:
    return first_line(error.message, 300, nothing="no message")


def _is_installed(file: str, python: UserPython) -> bool:
    """Return whether a file belongs to the interpreter, to what is installed in it, or to what is lent to it."""
    path = Path(file)
    if file.startswith("<") or "site-packages" in path.parts:
        return True
    return any(path.is_relative_to(folder) for folder in (*python.folders, str(_INSIDE)))

"""The one place where an exception becomes what a person reads, and an exit status (docs/exit-codes.md)."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from types import FrameType

from ....models.errors import BadRequest, Exit, TransloadError
from ....models.library_messages import one_line
from ...progress.terminal_text import fit_terminal

INTERRUPTED = 130  # as a shell has it: 128 + SIGINT; SIGTERM and SIGHUP are 143 and 129
READER_GONE = 141  # 128 + SIGPIPE: `transload zoo | head -1`
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_OF_PLACES = (*_CLOSED, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR)  # that the names of a user can meet
BUG = 70  # EX_SOFTWARE of sysexits.h: not a verdict, and nothing that the caller did


def guarded(do: Callable[[Sequence[str] | None], int], argv: Sequence[str] | None) -> int:
    """`do(argv)`, and its exit status; what it raises is told on stderr."""
    try:
        with _stopped_by_signals():
            status = int(do(argv))
        sys.stdout.flush()
    except KeyboardInterrupt as stop:
        status = stop.status if isinstance(stop, _Stopped) else INTERRUPTED
        return _told("stopped; run the same command again to go on from here", status)
    except BrokenPipeError:
        _drop_stdout()
        return READER_GONE
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else Exit.USAGE
    except TransloadError as error:
        return _told(f"error: {error}", error.exit_code)
    except Exception as error:  # noqa: BLE001  (the outermost border: what is not ours to explain becomes a report)
        return _explained(error)
    return status


class _Stopped(KeyboardInterrupt):
    """SIGTERM or SIGHUP, which ends workers and removes files as Ctrl-C does."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.status = 128 + number


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise _Stopped(number)

    numbers = (signal.SIGTERM, signal.SIGHUP) if threading.current_thread() is threading.main_thread() else ()
    ours = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]  # nohup ignores SIGHUP
    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _explained(error: Exception) -> int:
    if isinstance(error, OSError):
        _drop_stdout()
    sentence = disk_sentence(error)
    return _told(sentence, Exit.USAGE) if sentence else _told(_bug_sentence(error), BUG)


def usage_error(
    error: Exception, command: str, options: Sequence[str], *, subcommands: Sequence[str] = (), page: str
) -> BadRequest:
    """Return an error of typer's parser in our form. `options` and `subcommands` are those of the command, `page` is
    where it is described."""
    option = getattr(error, "option_name", None)  # typer keeps the classes of its errors in a private module
    if type(error).__name__ == "NoSuchOption" and option:
        near = get_close_matches(option, options, n=1)
        mend = f"did you mean {near[0]}? " if near else ""
        return BadRequest(f"{command} has no option {option}", fix=f"{mend}'{command} --help' lists them")
    told = getattr(error, "format_message", error.__str__)
    words = " ".join(str(told()).split()).rstrip(".").replace("Value error, ", "")
    fix = f"'{command} --help' says what it takes, {page} how it is used"
    if subcommands:
        fix = f"use one of {', '.join(subcommands)} ({page})"
    return BadRequest(f"{command}: {words[:1].lower()}{words[1:]}", fix=fix)


def disk_sentence(error: Exception) -> str | None:
    """Two lines for a disk that is full or closed to us, wherever it showed, or None where it is something else."""
    if not isinstance(error, OSError):
        return None
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" under {one_line(str(error.filename))}" if error.filename else ""
        return f"error: the disk{where} is full\n  fix: free some space, or name a folder elsewhere"
    if error.errno in _OF_PLACES and error.filename:
        why = os.strerror(error.errno).lower()
        mend = "mend its permissions, or name another place" if error.errno in _CLOSED else "name another place"
        return f"error: {one_line(str(error.filename))} cannot be used: {why}\n  fix: {mend}"
    return None


def _bug_sentence(error: Exception) -> str:
    import tempfile
    import traceback

    text = "".join(traceback.format_exception(error))
    first = one_line((str(error).splitlines() or [""])[0][:200])
    message = f"error: a bug in transload: {type(error).__name__}: {first}"
    try:
        handle, name = tempfile.mkstemp(prefix="transload-bug-", suffix=".txt")
        with os.fdopen(handle, "w") as file:
            file.write(f"{sys.argv}\n{text}")
    except OSError:  # no place to write to: then here
        return f"{text}\n{message}\n  fix: report it with the lines above"
    return f"{message}\n  fix: report it with {Path(name)}, which holds the traceback"


def _told(text: str, status: int) -> int:
    with suppress(OSError):  # nobody reads stderr: the status has to say it
        print(fit_terminal(text, sys.stderr), file=sys.stderr, flush=True)
    return status


def _drop_stdout() -> None:
    """Stop writing to stdout where that has failed: Python would complain once more when it flushes at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

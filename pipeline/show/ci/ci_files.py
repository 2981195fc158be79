"""The files of `--junit` and `--sarif`: written at the end of a command, and also where it ends in an error."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ....models.atomic_files import write_whole
from ....models.errors import BadRequest, TransloadError
from ....models.store import disk_errors

if TYPE_CHECKING:
    from .ci_rows import CiRow


@dataclass(frozen=True)
class CiFiles:
    """Where the rows of a command go; None: nowhere."""

    command: str
    junit: Path | None = None
    sarif: Path | None = None

    @property
    def wanted(self) -> bool:
        """Whether any file is to be written."""
        return self.junit is not None or self.sarif is not None

    def write(self, rows: Sequence[CiRow], exit_code: int) -> None:
        """Write the files, in which each fact counts once. Raises BadRequest where one cannot be written."""
        from .ci_rows import count_once
        from .junit_file import junit_text
        from .sarif_file import sarif_text

        rows = count_once(rows)
        if self.junit is not None:
            with disk_errors(self.junit, "--junit"):
                write_whole(self.junit, junit_text(rows, self.command))
        if self.sarif is not None:
            with disk_errors(self.sarif, "--sarif"):
                write_whole(self.sarif, sarif_text(rows, self.command, exit_code))


@contextmanager
def ci_files(command: str, junit: Path | None, sarif: Path | None) -> Iterator[CiFiles]:
    """Yield where the rows go. An error that ends the command is the only row of the files then.
    Raises BadRequest where a file cannot be written, before the command begins."""
    files = CiFiles(command, junit, sarif)
    for option, path in (("--junit", junit), ("--sarif", sarif)):
        if path is not None:
            _check_place(path, option)
    try:
        yield files
    except TransloadError as error:
        if files.wanted:
            from .ci_rows import row_of_error

            files.write([row_of_error(error, name=f"transload {command}")], int(error.exit_code))
        raise


def _check_place(path: Path, option: str) -> None:
    fix = f"name another file with {option}"
    if path.is_dir():
        raise BadRequest(f"{path} is a folder, and {option} writes a file", fix=fix)
    with disk_errors(path, option):
        path.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise BadRequest(f"{path} cannot be written to", fix=fix)

"""The folder of a list: a record for each finished model, and models.json, report.md and index.html over all of them.

One command at a time works in it. The record of a model is written as soon as that has come to its end, so that a kill
at any moment loses no finished model.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from .... import __version__
from ....models.atomic_files import write_whole
from ....models.errors import BadRequest, DiskFull, Exit
from ....models.store import digest_of_json, is_disk_full, state_of
from ....models.store_ledger import try_lock
from ...plan.models_file import ListedModel
from ...result.environment import describe_environment
from ...result.list_records import (
    ListCommand,
    ListResult,
    ModelRow,
    RowState,
    decide_list,
    list_json,
    model_json,
    read_model_row,
)
from ...show.models_page import render_models_page
from ...show.models_text import render_models_markdown
from .failure_causes import group_causes

RECORD = "model.json"  # in the folder of a model
# How a model ended that is not done again. A bad input is for the user to mend, which the request does not show.
_KEPT = (Exit.PASS, Exit.FAIL, Exit.INCONCLUSIVE, Exit.TOOLCHAIN)


class ListFolder:
    """The rows of a list and the folder that holds their results. Used by one thread."""

    def __init__(
        self, folder: Path, command: ListCommand, rows: Sequence[ModelRow],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:  # fmt: skip
        self._folder = folder
        self._command = command
        self._rows = {row.name: row for row in rows}
        self._started_at = now().isoformat(timespec="seconds")
        self._started = time.monotonic()

    def keep_finished(self) -> int:
        """Take over the models that an earlier command finished for the same request; return how many these are."""
        kept = 0
        for name, row in self._rows.items():
            earlier = read_model_row(self._folder / name / RECORD)
            if earlier and earlier.request == row.request and _is_whole(self._folder, earlier):
                self._rows[name] = earlier
                kept += 1
        return kept

    @property
    def rows(self) -> tuple[ModelRow, ...]:
        """The rows, in the order of the list."""
        return tuple(self._rows.values())

    def record(self, row: ModelRow) -> None:
        """Keep what became of a model."""
        self._rows[row.name] = row
        if row.state is RowState.DONE and row.exit_code in _KEPT:
            place = self._folder / row.name
            place.mkdir(exist_ok=True)
            try:
                write_whole(place / RECORD, model_json(row))
            except OSError as error:
                if not is_disk_full(error):  # its row, and those of the others, still stand in the reports
                    raise

    def write(self) -> ListResult:
        """Write models.json, report.md and index.html, and return what they hold. Raises DiskFull."""
        result = self._result()
        try:
            write_whole(self._folder / "models.json", list_json(result))
            write_whole(self._folder / "report.md", render_models_markdown(result))
            write_whole(self._folder / "index.html", render_models_page(result))
        except OSError as error:
            if not is_disk_full(error):
                raise
            fix = "free some space, and run the same command again with --resume"
            raise DiskFull(f"the disk under {self._folder} is full", fix=fix) from error
        return result

    def _result(self) -> ListResult:
        verdict, status = decide_list(self.rows)
        return ListResult(
            schema=1,
            transload_version=__version__,
            command=self._command,
            verdict=verdict,
            exit_code=status,
            started_at=self._started_at,
            seconds=round(time.monotonic() - self._started, 3),
            models=self.rows,
            causes=group_causes(self.rows),
        )


@contextmanager
def locked_list(folder: Path) -> Iterator[None]:
    """Hold the folder of a list for one command. Raises BadRequest where another command works in it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        if not try_lock(handle):
            fix = "wait for it, or name another folder with --out"
            raise BadRequest(f"another transload works in {folder}", fix=fix)
        yield
    finally:
        os.close(handle)


def request_digest(command: ListCommand, model: ListedModel, extra: Mapping[str, object] | None = None) -> str:
    """Return the digest of all that the result of a model depends on, as far as a list can know: the request, the
    installed libraries, and size and time of the files that it names. What these import is the store's affair."""
    files = {str(path): state for text in _named_files(model) for path, state in _states(Path(model.root), text)}
    here = _installation()
    return digest_of_json(
        {
            "command": command, "version": __version__, "python": here.python, "packages": here.packages,
            "source": model.source, "targets": model.targets, "options": dict(model.options), "files": files,
            "extra": dict(extra or {}),
        }
    )  # fmt: skip


_installation = cache(describe_environment)


def _named_files(model: ListedModel) -> Iterator[str]:
    for text in (model.source, model.options.get("weights"), model.options.get("data")):
        if text:
            yield text.removeprefix("hf:").partition("?")[0]


def _states(root: Path, text: str) -> Iterator[tuple[Path, tuple[int, int]]]:
    """Yield size and time of the file that a text names, or of every file in a folder."""
    for path in (root / text, root / text.partition(":")[0]):
        if path.is_dir():
            yield from sorted(state_of(path).items())
            return
        if path.is_file():
            stat = path.stat()
            yield path, (stat.st_size, stat.st_mtime_ns)
            return


def _is_whole(folder: Path, row: ModelRow) -> bool:
    """Return whether what a finished model left is still there."""
    place = folder / (row.folder or row.name)
    report = folder / row.report if row.report else place
    paths = (place / target.path for target in row.targets if target.path)
    return place.is_dir() and report.exists() and all(path.exists() for path in paths)

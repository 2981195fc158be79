"""What becomes of the store at the end of a command: it is kept within its limit, or its size is told."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ....models.errors import BadRequest, TransloadError
from ....models.store import size_of
from ....models.store_ledger import read_store_bytes, write_store_bytes
from ...progress.progress import Progress
from ...result.size_text import parse_size
from ...show.units import size
from .store_removal import RemovalRule, remove_items

LIMIT_VARIABLE = "TRANSLOAD_STORE_LIMIT"
LARGE_BYTES = 5_000_000_000  # from here on a store without a limit is told of


def store_limit(requested: str | None) -> int | None:
    """Return the limit in bytes: that of the pipeline file, else of TRANSLOAD_STORE_LIMIT. Raises BadRequest."""
    if requested:
        return parse_size(requested)
    text = os.environ.get(LIMIT_VARIABLE)
    try:
        return parse_size(text) if text else None
    except BadRequest as error:
        raise BadRequest(f"{LIMIT_VARIABLE}: {error.what}", fix=error.fix) from error


def tidy_store(root: Path, limit_bytes: int | None, progress: Progress, *, runs: Path | None = None) -> None:
    """Bring the store under its limit, or say that a store without one has grown large. Never fails a command.
    What the calling command has used stays until a later one ends."""
    try:
        total = _total(root)
        if limit_bytes is None:
            if total > LARGE_BYTES:
                text = f"the store {root} has {size(total)}: 'transload store gc' frees what nothing uses"
                progress.note(text, once="store")
        elif total > limit_bytes:
            result = remove_items(root, RemovalRule(limit_bytes=limit_bytes), time.time(), runs=[runs] if runs else [])
            _tell(root, result.removed_bytes, result.left_bytes, limit_bytes, progress)
    except (TransloadError, OSError) as error:
        reason = error.what if isinstance(error, TransloadError) else str(error)
        progress.note(f"the store {root} was not brought under its limit: {reason}", once="store")


def _tell(root: Path, removed_bytes: int, left_bytes: int, limit_bytes: int, progress: Progress) -> None:
    text = f"the store {root}: removed {size(removed_bytes)} that were not used longest, to keep to {size(limit_bytes)}"
    if left_bytes > limit_bytes:
        more = f"the store {root} has {size(left_bytes)}, above its limit of {size(limit_bytes)}: this command or runs"
        text = f"{more} that are there use it ('transload store ls')"
    if removed_bytes or left_bytes > limit_bytes:
        progress.note(text, once="store")


def _total(root: Path) -> int:
    """Return the size of all objects in bytes: the recorded one, or a new count where none is recorded."""
    total = read_store_bytes(root)
    if total is None:
        total = size_of(root / "objects")
        write_store_bytes(root, total)
    return total

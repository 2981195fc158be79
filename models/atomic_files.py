"""Write files and folders whole: a kill at any moment leaves the former content, nothing, or all of the new one.

Everything is written beside its place and renamed. A rename is atomic within one file system.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file in one piece; text as UTF-8. One process at a time may write `path`."""
    half = path.with_name(f".{path.name}.half")
    half.write_bytes(content.encode() if isinstance(content, str) else content)
    half.replace(path)


def write_synced(path: Path, content: str | bytes) -> None:
    """Write a file in one piece that outlives a power cut; text as UTF-8. Several processes may write `path` at once.
    An error, as of a full disk, leaves nothing beside it."""
    beside = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)
        rename_synced(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def rename_synced(written: Path, path: Path) -> None:
    """Put a finished file in the place of `path`, once its content is on the disk."""
    with written.open("rb") as file:
        os.fsync(file.fileno())
    written.replace(path)


def copy_folder_whole(
    source: Path,
    folder: Path,
    *,
    copy: Callable[[str, str], object] = shutil.copy2,
    add: Callable[[Path], None] | None = None,
) -> None:
    """Copy a folder to `folder`, in place of what is there. `copy` copies a file; `add` adds files to the copy."""
    half = folder.with_name(f".{folder.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    shutil.copytree(source, half, copy_function=copy)
    if add is not None:
        add(half)
    shutil.rmtree(folder, ignore_errors=True)
    half.rename(folder)


def link_folder_whole(source: Path, folder: Path) -> None:
    """Put a folder of plain files at `folder`, in place of what is there: hard links, copies on another disk."""
    copy_folder_whole(source, folder, copy=_link_or_copy)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(os.path.realpath(source), target)
    except OSError:  # another disk, one without hard links, or too many of them
        shutil.copy2(source, target)

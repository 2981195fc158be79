"""Scratch folders: gone at the end, kept while their process lives, and removed after it by the next."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from transload.models.scratch_folders import locked_scratch, remove_abandoned, scratch_folder

KILLED = """
import os, signal, sys
from pathlib import Path
from transload.models.scratch_folders import locked_scratch, scratch_folder
place = Path(sys.argv[1])
with scratch_folder(place, "of-") if sys.argv[2] == "named" else locked_scratch(place / ".scratch"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def age(folder: Path) -> None:
    os.utime(folder, (0, 0))


@pytest.mark.parametrize("kind", ["named", "plain"])
def test_what_a_killed_process_left_is_removed_by_the_next(kind: str, tmp_path: Path) -> None:
    (tmp_path / ".scratch").mkdir()
    words = [sys.executable, "-P", "-c", KILLED, str(tmp_path), kind]
    assert subprocess.run(words, check=False).returncode == -9
    (folder,) = tmp_path.glob("of-*" if kind == "named" else ".scratch")
    (folder / "big").write_text("x")
    if kind == "plain":
        remove_abandoned([folder])
        assert folder.exists()  # it names no process, and may be about to be locked
        age(folder)
    remove_abandoned([folder])
    assert not folder.exists()


def test_a_folder_of_the_living_is_kept_however_old_it_is(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with scratch_folder(tmp_path, "of-") as folder, locked_scratch(tmp_path / "plain"):
        age(folder)
        age(tmp_path / "plain")
        remove_abandoned(tmp_path.iterdir())
        assert folder.exists()
        assert (tmp_path / "plain").exists()
        assert folder.stat().st_mode & 0o077 == 0  # nobody else reads it
    assert not [*tmp_path.iterdir()]


def _link(place: Path, to: Path) -> None:
    place.symlink_to(to, target_is_directory=True)


@pytest.mark.parametrize("make", [_link, lambda place, _to: place.write_text("x")])
def test_what_is_no_folder_is_left_alone(make: Callable[[Path, Path], object], tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "file").write_text("x")
    make(tmp_path / "of-0-0", theirs)
    os.utime(tmp_path / "of-0-0", (0, 0), follow_symlinks=False)
    remove_abandoned([tmp_path / "of-0-0"])
    assert (theirs / "file").exists()
    assert (tmp_path / "of-0-0").exists()

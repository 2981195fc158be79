"""Files and folders that are written in one piece."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from transload.models.atomic_files import copy_folder_whole, link_folder_whole, rename_synced, write_synced, write_whole


@pytest.mark.parametrize("content", ["two", b"two"])
def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path, content: str | bytes) -> None:
    (tmp_path / "run.json").write_text("one")
    write_whole(tmp_path / "run.json", content)
    assert (tmp_path / "run.json").read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_write_that_is_cut_short_leaves_the_former_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.json").write_text("one")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", stop)
    for write in (write_whole, write_synced):
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path / "run.json", "two")
    assert (tmp_path / "run.json").read_text() == "one"


def test_a_disk_that_is_full_leaves_nothing_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(path: Path, _content: bytes) -> None:
        path.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", fill)
    with pytest.raises(OSError, match="No space left"):
        write_synced(tmp_path / "key.json", "{}")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_takes_the_place_of_another_as_a_whole(tmp_path: Path) -> None:
    for name in ("new", "made"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text(name)
    (tmp_path / ".made.half").mkdir()  # a former copy was killed
    copy_folder_whole(tmp_path / "new", tmp_path / "made")
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["new"]
    assert not (tmp_path / ".made.half").exists()


def test_a_finished_file_is_renamed(tmp_path: Path) -> None:
    (tmp_path / "last.ckpt.part").write_text("state")
    rename_synced(tmp_path / "last.ckpt.part", tmp_path / "last.ckpt")
    assert [path.name for path in tmp_path.iterdir()] == ["last.ckpt"]


def test_files_are_shared_where_the_disk_can_and_copied_where_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "object").mkdir()
    (tmp_path / "object" / "file").write_text("content")
    (tmp_path / "object" / "link").symlink_to("file")
    link_folder_whole(tmp_path / "object", tmp_path / "linked")
    assert (tmp_path / "linked" / "file").samefile(tmp_path / "object" / "file")
    assert not (tmp_path / "linked" / "link").is_symlink()

    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "another disk")

    monkeypatch.setattr(os, "link", refuse)
    link_folder_whole(tmp_path / "object", tmp_path / "copied")
    assert (tmp_path / "copied" / "file").read_text() == "content"
    assert not (tmp_path / "copied" / "file").samefile(tmp_path / "object" / "file")

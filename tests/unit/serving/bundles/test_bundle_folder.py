"""A bundle is written whole or not at all, and twice the same."""

from __future__ import annotations

import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from transload.serving.bundles.bundle_folder import write_bundle_folder
from transload.serving.bundles.bundle_records import Archive, ArchiveKind, Content


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Content]:
    (tmp_path / "payload" / "inner").mkdir(parents=True)
    (tmp_path / "payload" / "inner" / "b.bin").write_bytes(b"\0\1")
    (tmp_path / "a.txt").write_text("a")
    members: dict[str, str | Path] = {"x/y.txt": "text", "p": tmp_path / "payload", "a.txt": tmp_path / "a.txt"}
    return {
        "deep/check.sh": "#!/bin/sh\n", "bytes": b"\xff", "payload": tmp_path / "payload",
        "copy.txt": tmp_path / "a.txt",
        "m.zip": Archive(ArchiveKind.ZIP, members), "m.tar.gz": Archive(ArchiveKind.TAR_GZ, members),
    }  # fmt: skip


def test_every_kind_of_content_is_written(tmp_path: Path, files: dict[str, Content]) -> None:
    out = tmp_path / "out"
    write_bundle_folder(out, files)
    assert (out / "bytes").read_bytes() == b"\xff"
    assert (out / "payload" / "inner" / "b.bin").read_bytes() == b"\0\1"
    assert (out / "copy.txt").read_text() == "a"
    assert (out / "deep" / "check.sh").stat().st_mode & stat.S_IXUSR
    with zipfile.ZipFile(out / "m.zip") as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {
            "x/y.txt": b"text", "p/inner/b.bin": b"\0\1", "a.txt": b"a",
        }  # fmt: skip
    with tarfile.open(out / "m.tar.gz") as archive_:
        assert archive_.getnames() == ["x/y.txt", "p/inner/b.bin", "a.txt"]


def test_two_bundles_have_the_same_bytes(tmp_path: Path, files: dict[str, Content]) -> None:
    for name in ("one", "two"):
        write_bundle_folder(tmp_path / name, files)
    for name in ("m.zip", "m.tar.gz"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_an_error_leaves_nothing(tmp_path: Path, files: dict[str, Content]) -> None:
    before = sorted(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError):
        write_bundle_folder(tmp_path / "out", {**files, "last": tmp_path / "nothing"})
    assert sorted(tmp_path.iterdir()) == before


def test_an_empty_folder_is_taken_and_a_full_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write_bundle_folder(tmp_path / "out", {"a": "1"})
    with pytest.raises(OSError, match="not empty"):
        write_bundle_folder(tmp_path / "out", {"a": "2"})
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out" / "a").read_text() == "1"

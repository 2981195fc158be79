"""Write the files of a bundle in one piece: a kill at any moment leaves nothing, or all of them."""

from __future__ import annotations

import gzip
import io
import secrets
import shutil
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from .bundle_records import Archive, ArchiveKind, Content

_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every member: two bundles of one artifact are the same bytes


def write_bundle_folder(folder: Path, files: Mapping[str, Content]) -> None:
    """Write the files to a folder beside `folder`, and rename it. `folder` must not be there, or be empty.
    Raises OSError where the disk refuses."""
    half = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.half")
    try:
        for name, content in files.items():
            path = half / name
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, content)
        half.rename(folder)
    except BaseException:
        shutil.rmtree(half, ignore_errors=True)
        raise


def _write(path: Path, content: Content) -> None:
    match content:
        case str():
            path.write_text(content)
            path.chmod(0o755 if path.suffix == ".sh" else 0o644)
        case bytes():
            path.write_bytes(content)
        case Archive(kind=ArchiveKind.ZIP):
            _write_zip(path, content.members)
        case Archive():
            _write_tar(path, content.members)
        case Path() if content.is_dir():
            shutil.copytree(content, path, dirs_exist_ok=True)
        case Path():
            shutil.copyfile(content, path)


def _write_zip(path: Path, members: Mapping[str, str | Path]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _flat(members):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            if isinstance(content, str):
                archive.writestr(entry, content)
                continue
            with content.open("rb") as source, archive.open(entry, "w", force_zip64=True) as target:
                shutil.copyfileobj(source, target, 1 << 20)


def _write_tar(path: Path, members: Mapping[str, str | Path]) -> None:
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for name, content in _flat(members):
            entry = tarfile.TarInfo(name)
            entry.mode = 0o644
            if isinstance(content, str):
                data = content.encode()
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
                continue
            entry.size = content.stat().st_size
            with content.open("rb") as source:
                archive.addfile(entry, source)


def _flat(members: Mapping[str, str | Path]) -> Iterator[tuple[str, str | Path]]:
    """Yield every file of an archive by its name, those of folders among them."""
    for name, content in members.items():
        if isinstance(content, Path) and content.is_dir():
            files = sorted(file for file in content.rglob("*") if file.is_file())
            yield from ((f"{name}/{file.relative_to(content).as_posix()}", file) for file in files)
        else:
            yield name, content

"""A store behind a URL: found again elsewhere, verified, whole or not there, and refused in one sentence."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from transload.models.errors import BadRequest, DiskFull, ToolMissing
from transload.models.remote import remote_store
from transload.models.remote.remote_store import RemoteStore, open_store, store_url
from transload.models.store import Store, Stored

KEY = "k" * 64


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/remote"


@pytest.fixture
def far(tmp_path: Path) -> Path:
    return tmp_path / "remote"


def opened(url: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteStore:
    """The store as the machine `name` has it, with a cache of its own."""
    monkeypatch.setenv("TRANSLOAD_STORE_CACHE", str(tmp_path / name))
    store = open_store(Path(url))
    assert isinstance(store, RemoteStore)
    return store


def commit(store: Store, text: str = "content", key: str = KEY) -> Stored:
    with store.workspace() as work:
        (work / "out" / "deep").mkdir(parents=True)
        (work / "out" / "deep" / "file").write_text(text)
        store.log(key).write_text("printed")
        return store.commit(key, work / "out", {"n": 3}, 0.5, step="step")


@pytest.mark.parametrize(
    ("place", "url"),
    [
        ("s3://bucket/a/b", "s3://bucket/a/b"), ("s3:/bucket/a", "s3://bucket/a"), ("memory://x", "memory://x"),
        ("file:///tmp/x", "file:///tmp/x"), ("/tmp/x", None), ("a/b", None), (".transload", None),
    ],
)  # fmt: skip
def test_a_place_is_a_folder_or_a_url(place: str, url: str | None) -> None:
    assert store_url(Path(place)) == url


def test_what_one_machine_keeps_another_finds(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = (opened(url, name, tmp_path, monkeypatch) for name in ("one", "two"))
    assert two.find(KEY) is None
    kept = commit(one)
    found = two.find(KEY)
    assert found
    assert (found.digest, found.facts, found.cached) == (kept.digest, {"n": 3}, True)
    assert found.folder != kept.folder
    assert (found.folder / "deep" / "file").read_text() == "content"
    assert found.log.read_text() == "printed"
    assert one.identity == two.identity


def test_what_is_in_the_cache_alone_is_put_into_a_store_that_was_made_anew(
    url: str, far: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(opened(url, "one", tmp_path, monkeypatch))
    shutil.rmtree(far)
    two, one = (opened(url, name, tmp_path, monkeypatch) for name in ("two", "one"))
    assert two.find(KEY) is None
    assert one.find(KEY)
    assert two.find(KEY)


def test_what_the_service_has_removed_is_put_there_again_after_an_hour(
    url: str, far: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (opened(url, name, tmp_path, monkeypatch) for name in ("one", "two"))
    kept = commit(one)
    (far / "objects" / f"{kept.digest}.json").unlink()
    assert one.find(KEY)
    assert two.find(KEY) is None
    os.utime(one._marker(KEY), (0, time.time() - 3601))
    assert one.find(KEY)
    assert two.find(KEY)


def test_a_refusal_is_found_elsewhere(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = (opened(url, name, tmp_path, monkeypatch) for name in ("one", "two"))
    assert two.refusal(KEY) is None
    one.remember_refusal(KEY, {"kind": "Refused", "what": "no", "fix": ""})
    assert two.refusal(KEY) == {"kind": "Refused", "what": "no", "fix": ""}


def test_content_that_is_not_that_of_its_name_counts_as_never_made(
    url: str, far: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (opened(url, name, tmp_path, monkeypatch) for name in ("one", "two"))
    kept = commit(one)
    (far / "objects" / kept.digest / "deep" / "file").write_text("other")
    assert two.find(KEY) is None
    with pytest.raises(BadRequest, match="has no sound object"):
        two.object(kept.digest)


def test_a_list_of_names_that_leads_out_of_the_object_is_not_followed(
    url: str, far: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (opened(url, name, tmp_path, monkeypatch) for name in ("one", "two"))
    kept = commit(one)
    (far / "objects" / f"{kept.digest}.json").write_text(json.dumps(["../../../../escaped"]))
    assert two.find(KEY) is None
    assert not list(tmp_path.rglob("escaped"))


class Failing:
    """A file system that fails once it has taken so many files."""

    def __init__(self, files: Any, after: int, error: Exception) -> None:
        self._files, self._left, self._error = files, after, error

    def cat_file(self, path: str) -> Any:
        return self._files.cat_file(path)

    def pipe_file(self, path: str, content: bytes) -> None:
        if not self._left:
            raise self._error
        self._left -= 1
        self._files.pipe_file(path, content)


@pytest.mark.parametrize("after", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "failure",
    [
        (PermissionError("ExpiredToken"), BadRequest, "refuses: PermissionError: ExpiredToken"),
        (OSError(28, "No space left on device"), DiskFull, "is full"),
    ],
)
def test_an_upload_that_fails_leaves_nothing_half_and_is_made_up_for(
    after: int, failure: tuple[Exception, type[Exception], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error, kind, words = failure
    url = f"memory://test-{tmp_path.name}"
    one, two = (opened(url, name, tmp_path, monkeypatch) for name in ("one", "two"))
    files = one._files
    monkeypatch.setattr(one, "_files", Failing(files, after, error))
    with pytest.raises(kind, match=words):
        commit(one)
    assert two.find(KEY) is None
    monkeypatch.setattr(one, "_files", files)
    assert one.find(KEY)  # of the cache, and uploaded now
    assert two.find(KEY)


def test_a_store_that_refuses_is_known_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.implementations import memory

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(memory.MemoryFileSystem, "pipe_file", refuse)
    with pytest.raises(BadRequest, match="refuses: PermissionError: read-only"):
        opened("memory://closed", "one", tmp_path, monkeypatch)


def test_a_url_of_nobody_and_one_without_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSLOAD_STORE_CACHE", str(tmp_path))
    with pytest.raises(BadRequest, match="no store can be opened at nosuch://x"):
        open_store(Path("nosuch://x"))
    monkeypatch.setitem(__import__("sys").modules, "s3fs", None)
    with pytest.raises(ToolMissing, match="a store at s3:// needs fsspec and s3fs"):
        open_store(Path("s3://bucket/x"))


def test_a_library_that_is_too_old_is_named_with_what_brings_a_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSLOAD_STORE_CACHE", str(tmp_path))
    monkeypatch.setattr("fsspec.core.url_to_fs", lambda *_arguments, **_options: (None, ""))
    monkeypatch.setattr(remote_store, "version", lambda name: {"s3fs": "0.4.2"}[name])
    with pytest.raises(ToolMissing, match=r"s3fs 0\.4\.2 is too old for a store") as caught:
        open_store(Path("s3://bucket/x"))
    assert caught.value.fix == "pip install -U 's3fs>=2025.2'"


@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_of_two_who_name_a_store_at_once_the_first_counts(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process writes the name after this one has looked for it, and before it writes its own."""
    monkeypatch.setenv("TRANSLOAD_STORE_CACHE", str(tmp_path / "cache"))
    url = f"{scheme}://{tmp_path}/named-at-once"
    read = RemoteStore._read
    looked: list[bytes | None] = []

    def read_late(store: RemoteStore, name: str) -> bytes | None:
        content = read(store, name)
        if name == "identity" and not looked:
            looked.append(content)
            store._write(name, b"the first")
        return content

    monkeypatch.setattr(RemoteStore, "_read", read_late)
    assert open_store(Path(url)).identity == "the first"
    assert looked == [None]


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (FileNotFoundError("The specified bucket does not exist"), "make the bucket or container"),
        (PermissionError("Access Denied"), "check its credentials, that they have not expired"),
        (OSError(errno.EINVAL, "Bad Request"), "check its credentials, that they have not expired"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "check the network and the address"),
        (TimeoutError("no answer"), "check the network and the address"),
    ],
)
def test_the_fix_is_that_of_the_cause(
    error: Exception, fix: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(url, "one", tmp_path, monkeypatch)

    def refuse(*_: object) -> bytes:
        raise error

    monkeypatch.setattr(store, "_read", refuse)
    with pytest.raises(BadRequest) as caught:
        store.find(KEY)
    assert caught.value.what == f"the store {url} refuses: {type(error).__name__}: {error}"
    assert caught.value.fix.startswith(fix)

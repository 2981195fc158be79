"""A kill at any moment leaves nothing or a whole object; a hit is only what is really there."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from transload.models.errors import BadRequest
from transload.models.store import Store, digest_of, digest_of_json, disk_errors

KEY = digest_of_json({"step": "a"})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def put(store: Store, key: str, text: str) -> str:
    with store.workspace() as work:
        made = work / "out"
        (made / "sub").mkdir(parents=True)
        (made / "sub" / "file").write_text(text)
        return store.commit(key, made, {"n": 1}, seconds=2.5).digest


def test_what_was_committed_is_found_with_its_facts(store: Store) -> None:
    assert store.find(KEY) is None
    digest = put(store, KEY, "x")
    found = store.find(KEY)
    assert found is not None
    assert (found.digest, found.facts, found.seconds, found.cached) == (digest, {"n": 1}, 2.5, True)
    assert (found.folder / "sub" / "file").read_text() == "x"


def test_equal_content_is_one_object(store: Store) -> None:
    assert put(store, KEY, "x") == put(store, "0" * 64, "x")
    assert put(store, "1" * 64, "y") != put(store, KEY, "x")
    assert len(list((store.root / "objects").iterdir())) == 2


def test_an_object_that_lost_or_cut_a_file_counts_as_never_made(store: Store) -> None:
    digest = put(store, KEY, "whole")
    file = store.root / "objects" / digest / "sub" / "file"
    file.write_text("who")
    assert store.find(KEY) is None
    file.unlink()
    assert store.find(KEY) is None


def test_an_object_that_was_changed_heals_when_it_is_made_again(store: Store) -> None:
    digest = put(store, KEY, "whole")
    (store.root / "objects" / digest / "sub" / "file").write_text("wrong")
    put(store, KEY, "whole")
    assert (store.root / "objects" / digest / "sub" / "file").read_text() == "whole"


def test_an_object_that_was_changed_in_place_counts_as_never_made(store: Store) -> None:
    """artifacts/ of a run links into the store: an edit that keeps the size must not be called verified."""
    digest = put(store, KEY, "whole")
    assert store.find(KEY) is not None
    (store.root / "objects" / digest / "sub" / "file").write_text("wrong")
    assert store.find(KEY) is None
    assert Store(store.root).find(KEY) is None


def test_what_another_process_has_just_kept_is_not_read_again(store: Store) -> None:
    assert store.find_new(KEY) is None
    digest = put(store, KEY, "whole")
    file = store.root / "objects" / digest / "sub" / "file"
    file.write_text("other")  # only to show that nobody reads it
    kept = store.find_new(KEY)
    assert kept is not None
    assert (kept.digest, kept.folder, kept.facts) == (digest, store.root / "objects" / digest, {"n": 1})
    assert store.find(KEY) is None
    file.unlink()
    (store.root / "objects" / digest / "sub").rmdir()
    (store.root / "objects" / digest).rmdir()
    assert store.find_new(KEY) is None


def test_a_result_that_came_of_an_outside_file_which_has_changed_counts_as_never_made(store: Store) -> None:
    data = store.root.parent / "data.csv"
    data.write_text("1,2")
    with store.workspace() as work:
        (work / "out").mkdir()
        store.commit(KEY, work / "out", {}, 1.0, read=[data])
    assert store.find(KEY) is not None
    data.write_text("1,3")
    assert store.find(KEY) is None
    data.unlink()
    assert store.find(KEY) is None


def test_a_workspace_of_another_machine_is_swept_only_once_nobody_holds_it(store: Store) -> None:
    """In another container its process has a number that says nothing here; the lock does."""
    folder = store.root / "tmp" / "999999999-abc"
    folder.mkdir()
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    Store(store.root)
    assert folder.is_dir()
    os.close(handle)
    Store(store.root)
    assert not folder.exists()


def test_a_workspace_is_gone_afterwards_even_after_an_error(store: Store) -> None:
    with pytest.raises(RuntimeError), store.workspace() as work:
        (work / "half").write_text("x")
        raise RuntimeError
    assert not list((store.root / "tmp").iterdir())


def test_a_kill_while_writing_leaves_nothing_to_be_found_and_is_swept(tmp_path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from transload.models import store
kept = store._sync
def killed(folder): kept(folder); os.kill(os.getpid(), signal.SIGKILL)
store._sync = killed  # everything is written, nothing is renamed
s = store.Store(Path({str(tmp_path)!r}))
with s.workspace() as work:
    (work / "out").mkdir(); (work / "out" / "file").write_text("x")
    s.commit({KEY!r}, work / "out", {{}}, 1.0)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert list((tmp_path / "tmp").iterdir())
    store = Store(tmp_path)
    assert store.find(KEY) is None
    assert not list((tmp_path / "tmp").iterdir())
    assert not list((tmp_path / "objects").iterdir())


def test_workspaces_of_the_living_are_not_swept(store: Store) -> None:
    with store.workspace() as work:
        Store(store.root)
        assert work.is_dir()


def test_the_digest_of_a_folder_depends_on_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    first = digest_of(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert digest_of(tmp_path) != first
    (tmp_path / "b").rename(tmp_path / "a")
    assert digest_of(tmp_path) == first
    (tmp_path / "a").write_text("2")
    assert digest_of(tmp_path) != first


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs privilege")
def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], check=False)
    if mounted.returncode:
        pytest.skip("no right to mount here")
    try:
        store = Store(disk)
        with pytest.raises(BadRequest) as caught, store.workspace() as work, disk_errors(work):
            (work / "out").mkdir()
            (work / "out" / "file").write_bytes(bytes(1 << 20))
        assert str(caught.value).startswith(f"the disk under {store.root}")
        assert store.find(KEY) is None
        assert not list((disk / "tmp").iterdir())
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_those_who_name_a_store_at_once_agree(tmp_path: Path) -> None:
    stores = [Store(tmp_path / "store") for _ in range(16)]
    with ThreadPoolExecutor(len(stores)) as pool:
        names = set(pool.map(lambda store: store.identity, stores))
    assert len(names) == 1
    assert len(names.pop()) == 32


def test_a_store_whose_name_was_never_written_is_named(store: Store) -> None:
    """The file was made, and its writer killed; or another process is about to write."""
    (store.root / "identity").touch()
    assert len(store.identity) == 32
    assert store.identity == Store(store.root).identity


def test_a_large_file_is_read_once_and_again_where_it_was_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    digest = hashlib.file_digest

    def count(file: Any, name: str) -> Any:
        reads.append(name)
        return digest(file, name)

    monkeypatch.setattr("hashlib.file_digest", count)
    monkeypatch.setattr("transload.models.store._LARGE_BYTES", 8)
    large, small = tmp_path / "large", tmp_path / "small"
    large.write_bytes(b"12345678")
    small.write_bytes(b"1234567")
    first = digest_of(large)
    assert digest_of(large) == first
    assert len(reads) == 1
    moved = large.rename(tmp_path / "moved")
    assert digest_of(moved) == first
    assert len(reads) == 2
    moved.write_bytes(b"87654321")
    os.utime(moved, ns=(0, 1))
    assert digest_of(moved) == hashlib.sha256(b"87654321").hexdigest()
    shutil.copy2(moved, large)
    assert digest_of(large) == digest_of(moved)
    assert len(reads) == 4
    assert digest_of(small) == digest_of(small)
    assert len(reads) == 6

"""Results that a running command uses are listed as in use, until the command ends or is killed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from transload.models.store import Store
from transload.models.store_ledger import add_store_bytes, read_store_bytes, read_uses, write_store_bytes

KEY = "a" * 64


def put(store: Store, key: str = KEY, text: str = "x") -> str:
    with store.workspace() as work:
        (work / "out").mkdir()
        (work / "out" / "file").write_text(text)
        return store.commit(key, work / "out", {}, seconds=1.0, step="train").digest


def test_a_command_writes_down_what_it_keeps_and_looks_at(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "a"
    folder.mkdir(parents=True)
    writer, reader = Store(tmp_path / "store"), Store(tmp_path / "store", folder)
    digest = put(writer)
    writer.close()
    assert read_uses(reader.root) == []  # the writer had no folder
    assert reader.find(KEY) is not None
    (use,) = read_uses(reader.root)
    assert (use.folder, use.names, use.is_running, use.is_over) == (folder, frozenset({KEY, digest}), True, False)
    reader.close()
    (use,) = read_uses(reader.root)
    assert (use.is_running, use.is_over) == (False, False)
    folder.rmdir()
    assert read_uses(reader.root)[0].is_over


def test_a_later_command_of_the_same_folder_takes_the_place_of_the_former(tmp_path: Path) -> None:
    for key in ("a" * 64, "b" * 64):
        store = Store(tmp_path / "store", tmp_path)
        put(store, key, key)
        store.close()
    (use,) = read_uses(tmp_path / "store")
    assert "b" * 64 in use.names
    assert "a" * 64 not in use.names


def test_a_command_that_works_beside_keeps_its_record(tmp_path: Path) -> None:
    first, second = Store(tmp_path / "store", tmp_path), Store(tmp_path / "store", tmp_path)
    put(first, "a" * 64)
    put(second, "b" * 64)
    second.close()
    assert {use.is_running for use in read_uses(first.root)} == {True, False}


def test_refusals_and_checkpoints_are_written_down(tmp_path: Path) -> None:
    refusal = {"kind": "Refused", "what": "no", "fix": ""}
    store = Store(tmp_path / "store", tmp_path)
    store.remember_refusal("a" * 64, refusal)
    store.checkpoints("b" * 64)
    assert read_uses(store.root)[0].names == {"a" * 64, "b" * 64}
    store.close()
    reader = Store(tmp_path / "store", tmp_path)
    assert reader.refusal("a" * 64) == refusal
    assert reader.refusal("b" * 64) is None
    assert {use.names for use in read_uses(store.root) if use.is_running} == {frozenset({"a" * 64})}


def test_a_folder_that_moves_with_the_store_is_found(tmp_path: Path) -> None:
    (tmp_path / "project" / "made").mkdir(parents=True)
    store = Store(tmp_path / "project" / "store", tmp_path / "project" / "made")
    put(store)
    store.close()
    (tmp_path / "project").rename(tmp_path / "moved")
    (use,) = read_uses(tmp_path / "moved" / "store")
    assert use.folder == tmp_path / "moved" / "made"
    assert not use.is_over


def test_a_store_behind_a_link_names_the_same_folder(tmp_path: Path) -> None:
    (tmp_path / "deep" / "disk").mkdir(parents=True)
    (tmp_path / "made").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "disk")
    store = Store(tmp_path / "link" / "store", tmp_path / "made")
    put(store)
    store.close()
    assert read_uses(tmp_path / "deep" / "disk" / "store")[0].folder == tmp_path / "made"


def test_a_kill_ends_the_use(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from transload.models.store import Store\n"
        "store = Store(Path(sys.argv[1]), Path(sys.argv[2])); store.remember_refusal('a' * 64, {})\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-P", "-c", script, str(tmp_path / "store"), str(tmp_path / "made")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert read_uses(tmp_path / "store")[0].is_running
        process.kill()
    assert not read_uses(tmp_path / "store")[0].is_running


def test_the_size_of_all_objects_is_counted(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    assert read_store_bytes(store.root) == 0
    digest = put(store, text="four")
    put(store, "b" * 64, "four")  # the same object
    assert read_store_bytes(store.root) == 4
    (store.root / "objects" / digest / "file").write_text("longer")
    put(store, "c" * 64, "four")  # it heals
    assert read_store_bytes(store.root) == 4


def test_a_size_that_nobody_counted_stays_unknown(tmp_path: Path) -> None:
    add_store_bytes(tmp_path, 5)
    assert read_store_bytes(tmp_path) is None
    write_store_bytes(tmp_path, 7)
    add_store_bytes(tmp_path, -3)
    assert read_store_bytes(tmp_path) == 4


def test_a_store_that_is_closed_to_writing_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(Store(tmp_path / "store"))
    really_open = os.open

    def closed(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return really_open(path, flags, mode)

    reader = Store(tmp_path / "store", tmp_path)
    monkeypatch.setattr(os, "open", closed)
    assert reader.find(KEY) is not None

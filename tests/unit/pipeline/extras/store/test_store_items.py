"""What lies in a store is one item each, with every folder that uses it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from transload.models.store import Store
from transload.pipeline.extras.store.store_items import ItemKind, ItemUser, UseKind, read_items, with_users

from .store_samples import key_of, link, put


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "made").mkdir()
    return Store(tmp_path / "store", tmp_path / "made", "net.py:Net")


def test_results_with_one_content_are_one_item(store: Store) -> None:
    digest = put(store, "a", "same", age_s=50, step="convert.onnx.x+y")
    put(store, "b", "same", age_s=9, step="data")
    (row,) = read_items(store.root)
    assert (row.kind, row.name, row.bytes, row.model) == (ItemKind.OBJECT, digest, 4, "net.py:Net")
    assert (row.keys, row.steps) == ((key_of("a"), key_of("b")), ("convert.onnx.x+y", "data"))
    assert row.used_at == (store.root / "actions" / f"{key_of('b')}.json").stat().st_mtime


def test_results_without_files_are_items_of_their_own(store: Store) -> None:
    put(store, "a", "", step="verify.onnx.x")
    put(store, "b", "", step="verify.tflite.x")
    assert [(row.kind, row.steps) for row in read_items(store.root)] == [
        (ItemKind.RESULT, ("verify.onnx.x",)), (ItemKind.RESULT, ("verify.tflite.x",)),
    ]  # fmt: skip


def test_a_look_is_a_use(store: Store) -> None:
    put(store, "a", age_s=1000)
    before = read_items(store.root)[0].used_at
    assert store.find(key_of("a"))
    assert read_items(store.root)[0].used_at > before + 900


def test_records_of_an_older_version_and_broken_ones_are_listed(store: Store) -> None:
    put(store, "a", "four")
    path = store.root / "actions" / f"{key_of('a')}.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({name: record[name] for name in ("digest", "facts", "read", "seconds")}))
    (store.root / "actions" / f"{key_of('b')}.json").write_text("{")
    objects, broken = read_items(store.root)
    assert (objects.bytes, objects.steps, objects.model) == (4, (), "")
    assert (broken.kind, broken.keys) == (ItemKind.RESULT, (key_of("b"),))


def test_a_folder_is_named_once_by_its_strongest_use(store: Store, tmp_path: Path) -> None:
    link(tmp_path / "made", store.root, put(store, "a"))
    put(store, "b")

    def kinds() -> list[tuple[UseKind, ...]]:
        items = with_users(store.root, read_items(store.root), [])
        items.sort(key=lambda item: item.keys)
        assert {user.folder for item in items for user in item.users} == {tmp_path / "made"}
        return [tuple(user.kind for user in item.users) for item in items]

    assert kinds() == [(UseKind.RUNNING,), (UseKind.RUNNING,)]
    store.close()
    assert kinds() == [(UseKind.LINK,), (UseKind.STEP,)]


@pytest.mark.parametrize("record", ["artifact.json", "source.json"])
def test_a_run_that_shares_files_uses_the_object_and_one_with_copies_does_not(record: str, tmp_path: Path) -> None:
    store = Store(tmp_path / ".transload")
    digests = {}
    for name in ("shared", "copied"):
        with store.workspace() as work:
            (work / "out").mkdir()
            (work / "out" / record).write_text(name)
            digests[name] = store.commit(key_of(name), work / "out", {}, 1.0).digest
    store.close()
    run = tmp_path / "runs" / "one"
    for name, copy in (("shared", os.link), ("copied", shutil.copy2)):
        place = run / "artifacts" / name
        place.mkdir(parents=True)
        copy(store.root / "objects" / digests[name] / record, place / record)
    items = {entry.name: entry for entry in with_users(store.root, read_items(store.root), [])}
    assert items[digests["shared"]].users == (ItemUser(UseKind.LINK, run),)
    assert items[digests["copied"]].users == ()
    shutil.rmtree(run)
    items = {entry.name: entry for entry in with_users(store.root, read_items(store.root), [])}
    assert items[digests["shared"]].users == ()

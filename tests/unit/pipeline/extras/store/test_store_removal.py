"""What nothing uses goes, the oldest first; what a run links to, or a living command has looked at, never does."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from transload.models.errors import BadRequest
from transload.models.store import Store
from transload.models.store_ledger import read_store_bytes, read_uses, store_lock
from transload.pipeline.extras.store import store_removal
from transload.pipeline.extras.store.store_items import ItemKind, UseKind, read_items
from transload.pipeline.extras.store.store_removal import RemovalRule, choose_items, remove_items

from .store_samples import item, key_of, link, put

ALL = RemovalRule()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


def names(root: Path) -> set[str]:
    return {bytes.fromhex(key).rstrip(b"\0").decode() for each in read_items(root) for key in each.keys}


def test_without_a_limit_what_nothing_uses_goes_the_oldest_first() -> None:
    items = [item("new", used_at=9), item("step", use=UseKind.STEP), item("old", used_at=1)]
    items += [item("link", use=UseKind.LINK), item("run", use=UseKind.RUNNING)]
    assert [each.name for each in choose_items(items, ALL, now=10)] == ["old", "new"]


def test_an_age_spares_what_was_used_since() -> None:
    items = [item("new", used_at=9), item("old", used_at=1)]
    assert [each.name for each in choose_items(items, RemovalRule(older_than_s=5), now=10)] == ["old"]


@pytest.mark.parametrize(
    ("limit", "removed"),
    [
        (100, []),
        (49, ["unused-old"]),
        (40, ["unused-old"]),
        (39, ["unused-old", "unused-new"]),
        (20, ["unused-old", "unused-new", "step-old"]),
        (0, ["unused-old", "unused-new", "step-old", "step-new"]),
    ],
)
def test_with_a_limit_steps_of_folders_go_after_what_nothing_uses(limit: int, removed: list[str]) -> None:
    items = [
        item("step-new", 10, 4, use=UseKind.STEP), item("step-old", 10, 1, use=UseKind.STEP),
        item("unused-new", 10, 3), item("unused-old", 10, 2), item("empty", 0, 0),
        item("link", 10, 0, use=UseKind.LINK),
    ]  # fmt: skip
    chosen = choose_items(items, RemovalRule(limit_bytes=limit), now=10)
    assert [each.name for each in chosen] == removed


def test_of_one_day_what_took_long_for_its_size_goes_last() -> None:
    day = 86400.0
    items = [item("training", 10, 2 * day, seconds=600), item("data", 10, 2 * day + 5, seconds=1)]
    items.append(item("former training", 10, day, seconds=600))
    chosen = choose_items(items, RemovalRule(limit_bytes=0), now=3 * day)
    assert [each.name for each in chosen] == ["former training", "data", "training"]


def test_what_was_removed_is_gone_with_its_records_and_logs_and_counted(root: Path) -> None:
    store = Store(root)
    put(store, "a")
    put(store, "check", "")
    store.log(key_of("a")).write_text("log")
    store.remember_refusal(key_of("refusal"), {"what": "no"})
    (store.checkpoints(key_of("training")) / "state").write_text("half")
    store.close()
    result = remove_items(root, ALL, time.time() + 1)
    assert {each.kind for each in result.removed} == set(ItemKind)
    assert (result.removed_bytes, result.left_bytes, read_store_bytes(root)) == (5, 0, 0)
    left = [path for path in root.rglob("*") if path.is_file() and path.name not in (".gitignore", "lock", "bytes")]
    assert left == []
    assert Store(root).find(key_of("a")) is None


def test_a_dry_run_says_the_same_and_changes_nothing(root: Path) -> None:
    store = Store(root)
    put(store, "a")
    store.close()
    before = sorted(root.rglob("*"))
    dry = remove_items(root, ALL, time.time(), dry_run=True)
    assert sorted(root.rglob("*")) == before
    assert dry.removed == remove_items(root, ALL, time.time()).removed
    assert names(root) == set()


def test_what_a_run_links_to_stays_even_beyond_the_limit(root: Path, tmp_path: Path) -> None:
    run = tmp_path / "elsewhere" / "run"
    store = Store(root, run)
    link(run, root, put(store, "linked"))
    put(store, "step")
    store.close()
    assert remove_items(root, ALL, time.time()).removed == ()
    remove_items(root, RemovalRule(limit_bytes=0), time.time())
    assert names(root) == {"linked"}
    assert (run / "artifacts" / "onnx" / "file").read_text() == "linked"
    shutil.rmtree(run)
    remove_items(root, ALL, time.time())
    assert names(root) == set()
    assert read_uses(root) == []


@pytest.mark.parametrize("beside", [True, False])
def test_links_of_runs_that_wrote_nothing_down_count(root: Path, tmp_path: Path, *, beside: bool) -> None:
    """Runs of an older version, and those that were moved to another folder that --runs names."""
    runs = tmp_path / ("runs" if beside else "archive")
    store = Store(root)
    link(runs / "old", root, put(store, "a"))
    store.close()
    remove_items(root, ALL, time.time(), runs=[] if beside else [runs])
    assert names(root) == {"a"}


def test_what_a_living_command_has_looked_at_stays(root: Path) -> None:
    store = Store(root)
    put(store, "a")
    put(store, "b")
    store.close()
    reader = Store(root)
    assert reader.find(key_of("a"))
    remove_items(root, RemovalRule(limit_bytes=0), time.time())
    assert names(root) == {"a"}
    reader.close()
    remove_items(root, ALL, time.time())
    assert names(root) == set()


def test_a_removal_that_has_begun_spares_what_is_looked_at_before_it_has_the_lock(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process looks between the reading of sizes and the lock, the worst moment."""
    store = Store(root)
    put(store, "a")
    store.close()
    reader = Store(root)

    @contextmanager
    def look_first(folder: Path, *, exclusive: bool = False) -> Iterator[None]:
        assert reader.find(key_of("a"))
        put(reader, "new")
        with store_lock(folder, exclusive=exclusive):
            yield

    monkeypatch.setattr(store_removal, "store_lock", look_first)
    assert remove_items(root, ALL, time.time()).removed == ()
    assert names(root) == {"a", "new"}
    assert read_store_bytes(root) == 4


def test_whoever_looks_during_a_removal_waits_for_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And finds all of a result or none: never a record whose object is on its way out."""
    store = Store(root)
    put(store, "a")
    store.close()
    really_discard, results = store_removal.discard, []
    looker = threading.Thread(target=lambda: results.append(Store(root).find(key_of("a"))))

    def discard_slowly(*arguments: object) -> None:
        looker.start()
        looker.join(0.2)
        assert looker.is_alive()
        really_discard(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(store_removal, "discard", discard_slowly)
    remove_items(root, ALL, time.time())
    looker.join()
    assert results == [None]


def test_a_kill_in_the_middle_leaves_a_store_that_works(root: Path) -> None:
    store = Store(root)
    for name in "abc":
        put(store, name)
    store.close()
    script = (
        "import os, sys, time; from pathlib import Path\n"
        "from transload.pipeline.extras.store import store_removal as removal\n"
        "really, count = removal.discard, []\n"
        "def discard(*arguments):\n"
        "    really(*arguments); count.append(1)\n"
        "    if len(count) == 2: os.kill(os.getpid(), 9)\n"
        "removal.discard = discard\n"
        "removal.remove_items(Path(sys.argv[1]), removal.RemovalRule(), time.time() + 1)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script, str(root)], check=False)
    assert done.returncode == -9
    assert len(names(root)) == 1
    (left,) = names(root)
    again = Store(root)
    assert again.find(key_of(left)) is not None
    assert list((root / "tmp").iterdir()) == []  # what the killed process had put aside
    for name in {"a", "b", "c"} - {left}:
        assert again.find(key_of(name)) is None
        put(again, name)
    assert names(root) == {"a", "b", "c"}


def test_a_kill_between_an_object_and_its_record_leaves_a_store_that_works(root: Path) -> None:
    store = Store(root)
    digest = put(store, "a")
    store.close()
    shutil.rmtree(root / "objects" / digest)
    assert Store(root).find(key_of("a")) is None
    assert [(each.kind, each.bytes) for each in read_items(root)] == [(ItemKind.RESULT, 0)]


def test_a_store_that_is_closed_to_writing_is_one_sentence(root: Path) -> None:
    Store(root).close()
    (root / "tmp").rmdir()
    (root / "tmp").touch()
    with pytest.raises(BadRequest, match="cannot be written to") as error:
        remove_items(root, ALL, time.time())
    assert error.value.fix == "make it writable, or run this as the user who owns it"


def test_a_folder_that_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="there is no store"):
        remove_items(tmp_path, ALL, 0.0)

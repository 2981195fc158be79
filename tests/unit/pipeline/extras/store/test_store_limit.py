"""At the end of a command the store is brought under its limit, or told of where it has none and is large."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from transload.models.errors import BadRequest
from transload.models.store import Store
from transload.models.store_ledger import read_store_bytes, write_store_bytes
from transload.pipeline.extras.store.store_limit import LARGE_BYTES, LIMIT_VARIABLE, store_limit, tidy_store
from transload.pipeline.progress.progress import Progress
from transload.pipeline.result.size_text import parse_size

from .store_samples import put


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store", tmp_path)


def tidy(root: Path, limit_bytes: int | None, *, quiet: bool = False, times: int = 1) -> str:
    stream = io.StringIO()
    progress = Progress(stream, quiet=quiet)
    for number in range(times):
        tidy_store(root, limit_bytes, progress.of(f"model {number}") if times > 1 else progress)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("text", "count"),
    [("10GB", 10**10), ("1.5 mb", 1_500_000), ("2GiB", 2**31), ("7", 7), ("0B", 0), ("3 kb", 3000)],
)
def test_sizes(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "10 GX", "1e3", "ib", "5iB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="is no size"):
        parse_size(text)


def test_the_limit_of_the_file_goes_before_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert store_limit(None) is None
    monkeypatch.setenv(LIMIT_VARIABLE, "5GB")
    assert (store_limit(None), store_limit("1GB")) == (5 * 10**9, 10**9)
    monkeypatch.setenv(LIMIT_VARIABLE, "much")
    with pytest.raises(BadRequest, match="TRANSLOAD_STORE_LIMIT: 'much' is no size"):
        store_limit(None)


def test_a_large_store_without_a_limit_is_told_of_once(store: Store) -> None:
    write_store_bytes(store.root, LARGE_BYTES)
    assert tidy(store.root, None) == ""
    write_store_bytes(store.root, 6_100_000_000)
    note = f"note: the store {store.root} has 6.1 GB: 'transload store gc' frees what nothing uses\n"
    assert tidy(store.root, None) == note
    assert tidy(store.root, None, times=3) == f"model 0  {note}"
    assert tidy(store.root, None, quiet=True) == ""


def test_a_size_that_is_not_known_is_counted_once(store: Store) -> None:
    put(store, "four")
    (store.root / "bytes").unlink()
    assert tidy(store.root, None) == ""
    assert read_store_bytes(store.root) == 4


def test_a_limit_removes_what_was_not_used_longest_and_no_more(store: Store) -> None:
    for age, name in enumerate(("newest", "middle", "oldest")):
        put(store, name, age_s=age * 100)
    store.close()
    assert "removed 6 B that were not used longest, to keep to 12 B" in tidy(store.root, 12)
    assert read_store_bytes(store.root) == 12
    assert tidy(store.root, 12) == ""


def test_what_the_command_itself_uses_stays_above_the_limit(store: Store) -> None:
    put(store, "used")
    said = tidy(store.root, 1)
    assert "has 4 B, above its limit of 1 B: this command or runs that are there use it" in said
    assert read_store_bytes(store.root) == 4


def test_a_store_that_cannot_be_tidied_fails_no_command(store: Store) -> None:
    put(store, "used")
    (store.root / "tmp").rmdir()
    (store.root / "tmp").touch()
    assert "was not brought under its limit: " in tidy(store.root, 1)

"""An object that lost its content is named; a repair removes it unless a living command uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from transload.models.store import Store
from transload.models.store_ledger import read_store_bytes
from transload.pipeline.extras.store.store_text import verification_lines
from transload.pipeline.extras.store.store_verification import verify_store

from .store_samples import key_of, link, put


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "store", tmp_path / "run")
    link(tmp_path / "run", store.root, put(store, "broken", step="convert.onnx.torch"))
    put(store, "sound")
    put(store, "check", "")
    return store


def spoil(store: Store) -> Path:
    stored = store.find(key_of("broken"))
    assert stored
    (stored.folder / "file").write_text("edited")
    return stored.folder


def test_a_sound_store_passes(store: Store) -> None:
    steps: list[str] = []
    result = verify_store(store.root, steps.append)
    assert (result.is_sound, result.checked, result.checked_bytes, len(steps)) == (True, 2, 11, 2)
    assert verification_lines(result, Path(".transload")) == [".transload: 2 objects, 11 B: all sound"]


def test_what_is_broken_is_named_and_left(store: Store) -> None:
    folder = spoil(store)
    store.close()
    result = verify_store(store.root, lambda _: None)
    assert not result.is_sound
    first, second, last = verification_lines(result, store.root)
    assert first == f"broken: artifact onnx (torch), {folder}"
    assert second.endswith("/run links to it: run again what made it")
    assert "1 of 2 objects are broken; 'transload store verify --repair'" in last
    assert folder.exists()


def test_a_repair_removes_it_to_be_made_again(store: Store) -> None:
    folder = spoil(store)
    store.close()
    result = verify_store(store.root, lambda _: None, repair=True)
    assert (result.is_sound, [broken.is_removed for broken in result.broken]) == (True, [True])
    assert not folder.exists()
    assert read_store_bytes(store.root) == 5
    again = Store(store.root)
    assert again.find(key_of("broken")) is None
    put(again, "broken")
    assert again.find(key_of("broken")) is not None


def test_a_repair_leaves_what_a_living_command_uses(store: Store) -> None:
    folder = spoil(store)
    result = verify_store(store.root, lambda _: None, repair=True)
    assert (result.is_sound, folder.exists()) == (False, True)
    assert "  a command that is at work uses it" in verification_lines(result, store.root)

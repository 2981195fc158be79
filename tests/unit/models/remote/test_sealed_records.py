"""Records of a store that others write to: passed over and named where broken, and trusted by their seal."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transload.models.errors import BadRequest
from transload.models.remote.remote_store import open_store
from transload.models.remote.sealed_records import read_sealing, record_text, write_key
from transload.models.store import Store

KEY = "k" * 64
REFUSAL = {"kind": "Refused", "what": "no", "fix": "use another"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return opened(tmp_path)


def opened(tmp_path: Path, *, signs: bool = False) -> Store:
    store = open_store(tmp_path / "store", signs=signs)
    store.tell = SAID.append
    return store


SAID: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_said() -> None:
    SAID.clear()


def commit(store: Store, text: str = "content", key: str = KEY) -> str:
    with store.workspace() as work:
        (work / "out").mkdir()
        (work / "out" / "file").write_text(text)
        return store.commit(key, work / "out", {"reason": "it agrees"}, 0.5, step="verify.onnx.a").digest


def changed(store: Store, kind: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a record as somebody does who can write to the store and computes the checksum anew."""
    path = store.root / kind / f"{KEY}.json"
    record = json.loads(path.read_text())
    record.pop("seals")
    change(record)
    path.write_text(record_text(f"{kind}/{KEY}", record, read_sealing().__class__()))


BROKEN = (
    b"", b"null", b"[]", b'"x"', b"{}", b"\xff\xfe{\x00}\x00", "{}".encode("utf-16"), b'{"digest": null}', b"\x00" * 9,
    b"[" * 100_000, b'{"digest": 1' + b"0" * 5000 + b"}",
)  # fmt: skip


@pytest.mark.parametrize("content", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_record_is_passed_over_and_named(store: Store, content: bytes) -> None:
    commit(store)
    store.remember_refusal(KEY, REFUSAL)
    for kind, look_up in (("actions", store.find), ("refusals", store.refusal)):
        path = store.root / kind / f"{KEY}.json"
        assert look_up(KEY)
        path.write_bytes(content)
        assert look_up(KEY) is None
        assert str(path) in SAID.pop()
    commit(store)
    assert store.find(KEY)  # written anew


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("actions", "digest", None), ("actions", "digest", "../../x"), ("actions", "facts", None),
        ("actions", "read", None), ("actions", "read", {"/x": 3}), ("actions", "seconds", "1"),
        ("actions", "seconds", True), ("actions", "seconds", 10**400),
        ("actions", "step", 4), ("actions", "bytes", "9"),
        ("refusals", "kind", "SystemExit"), ("refusals", "kind", None), ("refusals", "what", None),
        ("refusals", "fix", ["x"]),
    ],
)  # fmt: skip
def test_a_record_of_another_form_is_passed_over_with_a_right_checksum_too(
    store: Store, kind: str, name: str, value: object
) -> None:
    commit(store)
    store.remember_refusal(KEY, REFUSAL)
    changed(store, kind, lambda record: record.update({name: value}))
    assert (store.find(KEY) if kind == "actions" else store.refusal(KEY)) is None
    assert len(SAID) == 1


def test_a_file_that_a_record_names_may_have_any_name(store: Store) -> None:
    commit(store)
    for name in ("x" * 5000, "a\0b", "/proc/self/mem", "/dev/zero", "\udcff"):
        read = {name: "0" * 64}
        changed(store, "actions", lambda record: record.update(read=read))  # noqa: B023
        assert store.find(KEY) is None


def test_a_changed_fact_is_seen_by_the_checksum(store: Store) -> None:
    commit(store)
    path = store.root / "actions" / f"{KEY}.json"
    path.write_text(path.read_text().replace("it agrees", "it always agrees"))
    assert store.find(KEY) is None
    assert "not as it was written" in SAID[0]


def test_who_writes_to_the_store_cannot_choose_the_object_of_a_key(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(store)
    other = commit(store, "another model", "o" * 64)
    changed(store, "actions", lambda record: record.update(digest=other))
    assert store.find(KEY)  # nothing is signed, and no key is named
    assert opened(tmp_path, signs=True).find(KEY) is None
    assert "not sealed" in SAID[0]
    monkeypatch.setenv("TRANSLOAD_STORE_KEY", "ab" * 32)
    assert opened(tmp_path).find(KEY) is None


def test_a_sealed_record_counts_for_its_own_key_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSLOAD_STORE_KEY", "ab" * 32)
    store = opened(tmp_path)
    commit(store)
    commit(store, "another model", "o" * 64)
    actions = store.root / "actions"
    (actions / f"{KEY}.json").write_bytes((actions / f"{'o' * 64}.json").read_bytes())
    assert store.find(KEY) is None
    assert store.find("o" * 64)


def test_machines_with_one_key_trust_each_other_and_their_own_machine_is_trusted_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / name))
        if name == "one":
            commit(opened(tmp_path))
        assert bool(opened(tmp_path, signs=True).find(KEY)) is (name == "one")
    write_key(tmp_path / "shared.key")
    assert stat.S_IMODE((tmp_path / "shared.key").stat().st_mode) == 0o600
    monkeypatch.setenv("TRANSLOAD_STORE_KEY_FILE", str(tmp_path / "shared.key"))
    assert opened(tmp_path).find(KEY) is None
    commit(opened(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "three"))
    assert opened(tmp_path, signs=True).find(KEY)


def test_a_home_that_takes_no_key_trusts_nothing_where_it_signs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    commit(opened(tmp_path))
    assert opened(tmp_path).find(KEY)
    assert opened(tmp_path, signs=True).find(KEY) is None


@pytest.mark.parametrize("text", ["short", "zz" * 32, "ab" * 15, ""])
def test_a_key_that_cannot_be_used_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (tmp_path / "key").write_text(text)
    monkeypatch.setenv("TRANSLOAD_STORE_KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(BadRequest, match="key"):
        opened(tmp_path)
    monkeypatch.setenv("TRANSLOAD_STORE_KEY_FILE", str(tmp_path / "none"))
    with pytest.raises(BadRequest, match="cannot be read"):
        opened(tmp_path)


@pytest.mark.parametrize("names", [b"null", b"[3]", b'["/etc/x"]', b'["../x"]', b'[""]', b'["."]', b"\xff\xfe", b"["])
def test_the_names_of_an_object_behind_a_url_may_be_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: bytes
) -> None:
    monkeypatch.setenv("TRANSLOAD_STORE_CACHE", str(tmp_path / "one"))
    digest = commit(open_store(Path(f"file://{tmp_path}/far")))
    (tmp_path / "far" / "objects" / f"{digest}.json").write_bytes(names)
    monkeypatch.setenv("TRANSLOAD_STORE_CACHE", str(tmp_path / "two"))
    assert open_store(Path(f"file://{tmp_path}/far")).find(KEY) is None

"""Small stores, and items that never lay in one."""

from __future__ import annotations

import os
from pathlib import Path

from transload.models.store import Store
from transload.pipeline.extras.store.store_items import ItemKind, ItemUser, StoreItem, UseKind


def key_of(name: str) -> str:
    return name.encode().hex().ljust(64, "0")


def put(store: Store, name: str, text: str | None = None, *, age_s: float = 0.0, step: str = "data") -> str:
    """Keep a result with one file of `text`, last used `age_s` ago; return the digest."""
    with store.workspace() as work:
        (work / "out").mkdir()
        if text != "":
            (work / "out" / "file").write_text(name if text is None else text)
        digest = store.commit(key_of(name), work / "out", {}, 1.0, step=step).digest
    record = store.root / "actions" / f"{key_of(name)}.json"
    used_at = record.stat().st_mtime - age_s
    os.utime(record, (used_at, used_at))
    return digest


def link(run: Path, store: Path, digest: str) -> None:
    (run / "artifacts").mkdir(parents=True, exist_ok=True)
    target = os.path.relpath(store / "objects" / digest, run / "artifacts")
    (run / "artifacts" / "onnx").symlink_to(target)


def item(
    name: str, size: int = 1, used_at: float = 0.0, *, use: UseKind | None = None, seconds: float = 0.0
) -> StoreItem:
    users = (ItemUser(use, Path("/made")),) if use else ()
    return StoreItem(ItemKind.OBJECT, name, (name,), ("data",), "net.py", size, used_at, seconds, users)

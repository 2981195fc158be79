"""What may be removed from a store, in which order, and its removal beside other processes."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ....models.errors import BadRequest, DiskFull
from ....models.scratch_folders import scratch_folder
from ....models.store import disk_errors
from ....models.store_ledger import read_store_bytes, read_uses, store_lock, write_store_bytes
from .store_items import ItemKind, StoreItem, check_store, read_items, with_users


@dataclass(frozen=True)
class RemovalRule:
    """What goes. Without a limit: all that nothing uses. With one: the least recently used until the rest is within
    it, first what nothing uses, then steps of folders that are there; of one day, first what took the least time for
    its size. Neither takes what a run links to, or what a living command has looked at."""

    older_than_s: float = 0.0  # since its last use
    limit_bytes: int | None = None


@dataclass(frozen=True)
class RemovalResult:
    """What was removed, or would be, and what is left."""

    removed: tuple[StoreItem, ...]
    left: tuple[StoreItem, ...]

    @property
    def removed_bytes(self) -> int:
        """The size of what was removed."""
        return sum(item.bytes for item in self.removed)

    @property
    def left_bytes(self) -> int:
        """The size of what is left."""
        return sum(item.bytes for item in self.left)


def choose_items(items: Sequence[StoreItem], rule: RemovalRule, now: float) -> list[StoreItem]:
    """Return what the rule removes, in order. `now`: seconds since 1970."""
    free = [item for item in items if not item.is_kept and now - item.used_at >= rule.older_than_s]
    free.sort(key=_order)
    if rule.limit_bytes is None:
        return [item for item in free if not item.users]
    total, chosen = sum(item.bytes for item in items), []
    for item in free:
        if total <= rule.limit_bytes:
            break
        if item.bytes:
            chosen.append(item)
            total -= item.bytes
    return chosen


def _order(item: StoreItem) -> tuple[bool, int, float, float, str]:
    """Return what removable items are sorted by: a command uses its training first, which must not make it go first."""
    day, seconds_per_byte = int(item.used_at // 86400), item.seconds / max(item.bytes, 1)
    return bool(item.users), day, seconds_per_byte, item.used_at, item.name


def remove_items(
    root: Path, rule: RemovalRule, now: float, *, runs: Sequence[Path] = (), dry_run: bool = False
) -> RemovalResult:
    """Remove what the rule says. `runs` are further folders that hold runs that may link into the store.

    Sizes are read before the store's lock is taken, users under it: whoever looks at a result later finds none.
    What goes is renamed into a scratch folder under the lock, which takes milliseconds, and deleted after it. A kill
    leaves whole items where they were, and the scratch folder to the next command.
    Raises BadRequest where there is no store, or it cannot be written to."""
    root = check_store(root)
    counted = read_store_bytes(root) or 0
    items = read_items(root)
    if dry_run:
        items = with_users(root, items, runs)
        return _result(items, choose_items(items, rule, now))
    with removal_errors(root), scratch_folder(root / "tmp") as trash, store_lock(root, exclusive=True):
        items = with_users(root, [_now_used(root, item) for item in items], runs)
        chosen = choose_items(items, rule, now)
        for item in chosen:
            discard(root, item, trash)
        _forget_ended(root)
        result = _result(items, chosen)
        kept_meanwhile = max(0, (read_store_bytes(root) or 0) - counted)
        left_bytes = sum(item.bytes for item in result.left if item.kind is ItemKind.OBJECT)
        write_store_bytes(root, left_bytes + kept_meanwhile)
    return result


def discard(root: Path, item: StoreItem, trash: Path) -> None:
    """Move an item out of the store, with its records and logs. The caller holds the store's lock."""
    folder = {ItemKind.OBJECT: "objects", ItemKind.CHECKPOINTS: "checkpoints"}.get(item.kind)
    if folder:
        with suppress(FileNotFoundError):
            (root / folder / item.name).rename(trash / f"{item.name}-{secrets.token_hex(4)}")
    if item.kind is ItemKind.CHECKPOINTS:
        return
    records = "refusals" if item.kind is ItemKind.REFUSAL else "actions"
    for key in item.keys:
        (root / records / f"{key}.json").unlink(missing_ok=True)
        (root / "logs" / f"{key}.log").unlink(missing_ok=True)


def _now_used(root: Path, item: StoreItem) -> StoreItem:
    """Return the item with the time of its last use as it is now."""
    used_at = item.used_at
    for key in item.keys if item.kind in (ItemKind.OBJECT, ItemKind.RESULT) else ():
        with suppress(OSError):
            used_at = max(used_at, (root / "actions" / f"{key}.json").stat().st_mtime)
    return replace(item, used_at=used_at)


def _forget_ended(root: Path) -> None:
    """Remove what ended commands wrote down whose folders are gone."""
    for use in read_uses(root):
        if use.is_over:
            use.record.unlink(missing_ok=True)


def _result(items: Iterable[StoreItem], chosen: Sequence[StoreItem]) -> RemovalResult:
    removed = {(item.kind, item.name) for item in chosen}
    return RemovalResult(tuple(chosen), tuple(item for item in items if (item.kind, item.name) not in removed))


@contextmanager
def removal_errors(root: Path) -> Iterator[None]:
    """Turn the error of a store that is closed to writing into a sentence. Raises BadRequest."""
    try:
        with disk_errors(root):
            yield
    except DiskFull:
        raise
    except BadRequest as error:
        fix = "make it writable, or run this as the user who owns it"
        raise BadRequest(error.what, fix=fix) from error

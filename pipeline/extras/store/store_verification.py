"""Whether every object of a store still has the content that its name is the digest of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....models.library_messages import text_of
from ....models.remote.sealed_records import RECORDS, read_record, read_sealing
from ....models.scratch_folders import scratch_folder
from ....models.store import digest_of
from ....models.store_ledger import add_store_bytes, store_lock
from .store_items import ItemKind, StoreItem, UseKind, check_store, read_items, with_users
from .store_removal import discard, removal_errors


@dataclass(frozen=True)
class BrokenObject:
    """An object whose content is no longer that of its name."""

    item: StoreItem
    is_removed: bool = False


@dataclass(frozen=True)
class BrokenRecord:
    """A record that no command uses: its content, or who has sealed it, is not what it has to be."""

    path: Path
    reason: str
    is_removed: bool = False


@dataclass(frozen=True)
class StoreVerification:
    """What a check of a store has shown."""

    checked: int
    checked_bytes: int
    broken: tuple[BrokenObject, ...]
    records: tuple[BrokenRecord, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether nothing broken is left."""
        return all(broken.is_removed for broken in self.broken) and all(row.is_removed for row in self.records)


def verify_store(
    root: Path, step: Callable[[str], None], *, repair: bool = False, runs: Sequence[Path] = ()
) -> StoreVerification:
    """Compute the digest of every object anew. `step` is called with the name of each.

    `repair` removes what is broken, except what a living process is using; it is made again when it is needed. An
    artifact goes although a run links to it: its answers are no longer those that the run has verified.
    Raises BadRequest where there is no store, or it cannot be repaired."""
    root = check_store(root)
    objects = [item for item in read_items(root) if item.kind is ItemKind.OBJECT]
    broken = []
    for item in objects:
        step(item.name[:12])
        if _is_broken(root, item):
            broken.append(item)
    broken = with_users(root, broken, runs)
    removed = _remove(root, broken, runs) if repair and broken else set()
    rows = tuple(BrokenObject(item, item.name in removed) for item in broken)
    records = tuple(_check_records(root, repair=repair))
    return StoreVerification(len(objects), sum(item.bytes for item in objects), rows, records)


def _check_records(root: Path, *, repair: bool) -> Iterator[BrokenRecord]:
    """Yield the records that no command uses, and with `repair` remove them."""
    sealing = read_sealing()
    for path in sorted(file for kind in RECORDS for file in (root / kind).glob("*.json")):
        try:
            read_record(path, sealing)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            if repair:
                with removal_errors(root), store_lock(root, exclusive=True):
                    path.unlink(missing_ok=True)
            yield BrokenRecord(path, text_of(error)[:200], is_removed=repair)


def _is_broken(root: Path, item: StoreItem) -> bool:
    folder = root / "objects" / item.name
    try:
        return folder.is_dir() and digest_of(folder) != item.name  # not there: another process has removed it
    except OSError:
        return folder.is_dir()


def _remove(root: Path, broken: Sequence[StoreItem], runs: Sequence[Path]) -> set[str]:
    """Remove objects that are broken still and that no living process uses; return their digests."""
    with removal_errors(root), scratch_folder(root / "tmp") as trash, store_lock(root, exclusive=True):
        removed = set()
        for item in with_users(root, broken, runs):
            is_running = any(user.kind is UseKind.RUNNING for user in item.users)
            if not is_running and _is_broken(root, item):
                discard(root, item, trash)
                add_store_bytes(root, -item.bytes)
                removed.add(item.name)
        return removed

"""What lies in a store: objects with the results that they are, checkpoints and refusals, and who uses each.

Reads only, and takes no lock: a store on a disk that is closed to writing is listed as well.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from ....models.artifact import RECORD as ARTIFACT_RECORD
from ....models.errors import BadRequest
from ....models.library_messages import one_line_texts
from ....models.remote.sealed_records import read_record
from ....models.sources import RECORD as SOURCE_RECORD
from ....models.store import size_of
from ....models.store_ledger import CommandUse, read_uses
from ...result.run_folder import ARTIFACTS


class ItemKind(StrEnum):
    """What an item is; each is removed as a whole."""

    OBJECT = "object"  # a folder of files, with every result that it is
    RESULT = "result"  # a record without files, as that of a check
    REFUSAL = "refusal"
    CHECKPOINTS = "checkpoints"  # state that a killed step goes on from


class UseKind(StrEnum):
    """How an item is used."""

    RUNNING = "running"  # a living process has looked at it
    LINK = "link"  # artifacts/ of a run shares its files
    STEP = "step"  # a command that left a folder needed it; the folder is there


@dataclass(frozen=True)
class ItemUser:
    """Who uses an item: a command, by the folder of what it leaves."""

    kind: UseKind
    folder: Path | None


@dataclass(frozen=True)
class StoreItem:
    """An object, a result without files, a refusal or checkpoints. Times are seconds since 1970."""

    kind: ItemKind
    name: str  # the digest of an object, else the key of the action
    keys: tuple[str, ...]  # of the actions whose result it is
    steps: tuple[str, ...] = ()  # their names
    model: str = ""
    bytes: int = 0
    used_at: float = 0.0
    seconds: float = 0.0  # that it took to make
    users: tuple[ItemUser, ...] = ()

    @property
    def is_kept(self) -> bool:
        """Whether it must stay: a run links to it, or a living process has looked at it."""
        return any(user.kind in (UseKind.RUNNING, UseKind.LINK) for user in self.users)


def check_store(root: Path) -> Path:
    """Return the store's real path. Raises BadRequest where there is no store."""
    if not (root / "objects").is_dir():
        raise BadRequest(f"there is no store at {root}", fix="name its folder with --store")
    return Path(os.path.realpath(root))


def read_items(root: Path) -> list[StoreItem]:
    """Return what lies in a store, without its users. What goes away meanwhile is left out."""
    results: dict[str, list[StoreItem]] = defaultdict(list)
    items: list[StoreItem] = []
    for path in _records(root / "actions"):
        digest, result = _read_result(path)
        results[digest].append(result)
    for folder in _folders(root / "objects"):
        items += _object_items(folder, results.pop(folder.name, []))
    items += [replace(result, bytes=0) for lost in results.values() for result in lost]  # whose object is gone
    for path in _records(root / "refusals"):
        with suppress(OSError):
            items.append(StoreItem(ItemKind.REFUSAL, path.stem, (path.stem,), used_at=path.stat().st_mtime))
    for folder in _folders(root / "checkpoints"):
        with suppress(OSError):
            used_at = folder.stat().st_mtime
            count = size_of(folder)
            items.append(StoreItem(ItemKind.CHECKPOINTS, folder.name, (folder.name,), bytes=count, used_at=used_at))
    return items


def with_users(root: Path, items: Iterable[StoreItem], runs: Sequence[Path]) -> list[StoreItem]:
    """Return the items with their users: commands as they wrote it down, and the links of their folders.
    `runs` are further folders that hold runs."""
    uses = read_uses(root)
    links = read_links(root, run_folders(root, uses, runs))
    by_name: dict[str, list[CommandUse]] = defaultdict(list)
    for use in uses:
        for name in use.names if not use.is_over else ():
            by_name[name].append(use)
    return [replace(item, users=tuple(_users_of(item, by_name, links))) for item in items]


def run_folders(root: Path, uses: Iterable[CommandUse], runs: Sequence[Path]) -> set[Path]:
    """Return the folders of runs that may link into the store: those written down, those beside it and in `runs`."""
    folders = {use.folder for use in uses if use.folder is not None}
    for parent in (root.parent / "runs", *(Path(os.path.realpath(folder)) for folder in runs)):
        folders.update(_folders(parent))
    return folders


def read_links(root: Path, folders: Iterable[Path]) -> dict[str, set[Path]]:
    """Return the digests of the objects that runs share files with, each with the folders of those runs.
    Runs of older versions have symbolic links to the objects."""
    objects = os.path.realpath(root / "objects")
    links: dict[str, set[Path]] = defaultdict(set)
    shared: dict[tuple[int, int], set[Path]] = defaultdict(set)
    for folder in folders:
        for place in _entries(folder / ARTIFACTS):
            if place.is_symlink():
                target = Path(os.path.realpath(place))
                if target.parent == Path(objects):
                    links[target.name].add(folder)
            elif record := _shared_record(place):
                shared[record].add(folder)
    for entry in _folders(root / "objects") if shared else ():
        record = _shared_record(entry)
        if record in shared:
            links[entry.name] |= shared[record]
    return links


def _shared_record(folder: Path) -> tuple[int, int] | None:
    """Return device and inode of the record of an artifact or a source, where another folder has a hard link to it."""
    for name in (ARTIFACT_RECORD, SOURCE_RECORD):
        with suppress(OSError):
            status = (folder / name).lstat()
            return (status.st_dev, status.st_ino) if status.st_nlink > 1 else None
    return None


def _users_of(
    item: StoreItem, uses: Mapping[str, Sequence[CommandUse]], links: Mapping[str, set[Path]]
) -> Iterator[ItemUser]:
    """Return each folder that uses an item once, by its strongest use."""
    commands = {use.record: use for name in {item.name, *item.keys} for use in uses.get(name, ())}.values()
    linked = set() if item.kind is not ItemKind.OBJECT else links.get(item.name, set())
    running = {use.folder for use in commands if use.is_running}
    yield from (ItemUser(UseKind.RUNNING, folder) for folder in sorted(running, key=str))
    yield from (ItemUser(UseKind.LINK, folder) for folder in sorted(linked - running))
    steps = {use.folder for use in commands if use.folder is not None} - linked - running
    yield from (ItemUser(UseKind.STEP, folder) for folder in sorted(steps, key=str))


def _object_items(folder: Path, results: Sequence[StoreItem]) -> Iterator[StoreItem]:
    """Return an object as one item, or each of its results as one where it has no files: all checks share that."""
    with suppress(OSError):
        count = next((result.bytes for result in results if result.bytes), None) or size_of(folder)
        if not count:
            yield from results
            return
        used_at = max((result.used_at for result in results), default=folder.stat().st_mtime)
        steps = tuple(dict.fromkeys(step for result in results for step in result.steps))
        model = next((result.model for result in results if result.model), "")
        keys = tuple(key for result in results for key in result.keys)
        seconds = max((result.seconds for result in results), default=0.0)
        yield StoreItem(ItemKind.OBJECT, folder.name, keys, steps, model, count, used_at, seconds)


def _read_result(path: Path) -> tuple[str, StoreItem]:
    """Return the digest of a result's object, "" where the record cannot be read, and the result as an item."""
    used_at, record = 0.0, {}
    with suppress(OSError, ValueError):
        used_at = path.stat().st_mtime
        record = read_record(path)
    step, model = one_line_texts([record.get("step"), record.get("model", "")])
    steps = tuple(filter(None, [step]))
    size, took_s = record.get("bytes", 0), float(record.get("seconds", 0.0))
    return record.get("digest", ""), StoreItem(
        ItemKind.RESULT, path.stem, (path.stem,), steps, model, size, used_at, took_s
    )


def _records(folder: Path) -> Iterator[Path]:
    return (path for path in _entries(folder) if path.suffix == ".json")


def _folders(folder: Path) -> Iterator[Path]:
    return (path for path in _entries(folder) if path.is_dir())


def _entries(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(folder.iterdir())
    return []

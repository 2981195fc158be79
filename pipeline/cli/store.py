"""`transload store`: what the store of finished steps holds, and what may go."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from ...models.errors import BadRequest, Exit
from ..options import shared_options as shared
from ..options.option import CommandOptions, Option
from .output.render import finish, table

_Runs = Annotated[
    tuple[Path, ...],
    shared.by(lambda places: tuple(map(Path, places)), list[str]),
    Option("--runs", "DIR", "A folder that holds runs, beside those that are known; also several.", several=True),
]


def command() -> None:
    """List what the store of finished steps holds, remove what nothing uses, check it."""


class LsOptions(CommandOptions):
    """List what the store holds, with size, last use and what uses it.

    'link': artifacts/ of a run links to it. 'at work': a command is using it. A folder alone: a command that left the
    folder needed it as a step.
    """

    store: shared.Store = None
    runs: _Runs = ()
    rows: Annotated[int, Option("--rows", "N", "The N largest; 0 for all.", min=0)] = 20
    json_: shared.Json = False


def ls(options: LsOptions) -> None:
    """Print what the store holds."""
    from ..extras.store.store_items import check_store, read_items, with_users
    from ..extras.store.store_text import item_json, item_rows, total_lines

    folder, now = _store(options.store), time.time()
    root = check_store(folder)
    items = with_users(root, read_items(root), _runs(options.runs))
    lines = item_rows(items, now, options.rows)
    total = sum(item.bytes for item in items)
    document = {"store": str(root), "bytes": total, "items": [item_json(item) for item in items]}
    finish(
        document, [*table(lines), *total_lines(items, folder, max(0, len(lines) - 1))], Exit.PASS, json=options.json_
    )


class GcOptions(CommandOptions):
    """Remove what nothing uses: no folder that a command left, and no command at work.

    With --limit, the least recently used goes until the rest is within it: first what nothing uses, then the steps of
    folders that are there. What a run links to always stays: remove the run's folder first. What was removed is made
    again when it is needed.
    """

    store: shared.Store = None
    runs: _Runs = ()
    older_than: Annotated[
        str | None, Option("--older-than", "AGE", "Only what was not used for so long, as in 30d.")
    ] = None
    limit: Annotated[
        str | None, Option("--limit", "SIZE", "Remove the least recently used until it is as small, as in 5GB.")
    ] = None
    dry_run: Annotated[bool, Option("--dry-run", help="Remove nothing; list what would go.")] = False
    json_: shared.Json = False


def gc(options: GcOptions) -> None:
    """Remove what nothing uses from the store, and print what that was."""
    from ..extras.store.store_removal import RemovalRule, remove_items
    from ..extras.store.store_text import item_json, removal_lines, removed_rows
    from ..result.size_text import parse_size

    rule = RemovalRule(parse_age(options.older_than), None if options.limit is None else parse_size(options.limit))
    folder, now = _store(options.store), time.time()
    result = remove_items(folder, rule, now, runs=_runs(options.runs), dry_run=options.dry_run)
    document: dict[str, Any] = {
        "store": str(folder.absolute()), "dry_run": options.dry_run, "removed_bytes": result.removed_bytes,
        "left_bytes": result.left_bytes, "removed": [item_json(item) for item in result.removed],
    }  # fmt: skip
    listed = table(removed_rows(result, now)) if options.dry_run else []
    lines = removal_lines(result, folder, dry_run=options.dry_run, limited=options.limit is not None)
    finish(document, [*listed, *([""] if listed else []), *lines], Exit.PASS, json=options.json_)


class VerifyStoreOptions(CommandOptions):
    """Compute the digest of every object anew, and name those that are broken.

    Ends with 0 where nothing broken is left, with 1 where something is.
    """

    store: shared.Store = None
    runs: _Runs = ()
    repair: Annotated[bool, Option("--repair", help="Remove what is broken; it is made again when needed.")] = False
    json_: shared.Json = False
    quiet: shared.Quiet = False


def verify(options: VerifyStoreOptions) -> None:
    """Print the objects of the store whose content is not that of their digest; with --repair, remove them."""
    from ..extras.store.store_text import item_json, verification_lines
    from ..extras.store.store_verification import verify_store
    from ..progress.progress import Progress

    folder, progress = _store(options.store), Progress(quiet=options.quiet)
    with progress.stage("verify"):
        result = verify_store(folder, progress.step, repair=options.repair, runs=_runs(options.runs))
    status = Exit.PASS if result.is_sound else Exit.FAIL
    rows = [{**item_json(broken.item), "removed": broken.is_removed} for broken in result.broken]
    document = {
        "store": str(folder.absolute()), "exit_code": int(status), "checked": result.checked,
        "checked_bytes": result.checked_bytes, "broken": rows,
        "broken_records": [
            {"path": str(row.path), "reason": row.reason, "removed": row.is_removed} for row in result.records
        ],
    }  # fmt: skip
    finish(document, verification_lines(result, folder), status, json=options.json_)


class InitOptions(CommandOptions):
    """Make a store whose records are sealed with a key, for machines that share it.

    Each command that finds the key in TRANSLOAD_STORE_KEY_FILE, or its text in TRANSLOAD_STORE_KEY, seals what it keeps
    and uses nothing that is not sealed with it.
    """

    key: Annotated[Path, Option("--key", "FILE", "The file of the key; made where it is not there.")]
    store: shared.Store = None


def init(options: InitOptions) -> None:
    """Make the key and the store, and print what to set."""
    from ...models.remote.remote_store import open_store
    from ...models.remote.sealed_records import KEY_FILE_VARIABLE, write_key
    from ...models.store import disk_errors

    key = options.key
    with disk_errors(key, "--key"):
        is_new = not key.exists()
        if is_new:
            write_key(key)
    os.environ[KEY_FILE_VARIABLE] = str(key)  # refused where it is none
    place = open_store(_store(options.store)).place
    lines = [
        f"{'made' if is_new else 'kept'} the key {key}; keep it from those who may write to the store and no more",
        f"the store is {place}: set {KEY_FILE_VARIABLE}={key.absolute()} on every machine that shares it",
    ]
    finish({}, lines, Exit.PASS, json=False)


SUBCOMMANDS = {"init": init, "ls": ls, "gc": gc, "verify": verify}


def parse_age(text: str | None) -> float:
    """Return the seconds of an age as in "30d", "12h" or "2w"; 0 for None. Raises BadRequest."""
    if text is None:
        return 0.0
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text.strip())
    if not match:
        raise BadRequest(f"{text!r} is no age", fix="write it as in 30d, 12h or 2w")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}[match[2]]


def _store(store: Path | None) -> Path:
    from ..plan.context import LocalSettings

    return LocalSettings.with_defaults(store).store


def _runs(runs: Sequence[Path]) -> list[Path]:
    from ..plan.context import LocalSettings

    return [LocalSettings().runs, *runs]

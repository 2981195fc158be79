"""What `transload store` tells a person and a program of the items of a store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...show.units import size
from .store_items import ItemKind, StoreItem, UseKind
from .store_removal import RemovalResult
from .store_verification import StoreVerification

_HEAD = ("what", "model", "size", "last used", "used by")
_AGES = (("day", 86400), ("hour", 3600), ("minute", 60))
_STEPS = {
    "train": "training", "source": "model", "weights": "model with weights", "describe": "description",
    "data": "data", "reference": "reference answers", "chance": "answers by chance",
}  # fmt: skip


def item_rows(items: Sequence[StoreItem], now: float, rows: int) -> list[tuple[str, ...]]:
    """Return the rows of a table, the largest item first, with a head; 0 rows: all."""
    ordered = sorted(items, key=lambda item: (-item.bytes, -item.used_at, item.name))
    shown = ordered[:rows] if rows else ordered
    return [_HEAD, *(_row(item, now) for item in shown)] if items else []


def total_lines(items: Sequence[StoreItem], root: Path, shown: int) -> list[str]:
    """Return the size of the store, by who uses it, and how many items the table leaves out."""
    hidden = len(items) - shown
    more = [f"and {hidden} smaller ones ('--rows 0' lists all)"] if hidden > 0 else []
    parts = [
        _part(items, UseKind.LINK, "linked by runs"),
        _part(items, UseKind.RUNNING, "used by a command that is at work"),
        _part(items, UseKind.STEP, "steps of folders that are there"),
        _part(items, None, "used by nothing"),
    ]
    breakdown = ", ".join(part for part in parts if part)
    head = f"{root}: {_count(items)}, {size(sum(item.bytes for item in items))}"
    return [*more, *([""] if items else []), f"{head}{': ' if breakdown else ''}{breakdown}"]


def removal_lines(result: RemovalResult, root: Path, *, dry_run: bool, limited: bool) -> list[str]:
    """Return what was removed, or would be, and what is left."""
    word = "would remove" if dry_run else "removed"
    lines = [
        f"{word} {_count(result.removed)}, {size(result.removed_bytes)}; left: {size(result.left_bytes)} in {root}"
    ]
    steps = sum(item.bytes for item in result.left if _strongest(item) is UseKind.STEP)
    if steps and not limited:
        mend = "remove those folders, or name a size with --limit"
        lines.append(f"{size(steps)} of it are steps of folders that are there: {mend}")
    return lines


def removed_rows(result: RemovalResult, now: float) -> list[tuple[str, ...]]:
    """Return the rows of what goes, in order."""
    return [_HEAD, *(_row(item, now) for item in result.removed)] if result.removed else []


def verification_lines(verification: StoreVerification, root: Path) -> list[str]:
    """Return a line for each broken object, and what was checked."""
    lines = []
    for broken in verification.broken:
        state = "removed" if broken.is_removed else "broken"
        lines.append(
            f"{state}: {describe_item(broken.item)} {broken.item.model}".rstrip()
            + f", {root}/objects/{broken.item.name}"
        )
        lines += [f"  {user.folder} links to it: run again what made it" for user in broken.item.users
                  if user.kind is UseKind.LINK]  # fmt: skip
        if not broken.is_removed and any(user.kind is UseKind.RUNNING for user in broken.item.users):
            lines.append("  a command that is at work uses it")
    for record in verification.records:
        lines.append(f"{'removed' if record.is_removed else 'broken'}: record {record.path}: {record.reason}")
    count, total = verification.checked, size(verification.checked_bytes)
    broken_count = len(verification.broken) + len(verification.records)
    if verification.is_sound:
        removed = f"; {broken_count} broken removed" if broken_count else ""
        return [*lines, f"{root}: {count} objects, {total}: all sound{removed}"]
    left = sum(not broken.is_removed for broken in verification.broken)
    mend = "'transload store verify --repair' removes them, and they are made again when needed"
    records = sum(not record.is_removed for record in verification.records)
    parts = [f"{left} of {count} objects"] * bool(left) + [f"{records} record{'s' * (records > 1)}"] * bool(records)
    return [*lines, f"{root}: {' and '.join(parts)} are broken; {mend}"]


def item_json(item: StoreItem) -> dict[str, Any]:
    """Return an item as JSON values."""
    return {
        "kind": str(item.kind),
        "name": item.name,
        "what": describe_item(item),
        "steps": list(item.steps),
        "model": item.model or None,
        "bytes": item.bytes,
        "last_used_at": datetime.fromtimestamp(item.used_at, UTC).isoformat(timespec="seconds"),
        "users": [{"kind": str(user.kind), "folder": str(user.folder) if user.folder else None} for user in item.users],
    }


def describe_item(item: StoreItem) -> str:
    """Return what an item is: "artifact onnx (torch.export > torch.onnx-dynamo)", "reference answers"."""
    if item.kind in (ItemKind.REFUSAL, ItemKind.CHECKPOINTS):
        return str(item.kind)
    names = list(dict.fromkeys(_step_text(step) for step in item.steps))
    if not names:
        return f"{item.kind} {item.name[:12]}"
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _step_text(step: str) -> str:
    """Return the name of an action for a person: "convert.onnx.torch.export+torch.onnx-dynamo" is an artifact."""
    stage, _, rest = step.partition(".")
    target, _, route = rest.partition(".")
    if stage == "convert" and route:
        return f"artifact {target} ({route.replace('+', ' > ')})"
    if stage == "validate" and route:
        return f"validation of {target} in {route}"
    if stage == "verify" and route:
        return f"check of {target}"
    return _STEPS.get(step, step)


def _row(item: StoreItem, now: float) -> tuple[str, ...]:
    return describe_item(item), item.model, size(item.bytes), age(now - item.used_at), _users(item)


def _users(item: StoreItem) -> str:
    if not item.users:
        return "nothing"
    first, *further = item.users
    words = {UseKind.LINK: " (link)", UseKind.RUNNING: " (at work)", UseKind.STEP: ""}[first.kind]
    more = f" and {len(further)} more" if further else ""
    return f"{_shown(first.folder)}{words}{more}"


def _shown(folder: Path | None) -> str:
    """Return a folder as a person would type it from here."""
    if folder is None:
        return "a command"
    here = Path.cwd()
    return str(folder.relative_to(here)) if folder.is_relative_to(here) else str(folder)


def age(seconds: float) -> str:
    """Return how long ago something was: "3 days ago", "1 hour ago", "now"."""
    for name, length in _AGES:
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {name}{'s' * (count > 1)} ago"
    return "now"


def _part(items: Iterable[StoreItem], kind: UseKind | None, text: str) -> str:
    total = sum(item.bytes for item in items if _strongest(item) is kind)
    return f"{size(total)} {text}" if total else ""


def _strongest(item: StoreItem) -> UseKind | None:
    kinds = {user.kind for user in item.users}
    return next((kind for kind in (UseKind.LINK, UseKind.RUNNING, UseKind.STEP) if kind in kinds), None)


def _count(items: Sequence[StoreItem]) -> str:
    return f"{len(items)} item{'s' * (len(items) != 1)}"

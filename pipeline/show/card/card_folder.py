"""The folder of an artifact, as it is handed on: plain files, a card, requirements and digests beside the payload."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ....models.artifact import BESIDE, CARD, CARD_TEXT, DIGESTS, LOCAL, MADE_FROM, PROVENANCE, REQUIREMENTS
from ....models.atomic_files import write_whole
from ....models.errors import BadRequest, StepFailed
from ....models.store import digest_of, digest_of_files
from .card_records import Card
from .card_text import card_text

_LINE = re.compile(r"(\\?)([0-9a-f]{64}) [ *](.+)")  # as sha256sum writes it
_MOST_BYTES = 16 << 20  # of a list of digests


def write_card(
    folder: Path, card: Card, make_statement: Callable[[Mapping[str, str]], str] | None = None, *, digest: str = ""
) -> None:
    """Write card, requirements and digests beside the payload in `folder`.
    `make_statement` returns the text of provenance.json for the digests of all other files, by name.
    `digest`: of the object that was verified. Raises StepFailed where the folder holds another by now."""
    write_whole(folder / CARD, json.dumps(card.to_json(), indent=1, ensure_ascii=False) + "\n")
    write_whole(folder / CARD_TEXT, card_text(card))
    write_whole(folder / REQUIREMENTS, "".join(f"{line}\n" for line in card.runtime.requirements))
    known = {card.file: card.sha256} if (folder / card.file).is_file() else {}
    digests = {name: known.get(name) or digest_of(folder / name) for name in _files(folder) if name != PROVENANCE}
    if digest and digest_of_files({name: digests[name] for name in digests if name not in BESIDE}) != digest:
        fix = "run again; whoever can write to the store can do that, so keep it to yourself"
        raise StepFailed(f"the artifact for {folder} was changed in the store after it was verified", fix=fix)
    if make_statement is not None:
        own = {name: digest_of(folder / name) for name in (MADE_FROM,) if (folder / name).is_file()}
        write_whole(folder / PROVENANCE, make_statement({**digests, **own}))
        digests[PROVENANCE] = digest_of(folder / PROVENANCE)
    write_whole(folder / DIGESTS, "".join(_digest_lines(digests)))


def _digest_lines(digests: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each file."""
    for name in sorted(digests):
        escaped = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        mark = "\\" if escaped != name else ""
        yield f"{mark}{digests[name]}  {escaped}\n"


def _files(folder: Path) -> list[str]:
    """Return the files that have a digest: all but the list itself, and what belongs to this machine."""
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in names if name not in (DIGESTS, *LOCAL))


@dataclass(frozen=True)
class DigestCheck:
    """How the files of a folder compare with its list of digests."""

    files: int
    changed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()  # files that the list does not name

    @property
    def is_sound(self) -> bool:
        """Whether every listed file is there, and as it was."""
        return not (self.changed or self.missing)


def check_digests(folder: Path) -> DigestCheck | None:
    """Hold the files of a folder against its list of digests; None where it has no list.
    Raises BadRequest where the list is broken, or names a file elsewhere."""
    listed = read_digests(folder)
    if listed is None:
        return None
    present = set(_files(folder))
    changed = tuple(name for name, digest in listed.items() if name in present and digest_of(folder / name) != digest)
    missing = tuple(name for name in listed if name not in present)
    return DigestCheck(len(listed), changed, missing, tuple(sorted(present - listed.keys())))


def read_digests(folder: Path) -> dict[str, str] | None:
    """Read the list of digests of a folder, by name; None where it has none. Raises BadRequest where it is broken."""
    file = folder / DIGESTS
    if not file.is_file():
        return None
    listed = {}
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise ValueError("it is too large")
        for line in file.read_bytes().decode().split("\n")[:-1]:
            match = _LINE.fullmatch(line)
            if not match:
                raise ValueError(f"{line[:100]!r} is no digest with a name")
            name = re.sub(r"\\(.)", _unescape, match[3]) if match[1] else match[3]
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise ValueError(f"{name!r} leads out of the folder")
            listed[name] = match[2]
    except (OSError, ValueError) as error:
        raise BadRequest(f"{file} cannot be read: {error}", fix="copy the folder again") from error
    return listed


def _unescape(part: re.Match[str]) -> str:
    return {"n": "\n", "r": "\r"}.get(part[1], part[1])

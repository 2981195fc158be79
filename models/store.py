"""The store keeps complete objects by content, and finds them again by the action that made them.

    objects/<digest>/        an immutable folder; its name is the digest of its files
    actions/<key>.json       the result of the action <key>: the object's digest and its facts
    refusals/<key>.json      the sentence with which the action <key> refuses, every time it is asked
    logs/<key>.log           what the action's process printed
    checkpoints/<key>/       state that a killed action goes on from; removed once it is done
    tmp/<pid>-<random>/      work in progress; leftovers of dead processes are removed
    users/, lock, bytes      who uses which result, and the size of all objects (store_ledger.py)

Keyed by action and not by output: two exports of one SavedModel differ in bytes, and one action need not run twice to
know that. Everything is written beside its place, synced, and renamed: a kill at any moment leaves all of it or none.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from .atomic_files import write_synced
from .errors import BadRequest, DiskFull
from .library_messages import text_of
from .remote.sealed_records import NotSealed, Sealing, read_record, record_text
from .scratch_folders import remove_abandoned, scratch_folder
from .store_ledger import UseRecord, add_store_bytes, store_lock, try_lock, write_store_bytes
from .untrusted_files import check_result, read_plain

IDENTITY = "identity"  # a file in a store
# Errors that the name or the state of a folder causes.
_OF_PLACES = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENOENT, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP,
)  # fmt: skip
_LARGE_BYTES = 1 << 25  # of a file whose digest is kept
_State: TypeAlias = dict[Path, tuple[int, int]]
_KNOWN_DIGESTS: dict[tuple[int, ...], str] = {}  # by the place, size and times of a file


@dataclass(frozen=True, slots=True)
class Stored:
    """The result of an action."""

    key: str
    digest: str  # sha256 over the sorted names and contents of the object's files
    folder: Path  # read only by agreement: others may be reading it
    facts: Mapping[str, Any]
    log: Path
    seconds: float  # that the action took
    cached: bool  # whether it was found, and not made now


class Store:
    """A folder on a local disk. Several processes may use it at once.

    Until it is closed, or its process ends, nobody removes what it has found or kept (`transload store gc`)."""

    def __init__(self, root: Path, folder: Path | None = None, model: str = "", sealing: Sealing | None = None) -> None:
        """`folder` is that of the command, for which results are kept while it is there; `model` names its model.
        `sealing`: the key of its records, and whether it is required."""
        self.root = root.absolute()
        self.sealing = sealing or Sealing()
        self.tell: Callable[[str], object] = str  # is told why a record is passed over
        self._uses = UseRecord(self.root, folder)
        self._model = model
        self._intact: dict[str, _State] = {}  # objects that this process has checked, with their state at that time
        with disk_errors(self.root):
            is_new = not (self.root / "objects").exists()
            for name in ("objects", "actions", "refusals", "logs", "checkpoints", "tmp"):
                (self.root / name).mkdir(parents=True, exist_ok=True)
            if is_new:
                write_store_bytes(self.root, 0)
            ignore = self.root / ".gitignore"  # the store often lies inside somebody's repository
            if not ignore.exists():
                ignore.write_text("*\n")
            remove_abandoned((self.root / "tmp").iterdir())

    def find(self, key: str) -> Stored | None:
        """Return the result of the action `key`, or None.
        An object whose content is no longer that of its name counts as never made: artifacts/ of a run links here, and
        an edit goes through a link. So does one that was made from a file outside of the store which has changed."""
        stored, read = self._look_up(key) or (None, {})
        return stored if stored and self._is_intact(stored.folder, stored.digest) and _unchanged(read) else None

    def find_new(self, key: str) -> Stored | None:
        """Return the result of an action that another process has kept a moment ago, or None.
        Its content is not read again: a command of many nodes would read all that they make."""
        stored, _ = self._look_up(key) or (None, {})
        return stored if stored and stored.folder.is_dir() else None

    def _look_up(self, key: str) -> tuple[Stored, Mapping[str, str]] | None:
        """Return the recorded result of an action, and the files outside of the store that it has read."""
        if (record := self._read_record("actions", key)) is None:
            return None
        folder, facts, seconds = self.root / "objects" / record["digest"], record["facts"], record["seconds"]
        return Stored(key, record["digest"], folder, facts, self.log(key), seconds, cached=True), record["read"]

    def _read_record(self, kind: str, key: str) -> Mapping[str, Any] | None:
        """Read a record of `actions` or `refusals`, and note its use; None where there is none that can be used."""
        path = self.root / kind / f"{key}.json"
        try:
            with store_lock(self.root):
                record = read_record(path, self.sealing)
                self._uses.add(key, *([record["digest"]] if "digest" in record else []))
                touch(path)
                return record
        except FileNotFoundError:
            return None
        except NotSealed:
            self.tell(
                f"results in {self.root} that the key of the store or of this machine has not sealed do not count"
            )
            return None
        except (OSError, ValueError) as error:
            self.tell(f"the record {path} is passed over: {text_of(error)[:200]}")
            return None

    @property
    def place(self) -> str:
        """The folder or the URL by which another process opens the same store."""
        return str(self.root)

    @property
    def identity(self) -> str:
        """The name that the store has given itself: a folder of the same name on another machine may be another one."""
        path = self.root / IDENTITY
        with suppress(FileNotFoundError):
            if identity := read_plain(path).decode(errors="replace"):
                return identity
        with disk_errors(self.root), store_lock(self.root, exclusive=True):
            if not path.exists() or not path.read_text():  # else another process was first
                write_synced(path, secrets.token_hex(16))
            return read_plain(path).decode(errors="replace")

    def object(self, digest: str) -> Path:
        """Return the folder of an object that is here."""
        return self.root / "objects" / digest

    def refusal(self, key: str) -> Mapping[str, str] | None:
        """Return the error that the action `key` ends in, or None: a converter that refuses once refuses again."""
        return self._read_record("refusals", key)

    def remember_refusal(self, key: str, error: Mapping[str, str]) -> None:
        """Keep the error that the action `key` ended in.
        Only for an error that the action itself decided on: a crash, a time-out or a full disk may end another way
        tomorrow."""
        with disk_errors(self.root), store_lock(self.root):
            self._uses.add(key)
            write_synced(self.root / "refusals" / f"{key}.json", self._record_text(f"refusals/{key}", error))

    def _record_text(self, place: str, record: Mapping[str, Any]) -> str:
        return record_text(place, record, self.sealing)

    def log(self, key: str) -> Path:
        """Return the file that the process of the action `key` prints to."""
        return self.root / "logs" / f"{key}.log"

    def checkpoints(self, key: str) -> Path:
        """Return a folder that outlives a kill, for an action that can go on from where it was."""
        folder = self.root / "checkpoints" / key
        with disk_errors(self.root), store_lock(self.root):
            self._uses.add(key)
            folder.mkdir(exist_ok=True)
        return folder

    @contextmanager
    def checkpoints_held(self, key: str, wait: Callable[[], None]) -> Iterator[None]:
        """Hold an action's checkpoints: two commands that write them spoil each other's. `wait` is called again and
        again while another command holds them; the kernel frees them with its process."""
        with disk_errors(self.root):
            handle = os.open(self.checkpoints(key), os.O_RDONLY | os.O_NOFOLLOW)
        try:
            while not try_lock(handle):
                wait()
            yield
        finally:
            os.close(handle)

    def close(self) -> None:
        """End the use of what was found and kept: others may remove it."""
        self._uses.close()

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """Make a folder on the store's own disk, and remove it at the end."""
        with ExitStack() as stack:
            with disk_errors(self.root):
                folder = stack.enter_context(scratch_folder(self.root / "tmp"))
            yield folder

    def commit(
        self,
        key: str,
        result: Path,
        facts: Mapping[str, Any],
        seconds: float,
        *,
        read: Iterable[Path] = (),
        step: str = "",
    ) -> Stored:
        """Take `result`, a folder inside a workspace, as the result of the action `key`.
        `read` are the files outside of the store that the action read; `step` is its name for people.
        Raises StepFailed where the result holds anything but plain files and folders."""
        with disk_errors(self.root):
            check_result(result)
            digest, size = digest_of(result), size_of(result)
            folder = self.root / "objects" / digest
            _sync(result)
            seen = {str(path): _hash_file(path) for path in read if _is_input(path)}
            about = {"step": step, "model": self._model, "bytes": size}
            record = {"digest": digest, "facts": dict(facts), "read": seen, "seconds": seconds, **about}
            with store_lock(self.root):
                self._uses.add(key, digest)  # from here on nobody removes an equal object that is there already
                self._put(result, folder, digest, size)
                write_synced(self.root / "actions" / f"{key}.json", self._record_text(f"actions/{key}", record))
        shutil.rmtree(self.root / "checkpoints" / key, ignore_errors=True)
        return Stored(key, digest, folder, facts, self.log(key), seconds, cached=False)

    def _put(self, result: Path, folder: Path, digest: str, size: int) -> None:
        """Put a finished object in its place, where its content is not there already."""
        if folder.exists() and digest_of(folder) != digest:
            add_store_bytes(self.root, -size)  # as it was counted
            shutil.rmtree(folder)  # somebody changed it; the new result is right
        try:
            result.rename(folder)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise  # else the same content is there already
        else:
            add_store_bytes(self.root, size)

    def _is_intact(self, folder: Path, digest: str) -> bool:
        """Return whether an object has the content that it was stored with. Read once, and again if it was touched."""
        if not folder.is_dir():
            return False
        state = state_of(folder)
        if self._intact.get(digest) != state and digest_of(folder) == digest:
            self._intact[digest] = state
        return self._intact.get(digest) == state


@contextmanager
def disk_errors(where: Path, option: str = "--store") -> Iterator[None]:
    """Turn errors of a disk that is full or not writable into a sentence; `option` names another place."""
    try:
        yield
    except OSError as error:
        if is_disk_full(error):
            raise disk_full(where, option) from error
        if error.errno in _OF_PLACES:
            raise BadRequest(
                f"{where} cannot be written to: {os.strerror(error.errno)}", fix=f"name another folder with {option}"
            ) from error
        raise


def is_disk_full(error: BaseException) -> bool:
    """Return whether an error means a full disk, by its number or in the words of TensorFlow, torch and protobuf."""
    numbered = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    return numbered or "No space left on device" in text_of(error)


def disk_full(where: Path | str, option: str = "--store") -> DiskFull:
    """Return the one sentence for a full disk."""
    return DiskFull(f"the disk under {where} is full", fix=f"free some space, or name a folder elsewhere with {option}")


def digest_of(path: Path, without: Collection[str] = ()) -> str:
    """Return the sha256 of a file, or of a folder's sorted relative names and contents: 64 hex characters.
    `without`: relative names that do not count."""
    if path.is_file():
        return _hash_file(path)
    names = {file.relative_to(path).as_posix(): file for file in _files(path)}
    return digest_of_files({name: _hash_file(file) for name, file in names.items() if name not in without})


def digest_of_files(digests: Mapping[str, str]) -> str:
    """Return the digest of a folder whose files have these, by their relative names."""
    rows = (f"{name}\0{digests[name]}\n" for name in sorted(digests, key=Path))
    return hashlib.sha256("".join(rows).encode()).hexdigest()


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    return sum(file.stat().st_size for file in _files(path))


def state_of(path: Path) -> _State:
    """Return size and time of a file, or of every file in a folder, which change when somebody writes there."""
    return {file: (stat.st_size, stat.st_mtime_ns) for file in _files(path) for stat in (file.stat(),)}


def touch(path: Path) -> None:
    """Set a file's time to now, the time of its last use; one of another user may not let us."""
    with suppress(OSError):
        os.utime(path)


def digest_of_json(value: object) -> str:
    """Return the sha256 of a JSON value, the order of its keys aside: 64 hex characters."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _is_input(path: Path) -> bool:
    """Return whether a path is a file with an end, to be read again later; some files of the kernel have none."""
    return path.is_file() and not os.path.realpath(path).startswith(("/proc/", "/sys/", "/dev/"))


def _unchanged(read: Mapping[str, str]) -> bool:
    try:
        return all(Path(path).is_file() and _hash_file(Path(path)) == digest for path, digest in read.items())
    except OSError:  # a name that is too long, or a file that is closed to us
        return False


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())


def _hash_file(path: Path) -> str:
    """Return the sha256 of a file. A large one is read once, and again if it was touched: no second write falls into
    the moment of the first, as it takes longer to read."""
    with path.open("rb") as file:
        stat = os.fstat(file.fileno())
        state = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        digest = _KNOWN_DIGESTS.get(state) or hashlib.file_digest(file, "sha256").hexdigest()
    if stat.st_size >= _LARGE_BYTES:
        _KNOWN_DIGESTS[state] = digest
    return digest


def _sync(folder: Path) -> None:
    """Sync everything in a folder: a rename that outlives a power cut must not name half a file."""
    for path in [*_files(folder), *(p for p in folder.rglob("*") if p.is_dir()), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

"""A store behind a URL of fsspec (s3://, gs://, abfs://), with a store on this machine as its cache.

    objects/<digest>/<path>    the files of an object
    objects/<digest>.json      their names: written last, so that an object without it counts as not there
    actions/<key>.json         as in a folder, written after the object; refusals/, logs/ likewise
    identity                   the name that the store has given itself

What is fetched counts only if its digest is that of its name. Checkpoints stay on the machine that makes them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..atomic_files import rename_synced, write_synced
from ..errors import BadRequest, DiskFull, ToolMissing, TransloadError
from ..library_messages import text_of
from ..store import IDENTITY, Store, Stored, digest_of, disk_errors, is_disk_full, size_of
from ..store_ledger import add_store_bytes, store_lock
from .sealed_records import Sealing, read_sealing

CACHE_VARIABLE = "TRANSLOAD_STORE_CACHE"
_MARKER_S = 3600.0  # for which an upload counts as there without a look
_LIBRARIES = {"s3": "s3fs", "gs": "gcsfs", "abfs": "adlfs", "az": "adlfs"}
_OLDEST = "2025"  # of those that are released with fsspec, and by its date; pip may choose s3fs 0.4 of 2020
_REQUIREMENTS = {"s3": "'s3fs>=2025.2'", "gs": "'gcsfs>=2025.2'"}
_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):/{1,2}(?P<rest>.*)")


def store_url(place: Path) -> str | None:
    """Return the URL that a place of a store is, or None for a folder. A Path has folded its two slashes into one."""
    match = _URL.fullmatch(str(place))
    return (
        f"{match['scheme']}://{'/' if match['scheme'] == 'file' else ''}{match['rest'].strip('/')}" if match else None
    )


def open_store(place: Path, folder: Path | None = None, model: str = "", *, signs: bool = False) -> Store:
    """Open the store in a folder or behind a URL; the rest is as in Store. `signs`: statements will be signed.
    Raises BadRequest where it refuses, and ToolMissing where the library for the URL is not installed."""
    url, sealing = store_url(place), read_sealing(signs=signs)
    return RemoteStore(url, folder, model, sealing) if url else Store(place, folder, model, sealing)


class RemoteStore(Store):
    """A store behind a URL. What is looked up or kept is here, too, in the cache."""

    def __init__(self, url: str, folder: Path | None = None, model: str = "", sealing: Sealing | None = None) -> None:
        self._url = url
        super().__init__(_cache_of(url), folder, model, sealing)
        (self.root / "uploaded").mkdir(exist_ok=True)
        with self._errors():
            self._files = _file_system(url)
            self._identity = self._read_identity()

    @property
    def place(self) -> str:
        """The URL."""
        return self._url

    @property
    def identity(self) -> str:
        """The name that the store has given itself."""
        return self._identity

    def find(self, key: str) -> Stored | None:
        """Return the result of the action `key`, or None; fetch it where it is not in the cache."""
        if stored := super().find(key):
            self._upload(stored)
            return stored
        with self._errors():
            record = self._fetch_record("actions", key)
            if record is None or not self._fetch(record["digest"]):
                return None
        if stored := super().find(key):
            with disk_errors(self.root):
                write_synced(self._marker(key), self._marked(stored.digest))
        return stored

    def _fetch_record(self, kind: str, key: str) -> Mapping[str, Any] | None:
        """Bring a record into the cache, with the log of its step; return it where it can be used."""
        content, log = self._read(f"{kind}/{key}.json"), self._read(f"logs/{key}.log")
        if content is None:
            return None
        with disk_errors(self.root), store_lock(self.root):
            write_synced(self.root / kind / f"{key}.json", content)
            if log is not None:
                self.log(key).write_bytes(log)
        return self._read_record(kind, key)

    def find_new(self, key: str) -> Stored | None:
        """Return the result of an action that another process has kept a moment ago, fetched, or None."""
        return self.find(key)

    def object(self, digest: str) -> Path:
        """Return the folder of an object, fetched where the cache lacks it. Raises BadRequest where it is broken."""
        with self._errors():
            if not self._fetch(digest):
                fix = "run again: what is not there is made again"
                raise BadRequest(f"the store {self._url} has no sound object {digest[:12]}", fix=fix)
        return super().object(digest)

    def refusal(self, key: str) -> Mapping[str, str] | None:
        """Return the error that the action `key` ends in, or None."""
        if (known := super().refusal(key)) is not None:
            return known
        with self._errors():
            return self._fetch_record("refusals", key)

    def remember_refusal(self, key: str, error: Mapping[str, str]) -> None:
        """Keep the error that the action `key` ended in."""
        super().remember_refusal(key, error)
        with self._errors():
            self._write(f"refusals/{key}.json", self._record_text(f"refusals/{key}", error).encode())

    def commit(
        self, key: str, result: Path, facts: Mapping[str, Any], seconds: float, *, read: Iterable[Path] = (),
        step: str = "",
    ) -> Stored:  # fmt: skip
        """Take `result` as the result of the action `key`: its files first, then their names, then the action."""
        stored = super().commit(key, result, facts, seconds, read=read, step=step)
        self._upload(stored)
        return stored

    def _marker(self, key: str) -> Path:
        """Return the file that says which object of the action is behind the URL, too: an upload may have failed."""
        return self.root / "uploaded" / key

    def _marked(self, digest: str) -> str:
        """Return what that file says; a store that was made anew at the same URL has another name."""
        return f"{self._identity} {digest}"

    def _upload(self, stored: Stored) -> None:
        """Put a result of the cache behind the URL, where it is not there already."""
        key, folder, marker = stored.key, stored.folder, self._marker(stored.key)
        if _is_young(marker) and marker.read_text() == self._marked(stored.digest):
            return
        with self._errors():
            names = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}
            if self._read(f"objects/{stored.digest}.json") is None:
                for name, file in names.items():
                    self._files.pipe_file(self._path(f"objects/{stored.digest}/{name}"), file.read_bytes())
                self._write(f"objects/{stored.digest}.json", json.dumps(sorted(names)).encode())
            if self.log(key).is_file():
                self._write(f"logs/{key}.log", self.log(key).read_bytes())
            self._write(f"actions/{key}.json", (self.root / "actions" / f"{key}.json").read_bytes())
        with disk_errors(self.root):
            write_synced(marker, self._marked(stored.digest))

    def _fetch(self, digest: str) -> bool:
        """Bring an object into the cache; return whether it is there, with the content of its name."""
        folder = super().object(digest)
        if folder.is_dir() and digest_of(folder) == digest:
            return True
        content = self._read(f"objects/{digest}.json")
        if content is None:
            return False
        with self.workspace() as work:
            target = work / "object"
            target.mkdir()
            for name in _names_in(content):
                path = target / name
                if not path.resolve().is_relative_to(target.resolve()):
                    return False
                path.parent.mkdir(parents=True, exist_ok=True)
                part = self._read(f"objects/{digest}/{name}")
                if part is None:
                    return False
                path.write_bytes(part)
            if digest_of(target) != digest:
                return False
            shutil.rmtree(folder, ignore_errors=True)
            size = size_of(target)
            with suppress(OSError):  # another process has put it there
                target.rename(folder)
                add_store_bytes(self.root, size)
        return folder.is_dir()

    def _read_identity(self) -> str:
        """Return the store's name for itself; give it one. So a store that takes no more is known at once.
        Of several processes that give it one at once, the first counts for all."""
        content = self._read(IDENTITY)
        if content is None:
            mine = secrets.token_hex(16).encode()
            self._create(IDENTITY, mine)
            content = self._read(IDENTITY) or mine
        return content.decode()

    def _path(self, name: str) -> str:
        return f"{self._url}/{name}"

    def _read(self, name: str) -> bytes | None:
        try:
            return bytes(self._files.cat_file(self._path(name)))
        except FileNotFoundError:
            return None

    def _write(self, name: str, content: bytes) -> None:
        """Write a file in one piece, as object stores do; a local file system needs its folder, and a rename."""
        if self._url.startswith("file:"):
            path = Path(self._url.removeprefix("file://"), name)
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.with_name(f"{path.name}.{os.urandom(4).hex()}")
            beside.write_bytes(content)
            rename_synced(beside, path)
            return
        self._files.pipe_file(self._path(name), content)

    def _create(self, name: str, content: bytes) -> None:
        """Write a file in one piece where there is none yet; leave one that is there as it is."""
        if self._url.startswith("file:"):
            path = Path(self._url.removeprefix("file://"), name)
            beside = path.with_name(f"{name}.{secrets.token_hex(4)}")
            self._write(beside.name, content)
            with suppress(FileExistsError):
                path.hardlink_to(beside)
            beside.unlink()
            return
        try:
            self._files.pipe_file(self._path(name), content, mode="create")
        except Exception:  # noqa: BLE001  (the file exists, or the service has no such mode: errors differ by service)
            if self._read(name) is None:
                self._write(name, content)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Map what the library or the service raises to one sentence."""
        try:
            yield
        except TransloadError:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {text_of(error)}".splitlines()[0][:200]
            if is_disk_full(error):
                raise DiskFull(f"the store {self._url} or its cache is full", fix="free some space there") from error
            raise BadRequest(f"the store {self._url} refuses: {why}", fix=_fix_of(error)) from error


def _names_in(content: bytes) -> list[str]:
    """Return the names of an object's files; none that are its own where the list is broken."""
    with suppress(ValueError, RecursionError):
        names = json.loads(content)
        if isinstance(names, list) and all(isinstance(name, str) and Path(name).name for name in names):
            return names
    return [os.pardir]


def _is_young(marker: Path) -> bool:
    """Return whether a marker is there that still counts: a rule of the service may remove what is old."""
    try:
        return time.time() - marker.stat().st_mtime < _MARKER_S
    except FileNotFoundError:
        return False


def _fix_of(error: Exception) -> str:
    """Return the fix to show for an error of the storage service or of its library, by the kind of the error."""
    if isinstance(error, FileNotFoundError):  # an object that is not there is no error here
        return "make the bucket or container, or name another store with --store"
    if isinstance(error, ConnectionError | TimeoutError) or "connect" in type(error).__name__.lower():
        return "check the network and the address of the service; run again to go on"
    return "check its credentials, that they have not expired, and that they may write; run again to go on"


def _cache_of(url: str) -> Path:
    home = os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "transload" / "stores"
    return Path(home) / hashlib.sha256(url.encode()).hexdigest()[:16]


def _file_system(url: str) -> Any:
    scheme = url.partition(":")[0]
    library = _LIBRARIES.get(scheme, "its library")
    try:
        import fsspec

        options = {"auto_mkdir": True} if scheme == "file" else {}
        files = fsspec.core.url_to_fs(url, **options)[0]
    except ImportError as error:
        fix = f"pip install 'transload[remote-store]' {_REQUIREMENTS.get(scheme, library)}"
        raise ToolMissing(f"a store at {scheme}:// needs fsspec and {library}", fix=fix) from error
    except ValueError as error:
        fix = "use a folder, or a URL such as s3://BUCKET/PATH"
        raise BadRequest(f"no store can be opened at {url}: {text_of(error)}", fix=fix) from error
    if scheme in _REQUIREMENTS and (installed := version(library)) < _OLDEST:
        fix = f"pip install -U {_REQUIREMENTS[scheme]}"
        raise ToolMissing(f"{library} {installed} is too old for a store: it does not show new files", fix=fix)
    return files

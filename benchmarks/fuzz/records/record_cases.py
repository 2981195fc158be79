"""Cases of changed records: how a file is changed, which commands read it, and what counts as a finding."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import shutil
import signal
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from byte_mutations import mutate_bytes, mutate_json

MOST_S = 20.0  # of one command
INJECTIONS = (
    "\nPASS  every file is as the statement has it", "PASS  all is well", "x\r\nPASS  all",
    "\u2028PASS  all", "  PASS x",
    "\n::error::broken", "::error file=a.py,line=1::broken", " ::add-mask::a", "\t::stop-commands::x", "##[error]x",
    "a ##vso[task.complete result=Succeeded;]", "\x1b[2J\x1b[H", "\x9b31m", "\x1b]0;title\x07", "\x1b[1A\x1b[2K", "\r",
    "\x08\x08\x08", "\u202e", "\u2066", "\ud800", "\x00", "\x7f", "a\nb", "\u0085PASS  all", "FAIL  no",
    "INCONCLUSIVE  x",
    "[bold]PASS[/bold]", "[link=file:///x]x[/link]", "x" * 3000, "\u3000PASS", "e\u0301" * 40, "\u0661", "",
)  # fmt: skip
_WHOLE = (
    b"", b"null", b"[]", b"{}", b'"x"', b"\xff\xfe", "{}".encode("utf-16"), b"\xef\xbb\xbf{}", b"[" * 100_000,
    b"\x00" * 40,
    b'{"a":' * 2000, b"1" * 6000, b"NaN",
)  # fmt: skip
_COMMAND = re.compile(r"^\s*::[A-Za-z]|##\[|##vso\[")
_VERDICT = re.compile(r"^(?:PASS|FAIL|INCONCLUSIVE)\b")
_STATUSES = (0, 1, 2, 3, 4)
_MLFLOW = "http://127.0.0.1:9"  # nobody listens: what is sent is read before


@dataclass(frozen=True)
class Case:
    """What came of a case."""

    outcome: str  # the exit statuses of its commands
    finding: str
    change: str
    printed: str


@dataclass(frozen=True)
class Corpus:
    """A good folder, the files in it that are changed, and what reads it."""

    folder: Path
    files: Sequence[Path]
    commands: Callable[[random.Random, Path], Iterator[Callable[[], int]]]
    texts: Callable[[Path], list[str]]  # that are written for a CI
    change: Callable[[random.Random, Path, bytes], str]


class _Output(io.TextIOWrapper):
    """A stream of UTF-8 in memory, as a file or a pipe is one."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True, newline="\n")

    def getvalue(self) -> str:
        """Return what was written."""
        content: bytes = self.buffer.getvalue()  # type: ignore[attr-defined]
        return content.decode()


class _Hang(BaseException):
    """A command that did not end."""


def _on_alarm(_number: int, _frame: FrameType | None) -> None:
    raise _Hang


def run_case(corpus: Corpus, seed: int, number: int) -> Case:
    """Change a file, call the commands, and put the file back."""
    rng = random.Random(f"{seed}:{number}")  # noqa: S311
    path = rng.choice(corpus.files)
    content = path.read_bytes()
    change = f"{path.relative_to(corpus.folder)}: {corpus.change(rng, path, content)}"
    statuses, printed, finding = [], "", ""
    try:
        for call in corpus.commands(rng, path):
            status, text, found = _call(call, corpus)
            statuses.append(str(status))
            printed += text
            finding = finding or found
        for text in corpus.texts(corpus.folder):
            finding = finding or _fault_of(text.splitlines(), is_own_last=False)
    finally:
        _restore(path, content)
    return Case(" ".join(sorted(set(statuses))), finding, change, printed)


def _call(call: Callable[[], int], corpus: Corpus) -> tuple[int, str, str]:
    out, err = _Output(), _Output()
    signal.signal(signal.SIGALRM, _on_alarm)
    signal.setitimer(signal.ITIMER_REAL, MOST_S)
    try:
        with contextlib.chdir(corpus.folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = call()
    except _Hang:
        return -1, out.getvalue() + err.getvalue(), f"no end in {MOST_S:g} s"
    except BaseException as error:  # noqa: BLE001
        return -1, out.getvalue() + err.getvalue(), f"{type(error).__name__}: {error}"[:200]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    text = out.getvalue() + err.getvalue()
    if status not in _STATUSES:
        last = next((line for line in text.splitlines() if line.startswith("error:")), text[-200:])
        return status, text, f"exit status {status}: {last[:200]}"
    if "Traceback (most recent call last)" in text:
        return status, text, "a traceback"
    fault = _fault_of(out.getvalue().split("\n"), is_own_last=True) or _fault_of(err.getvalue().split("\n"))
    return status, text, fault


def _fault_of(lines: Sequence[str], *, is_own_last: bool = False) -> str:
    """Return what is wrong with lines that a command printed; its own verdict is the last that says anything."""
    said = [line for line in lines if line.strip()]
    for number, line in enumerate(said):
        for letter in line:
            if (
                unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp")
                or letter in "\u202a\u202b\u202d\u202e\u2066\u2067"
            ):
                return f"U+{ord(letter):04X} is printed"
        if _COMMAND.search(line):
            return "a command to a CI is printed"
        if _VERDICT.match(line) and not (is_own_last and number == len(said) - 1):
            return "a line begins as a verdict"
    return ""


def _restore(path: Path, content: bytes) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.is_symlink() or path.exists():
        path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def change_file(rng: random.Random, path: Path, content: bytes) -> str:
    """Put something else in the place of a file: other bytes, or what is no file."""
    choice = rng.random()
    if choice < 0.15:
        new = rng.choice(_WHOLE)
    elif choice < 0.25:
        return _change_kind(rng, path)
    elif path.suffix == ".json" and choice < 0.85:
        new = (inject if rng.random() < 0.7 else mutate_json)(rng, content)
    else:
        new = mutate_bytes(rng, content)
    path.unlink()
    path.write_bytes(new)
    return f"{len(new)} bytes, {new[:60]!r}"


def _change_kind(rng: random.Random, path: Path) -> str:
    """Put a folder, a pipe or a link in the place of a file, or nothing."""
    path.unlink()
    kind = rng.choice(("folder", "pipe", "loop", "link", "device", "nothing"))
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind != "nothing":
        path.symlink_to({"loop": path.name, "link": "/etc/passwd", "device": "/dev/zero"}[kind])
    return kind


def inject(rng: random.Random, content: bytes) -> bytes:
    """Put words of a stranger in the place of texts of a JSON document, which stays one of its form."""
    try:
        document = json.loads(content)
    except ValueError:
        return bytes(mutate_bytes(rng, content))
    places = list(_texts(document))
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        if places:
            owner, key = rng.choice(places)
            if isinstance(owner[key], str):
                keeps = rng.random() < 0.5
                owner[key] = f"{owner[key] if keeps else ''}{rng.choice(INJECTIONS)}"
    if rng.random() < 0.2:
        document = _renamed(rng, document)
    return json.dumps(document, ensure_ascii=rng.random() < 0.7).encode(errors="surrogatepass")


def _texts(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield owner and key of each text in a document."""
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in rows:
        if isinstance(item, str):
            yield value, key
        yield from _texts(item)


def _renamed(rng: random.Random, document: Any) -> Any:
    """Return the document with one name in each text that has it, as where an artifact is called otherwise."""
    texts = [owner[key] for owner, key in _texts(document) if len(owner[key]) > 2]
    if not texts:
        return document
    old, new = rng.choice(texts), rng.choice(INJECTIONS)
    for owner, key in list(_texts(document)):
        if owner[key] == old:
            owner[key] = new
    return document


def corpus_of(part: str, seeds: Path, folder: Path) -> Corpus:
    """Return the corpus of a part, with a copy of the seeds in `folder`."""
    os.environ.update(XDG_CONFIG_HOME=str(folder / "config"), TMPDIR=str(folder / "tmp"), COLUMNS="100")
    (folder / "tmp").mkdir()
    if part == "store":
        from store_commands import store_corpus

        return store_corpus(seeds, folder)
    shutil.copytree(seeds / "runs", folder / "runs", symlinks=True)
    for path in [*folder.rglob("*.html"), *folder.rglob("*.log")]:
        path.unlink()
    before, after = sorted((folder / "runs").iterdir())
    documents = [path for path in after.rglob("*") if path.is_file() and path.suffix in (".json", ".npz", "")]
    small = [path for path in documents if path.name != "run.json" and "repeat" not in path.parts]
    files = [*[after / "run.json"] * (3 * len(small)), *small]
    names = [str(path.relative_to(folder)) for path in (before, after)]
    return Corpus(folder, files, lambda rng, _: _run_commands(rng, *names), _ci_texts, change_file)


def _run_commands(rng: random.Random, before: str, after: str) -> Iterator[Callable[[], int]]:
    from transload.pipeline.cli import main

    report = rng.choice(([], [], ["--json"], ["--format", "html"], ["--format", "md"]))
    compare = rng.choice(([before, after], [after, before], [before, after, "--json"]))
    history = rng.choice(([], [], ["--json"], ["--out", "history.html"]))
    for words in (
        ["report", after, *report], ["compare", *compare, "--junit", "ci.xml", "--sarif", "ci.sarif"],
        ["history", "runs", *history], ["record", after, "--mlflow", _MLFLOW],
    ):  # fmt: skip
        yield lambda words=words: main(words)  # type: ignore[misc]


def _ci_texts(folder: Path) -> list[str]:
    """Return what was written for a CI, as its readers see it."""
    texts = []
    for path in [*(folder / name for name in ("ci.xml", "ci.sarif")), *folder.glob("runs/*/report.md")]:
        if path.is_file() and not path.is_symlink():
            texts.append(path.read_text())
            path.unlink()
    return texts

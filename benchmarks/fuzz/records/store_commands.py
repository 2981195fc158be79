"""Cases of a store: a record changed, with a right checksum or without, and what looks it up."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from record_cases import Corpus, change_file

_OTHERS = ("identity", "bytes")


def store_corpus(seeds: Path, folder: Path) -> Corpus:
    """Return the corpus of a copy of the store in `seeds`, with a refusal of each kind in it."""
    from transload.models.errors import ERRORS
    from transload.models.store import Store
    from transload.models.store_ledger import write_store_bytes

    root = folder / "store"
    for name in ("actions", "users", "objects"):  # the content of objects is not what is changed here
        shutil.copytree(seeds / "store" / name, root / name)
    store = Store(root)
    for number, kind in enumerate(ERRORS):
        store.remember_refusal(f"{number:064x}", {"kind": kind, "what": "it has no operator", "fix": "use another"})
    write_store_bytes(root, 0)
    assert store.identity
    store.close()
    records = [path for kind in ("actions", "refusals") for path in sorted((root / kind).glob("*.json"))]
    others = [*(root / name for name in _OTHERS), *sorted((root / "users").iterdir())]
    for record in records[::5]:
        others.append(store.log(record.stem))
        others[-1].write_text("a log")
    return Corpus(folder, [*records * 3, *others], lambda rng, path: _commands(rng, root, path), lambda _: [], _change)


def _change(rng: random.Random, path: Path, content: bytes) -> str:
    """Change a file; half of the records that still are ones get the checksum that belongs to them."""
    change = change_file(rng, path, content)
    if path.suffix == ".json" and path.is_file() and not path.is_symlink() and rng.random() < 0.6:
        from transload.models.remote.sealed_records import Sealing, record_text

        try:
            record = json.loads(path.read_bytes())
            record.pop("seals", None)
            text = record_text(f"{path.parent.name}/{path.stem}", record, Sealing())
        except (ValueError, AttributeError, RecursionError, TypeError):
            return change
        path.write_bytes(text.encode(errors="surrogatepass"))
        return f"{change}, sealed"
    return change


def _commands(rng: random.Random, root: Path, path: Path) -> Iterator[Callable[[], int]]:
    from transload.pipeline.cli import main

    store = ["--store", str(root)]
    table, others = ["ls", "--rows", "0"], (["ls", "--json"], ["gc", "--dry-run"], ["verify"], ["verify", "--json"])
    for words in (table, rng.choice(others)):
        yield lambda words=words: main(["store", *words, *store])  # type: ignore[misc]
    yield lambda: _look_up(root, path)


def _look_up(root: Path, path: Path) -> int:
    """Do the step whose record has changed, as a command does it: found, refused, or passed over."""
    from transload.models.errors import StepFailed
    from transload.models.remote.remote_store import open_store
    from transload.models.store import Stored
    from transload.pipeline.cli.output.error_output import guarded
    from transload.pipeline.cli.output.render import print_lines
    from transload.pipeline.commands.model_list.model_order import read_durations
    from transload.pipeline.progress.progress import Progress
    from transload.pipeline.workers.engine import Action, LocalExecutor

    class Looking(LocalExecutor):
        def _do(self, key: str, action: Action) -> Stored:  # noqa: ARG002
            raise StepFailed("not done", fix="none")

    def perform(_words: Any) -> int:
        read_durations(root).model_s("zoo:breast-cancer-mlp")
        store = open_store(root)
        progress = Progress()
        store.tell = lambda sentence: progress.note(sentence, once=sentence)
        executor = Looking(store, root.parent / "made")
        action = Action("step", "transload.models.store:digest_of", remembers_refusal=path.parent.name != "actions")
        try:
            stored = executor._perform(action, path.stem)
            print_lines(list(_facts_lines(stored)))
        finally:
            store.close()
            shutil.rmtree(root.parent / "made", ignore_errors=True)
        return 0

    os.makedirs(root.parent / "made", exist_ok=True)  # noqa: PTH103
    return guarded(perform, [])


def _facts_lines(stored: Any) -> Iterator[str]:
    """Yield the texts of a result's facts, as tables print reasons, and read the facts as their readers do."""
    from transload.models.errors import TransloadError
    from transload.models.job_records import DataFacts, SourceFacts, TrainFacts
    from transload.pipeline.drift.drift_records import AnswerFacts, VerifyFacts

    for kind in (DataFacts, SourceFacts, TrainFacts, AnswerFacts, VerifyFacts):
        try:
            kind.part_of(stored.facts)
        except TransloadError:
            continue
    for name, value in stored.facts.items():
        yield f"fact {name}  {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"

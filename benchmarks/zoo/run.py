"""The zoo: many models through the product's own steps, and a table of what became of each.

    python benchmarks/zoo/run.py [--only PATTERN] [--columns onnx,saved-model,tflite] [--again failed|old|all]

Resumable: what a step made is kept in benchmarks/zoo/.store, and each row as soon as it is there.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from by_onnx2tf import STEP  # noqa: E402
from catalogue import Entry, entries  # noqa: E402
from flow import BY_ONNX2TF, Bench, Place  # noqa: E402
from reduced import COLUMNS as REDUCED  # noqa: E402
from report import failures, page, write_json  # noqa: E402
from table import COLUMNS, VERIFIED, Row  # noqa: E402
from warm import WarmExecutor  # noqa: E402

from transload.models.code_digest import entry_digest  # noqa: E402
from transload.models.store import Store, digest_of_json  # noqa: E402
from transload.pipeline.workers.isolation import Limits  # noqa: E402

ROOT = HERE.parents[1]
_CODE = {
    "onnx": "transload.converters.to_onnx.onnx_from_pt2:onnx_from_pt2",
    "saved-model": "transload.converters.to_saved_model.saved_model_from_onnx:saved_model_from_onnx",
    "tflite": "transload.converters.to_tflite.tflite_from_onnx:tflite_fp32",
    "tflite:int8": "transload.converters.to_tflite.tflite_from_onnx:tflite_int8",
    "tflite:int8-dynamic": "transload.converters.to_tflite.tflite_from_onnx:tflite_int8_dynamic",
    BY_ONNX2TF: STEP.entry,
}
_KEPT = {BY_ONNX2TF: f"{BY_ONNX2TF}:saved-model"}  # the row that tells whether a column was run


class Rows:
    """The rows of former runs, one file each, so that a run can be ended at any moment."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def _file(self, model: str, column: str) -> Path:
        return self._folder / f"{re.sub(r'[^a-zA-Z0-9_-]', '.', f'{column}.{model}')}.json"

    def read(self, model: str, column: str) -> Row | None:
        """The row that was written last."""
        file = self._file(model, column)
        return Row.from_json(json.loads(file.read_text())) if file.is_file() else None

    def write(self, row: Row) -> None:
        """Keep a row."""
        self._file(row.model, row.column).write_text(json.dumps(row.to_json(), indent=1) + "\n")


def is_wanted(row: Row | None, again: str, code: str) -> bool:
    """Whether a model is to be run in a column: always where it never was; for what else, `again` says."""
    if row is None or again == "all":
        return True
    return row.code != code and (again == "old" or (again == "failed" and row.status != VERIFIED))


def run(asked: argparse.Namespace, wanted: Sequence[Entry], rows: Rows) -> None:
    """Make the rows that are asked for, several models side by side where --jobs says so."""
    place = Place(asked.home)
    store = Store(asked.home / ".store")
    columns = asked.columns.split(",")
    private = (str(place.packages), str(asked.home))

    def work(share: Sequence[Entry], number: int) -> None:
        executor = WarmExecutor(store, asked.home / ".store" / f"run-{asked.name}-{number}", private)
        bench = Bench(place, executor, Limits(seconds=asked.seconds, threads=1))
        try:
            for entry in share:
                for column in columns:
                    subject = bench.subject(entry)
                    code = digest_of_json([entry_digest(_CODE[column]), subject.code, list(entry.inputs), entry.sizes])
                    kept = rows.read(entry.name, _KEPT.get(column, column))
                    if not is_wanted(kept, asked.again, code):
                        continue
                    started = time.monotonic()
                    for row in bench.rows(subject, column):
                        rows.write(replace(row, code=code))
                        told = f"{row.status:10} {row.column:19} {time.monotonic() - started:6.1f} s  {row.model}"
                        print(f"{told}  {row.reason[:150]}", flush=True)
        finally:
            executor.close()

    with ThreadPoolExecutor(asked.jobs) as pool:
        shares = [pool.submit(work, wanted[at :: asked.jobs], at) for at in range(asked.jobs)]
    for share in shares:
        share.result()


def all_rows(kept: Rows) -> list[Row]:
    """Every row that there is, in the catalogue's order."""
    found = (kept.read(entry.name, column) for entry in entries() for column in ("onnx", *COLUMNS, *REDUCED))
    return [row for row in found if row is not None]


def main() -> int:
    """Run, and write what became of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="*", help="models by pattern, such as timm/* (several with commas)")
    parser.add_argument("--columns", default="onnx,saved-model,tflite", help=f"of {','.join(_CODE)}")
    parser.add_argument("--again", default="failed", choices=("never", "failed", "old", "all"),
                        help="what is run again: failures of other code, all of other code, everything")  # fmt: skip
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=300, help="limit of one step")
    parser.add_argument("--home", type=Path, default=HERE, help="where nets/, .packages/ and .store/ lie")
    parser.add_argument("--name", default="main", help="of this run's folder, where two run at a time")
    parser.add_argument("--failures", type=Path, help="write the failures by cause there")
    parser.add_argument("--publish", action="store_true", help="write docs/evidence/zoo.md and results/zoo.json")
    parser.add_argument("--list", action="store_true", help="only list the models")
    asked = parser.parse_args()
    patterns = asked.only.split(",")
    wanted = [entry for entry in entries() if any(fnmatch.fnmatch(entry.name, each) for each in patterns)]
    if asked.list:
        print("\n".join(f"{entry.name}  {' '.join(entry.inputs)}" for entry in wanted))
        return 0
    rows = Rows(asked.home / ".store" / "rows")
    run(asked, wanted, rows)
    found = all_rows(rows)
    if asked.failures:
        asked.failures.write_text(failures(found))
    if asked.publish:
        write_json(ROOT / "benchmarks" / "results" / "zoo.json", found, (HERE / "requirements.txt").read_text())
        (ROOT / "docs" / "evidence" / "zoo.md").write_text(page(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())

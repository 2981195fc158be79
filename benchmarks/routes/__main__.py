"""Every format to every format: models of the zoo, carried from each format that they can be kept in to each other.

    python benchmarks/routes [--only PATTERN] [--again] [--jobs N] [--publish | --page]

A model is first made in every format from PyTorch. Each of those copies is then where a conversion starts, by the
product's own router, and what comes out is held against PyTorch's answers, not against the copy's. Resumable: a model
that is finished is kept in benchmarks/zoo/.store/routes.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
ZOO = HERE.parent / "zoo"
sys.path[:0] = [str(HERE), str(ZOO)]

from catalogue import Entry, entries  # noqa: E402
from flow import Bench, Place, Subject  # noqa: E402
from matrix import page, write_json  # noqa: E402
from table import Row, row_of  # noqa: E402
from trips import section  # noqa: E402
from warm import WarmExecutor  # noqa: E402

from transload.converters.steps import STEPS  # noqa: E402
from transload.models.errors import TransloadError  # noqa: E402
from transload.models.formats import Format, Target  # noqa: E402
from transload.models.store import Store, Stored  # noqa: E402
from transload.pipeline.plan.route_actions import VerificationInputs  # noqa: E402
from transload.pipeline.plan.router import Router  # noqa: E402
from transload.pipeline.plan.run_plan import plan_routes  # noqa: E402
from transload.pipeline.workers.isolation import Limits  # noqa: E402

ROOT = HERE.parents[1]
RESULTS = ROOT / "benchmarks" / "results"
FORMATS = (Format.PT2, Format.TORCHSCRIPT, Format.ONNX, Format.SAVED_MODEL, Format.TFLITE)
PYTORCH = "pytorch"
USED = tuple(step for step in STEPS if not step.on_request)
MODELS = {
    "pictures": "unet norms blocks detector anchors keypoints volume twins generator super_resolution",
    "sequences": "lstm gru rnn text_convolution temporal encoder torch_encoder decoder state_space forecast",
    "sound": "sound wavenet conformer spectrogram",
    "tables and graphs": "perceptron mixed recommender factorised tab_transformer autoencoder graph_attention points "
    "policy",
    "transformers": "bert gpt2 vit",
    "torchvision": "resnet18 mobilenet_v3_small squeezenet1_1",
    "timm": "convnext_atto",
}


def wanted(pattern: str) -> list[Entry]:
    """The models of the matrix that fit a pattern."""
    names = {f"{family}/{name}" for family, models in MODELS.items() for name in models.split()}
    return [entry for entry in entries() if entry.name in names and fnmatch.fnmatch(entry.name, pattern)]


def rows_of(bench: Bench, subject: Subject) -> Iterator[Row]:
    """A row for each pair of formats; its column is `FROM > TO`."""
    basis = subject.basis()
    made = {}
    for form, (stored, row) in _from(bench, subject, basis, PYTORCH).items():
        made[form] = stored
        yield row
    for form, stored in made.items():
        if stored is not None:
            start = replace(basis, source=stored, start=Target(form), code="", root=None)
            yield from (row for _, row in _from(bench, subject, start, str(form)).values())


def _from(
    bench: Bench, subject: Subject, basis: VerificationInputs, name: str
) -> dict[Format, tuple[Stored | None, Row]]:
    """What each other format became from this start."""
    plan = plan_routes([Target(form) for form in FORMATS], basis.start, USED)
    router = Router(bench.executor, basis, plan)
    found: dict[Format, tuple[Stored | None, Row]] = {}
    for form in FORMATS:
        target = Target(form)
        if target != basis.start and plan.routes(target):
            made = router.make_all([target])[0]
            checks = bench.checks(subject, basis, made)
            row = row_of(subject.entry, f"{name} > {form}", made, checks, subject.variation)
            found[form] = (made.stored, row)
    return found


def run(asked: argparse.Namespace, todo: Sequence[Entry], kept: Path) -> None:
    """Walk the models that are not finished yet."""
    place = Place(ZOO)
    store = Store(ZOO / ".store")
    kept.mkdir(parents=True, exist_ok=True)

    def work(share: Sequence[Entry], number: int) -> None:
        executor = WarmExecutor(store, ZOO / ".store" / f"routes-{number}", (str(place.packages), str(ZOO)))
        bench = Bench(place, executor, Limits(seconds=asked.seconds, threads=1))
        try:
            for entry in share:
                file = _file(kept, entry)
                if file.exists() and not asked.again:
                    continue
                started = time.monotonic()
                try:
                    rows = list(rows_of(bench, bench.subject(entry)))
                except TransloadError as error:
                    rows = [Row.failed(entry, f"{PYTORCH} > {form}", error.what) for form in FORMATS]
                file.write_text(json.dumps([row.to_json() for row in rows]))
                good = sum(row.status == "verified" for row in rows)
                print(f"{good:3} of {len(rows)}  {time.monotonic() - started:6.1f} s  {entry.name}", flush=True)
        finally:
            executor.close()

    with ThreadPoolExecutor(asked.jobs) as pool:
        shares = [pool.submit(work, todo[at :: asked.jobs], at) for at in range(asked.jobs)]
    for share in shares:
        share.result()
    for number in range(asked.jobs):
        shutil.rmtree(ZOO / ".store" / f"routes-{number}", ignore_errors=True)


def _file(kept: Path, entry: Entry) -> Path:
    return kept / f"{entry.name.replace('/', '.').replace(' ', '_')}.json"


def main() -> int:
    """Run, and write what became of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="*", help="models by pattern, such as sequences/*")
    parser.add_argument("--again", action="store_true", help="also what is finished")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=300, help="limit of one step")
    parser.add_argument("--publish", action="store_true", help="write docs/evidence/routes.md and results/routes.json")
    parser.add_argument("--page", action="store_true", help="run nothing, write docs/evidence/routes.md of the results")
    asked = parser.parse_args()
    if asked.page:
        found = json.loads((RESULTS / "routes.json").read_text())["rows"]
        _write_page([Row.from_json({**each, "tried": ()}) for each in found])
        return 0
    kept = ZOO / ".store" / "routes"
    run(asked, wanted(asked.only), kept)
    if asked.publish:
        files = [file for entry in wanted("*") if (file := _file(kept, entry)).exists()]
        rows = [Row.from_json(each) for file in files for each in json.loads(file.read_text())]
        write_json(RESULTS / "routes.json", rows)
        _write_page(rows)
    return 0


def _write_page(rows: Sequence[Row]) -> None:
    (ROOT / "docs" / "evidence" / "routes.md").write_text(page(rows) + section(RESULTS / "round_trips.json"))


if __name__ == "__main__":
    sys.exit(main())

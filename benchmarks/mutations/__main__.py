"""Right copies and mutants of 18 models through transload's checks, with the truth in float64 and other tools beside.

    python benchmarks/mutations [--only REGEX] [--kind NAME] [--forms onnx,tflite] [--quick] [--again] [--locate]
                                [--jobs N] [--work FOLDER] [--publish]

Rows are kept in the work folder; a second call goes on where the first was stopped. --again asks transload anew and
keeps what has been built. --kind takes one kind and the right copies of its models, --quick asks `validate` alone;
what slipped through is named at the end. --publish writes benchmarks/results/mutations.json and
docs/evidence/mutations.md from all rows.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import right
from benchmark_models import ALL_MODELS, HALF_MODELS, by_name
from build import FORMATS, Artifact, Builder
from comparators import verdicts
from file_mutants import FILE_COPIES, HALF_TFLITE, REDUCED
from located import can_be_located
from mutants import MUTANTS
from onnx_edit import Site
from page import publish, summary
from product import Product, revision
from rows import Rows, make_row
from runtimes import ModuleRun, Run, open_artifact, output_names, second_function
from truth import KINDS, Truth

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Plan:
    """An artifact that is not yet made."""

    name: str
    model: str
    make: Callable[[], Artifact]


def plans(builder: Builder) -> Iterator[Plan]:
    """Yield every artifact of the benchmark, model by model, so that one truth serves many."""
    for model in ALL_MODELS:
        forms = {copy.form for copy in FILE_COPIES if copy.model == model.name and copy.form in REDUCED}
        forms -= {HALF_TFLITE} if model in HALF_MODELS else set()  # TFLite keeps no operator out of float16
        for form in (*FORMATS, *sorted(forms)):
            yield Plan(f"right/{model.name}/{form}/transload", model.name, partial(_own, builder, model.name, form))
        for name, own, form, make in right.plans():
            if own == model.name:
                yield Plan(name, own, partial(right.build, builder, name, own, form, make))
        for copy in FILE_COPIES:
            if copy.model == model.name:
                yield Plan(copy.name, model.name, partial(builder.edited, copy))
        for mutant in MUTANTS:
            for form in mutant.formats if mutant.model == model.name else ():
                yield Plan(mutant.name(form), model.name, partial(builder.mutant, mutant, form))


def _own(builder: Builder, model: str, form: str) -> Artifact:
    return builder.own_in(by_name()[model], form)


def main() -> int:
    """Run, print, and write where that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="a regular expression that finds names")
    parser.add_argument("--kind", help="mutants of one kind, and the right copies of its models")
    parser.add_argument("--forms", default=",".join((*FORMATS, *REDUCED)), help="the formats, as in onnx,tflite")
    parser.add_argument("--quick", action="store_true", help="ask `validate` alone, not `convert` and other tools")
    parser.add_argument("--again", action="store_true", help="ask anew what has a row")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--shard", default="0/1", help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, default=HERE / ".work")
    parser.add_argument("--list", action="store_true", help="print the names and do nothing")
    parser.add_argument("--locate", action="store_true", help="ask `locate` of the mutants that were found")
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    builder = Builder(options.work.absolute())
    wanted = list(_wanted(plans(builder), options))
    if options.list:
        print("\n".join(plan.name for plan in wanted))
        return 0
    if options.jobs > 1:
        _side_by_side(options.jobs)
    else:
        at, shards = map(int, options.shard.split("/"))
        mine = [plan for plan in wanted if list(by_name()).index(plan.model) % shards == at]
        rows = Rows.read(options.work / f"rows-{at}.json")
        if options.locate:
            _locate(builder, mine, rows)
        else:
            _run(builder, mine, rows, again=options.again, quick=options.quick)
        print(summary([rows.rows[plan.name] for plan in mine if plan.name in rows.rows]))
    if options.publish:
        publish(options.work, {plan.name for plan in plans(builder)})
    return 0


def _wanted(every: Iterable[Plan], options: argparse.Namespace) -> Iterator[Plan]:
    models = {mutant.model for mutant in MUTANTS if mutant.kind == options.kind}
    models |= {copy.model for copy in FILE_COPIES if copy.kind == options.kind}
    forms = set(options.forms.split(","))
    for plan in every:
        kind, _, form, *_ = plan.name.split("/")
        of_kind = not options.kind or kind == options.kind or (kind == "right" and plan.model in models)
        if of_kind and form in forms and re.search(options.only, plan.name):
            yield plan


def _side_by_side(jobs: int) -> None:
    """Run shards of the models in processes of their own."""
    rest = [part for part in sys.argv[1:] if part != "--publish"]
    command = [sys.executable, "-P", str(HERE), *rest, "--jobs", "1"]
    running = [subprocess.Popen([*command, "--shard", f"{at}/{jobs}"]) for at in range(jobs)]
    for process in running:
        process.wait()


def _locate(builder: Builder, wanted: list[Plan], rows: Rows) -> None:
    """Add to the rows of mutants that `validate` failed where `locate` says they are wrong."""
    product = Product(builder)
    for plan in wanted:
        row = rows.rows.get(plan.name)
        if row is None or row["right"] or row["validate"]["verdict"] != "fail" or row.get("locate"):
            continue
        if not can_be_located([Site(**site) for site in row["sites"]]):
            continue
        found = product.locate(plan.make(), row["validate"]["reason"])
        rows.keep({**row, **found, "locate_revision": revision()})
        said = f"operator {found['located_operator']}, source {found['located_source']}"
        print(f"{plan.name}: {said}; {found['locate']['seconds']:.1f} s", flush=True)
    product.close()


def _truth(builder: Builder, plan: Plan) -> Truth:
    """Return the truth for a plan's precision. A right int8 copy is as wrong as transload's own."""
    model, form = by_name()[plan.model], plan.name.split("/")[2]
    like = None
    if form in REDUCED and form.endswith("int8"):
        like = open_artifact(form, builder.own_in(model, form).payload, output_names(model))
    return Truth(model, form.partition(":")[2], like)


def _open(artifact: Artifact, truth: Truth) -> Run:
    """Open what may be wrong of an artifact: its second function, if any, and float16 as delegates compute it."""
    if artifact.is_overflow_of_delegates:
        return ModuleRun(truth.model.build(), half=True)
    names = output_names(truth.model)
    if artifact.route.startswith(("signature", "call")):
        return second_function(artifact.payload, names)
    return open_artifact(artifact.form, artifact.payload, names)


def _run(builder: Builder, wanted: list[Plan], rows: Rows, *, again: bool, quick: bool) -> None:
    warnings.simplefilter("ignore")
    truth: Truth | None = None
    of = f"{revision()} {builder.digest}"
    with_tensorflow = any(re.search("/(saved-model|tflite)/", plan.name) for plan in wanted)
    product = Product(builder, ("tensorflow", "torch") if with_tensorflow else ("torch",))
    for plan in wanted:
        if not again and rows.rows.get(plan.name, {}).get("of") == of:
            continue
        precision = plan.name.split("/")[2].partition(":")[2]
        start = time.monotonic()
        try:
            if truth is None or (truth.model.name, truth.precision) != (plan.model, precision):
                truth = _truth(builder, plan)
            artifact = plan.make()
            run = _open(artifact, truth)
            measured = truth.measure(run, ("random", "declared") if precision else KINDS)
        except Exception as error:  # noqa: BLE001  a converter may refuse a mutant: said, and no row
            print(f"{plan.name}: not made, {type(error).__name__}: {' '.join(str(error).split())[:200]}", flush=True)
            continue
        validated = product.validate(artifact)
        # What is lowered from a broken ONNX file is compared with that file: only exporters can be broken here.
        is_verifiable = not quick and (artifact.form in ("onnx", "torchscript") or artifact.right)
        verified = product.verify(artifact) if is_verifiable else None
        tools = {} if quick else verdicts(truth.model, run)
        row = make_row(artifact, measured, validated, verified, tools)
        rows.keep({**row, "of": of})
        spent = time.monotonic() - start
        said = f"validate {validated.verdict}, convert {verified.verdict if verified else 'not run'}"
        print(f"{plan.name}: shown by {measured.shown_by}; {said}; {spent:.1f} s", flush=True)
    product.close()


if __name__ == "__main__":
    sys.exit(main())

"""`transload convert`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...models.errors import BadRequest
from . import options
from .render import print_json, print_lines, table

if TYPE_CHECKING:
    from ...models.formats import Target
    from ..conversion import Converted

MODEL = "zoo:NAME, FILE.py[:NAME], package.module:NAME, FILE.onnx, FILE.pt2, or the folder of an artifact."
Weights = Annotated[Path | None, typer.Option("--weights", metavar="FILE", help="The weights of a model that is code.")]


def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL)],
    *,
    to: options.To = None,
    out: options.Out = None,
    input_: options.Input = None,
    data: options.Data = None,
    weights: Weights = None,
    device: options.Device = None,
    jobs: options.Jobs = None,
    store: options.Store = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the routes to each target and what they lack; run nothing.")
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Carry one model into other formats, each verified against it.

    DIR gets a folder per target, logs, a script per step, and convert.json. Without --data a model that is no recipe is
    verified on random inputs. The exit status: 0 all verified, 1 a target's routes gave wrong answers, 4 none was left.
    """
    targets = options.parse_targets(to)
    if not targets:
        raise BadRequest("no target is named", fix="name what to make, as in --to onnx,tflite ('transload formats')")
    if explain:
        _explain(model, targets, json=json)
        return
    if out is None:
        raise BadRequest("nothing says where to put what is made", fix="name a folder, as in --out converted")
    from ..api import convert

    done = convert(
        model, targets, out=out, inputs=options.parse_inputs(input_), data=data, weights=weights, device=device,
        store=store, jobs=jobs, quiet=quiet,
    )  # fmt: skip
    if json:
        print_json(done.document)
    else:
        print_lines(_lines(done))
    raise typer.Exit(done.decided[1])


def _lines(done: Converted) -> list[str]:
    """A line per target, what stands in the way of those that are not there, the verdict last."""
    from ..conversion import agreement
    from ..report.format import size, stretch

    rows, troubles = [], []
    for row in done.artifacts:
        if row.path is None:
            rows.append((row.name, str(row.status), "", "", "no artifact"))
            log = _log(done.folder, row.name)
            troubles.append(f"{row.name}: {agreement(row)}{f' ({log})' if log else ''}")
        else:
            route = " > ".join(row.route) or "as given"
            rows.append(
                (row.name, str(row.status), size(row.bytes), stretch(row.seconds), f"{route}: {agreement(row)}")
            )
    there = sum(row.status == "verified" for row in done.artifacts)
    verdict = f"{done.decided[0].upper()}  {there} of {len(done.artifacts)} targets verified, in {done.folder}"
    return [*table(rows), *(["", *troubles] if troubles else []), "", verdict]


def _log(folder: Path, target: str) -> str | None:
    """The last log of a step to a target."""
    from ...models.formats import parse_target

    slug = parse_target(target).slug
    logs = [log for stage in ("verify", "convert") for log in (folder / "logs").glob(f"{stage}.{slug}.*.log")]
    return str(max(logs, key=lambda log: log.stat().st_mtime)) if logs else None


def _explain(model: str, targets: Sequence[Target], *, json: bool) -> None:
    from ..conversion import explain
    from .explained import lines, rows

    found = explain(model, targets)
    if json:
        print_json({"routes": rows(found)})
    else:
        print_lines(lines(targets, found))

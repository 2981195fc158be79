"""`transload formats`: the graph of formats, and what runs each. Reads the tables; imports no framework."""

from __future__ import annotations

from ...converters.steps import STEPS, Step, missing
from ...serving.runtimes.table import RUNTIMES, Runtime
from ..interpreters import lacking
from .options import Json
from .render import print_json, print_lines, table

START = "the model in PyTorch"


def command(json: Json = False) -> None:
    """Show the formats, the steps between them and the runtimes.

    A step or a runtime that cannot be taken on this machine says what it needs.
    """
    if json:
        print_json(
            {"steps": [_step(step) for step in STEPS], "runtimes": [_runtime(each) for each in RUNTIMES.values()]}
        )
        return
    lines = ["Steps, cheapest first for each target:"]
    lines += table([_step_row(step) for step in sorted(STEPS, key=_order)], indent="  ")
    lines += ["", "Runtimes:"]
    lines += table([_runtime_row(each) for each in RUNTIMES.values()], indent="  ")
    print_lines(lines)


def _order(step: Step) -> tuple[int, float]:
    """Targets in the order of the table, the cheapest step of each first."""
    first = next(at for at, each in enumerate(STEPS) if each.target == step.target)
    return first, step.cost


def _step_row(step: Step) -> tuple[str, str, str]:
    source = str(step.source) if step.source else START
    return f"{source} -> {step.target}", step.name, _closed(lacking(step))


def _runtime_row(runtime: Runtime) -> tuple[str, str, str, str]:
    place = "served" if runtime.served else "in process"
    return (
        runtime.name,
        ", ".join(runtime.takes),
        f"{place}, {'/'.join(runtime.devices)}",
        _closed(missing(runtime.requires)),
    )


def _closed(why: str | None) -> str:
    return f"closed here: {why}" if why else ""


def _step(step: Step) -> dict[str, object]:
    return {
        "name": step.name,
        "source": str(step.source) if step.source else None,
        "target": str(step.target),
        "cost": step.cost,
        "calibrates": step.calibrates,
        "missing": lacking(step),
    }


def _runtime(runtime: Runtime) -> dict[str, object]:
    return {
        "name": runtime.name,
        "takes": list(runtime.takes),
        "devices": list(runtime.devices),
        "served": runtime.served,
        "missing": missing(runtime.requires),
    }

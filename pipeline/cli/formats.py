"""`transload formats`: the graph of formats, and what runs each. Reads the tables; imports no framework."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from textwrap import wrap

from ...converters.steps import Step
from ...converters.third_party import KNOWN_STEPS
from ...models.formats import Target
from ...serving.runtimes.runtime_table import RUNTIMES, Runtime
from ..options import shared_options as shared
from ..options.option import CommandOptions
from ..plan.model_argument import ACCEPTED
from ..workers.interpreters import lacking
from .output.render import print_json, print_lines, table

START = "PyTorch"
WIDTH = 100


class FormatsOptions(CommandOptions):
    """Show the formats, the steps between them and the runtimes.

    A step or a runtime that cannot be taken on this machine says what it needs.
    """

    json_: shared.Json = False


def command(options: FormatsOptions) -> None:
    """Print the graph of formats and steps, and the runtimes."""
    if options.json_:
        runtimes = [_runtime(runtime) for runtime in RUNTIMES.values()]
        rows = [_step(step) for step in KNOWN_STEPS.values()]
        print_json({"steps": rows, "refused": list(KNOWN_STEPS.refused), "runtimes": runtimes})
        return
    steps = tuple(KNOWN_STEPS.values())
    edges = edges_of(steps)
    lines = [*wrap(f"A model is {ACCEPTED}.", WIDTH, subsequent_indent="  "), "", "Steps:", *tree(edges)]
    lines += [*_notes(edges), *_requested(steps), *_closed(edges), *(f"note: {why}" for why in KNOWN_STEPS.refused)]
    lines += ["", "Runtimes:", *table([_runtime_row(runtime) for runtime in RUNTIMES.values()], indent="  ")]
    print_lines(lines)


@dataclass
class Edge:
    """What a person sees as one step: the rows that differ in precision alone, and those that stand in for them."""

    name: str
    source: Target | None
    package: str
    missing: str | None
    targets: list[Target] = field(default_factory=list)
    stand_ins: list[str] = field(default_factory=list)

    @property
    def label(self) -> str:
        """Its name, what else it is called, and whose it is."""
        stand_ins = f" [{', '.join(self.stand_ins)}]" if self.stand_ins else ""
        return f"{self.name}{stand_ins}{f' ({self.package})' if self.package else ''}"

    @property
    def ends(self) -> str:
        """The targets that it leads to."""
        return f"{', '.join(map(str, self.targets))}{'  (closed here)' if self.missing else ''}"


def edges_of(steps: Iterable[Step]) -> list[Edge]:
    """Return the graph in the table's order of sources; from each, the targets in the table's order, cheapest first."""
    steps = list(steps)
    sources = list(dict.fromkeys(step.source for step in steps))
    ends = list(dict.fromkeys(step.target.format for step in steps))
    edges: dict[tuple[Target | None, str, str], Edge] = {}
    for step in sorted(steps, key=lambda step: (sources.index(step.source), ends.index(step.target.format), step.cost)):
        if step.stands_in_for:
            continue
        name = _stem(step, steps)
        key = (step.source, name, step.target.format)
        edge = edges.setdefault(key, Edge(name, step.source, step.package, lacking(step)))
        edge.targets.append(step.target)
        twins = [other.name.removeprefix(step.name) for other in steps if other.stands_in_for == step.name]
        edge.stand_ins += [twin for twin in twins if twin not in edge.stand_ins]
    return list(edges.values())


def _stem(step: Step, steps: Sequence[Step]) -> str:
    """Return a step's name without its precision, if that is the name of a step too."""
    stem = step.name.removesuffix(f"-{step.target.precision.value}")
    return stem if any((known.name, known.source) == (stem, step.source) for known in steps) else step.name


def tree(edges: Sequence[Edge]) -> list[str]:
    """Return a line for each edge, those of one source under each other."""
    rows = [row for source in dict.fromkeys(edge.source for edge in edges) for row in _branch(source, edges)]
    first, second = (max(len(row[at]) for row in rows) for at in (0, 2))
    return [
        f"  {source:<{first}} {joint} {label} {'─' * (second - len(label))}─ {ends}"
        for source, joint, label, ends in rows
    ]


def _branch(source: Target | None, edges: Sequence[Edge]) -> Iterator[tuple[str, str, str, str]]:
    own = [edge for edge in edges if edge.source == source]
    for at, edge in enumerate(own):
        first, last = at == 0, at == len(own) - 1
        joint = "──" if first and last else "┬─" if first else "└─" if last else "├─"
        yield (str(source or START) if first else ""), joint, edge.label, edge.ends


def _notes(edges: Sequence[Edge]) -> list[str]:
    named = next((edge for edge in edges if edge.stand_ins), None)
    if named is None:
        return []
    twin = named.stand_ins[0]
    return ["", f"[{twin}]: {named.name}{twin} does the same in another way, where {named.name} gives nothing."]


def _requested(steps: Iterable[Step]) -> list[str]:
    """Return the options that open steps."""
    suffixes = {step.name.removeprefix(step.stands_in_for): step.on_request for step in steps if step.on_request}
    return [f"[{suffix}]: where --{option} is given, and no other." for suffix, option in suffixes.items()]


def _closed(edges: Sequence[Edge]) -> list[str]:
    rows = [(edge.name, edge.missing) for edge in edges if edge.missing]
    return ["", "Closed here:", *table(list(dict.fromkeys(rows)), indent="  ")] if rows else []


def _runtime_row(runtime: Runtime) -> tuple[str, str, str, str]:
    place = f"{'served' if runtime.served else 'in process'}, {'/'.join(runtime.devices)}"
    closed = f"closed here: {why}" if (why := lacking(runtime)) else ""
    return runtime.name, ", ".join(runtime.takes), place, closed


def _step(step: Step) -> dict[str, object]:
    return {
        "name": step.name,
        "source": str(step.source) if step.source else None,
        "target": str(step.target),
        "cost": step.cost,
        "calibrates": step.calibrates,
        "stands_in_for": step.stands_in_for or None,
        "on_request": step.on_request or None,
        "package": step.package or None,
        "missing": lacking(step),
    }


def _runtime(runtime: Runtime) -> dict[str, object]:
    return {
        "name": runtime.name,
        "takes": list(runtime.takes),
        "devices": list(runtime.devices),
        "served": runtime.served,
        "missing": lacking(runtime),
    }

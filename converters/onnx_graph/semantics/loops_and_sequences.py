"""What Loop and Scan say of their steps, and what operators on sequences of tensors say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic

from ....models.signature import Array
from ..graph import Graph, needed, reads
from ..node_reader import NodeReader, S, V

UNKNOWN_LIST = "it carries a sequence of tensors, and how many steps there are is known only when the model runs"
UNKNOWN_LIST_FIX = "collect tensors of one shape as a scan output, or make the number of steps a constant"


@dataclass(frozen=True)
class StepAxes:
    """How the inputs or outputs of a Scan lie along the steps: the axis of each, and whether it runs backwards."""

    axes: tuple[int, ...]
    backwards: tuple[bool, ...]


@dataclass(frozen=True)
class ScanArguments(Generic[V]):
    """The inputs of a Scan."""

    states: Sequence[V]
    scanned: Sequence[tuple[V, int, bool]]  # with the axis of the steps, and whether it runs backwards
    steps: int | None  # where a scanned input tells


def scan_of(op: NodeReader[V, S]) -> ScanArguments[V]:
    """Read the inputs of a Scan (opset 9 or later)."""
    inputs, count = op.values(), op.integer("num_scan_inputs")
    if not 0 < count <= len(inputs):
        op.refuse(f"it scans {count} of {len(inputs)} inputs", fix="check the model with onnx.checker")
    states, scanned = inputs[:-count], inputs[-count:]
    ends = ends_of(op, "input", scanned)
    steps = {value.shape[axis] for value, axis in zip(scanned, ends.axes, strict=True)} - {None}
    if len(steps) > 1:
        counts = " and ".join(sorted(map(str, steps)))
        op.refuse(f"its scanned inputs have {counts} steps", fix="check the model with onnx.checker")
    return ScanArguments(states, list(zip(scanned, ends.axes, ends.backwards, strict=True)), next(iter(steps), None))


@dataclass(frozen=True)
class LoopArguments(Generic[V]):
    """The inputs of a Loop. The specification lets the body's condition count only where the node has one."""

    trips: V | None
    condition: V | None
    states: Sequence[V]
    body: Graph

    @property
    def most(self) -> int | None:
        """The trip count, where it is known."""
        return None if self.trips is None or self.trips.array is None else max(int(self.trips.array.reshape(())), 0)


def loop_arguments(op: NodeReader[V, S]) -> LoopArguments[V]:
    """Read a Loop; one that never ends is refused."""
    loop = LoopArguments(op.optional(0), op.optional(1), op.everything(2), op.graph("body"))
    if loop.trips is None and loop.condition is None:
        op.refuse("it has neither a trip count nor a condition, and so never ends", fix="give it one of them")
    return loop


def ends_of(op: NodeReader[V, S], side: str, tensors: Sequence[V]) -> StepAxes:
    """Read how a Scan's inputs or outputs (`side`) lie."""
    ranks = [tensor.rank for tensor in tensors]
    axes, directions = (op.ints(f"scan_{side}_{part}", [0] * len(ranks)) for part in ("axes", "directions"))
    if len(axes) != len(ranks) or len(directions) != len(ranks) or not {*directions} <= {0, 1}:
        op.refuse(f"its scan_{side}_axes or scan_{side}_directions do not fit {len(ranks)} tensors")
    if any(not -rank <= axis < rank for axis, rank in zip(axes, ranks, strict=True)):
        op.refuse(f"its scan_{side}_axes {axes} do not lie within tensors of the ranks {ranks}")
    placed = tuple(axis % rank for axis, rank in zip(axes, ranks, strict=True))
    return StepAxes(placed, tuple(tensor == 1 for tensor in directions))


def without_lists(body: Graph, states: int, places: Sequence[int]) -> Graph | None:
    """Return a Loop's body in which the states at `places`, sequences that are empty before the loop, are scan outputs.

    They come behind those that it has, and hold what each step appends. None where a step does anything else with one.
    """
    appended = [_appended(body, at) for at in places]
    if None in appended:
        return None
    kept = [at for at in range(states) if at not in places]
    outputs = (body.outputs[0], *(body.outputs[1 + at] for at in kept), *body.outputs[1 + states :])
    outputs += tuple(name for name in appended if name)
    inputs = (*body.inputs[:2], *(body.inputs[2 + at] for at in kept))
    return replace(body, nodes=needed(body.nodes, outputs), inputs=inputs, outputs=outputs)


def _appended(body: Graph, place: int) -> str | None:
    """Return the name of what a step appends to the sequence at a place, if it does nothing else with that sequence."""
    before, after = body.inputs[2 + place], body.outputs[1 + place]
    maker = next((node for node in body.nodes if after in node.outputs), None)
    rest = replace(body, nodes=tuple(node for node in body.nodes if node is not maker))
    alone = before not in reads(rest) and [*rest.outputs].count(after) == 1
    alone = alone and after not in reads(replace(rest, outputs=()))
    appends = maker is not None and maker.op_type == "SequenceInsert" and not any(maker.inputs[2:])
    return maker.inputs[1] if maker and alone and appends and maker.inputs[0] == before else None


def place_among(op: NodeReader[V, S], position: Array | None, length: int, fix: str, *, end: bool = False) -> int:
    """Return a place in a sequence of `length` tensors, counted from the start; `end`: or the one behind the last.

    `position`: as the model has it, None where it computes it, which is refused with `fix`.
    """
    if position is None:
        op.refuse("its position is computed by the model", fix=fix)
    place = int(position.reshape(()))
    if not -length <= place < length + end:
        op.refuse(f"its position is {place}, and the sequence has {length} tensors", fix="check the model")
    return place + length if place < 0 else place


def common_dtype(op: NodeReader[V, S], tensors: Sequence[V]) -> str:
    """Return the dtype of tensors that become one sequence; several are refused."""
    dtypes = sorted({tensor.dtype for tensor in tensors})
    if len(dtypes) != 1:
        op.refuse(f"it puts {', '.join(dtypes)} into one sequence", fix="cast them to one dtype in the model")
    return dtypes[0]


def check_mapped(op: NodeReader[V, S], lengths: Sequence[int]) -> None:
    """Refuse a SequenceMap over sequences of several lengths, or over none, of which the dtypes are not known."""
    if len(set(lengths)) > 1:
        op.refuse("its sequences are not of one length", fix="check the model")
    if not lengths[0]:
        op.refuse("its sequences are empty, and the dtypes of its answers not known", fix="check the model")


def part_lengths(op: NodeReader[V, S], size: int | None, axis: int, fix: str) -> list[int]:
    """Return the lengths of the parts that SplitToSequence makes of an axis: of one length, or one by one."""
    length = op.integers(1, "split")[0] if op.has_input(1) else 1
    if size is None:
        op.refuse(f"the size of axis {axis}, and so the number of its parts, is known only when it runs", fix=fix)
    if length < 1:
        op.refuse(f"its split is {length}", fix="check the model")
    return [min(length, size - start) for start in range(0, size, length)]

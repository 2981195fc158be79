"""Explain why a trace does not hold at every size, or why source is not compiled, with the user's line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from ...models.errors import Refused
from ...models.library_messages import first_line
from ...models.loading.user_frames import quoted, user_line
from ...models.probes.sizes import with_sizes
from ...models.signature import Signature
from ..patches import torch_messages

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Unlike:
    """Where traces at two sizes differ: `file:line`, if known; by `steps`, else by a number."""

    place: str | None
    steps: bool = False


def unlike(trace: torch.jit.ScriptModule, other: torch.jit.ScriptModule) -> Unlike | None:
    """Return where two traces differ: of two lines the first, as what follows a loop stands after it."""
    for node, other_node in zip_longest(_nodes(trace), _nodes(other), fillvalue=("", "", "")):
        if node[:2] != other_node[:2]:
            places = {place for place in (place_in(node[2]), place_in(other_node[2])) if place}
            first = min(places, key=lambda place: int(place.rpartition(":")[2]), default=None)
            return Unlike(first, len(places) > 1) if first else None
    return None


def _nodes(trace: torch.jit.ScriptModule) -> Iterator[tuple[str, str, str]]:
    """Yield the kind, the value if it is a constant, and the source of each node of a trace."""
    for node in trace.inlined_graph.nodes():
        constant = node.kind() == "prim::Constant"
        yield node.kind(), str(node.output().toIValue()) if constant else "", str(node.sourceRange())


def place_in(source: str) -> str | None:
    """Return the user's line in torch's source of a node: lines `file(line): function`, innermost first."""
    frames = torch_messages.TRACED_LINE.findall(source)
    return user_line((file, int(line)) for file, line in reversed(frames))


def kept_size(difference: Unlike, signature: Signature, axis: str, wrong: Mapping[str, int]) -> Refused:
    """Return the refusal of a trace that answers otherwise than the model at the sizes `wrong`, by one axis."""
    where = f" at {quoted(difference.place)}" if difference.place else ""
    sizes = " and ".join(f"{name}={size}" for name, size in wrong.items())
    spec = next(spec for spec in signature.inputs if axis in spec.shape)
    alternative = f"or give the size that it is for, as in --input {with_sizes(spec, [axis])}"
    if difference.steps:
        return Refused(
            f"the model takes other steps at other sizes{where}, as a loop over an axis does: a trace keeps those of "
            f"its example, and answers otherwise than the model at {sizes}",
            fix=f"compute them on the whole axis at once, or write forward {_SCRIPT}; {alternative}",
        )
    return Refused(
        f"the model makes a number of Python of a size{where}: a trace keeps it, and answers otherwise than the model "
        f"at {sizes}",
        fix="keep it a size, as x.shape[1] is and x.stride(), int(...), len(x) and math.log(...) are not; "
        f"{alternative}",
    )


def uncompiled(error: Exception) -> str:
    """Return the user's line at which torch.jit.script stops, and its reason: " at net.py:7 (`...`): reason"."""
    places = torch_messages.SCRIPT_LINE.findall(str(error))
    place = user_line((file, int(line)) for file, line in reversed(places))  # torch names the innermost first
    mismatch = torch_messages.MISMATCH.search(str(error))
    reason = mismatch[0] if mismatch and torch_messages.SCHEMA.match(first_line(error)) else first_line(error)
    return f"{f' at {quoted(place)}' if place else ''}: {reason.rstrip(':.')}"


def mend_of(error: Exception, otherwise: str) -> str:
    """Return what to write where torch.jit.script stops, and the alternative that a refusal of the trace names."""
    mend = next((mend for pattern, mend in _MENDS if pattern.search(str(error))), None)
    if mend is None:
        return otherwise if _SCRIPT in otherwise else f"write that line {_SCRIPT}, or {otherwise}"
    _, _, alternative = otherwise.partition("; or ")
    return f"{mend}; or {alternative}"


_SCRIPT = "as torch.jit.script takes it"
_MENDS = (
    (torch_messages.FORWARD_COMPILED, "write forward's expression there, in place of the torch.autograd.Function"),
    (
        torch_messages.NONE_TYPE,
        "begin with a tensor of zeros before the loop, in place of None",
    ),
    (torch_messages.RANGE_VALUE, "write range(n - 1, -1, -1) there, in place of reversed(range(n))"),
    (
        torch_messages.REVERSED_TENSOR,
        "take its parts by an index there (range(n - 1, -1, -1)), or turn it round by .flip(1)",
    ),
    (torch_messages.CALLABLE_TYPE, "call the function itself there, in place of one that is handed over"),
    (torch_messages.LAMBDA, "write a method of the module there, in place of the lambda"),
)

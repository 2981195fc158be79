"""Why a trace does not hold at every size, or its source is not compiled: with the line of the person who wrote it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from ...models.errors import Refused
from ...models.foreign_errors import first_line
from ...models.loading.user_frames import quoted, user_line
from ...models.probes.sizes import with_sizes
from ...models.signature import Signature

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Unlike:
    """Where traces at two sizes part: `file:line`, where it is known. `steps`: they go on with different ones there;
    else with another number."""

    place: str | None
    steps: bool = False


def unlike(trace: torch.jit.ScriptModule, other: torch.jit.ScriptModule) -> Unlike | None:
    """Where two traces part. If they go on at two lines it is the first: what follows a loop stands behind it."""
    for one, another in zip_longest(_nodes(trace), _nodes(other), fillvalue=("", "", "")):
        if one[:2] != another[:2]:
            places = {place for place in (place_in(one[2]), place_in(another[2])) if place}
            return Unlike(min(places, key=_line), len(places) > 1) if places else None
    return None


def _line(place: str) -> int:
    return int(place.rpartition(":")[2])


def _nodes(trace: torch.jit.ScriptModule) -> Iterator[tuple[str, str, str]]:
    """Kind, value where it is a constant, and source of what a trace does."""
    for node in trace.inlined_graph.nodes():
        constant = node.kind() == "prim::Constant"
        yield node.kind(), str(node.output().toIValue()) if constant else "", str(node.sourceRange())


def place_in(source: str) -> str | None:
    """The user's line in the source that torch gives of a node: `file(line): function`, innermost first."""
    found = re.findall(r"^(\S+\.py)\((\d+)\): ", source, re.M)
    return user_line((file, int(line)) for file, line in reversed(found))


def kept_size(found: Unlike, signature: Signature, axis: str, wrong: Mapping[str, int]) -> Refused:
    """The refusal of a trace that answers otherwise than the model at sizes, by one axis of theirs."""
    where = f" at {quoted(found.place)}" if found.place else ""
    sizes = " and ".join(f"{name}={size}" for name, size in wrong.items())
    spec = next(spec for spec in signature.inputs if axis in spec.shape)
    given = f"or give the size that it is for, as in --input {with_sizes(spec, [axis])}"
    if found.steps:
        return Refused(
            f"the model takes other steps at other sizes{where}, as a loop over an axis does: a trace keeps those of "
            f"its example, and answers otherwise than the model at {sizes}",
            fix=f"compute them on the whole axis at once, or write forward {_SCRIPT}; {given}",
        )
    return Refused(
        f"the model makes a number of Python of a size{where}: a trace keeps it, and answers otherwise than the model "
        f"at {sizes}",
        fix=f"keep it a size, as x.shape[1] is and x.stride(), int(...), len(x) and math.log(...) are not; {given}",
    )


def uncompiled(error: Exception) -> str:
    """The user's line that torch.jit.script stops at, and what it says of that: " at net.py:7 (`...`): reason"."""
    places = re.findall(r'File "(.+?)", line (\d+)', str(error))
    place = user_line((file, int(line)) for file, line in reversed(places))  # torch names the innermost first
    said = re.search(r"^(Expected a value of|Could not match) type .*", str(error), re.M)
    reason = said[0] if said and _SCHEMA.match(first_line(error)) else first_line(error)
    return f"{f' at {quoted(place)}' if place else ''}: {reason.rstrip(':.')}"


_SCHEMA = re.compile(r"[\w:.]+\(.*\) -> ")


def mend_of(error: Exception, otherwise: str) -> str:
    """What to write where torch.jit.script stops, and what else helps by a refusal of the trace."""
    found = next((mend for pattern, mend in _MENDS if re.search(pattern, str(error))), None)
    if found is None:
        return otherwise if _SCRIPT in otherwise else f"write that line {_SCRIPT}, or {otherwise}"
    _, _, given = otherwise.partition("; or ")
    return f"{found}; or {given}"


_SCRIPT = "as torch.jit.script takes it"
_MENDS = (
    (r"'\w+_forward' is being compiled", "write forward's expression there, in place of the torch.autograd.Function"),
    (
        r"instead found type 'NoneType'|previously had type NoneType",
        "begin with a tensor of zeros before the loop, in place of None",
    ),
    (r"range cannot be used as a value", "write range(n - 1, -1, -1) there, in place of reversed(range(n))"),
    (r"reversed\(Tensor 0\)", "take its parts by an index there (range(n - 1, -1, -1)), or turn it round by .flip(1)"),
    (r"Unknown type name 'Callable'", "call the function itself there, in place of one that is handed over"),
    (r"Lambda aren't supported", "write a method of the module there, in place of the lambda"),
)

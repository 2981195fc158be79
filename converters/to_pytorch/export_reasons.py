"""Why torch.export will not carry a model, in the words and with the lines of the person who wrote it.

torch names symbols (s77), its own sources (L['x'].size()[0]) and lines of its own. What a person can act upon is the
axis, by the name that they gave it, and the line of theirs that fixes it.
"""

from __future__ import annotations

import inspect
import logging
import math
import operator
import re
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...models.errors import Refused, TransloadError
from ...models.foreign_errors import first_line
from ...models.loading.user_frames import line_of_error, line_of_now, quoted
from ...models.probes.sizes import axes_of, example_sizes, with_sizes
from ...models.signature import ANY_SIZE, Bounds, Signature, TensorSpec
from ..patches import private_torch
from .guards import ExcludedSizes

if TYPE_CHECKING:
    import torch

Attempt = Callable[[], "torch.export.ExportedProgram"]

_SPECIALISED = re.compile(
    r"marked (?P<source>L\[.*?\]\.size\(\)\[\d+\]) as dynamic but .*? a constant \((?P<size>\d+)\)"
)
_SOURCE = re.compile(r"L\['(?P<name>\w+)'\](?:\[(?P<at>\d+)\])?\.size\(\)\[(?P<axis>\d+)\]")
_CREATED = re.compile(r"create_symbol (?P<symbol>\w+) = \d+ for (?P<source>L\[.*?\]\.size\(\)\[\d+\])")
_GUARD = re.compile(r"eval (?P<guard>.+?) \[guard added\]")
_ONE_SIZE = re.compile(r"Eq\(\w+, \d+\)")
_LOGGER = "torch.fx.experimental.symbolic_shapes"
_SPECIALISED_BELOW = 2  # torch.export takes a size of 0 or 1 for a constant, and lets a dynamic axis begin at 2
_BRANCH = re.compile(r"`.*\b(if|elif|while|assert|and|or|not)\b")
_WITHOUT_DATA = "compute both and choose with torch.where, or write the branch as torch.cond"
_SIZE_OF_DATA = "keep every size one that the inputs' shapes tell: mask or pad in place of cutting by a value"


@dataclass
class Guards:
    """What an attempt decided about sizes: the user's line of each guard, and the symbol of each axis."""

    lines: list[tuple[str, str | None]] = field(default_factory=list)  # guard, `file:line`
    symbols: dict[str, str] = field(default_factory=dict)  # torch's source of an axis -> symbol

    def line_on(self, sources: Collection[str], words: Sequence[str]) -> str | None:
        """The line of the first guard that holds one of `words` and is on an axis of one of torch's sources."""
        for guard, line in self._on(sources):
            if any(word in guard for word in words):
                return line
        return None

    def line_of_constant(self, sources: Collection[str]) -> str | None:
        """The line of the first guard that an axis of one of torch's sources has one size. That it is as long as
        another axis makes it no constant."""
        return next((line for guard, line in self._on(sources) if _ONE_SIZE.fullmatch(guard)), None)

    def _on(self, sources: Collection[str]) -> Iterator[tuple[str, str]]:
        symbols = {symbol for source, symbol in self.symbols.items() if source in sources}
        return ((guard, line) for guard, line in self.lines if line and symbols & set(re.findall(r"\w+", guard)))

    def line_against(self, sizes: Mapping[str, int]) -> str | None:
        """The line of the first guard that does not hold at sizes, by torch's source of an axis."""
        values = {symbol: sizes[source] for source, symbol in self.symbols.items() if source in sizes}
        return next((line for guard, line in self.lines if line and not _true(guard, values)), None)


def _true(guard: str, values: Mapping[str, int]) -> bool:
    """Whether a guard in sympy's words is true; true where it cannot be told."""
    try:
        return bool(eval(guard, _SYMPY, dict(values)))  # noqa: S307  (of torch's own writing)
    except Exception:  # noqa: BLE001  (a guard in other words, or on more than sizes of inputs)
        return True


_SYMPY: dict[str, Any] = {
    "__builtins__": {},
    "Eq": operator.eq, "Ne": operator.ne, "Max": max, "Min": min, "Mod": operator.mod, "PythonMod": operator.mod,
    "IntTrueDiv": operator.truediv, "ToFloat": float, "FloatPow": operator.pow, "RoundToInt": round,
    "CeilToInt": math.ceil, "FloorToInt": math.floor, "TruncToInt": math.trunc,
}  # fmt: skip


class _Listener(logging.Handler):
    def __init__(self, guards: Guards) -> None:
        super().__init__()
        self.guards = guards

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if made := _CREATED.search(text):
            self.guards.symbols[made["source"]] = made["symbol"]
        elif guard := _GUARD.search(text):
            self.guards.lines.append((guard["guard"], line_of_now()))


@contextmanager
def listened() -> Iterator[Guards]:
    """The guards that torch's tracer adds meanwhile, with the lines that it adds them for. Slower: a second attempt."""
    log, guards = logging.getLogger(_LOGGER), Guards()
    former = log.handlers, log.level, log.propagate
    log.handlers, log.propagate = [_Listener(guards)], False
    log.setLevel(logging.INFO)
    try:
        yield guards
    finally:
        log.handlers, log.propagate = former[0], former[2]
        log.setLevel(former[1])


def refusal(error: Exception, model: torch.nn.Module, signature: Signature, attempt: Attempt) -> Refused | None:
    """What stands in the way, in one sentence; None where nothing of the user's is to be seen in it.

    `attempt` is what raised `error`; it is made again where that shows the line.
    """
    text = str(error)
    if isinstance(error, private_torch.UserError) and (fixed := _SPECIALISED.search(text)):
        return _fixed_axis(fixed["source"], model, signature, attempt)
    place = line_of_error(error)
    if isinstance(error, private_torch.GuardOnDataDependentSymNode):
        if place and _checks(error):
            what = f"torch.distributions checks its arguments by their data, at {quoted(place)}"
            return Refused(what, fix=_UNCHECKED)
        where = quoted(place) if place else "a line that torch does not name"
        if not place or _BRANCH.search(where):
            return Refused(f"the model takes one way or another by its data, at {where}", fix=_WITHOUT_DATA)
        return Refused(f"the model makes a Python number of its data, at {where}", fix=_SIZE_OF_DATA)
    return stopped("torch.export", error)


def _checks(error: BaseException) -> bool:
    """Whether an error comes from the checks of torch.distributions, which are on where a model says so itself."""
    frames = (Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__))
    return any(file.parts[-3:-1] == ("torch", "distributions") for file in frames)


_UNCHECKED = "leave validate_args=True out there: it changes no answer"


def stopped(tool: str, error: Exception) -> Refused | None:
    """The line of the user's that a tool of torch's stops at; None where none of theirs is to be seen in it."""
    place = line_of_error(error)
    if place is None or isinstance(error, TransloadError):
        return None
    said, line = first_line(error, 300), quoted(place)
    if _NO_DERIVATIVE in said and _DERIVATIVE.search(line):
        return Refused(f"{tool} takes no derivatives of torch.func, at {line}", fix=_WRITTEN_OUT)
    if _STATELESS in said:
        return Refused(f"{tool} takes no functional_call, at {line}", fix=_WEIGHTS)
    return Refused(f"{tool} stops at {line}: {said}", fix=_OTHER)


_NO_DERIVATIVE = "object has no attribute 'constant'"
_DERIVATIVE = re.compile(r"\b(jacrev|jacfwd|grad|grad_and_value|vjp|jvp|hessian)\(")
_WRITTEN_OUT = "leave the derivative out of forward, or write it out as a formula of its own"
_STATELESS = "The stateless API can't be used with Jitted modules"
_WEIGHTS = "write that net as a function of its weights there (torch.einsum, torch.bmm), or call the module itself"
_OTHER = "write that line with operators of torch alone, or name a target that another route leads to"


def _fixed_axis(source: str, model: torch.nn.Module, signature: Signature, attempt: Attempt) -> Refused:
    with listened() as guards:
        try:
            attempt()
        except Exception as again:  # noqa: BLE001  (it is the error that is being explained)
            del again
    spec, at = spec_of(source, model, signature)
    sources = list(_sources_of(str(spec.shape[at]), guards, model, signature))
    line = guards.line_of_constant(sources) or guards.line_on(sources, ("Eq(",))
    where = f" at {quoted(line)}" if line else ""
    keep = f"keep it a size there, as x.shape[{at}] is and what range(...) and operator.index(...) take is not"
    return Refused(
        f"the axis {spec.shape[at]} of {spec.name} cannot be dynamic: the model makes its size a constant{where}",
        fix=f"{_COMPILED if _LOOP.search(where) else keep}; "
        f"or fix it, as in --input {with_sizes(spec, [str(spec.shape[at])])}",
    )


_LOOP = re.compile(r"`.*\bfor\b.*\bin\b")
_COMPILED = (
    "leave the loop, which goes by compiling the source, and mend the line that another route stops at; "
    "or compute on the whole axis at once"
)


def spec_of(source: str, model: torch.nn.Module, signature: Signature) -> tuple[TensorSpec, int]:
    """The input, and the position of its axis, that torch calls `L['x'].size()[0]`."""
    found = _SOURCE.fullmatch(source)
    if found is None:
        raise ValueError(f"no axis of an input: {source}")
    names = list(inspect.signature(model.forward).parameters)
    index = names.index(found["name"]) + int(found["at"] or 0)
    return signature.inputs[index], int(found["axis"])


@dataclass(frozen=True)
class Held:
    """What a program is good for. `limits`: the sizes beyond which the model itself raises, by axis. `narrow`: an axis
    that it is good for some sizes of, and the model for more."""

    limits: Mapping[str, list[int]]
    narrow: tuple[str, Bounds] | None = None


def held(program: torch.export.ExportedProgram, model: torch.nn.Module, signature: Signature) -> Held:
    """The sizes that a program is good for, against those that the signature allows."""
    limits: dict[str, list[int]] = {}
    for axis, (low, high) in ranges(program, signature).items():
        bounds = signature.bounds.get(axis, ANY_SIZE)
        good = Bounds(low if low > _SPECIALISED_BELOW else bounds.low, high)
        if good.low > bounds.low:
            return Held(limits, (axis, good))
        if high is not None and (bounds.high is None or high < bounds.high):
            if answers(model, signature, axis, high + 1):
                return Held(limits, (axis, good))
            limits[axis] = [good.low, high]
    return Held(limits)


def ranges(program: torch.export.ExportedProgram, signature: Signature) -> dict[str, tuple[int, int | None]]:
    """The smallest and the largest size of each dynamic axis that a program was found good for; None: any."""
    found: dict[str, tuple[int, int | None]] = {}
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    for name, spec in zip(program.graph_signature.user_inputs, signature.inputs, strict=True):
        shape = nodes[str(name)].meta["val"].shape
        for at, axis in spec.dynamic_axes.items():
            symbol = getattr(getattr(shape[at], "node", None), "expr", None)
            limits: Any = program.range_constraints.get(symbol)
            if limits is not None:
                high = None if limits.upper == private_torch.int_oo or limits.upper >= _ENDLESS else int(limits.upper)
                found[axis] = (int(limits.lower), high)
    return found


_ENDLESS = 2**31
_BATCH = 2
_MOST_TRIED = 4096  # sizes above are not tried: one call could take all memory


def answers(model: torch.nn.Module, signature: Signature, axis: str, size: int) -> bool:
    """Whether the model itself answers at this size of an axis."""
    import torch

    from ...models.probes.random_inputs import sample_tensors

    if size > _MOST_TRIED:
        return False
    arrays = sample_tensors(signature.inputs, {**example_sizes(signature.inputs, _BATCH), axis: size})
    try:
        with torch.no_grad():
            model(*(torch.from_numpy(arrays[spec.name]) for spec in signature.inputs))
    except Exception:  # noqa: BLE001  (whatever it raises is the limit)
        return False
    return True


class OneWay(Refused):
    """The model takes another way at other sizes than those that a program holds for. `left_out`: sizes of every
    dynamic axis that the program leaves out; none where it holds for a range of sizes."""

    left_out: Sequence[Mapping[str, int]] = ()


def one_way(axis: str, good: Bounds, signature: Signature, model: torch.nn.Module, attempt: Attempt) -> OneWay:
    """The refusal of a program that holds for `good` sizes of an axis alone, with the line that is to blame."""
    least = signature.bounds.get(axis, ANY_SIZE).low
    outside = good.low - 1 if good.low > least or good.high is None else good.high + 1
    where = _blamed({axis: outside}, ("<", ">", "Ne("), signature, model, attempt)
    spec = next(spec for spec in signature.inputs if axis in spec.shape)
    bounded = replace(spec, bounds=(*((name, each) for name, each in spec.bounds if name != axis), (axis, good)))
    return OneWay(
        f"the model takes another way at other sizes of {axis}{where}; one program holds for {good} alone",
        fix=f"say so, as in --input {bounded}, or compute both ways",
    )


def left_out(left: ExcludedSizes, signature: Signature, model: torch.nn.Module, attempt: Attempt) -> OneWay:
    """The refusal of a program that is wrong at one size of an axis, or where several have a relation."""
    empty = next((axis for axis, size in left.sizes.items() if size == 0), None)
    if empty:  # torch.export asks no size whether it is 0, so it knows of no line
        return OneWay(
            f"the model takes another way where {empty} is empty",
            fix=f"leave that way out where the other one answers as well, or say that it never is: {empty}=1..",
        )
    where = _blamed(left.sizes, ("Ne(", "Eq("), signature, model, attempt)
    if left.by_equality:
        return OneWay(
            f"the model takes another way where {' and '.join(left.sizes)} are of one size{where}",
            fix="compute both ways, or fix one of them to a size with --input",
        )
    if len(left.sizes) > 1:
        sizes = " and ".join(f"{axis}={size}" for axis, size in left.sizes.items())
        return OneWay(
            f"the model takes another way at {sizes}{where}",
            fix="compute both ways, or give --input bounds or fixed sizes without these",
        )
    ((axis, size),) = left.sizes.items()
    return OneWay(
        f"the model takes another way at the size {size} of {axis}{where}",
        fix="compute both ways, or give --input bounds without that size",
    )


def _blamed(
    sizes: Mapping[str, int], words: Sequence[str], signature: Signature, model: torch.nn.Module, attempt: Attempt
) -> str:
    """Where the first guard stands that does not hold at some sizes, which a program leaves out; else the first on
    their axes that holds one of `words`."""
    with listened() as guards:
        attempt()
    axes = axes_of(signature.inputs)
    known = {source: axis for axis in axes for source in _sources_of(axis, guards, model, signature)}
    every = {**example_sizes(signature.inputs, _BATCH), **sizes}
    line = guards.line_against({source: every[axis] for source, axis in known.items()})
    line = line or guards.line_on([source for source, axis in known.items() if axis in sizes], words)
    return f" at {quoted(line)}" if line else ""


def _sources_of(axis: str, guards: Guards, model: torch.nn.Module, signature: Signature) -> Iterator[str]:
    """An axis in torch's words, in every input that has it."""
    for source in guards.symbols:
        spec, at = spec_of(source, model, signature)
        if spec.shape[at] == axis:
            yield source

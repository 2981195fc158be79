"""Explain why torch.export refuses a model, with the axis by its name and the line of the user's that fixes it.

torch itself names symbols (s77), its own sources (L['x'].size()[0]) and lines of its own.
"""

from __future__ import annotations

import inspect
import logging
import math
import operator
import re
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...models.errors import Refused, TransloadError
from ...models.library_messages import first_line
from ...models.loading.user_frames import line_of_error, line_of_now, quoted
from ...models.probes.accepted_sizes import in_steps
from ...models.probes.sizes import axes_of, example_sizes, with_sizes
from ...models.signature import ANY_SIZE, Bounds, Signature, TensorSpec
from ..patches import private_torch, torch_messages
from .guards import ExcludedSizes
from .model_calls import TRIAL_BATCH, answers_at, export_once

if TYPE_CHECKING:
    import torch

_ONE_SIZE = re.compile(r"Eq\(\w+, \d+\)")
_SPECIALISED_BELOW = 2  # torch.export takes a size of 0 or 1 for a constant, and lets a dynamic axis begin at 2
_BRANCH = re.compile(r"`.*\b(if|elif|while|assert|and|or|not)\b")
_WITHOUT_DATA = "compute both and choose with torch.where, or write the branch as torch.cond"
_SIZE_OF_DATA = "keep every size one that the inputs' shapes tell: mask or pad in place of cutting by a value"


class Guards(logging.Handler):
    """What an export decided about sizes, by torch's log: the user's line of each guard, the symbol of each axis."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str | None]] = []  # guard, `file:line`
        self.symbols: dict[str, str] = {}  # torch's source of an axis -> symbol

    def emit(self, record: logging.LogRecord) -> None:
        """Read a record of torch's tracer."""
        text = record.getMessage()
        if symbol := torch_messages.CREATED_SYMBOL.search(text):
            self.symbols[symbol["source"]] = symbol["symbol"]
        elif guard := torch_messages.ADDED_GUARD.search(text):
            self.lines.append((guard["guard"], line_of_now()))

    def line_on(self, sources: Collection[str], words: Sequence[str]) -> str | None:
        """Return the line of the first guard that contains one of `words`, on an axis of one of torch's sources."""
        return next((line for guard, line in self._on(sources) if any(word in guard for word in words)), None)

    def line_of_constant(self, sources: Collection[str]) -> str | None:
        """Return the line of the first guard that fixes an axis of one of torch's sources to a number.
        A guard that it is as long as another axis makes it no constant."""
        return next((line for guard, line in self._on(sources) if _ONE_SIZE.fullmatch(guard)), None)

    def _on(self, sources: Collection[str]) -> Iterator[tuple[str, str]]:
        symbols = {symbol for source, symbol in self.symbols.items() if source in sources}
        return ((guard, line) for guard, line in self.lines if line and symbols & set(re.findall(r"\w+", guard)))

    def line_against(self, sizes: Mapping[str, int]) -> str | None:
        """Return the line of the first guard that does not hold at `sizes`, by torch's source of an axis."""
        values = {symbol: sizes[source] for source, symbol in self.symbols.items() if source in sizes}
        return next((line for guard, line in self.lines if line and not _true(guard, values)), None)


def _true(guard: str, values: Mapping[str, int]) -> bool:
    """Return whether a guard of sympy is true; true where it cannot be evaluated."""
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


@contextmanager
def listened() -> Iterator[Guards]:
    """Collect the guards that torch's tracer adds, with the user's lines. It is slower: for a second attempt."""
    log, guards = logging.getLogger(torch_messages.SHAPE_LOGGER), Guards()
    former = log.handlers, log.level, log.propagate
    log.handlers, log.propagate = [guards], False
    log.setLevel(logging.INFO)
    try:
        yield guards
    finally:
        log.handlers, log.propagate = former[0], former[2]
        log.setLevel(former[1])


@contextmanager
def explained(explain: Callable[[Exception], Refused | None]) -> Iterator[None]:
    """Raise what `explain` makes of an error in place of that error, if it makes something of it."""
    try:
        yield
    except Exception as error:
        if refused := explain(error):
            raise refused from error
        raise


def refusal(error: Exception, model: torch.nn.Module, signature: Signature) -> Refused | None:
    """Return what stands in the way of export_once, which raised `error`; None if that shows no line of the user's."""
    text = str(error)
    if isinstance(error, private_torch.UserError) and (fixed := torch_messages.SPECIALIZED_AXIS.search(text)):
        return _fixed_axis(fixed["source"], model, signature)
    place = line_of_error(error)
    if isinstance(error, private_torch.GuardOnDataDependentSymNode):
        if place and _checks(error):
            checks = f"torch.distributions checks its arguments by their data, at {quoted(place)}"
            return Refused(checks, fix=_UNCHECKED)
        where = quoted(place) if place else "a line that torch does not name"
        if not place or _BRANCH.search(where):
            return Refused(f"the model takes one way or another by its data, at {where}", fix=_WITHOUT_DATA)
        return Refused(f"the model makes a Python number of its data, at {where}", fix=_SIZE_OF_DATA)
    return stopped("torch.export", error)


def _checks(error: BaseException) -> bool:
    """Return whether an error comes from checks of torch.distributions, which a model can switch on."""
    frames = (Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__))
    return any(file.parts[-3:-1] == ("torch", "distributions") for file in frames)


_UNCHECKED = "leave validate_args=True out there: it changes no answer"


def stopped(tool: str, error: Exception) -> Refused | None:
    """Return the refusal by a tool of torch with the user's line; None if the error shows none."""
    place = line_of_error(error)
    if place is None or isinstance(error, TransloadError):
        return None
    said, line = first_line(error, 300), quoted(place)
    if torch_messages.NO_DERIVATIVE.search(said) and _DERIVATIVE.search(line):
        return Refused(f"{tool} takes no derivatives of torch.func, at {line}", fix=_WRITTEN_OUT)
    if torch_messages.STATELESS.search(said):
        return Refused(f"{tool} takes no functional_call, at {line}", fix=_WEIGHTS)
    return Refused(f"{tool} stops at {line}: {said}", fix=_OTHER)


_DERIVATIVE = re.compile(r"\b(jacrev|jacfwd|grad|grad_and_value|vjp|jvp|hessian)\(")
_WRITTEN_OUT = "leave the derivative out of forward, or write it out as a formula of its own"
_WEIGHTS = "write that net as a function of its weights there (torch.einsum, torch.bmm), or call the module itself"
_OTHER = "write that line with operators of torch alone, or name a target that another route leads to"


def _fixed_axis(source: str, model: torch.nn.Module, signature: Signature) -> Refused:
    with listened() as guards, suppress(Exception):  # it is the error that is being explained
        export_once(model, signature)
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
    """Return the input, and the position of its axis, that torch calls `L['x'].size()[0]`."""
    match = torch_messages.AXIS_SOURCE.fullmatch(source)
    if match is None:
        raise ValueError(f"no axis of an input: {source}")
    names = list(inspect.signature(model.forward).parameters)
    index = names.index(match["name"]) + int(match["at"] or 0)
    return signature.inputs[index], int(match["axis"])


@dataclass(frozen=True)
class Held:
    """The sizes that a program holds for."""

    limits: Mapping[str, list[int]]  # by axis, the sizes beyond which the model itself raises
    narrow: tuple[str, Bounds] | None = None  # an axis of which the program holds for fewer sizes than the model


def held(program: torch.export.ExportedProgram, model: torch.nn.Module, signature: Signature) -> Held:
    """Compare the sizes that a program holds for with those that the signature allows."""
    limits: dict[str, list[int]] = {}
    for axis, (low, high) in ranges(program, signature).items():
        bounds = signature.bounds.get(axis, ANY_SIZE)
        good = bounds.within(low if low > _SPECIALISED_BELOW else bounds.low, high)
        if good.low > bounds.low:
            return Held(limits, (axis, good))
        if high is not None and (bounds.high is None or high < bounds.high):
            if answers(model, signature, axis, (good.high or high) + good.step):
                return Held(limits, (axis, good))
            limits[axis] = [good.low, high]
    return Held(limits)


def ranges(program: torch.export.ExportedProgram, signature: Signature) -> dict[str, tuple[int, int | None]]:
    """Return the smallest and the largest size of each dynamic axis that a program holds for; None: any."""
    sizes: dict[str, tuple[int, int | None]] = {}
    for axis, _, symbol in symbols_of(program, signature):
        limits: Any = program.range_constraints.get(symbol)
        if limits is not None:
            high = None if limits.upper == private_torch.int_oo or limits.upper >= _ENDLESS else int(limits.upper)
            sizes[axis] = (int(limits.lower), high)
    return sizes


def symbols_of(program: torch.export.ExportedProgram, signature: Signature) -> Iterator[tuple[str, str, Any]]:
    """Yield each dynamic axis of each input: its name, torch's source of it, its symbol (None if the size is fixed)."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    for name, spec in zip(map(str, program.graph_signature.user_inputs), signature.inputs, strict=True):
        for at, axis in spec.dynamic_axes.items():
            node = getattr(nodes[name].meta["val"].shape[at], "node", None)
            yield axis, f"L['{name}'].size()[{at}]", getattr(node, "expr", None)


_ENDLESS = 2**31
_MOST_TRIED = 4096  # sizes above are not tried: one call could take all memory


def answers(model: torch.nn.Module, signature: Signature, axis: str, size: int) -> bool:
    """Return whether the model itself answers at this size of an axis."""
    sizes = {**example_sizes(signature.inputs, TRIAL_BATCH), axis: size}
    return size <= _MOST_TRIED and not isinstance(answers_at(model, signature, sizes), Exception)


class OneWay(Refused):
    """The refusal of a model that takes another way at sizes that a program does not hold for.
    `left_out`: sizes of every dynamic axis that the program leaves out; none if it holds for a range of sizes."""

    left_out: Sequence[Mapping[str, int]] = ()


def one_way(axis: str, good: Bounds, signature: Signature, model: torch.nn.Module) -> OneWay:
    """Return the refusal of a program that holds for `good` sizes of an axis alone, with the line at fault."""
    least = signature.bounds.get(axis, ANY_SIZE).low
    outside = good.low - good.step if good.low > least or good.high is None else good.high + good.step
    where = _blamed({axis: outside}, ("<", ">", "Ne("), signature, model)
    spec = next(spec for spec in signature.inputs if axis in spec.shape)
    bounded = replace(spec, bounds=(*((name, sizes) for name, sizes in spec.bounds if name != axis), (axis, good)))
    return OneWay(
        f"the model takes another way at other sizes of {axis}{where}; one program holds for {good} alone",
        fix=f"say so, as in --input {bounded}, or compute both ways",
    )


def left_out(left: ExcludedSizes, signature: Signature, model: torch.nn.Module) -> OneWay:
    """Return the error for a program that is wrong at one size of an axis, or at related sizes of several."""
    empty = next((axis for axis, size in left.sizes.items() if size == 0), None)
    if empty:  # torch.export asks no size whether it is 0, so it knows of no line
        return OneWay(
            f"the model takes another way where {empty} is empty",
            fix=f"leave that way out where the other one answers as well, or say that it never is: {empty}=1..",
        )
    where = _blamed(left.sizes, ("Ne(", "Eq("), signature, model)
    if left.step and (stepped := _in_steps_of(left, signature)):
        return OneWay(
            f"the model takes another way at multiples of {left.step} of {' and '.join(left.sizes)}{where}",
            fix=f"declare the step if no other sizes come, as in {stepped}, or compute both ways",
        )
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


def _in_steps_of(left: ExcludedSizes, signature: Signature) -> str | None:
    """Return the inputs as options, with a step for the sizes left out; None where a bound leaves no two of these."""
    known = signature.bounds
    for axis in left.sizes:
        bounds = in_steps(known.get(axis, ANY_SIZE), left.step, left.step)
        if bounds is None:
            return None
        known[axis] = bounds
    specs = (
        replace(spec, bounds=tuple((axis, known[axis]) for axis in dict.fromkeys(spec.shape) if axis in known))
        for spec in signature.inputs
    )
    return " ".join(f"--input '{spec}'" if spec.values else f"--input {spec}" for spec in specs)


def _blamed(sizes: Mapping[str, int], words: Sequence[str], signature: Signature, model: torch.nn.Module) -> str:
    """Return the place of the first guard that does not hold at sizes that a program leaves out.
    If every guard holds: of the first guard on their axes that contains one of `words`."""
    with listened() as guards:
        export_once(model, signature)
    axes = axes_of(signature.inputs)
    known = {source: axis for axis in axes for source in _sources_of(axis, guards, model, signature)}
    all_sizes = {**example_sizes(signature.inputs, TRIAL_BATCH), **sizes}
    line = guards.line_against({source: all_sizes[axis] for source, axis in known.items()})
    line = line or guards.line_on([source for source, axis in known.items() if axis in sizes], words)
    return f" at {quoted(line)}" if line else ""


def _sources_of(axis: str, guards: Guards, model: torch.nn.Module, signature: Signature) -> Iterator[str]:
    """Yield torch's names of an axis, in every input that has it."""
    for source in guards.symbols:
        spec, at = spec_of(source, model, signature)
        if spec.shape[at] == axis:
            yield source

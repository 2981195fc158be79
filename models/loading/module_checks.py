"""Find by calls why a model cannot be converted: randomness, memory, training mode, quantised parts.

Every such reason becomes one sentence with the line of the model that causes it, and a fix. Worker only.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ..errors import BadRequest
from ..probes.random_inputs import sample_inputs
from .build import call_model
from .call_convention import ALONE
from .user_frames import line_of_now, quoted
from .value_operators import trace_operators

if TYPE_CHECKING:
    import torch

    from ..signature import Signature

Answers: TypeAlias = Mapping[str, "torch.Tensor"]
_STEADY_BATCH = 8  # with 2 rows of 2 outputs, dropout of one half leaves two calls alike in one of 10 times
# Samples that do where torch draws no random numbers, and no tensor comes from elsewhere or each output holds so many.
_FEW, _MANY_NUMBERS = 2, 1000
_VALUE_METHODS = (
    "__bool__", "__int__", "__float__", "__index__", "__complex__", "item", "tolist", "numpy", "__array__",
)  # fmt: skip
QUANTISED = (
    "torch.ao.nn.quantized.", "torch.ao.nn.intrinsic.quantized.", "torch.nn.quantized.", "torchao.", "bitsandbytes.",
    "optimum.quanto.", "quanto.", "auto_gptq.", "gptqmodel.", "awq.", "hqq.",
)  # fmt: skip


def check_supported(model: torch.nn.Module) -> None:
    """Raise BadRequest for a module with quantised parts or with weights that have no values.
    Another format would compute other integers than the quantised parts do."""
    for path, part in model.named_modules():
        if f"{type(part).__module__}.".startswith(QUANTISED):
            raise _quantised(path or "it", type(part))
        for name, weight in part.named_parameters(path, recurse=False):
            if weight.is_meta:
                raise BadRequest(
                    f"{name} has no values: it is on the meta device", fix="make the model on the CPU, with its weights"
                )
            if weight.is_quantized or f"{type(weight.data).__module__}.".startswith(QUANTISED):
                raise _quantised(name, type(weight.data))


def check_lazy(model: torch.nn.Module) -> None:
    """Raise BadRequest for a module whose weights get their shape at its first call."""
    import torch

    for name, weight in model.named_parameters():
        if isinstance(weight, torch.nn.parameter.UninitializedParameter):
            raise BadRequest(
                f"{name} takes its shape at the model's first call, and there has been none",
                fix="call the model once in the function that makes it, or give that layer its sizes",
            )


def _quantised(where: str, kind: type) -> BadRequest:
    return BadRequest(
        f"the model is quantised: {where} is a {kind.__module__}.{kind.__qualname__}, which no format here carries",
        fix="give the model as it was before it was quantised, and name the precision of the target, as in onnx:int8",
    )


def check_eval(model: torch.nn.Module) -> None:
    """Raise BadRequest where the forward of a model in eval mode has put a part into training mode. Call it before."""
    for path, part in model.named_modules():
        if part.training:
            line = _line_of(model, r"\.train\((?!\s*False)") or _line_of_class(part)
            raise BadRequest(
                f"forward puts {path or 'the model'} back into training mode, at {line}",
                fix="remove that call: a model that is converted is in eval mode",
            )


def _line_of(model: torch.nn.Module, pattern: str) -> str | None:
    """Return the first line that matches `pattern` in a method of the model's modules, __init__ not counted."""
    places = []
    for kind in dict.fromkeys(type(part) for part in model.modules()):
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if name == "__init__" or method.__module__.partition(".")[0] == "torch":
                continue
            with contextlib.suppress(OSError, TypeError):  # made where no file is
                lines, first = inspect.getsourcelines(method)
                file = inspect.getsourcefile(method)
                places += [
                    (file, first + at) for at, line in enumerate(lines) if re.search(pattern, line.partition("#")[0])
                ]
    return quoted("{}:{}".format(*min(places))) if places else None


def _line_of_class(part: torch.nn.Module) -> str:
    try:
        return f"{inspect.getsourcefile(type(part))}:{inspect.getsourcelines(type(part))[1]}"
    except (OSError, TypeError):
        return type(part).__qualname__


@dataclass(frozen=True)
class ModuleState:
    """Tensors and simple values that a module keeps between calls: parameters, buffers and attributes."""

    tensors: Mapping[str, tuple[torch.Tensor, int, torch.Tensor | None]]  # itself, its version, a copy of its values
    values: Mapping[str, object]

    @staticmethod
    def of(model: torch.nn.Module) -> ModuleState:
        """Record the present state. Parameters are not copied: that they were written to is enough to know."""
        import torch

        tensors: dict[str, tuple[torch.Tensor, int, torch.Tensor | None]] = {}
        values: dict[str, object] = {}
        for name, value in _kept(model):
            if isinstance(value, torch.nn.Parameter):
                tensors[name] = (value, value._version, None)
            elif isinstance(value, torch.Tensor):
                tensors[name] = (value, value._version, value.detach().clone())
            else:
                values[name] = value
        return ModuleState(tensors, values)

    def changed(self, model: torch.nn.Module) -> list[str]:
        """Return the names of values that have changed or are new."""
        now = dict(_kept(model))
        names = [name for name, value in self.values.items() if name not in now or now[name] != value]
        for name, (tensor, version, held) in self.tensors.items():
            value: Any = now.get(name)
            if held is None:
                same = value is tensor and value._version == version
            else:
                same = isinstance(value, type(tensor)) and _equal(value, held)
            if not same:
                names.append(name)
        return [*names, *(name for name in now if name not in self.tensors and name not in self.values)]


class KeptState(Protocol):
    """A record of what a module kept before any call."""

    def changed(self, model: torch.nn.Module) -> list[str]:
        """Return the names of values that have changed or are new."""


def _kept(model: torch.nn.Module) -> list[tuple[str, object]]:
    """Return tensors and simple values that the modules of a model hold, by path; of lists and dicts their length."""
    import torch

    usual = set(vars(torch.nn.Module()))
    values: list[tuple[str, Any]] = []
    for path, part in model.named_modules():
        own = {name: value for name, value in vars(part).items() if name not in usual}
        for name, value in {**part._parameters, **part._buffers, **own}.items():
            where = f"{path}.{name}" if path else name
            if isinstance(value, list | dict):
                values.append((where, len(value)))
            elif isinstance(value, torch.Tensor | bool | int | float | str):
                values.append((where, value))
    return values


def _equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Return whether two tensors are equal, NaN being equal to NaN."""
    import torch

    return first.shape == second.shape and torch.equal(first.nan_to_num(), second.nan_to_num())


@dataclass(frozen=True)
class UserModule:
    """The user's own module under a flat one: its state before any call, and a function that makes a flat one anew."""

    module: torch.nn.Module
    before: KeptState
    rebuild: Callable[[], torch.nn.Module]


@dataclass(frozen=True)
class SteadyAnswers:
    """Answers of a model that answers the same each time. `scratch`: buffers that it writes to."""

    answers: Answers
    scratch: tuple[str, ...] = ()


def check_steady(model: torch.nn.Module, signature: Signature, own: UserModule | None = None) -> SteadyAnswers:
    """Call the model on one sample, on another, and on the first again.

    It must answer the first as before, and, where anything that it keeps has changed, the second as a fresh one does.
    Raises BadRequest where it does not: it draws random numbers, it remembers, or its forward trains."""
    import torch

    def ask(flattened: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> Answers:
        with torch.no_grad():
            return call_model(flattened, signature, [tensor.clone() for tensor in inputs])

    def draw(batch: int, seed: int) -> list[torch.Tensor]:
        arrays = sample_inputs(signature, batch, seed)
        return [torch.from_numpy(arrays[spec.name]) for spec in signature.inputs]

    module = model if own is None else own.module
    before: KeptState = ModuleState.of(model) if own is None else own.before
    few: dict[str, torch.Tensor] = {}
    sample = draw(_FEW, 0)
    trace = trace_operators(module, lambda: few.update(ask(model, sample)), sample)
    is_plain = trace is not None and not trace.draws_random
    tells = trace is not None and (trace.is_closed or all(value.numel() >= _MANY_NUMBERS for value in few.values()))
    sample, other = (draw(_FEW if is_plain and tells else _STEADY_BATCH, seed) for seed in (0, 1))
    first, second = ask(model, sample), ask(model, other)
    changed = before.changed(module)
    check_eval(module)
    differs = _differing(first, ask(model, sample))
    if differs is None and changed and own is not None:
        differs = _differing(second, ask(own.rebuild(), other))
    if differs and changed:
        raise _remembers(module, differs, changed[0])
    if differs:
        line = random_line(model, lambda flattened: ask(flattened, sample))
        raise BadRequest(
            f"the model is random: its {_output_text(differs)} differs between two calls on one input, in eval mode too"
            + (f": {line}" if line else ""),
            fix="give functional dropout training=self.training, and draw no random numbers in forward",
        )
    buffers = {name for name, _ in module.named_buffers()}
    return SteadyAnswers(first, tuple(name for name in changed if name in buffers))


def _differing(first: Answers, second: Answers) -> str | None:
    """Return the name of the first output that differs."""
    return next((name for name, value in first.items() if not _equal(value, second[name])), None)


def _output_text(output: str) -> str:
    return ALONE if output == ALONE else f"{ALONE} {output}"


def _remembers(module: torch.nn.Module, output: str, name: str) -> BadRequest:
    own = re.escape(name.rpartition(".")[2])
    line = _line_of(module, rf"self\.{own}\b[^=!<>]*([-+*/@|&]?=[^=]|\.\w+_\()")
    return BadRequest(
        f"the model remembers: its {_output_text(output)} for one input changes from call to call with {name}"
        + (f", which is written to at {line}" if line else ""),
        fix="make what it remembers an input and an output of forward, or leave it out",
    )


def random_line(model: torch.nn.Module, ask: Callable[[torch.nn.Module], object]) -> str | None:
    """Return the user's line that draws torch's random numbers, with the operator; None where none is seen to."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class RandomOperators(TorchDispatchMode):  # type: ignore[no-untyped-call]
        where: str | None = None

        def __torch_dispatch__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> object:
            if self.where is None and torch.Tag.nondeterministic_seeded in func.tags:
                line = line_of_now()
                self.where = f"{func.overloadpacket.__name__} at {quoted(line)}" if line else func.__name__
            return func(*args, **(kwargs or {}))

    seen = RandomOperators()  # type: ignore[no-untyped-call]
    with torch.no_grad(), seen:
        ask(model)
    return seen.where


def questions(model: torch.nn.Module, calls: Sequence[Sequence[torch.Tensor]]) -> dict[str, bool]:
    """Find the lines of the model that turn a tensor into a Python value (`if x.sum() > 0`, `x.item()`).
    A line is True where calls of one shape got several values there: then the way through forward depends on data.
    Values of weights and constants alone cannot differ, and are left out. A line of data with one value
    (`if x.max() > 128`) is False: other data may get another. `calls` are the inputs of several calls."""
    import torch

    values: list[list[tuple[str, str]]] = []
    of_data: set[str] = set()

    with torch.no_grad():
        for inputs in calls:
            values.append([])
            with _watch_values(model, values[-1], of_data):
                model(*inputs)
    places = list(dict.fromkeys(place for call in values for place, _ in call if place))
    answers = {place: {tuple(value for at, value in call if at == place) for call in values} for place in places}
    return {place: len(answers[place]) > 1 for place in places if place in of_data or len(answers[place]) > 1}


def _watch_values(
    model: torch.nn.Module, values: list[tuple[str, str]], of_data: set[str]
) -> AbstractContextManager[object]:
    """Return a context that notes each Python value made of a tensor: where, and which; and where it may come of data.
    Clean tensors come of the model's own tensors and of constants. A tensor that was not seen made counts as data."""
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils import _pytree as pytree

    clean = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}

    class WatchedValues(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> object:
            kwargs = kwargs or {}
            tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            is_clean = all(id(tensor) in clean for tensor in tensors)
            result = func(*args, **kwargs)
            name = getattr(func, "__name__", "")
            if name in _VALUE_METHODS:
                place = line_of_now() or ""
                values.append((place, repr(result)))
                of_data.update(() if is_clean else (place,))
            elif is_clean:
                leaves = pytree.tree_leaves(result)
                clean.update({id(leaf): leaf for leaf in leaves if isinstance(leaf, torch.Tensor)})
            elif name == "__setitem__" or "out" in kwargs or (name.endswith("_") and not name.endswith("__")):
                for tensor in tensors:
                    clean.pop(id(tensor), None)
            return result

    return WatchedValues()

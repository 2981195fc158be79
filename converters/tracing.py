"""TorchScript of a module: a trace of it, or, where it asks its data which way to go, its source compiled.

A trace keeps the one way that its example took, without a word. So a module is asked first, with samples that differ in
sign and in size, where it makes a Python value of a tensor: there torch.jit.script, which keeps both ways, goes first.
So it does where a size was asked (`if x.shape[1] > 512`) and torch.export finds that the way depends on it: no check at
a few sizes would.
"""

from __future__ import annotations

import inspect
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..models.axes import example_sizes, two_sizes
from ..models.errors import Refused
from ..models.foreign import first_line
from ..models.signature import ANY_SIZE, Signature, TensorSpec, bounds_of
from ..models.sources import Source
from ..models.zoo.build import sample_tensors
from ..models.zoo.calling import Call, flat
from ..models.zoo.checks import questions
from ..models.zoo.frames import quoted, user_line
from .export_reasons import stopped
from .torch_export import other_way

if TYPE_CHECKING:
    import torch

_BATCH = 3


def call_of(source: Source) -> Call | None:
    """How the flat module of a source calls the user's own; None where it is the user's own."""
    return None if source.call is None else Call.from_json(source.call)


def data_questions(model: torch.nn.Module, signature: Signature) -> dict[str, bool]:
    """The lines (`file:line`) where the model makes Python values of its data, each with whether the answers there
    differed between samples of one shape: as they are drawn, negated, halved to nothing, and ten times as large."""
    import torch

    from ..models.zoo.build import sample_inputs

    arrays = sample_inputs(signature, _BATCH)
    others = sample_inputs(signature, _BATCH, seed=1)
    floats = {name for name, array in arrays.items() if array.dtype.kind == "f"}
    made = [
        arrays,
        others,
        *({n: a * a.dtype.type(by) if n in floats else others[n] for n, a in arrays.items()} for by in (-1, 0, 10)),
    ]

    calls = [[torch.from_numpy(given[spec.name].copy()) for spec in signature.inputs] for given in made]
    return questions(model, calls)


def scripted(model: torch.nn.Module, call: Call | None, inputs: Sequence[torch.Tensor]) -> torch.jit.ScriptModule:
    """The module compiled from its source, both ways of every branch in it. `model` is flat; where it is so by `call`,
    the user's module inside of it is what is compiled.

    Raises whatever torch.jit.script does not take.
    """
    import torch

    with quiet():
        if call is None:
            return torch.jit.script(model)
        own: Any = model.model
        made = flat(torch.jit.script(own), _without_keywords(call, own))
        return traced(made, inputs)


def _without_keywords(call: Call, own: torch.nn.Module) -> Call:
    """The same call by position: what is traced into a script goes without keywords."""
    bound = inspect.signature(own.forward).bind(*call.arguments, **call.keywords)
    bound.apply_defaults()
    return replace(call, arguments=bound.args, keywords=bound.kwargs)


def traced(model: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> torch.jit.ScriptModule:
    """What the module does to these inputs, recorded.

    Raises Refused with the line of the model that stops it.
    """
    import torch

    try:
        with torch.no_grad(), quiet(), _inlined_functions():
            # TracerWarnings go to the log: they name the lines of the model that the trace may have fixed.
            # torch's own check traces once more and calls both at these inputs: half the time of all that is done here,
            # for less than comparing the answers at other sizes gives.
            made: torch.jit.ScriptModule = torch.jit.trace(  # type: ignore[no-untyped-call]
                model, tuple(inputs), strict=False, check_trace=False
            )
    except Exception as error:
        refused = stopped("torch.jit.trace", error)
        if refused is None:
            raise
        raise refused from error
    return made


def script_or_trace(
    model: torch.nn.Module, signature: Signature, call: Call | None, inputs: Sequence[torch.Tensor]
) -> tuple[torch.jit.ScriptModule, str | None]:
    """The module as TorchScript, and what must be said of it: None where a trace of it is whole, or it was compiled.

    Raises Refused where its way depends on data, and its source cannot be compiled.
    """
    asked = data_questions(model, signature)
    if not asked:
        watched = _watched(model, inputs)
        compiled = _for_all_sizes(watched, model, signature, call, inputs)
        return watched[0] if compiled is None else compiled, None
    try:
        return scripted(model, call, inputs), None
    except Exception as error:
        if any(asked.values()):
            raise _one_way(asked, error) from error
    return traced(model, inputs), _one_answer(asked)


def script_or_module(
    model: torch.nn.Module, signature: Signature, call: Call | None, inputs: Sequence[torch.Tensor]
) -> tuple[torch.nn.Module, str | None]:
    """What to give to an exporter that traces: the module itself, or, where its way may depend on data or on sizes, the
    module compiled; and what must be said of a trace of it.

    Raises Refused where its way was seen to depend on them, and it cannot be compiled.
    """
    asked = data_questions(model, signature)
    if asked:
        try:
            return scripted(model, call, inputs), None
        except Exception as error:
            if any(asked.values()):
                raise _one_way(asked, error) from error
            print(f"compiling the source fails: {_why(error)}")
    try:
        watched = _watched(model, inputs)
    except Exception:  # noqa: BLE001  (the exporter will say it in words of its own)
        return model, None
    compiled = _for_all_sizes(watched, model, signature, call, inputs)
    return (model if compiled is None else compiled), (_one_answer(asked) if asked else None)


def _one_answer(asked: Mapping[str, bool]) -> str:
    place = quoted(next(iter(asked)))
    return f"it keeps the one answer that samples got at {place}, whatever other data would get"


def _for_all_sizes(
    watched: tuple[torch.jit.ScriptModule, str],
    model: torch.nn.Module,
    signature: Signature,
    call: Call | None,
    inputs: Sequence[torch.Tensor],
) -> torch.jit.ScriptModule | None:
    """The module compiled, where what `_watched` gives does not hold at every size: it keeps one way of a branch, or
    how often a loop over an axis went round (`for t in range(x.shape[1])`). None where it holds.

    Raises Refused for a branch whose source cannot be compiled, and for a loop that tells at large sizes alone. Of any
    other loop None is given then, too: the check at other sizes that follows every route says what is wrong.
    """
    made, warned = watched
    refused = other_way(model, signature) if _BRANCH in warned else None
    if refused is None and _holds_elsewhere(made, model, two_sizes(signature.inputs), signature):
        if _holds_elsewhere(made, model, _large_sizes(signature.inputs), signature):
            return None
        refused = _OF_ONE_SIZE
    try:
        return scripted(model, call, inputs)
    except Exception as error:
        print(f"compiling the source fails: {_why(error)}")
        if refused is not None:
            raise refused from error
        return None


def _watched(model: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> tuple[torch.jit.ScriptModule, str]:
    """A trace, and what the tracer warned of: sizes are tensors to it, and tests and numbers made of them are fixed."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        made = traced(model, inputs)
    for each in said:
        print(warnings.formatwarning(each.message, each.category, each.filename, each.lineno), end="")
    return made, " ".join(str(each.message) for each in said)


_BRANCH = "Python boolean"


_OF_ONE_SIZE = Refused(
    "the model makes a number of Python of a size: a trace keeps it, and is wrong at larger sizes",
    fix="keep it a size, as x.shape[1] is, or give bounds, as in --input x=float32[batch,time=1..64]",
)
_LARGE = (65, 257, 1025)  # sizes that none of the checks has
_MOST_ELEMENTS = 100_000  # of the inputs of such a call


def _large_sizes(specs: Sequence[TensorSpec]) -> Iterator[dict[str, int]]:
    """Each dynamic axis at sizes far from those of the checks, one at a time, as far as its bounds and memory allow."""
    own, bounds = example_sizes(specs, _BATCH), bounds_of(specs)
    for axis in own:
        for size in dict.fromkeys(map(bounds.get(axis, ANY_SIZE).nearest, _LARGE)):
            sizes = {**own, axis: size}
            shapes = ([sizes[each] if isinstance(each, str) else each for each in spec.shape] for spec in specs)
            if size != own[axis] and sum(map(math.prod, shapes)) <= _MOST_ELEMENTS:
                yield sizes


def _holds_elsewhere(
    made: torch.jit.ScriptModule, model: torch.nn.Module, points: Iterable[Mapping[str, int]], signature: Signature
) -> bool:
    """Whether a trace answers as the model does at these sizes of the dynamic axes; true where the model gives none."""
    import torch
    from torch.utils import _pytree as pytree

    for sizes in points:
        arrays = sample_tensors(signature.inputs, sizes)
        answers: list[list[torch.Tensor]] = []
        for asked in (model, made):
            given = [torch.from_numpy(arrays[spec.name].copy()) for spec in signature.inputs]
            try:
                with torch.no_grad():
                    answers.append([leaf for leaf in pytree.tree_leaves(asked(*given)) if torch.is_tensor(leaf)])
            except Exception as error:  # noqa: BLE001  (of the model: it does not take these sizes)
                if asked is made:
                    print(f"the trace does not hold at {sizes}: {_why(error)}")
                    return False
                break
        if len(answers) == 2 and not all(map(_alike, *answers)):
            print(f"the trace answers otherwise than the model at {sizes}")
            return False
    return True


def _alike(got: torch.Tensor, want: torch.Tensor) -> bool:
    import torch

    return got.shape == want.shape and torch.allclose(got, want, rtol=1e-2, atol=1e-3, equal_nan=True)


def _one_way(asked: Mapping[str, bool], error: Exception) -> Refused:
    place = next(place for place, differs in asked.items() if differs)
    return Refused(
        f"the model takes one way or another by its data, at {quoted(place)}: a trace keeps one of them, and compiling "
        f"its source fails ({_why(error)})",
        fix="compute both and choose with torch.where, or write forward as torch.jit.script takes it",
    )


def _why(error: Exception) -> str:
    return first_line(error).rstrip(":.")


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warning that TorchScript is deprecated, which is said at each of its functions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # TorchScript is deprecated as a whole, and still served
        yield


class _NoContext:
    """What a custom function's forward is given in place of a context: nothing here goes backward."""

    needs_input_grad = ()

    def save_for_backward(self, *tensors: Any) -> None: ...
    def save_for_forward(self, *tensors: Any) -> None: ...
    def mark_dirty(self, *tensors: Any) -> None: ...
    def mark_non_differentiable(self, *tensors: Any) -> None: ...
    def set_materialize_grads(self, value: bool) -> None: ...


@contextmanager
def _inlined_functions() -> Iterator[None]:
    """A torch.autograd.Function is its forward meanwhile: a trace else holds a call of Python, and cannot be saved."""
    import torch

    function: Any = torch.autograd.Function
    former = function.__dict__["apply"]

    def apply(cls: Any, *arguments: Any, **keywords: Any) -> Any:
        if cls.setup_context is not function.setup_context:
            return cls.forward(*arguments, **keywords)
        return cls.forward(_NoContext(), *arguments, **keywords)

    function.apply = classmethod(apply)
    try:
        yield
    finally:
        function.apply = former


def unsaved(error: Exception) -> Refused | None:
    """Why a trace cannot be saved: it calls an autograd function by a name that was bound before it was inlined."""
    text = str(error)
    if "Python function call" not in text:
        return None
    place = user_line((file, int(line)) for file, line in reversed(re.findall(r"^(\S+\.py)\((\d+)\): ", text, re.M)))
    return Refused(
        "TorchScript cannot hold a torch.autograd.Function that is called by another name"
        + (f", at {quoted(place)}" if place else ""),
        fix="call it as NAME.apply(...) there, in place of a name that was bound to it before",
    )

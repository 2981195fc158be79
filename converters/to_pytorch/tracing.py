"""TorchScript of a module: a trace of it, or, where it asks its data which way to go, its source compiled.

A trace keeps the one way that its example took, without a word. So a module is asked first, with samples that differ in
sign and in size, where it makes a Python value of a tensor: there torch.jit.script, which keeps both ways, goes first.
So it does where a size was asked (`if x.shape[1] > 512`) and torch.export finds that the way depends on it: no check at
a few sizes would.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...models.errors import Refused
from ...models.foreign_errors import first_line
from ...models.loading.call_convention import Call, flat
from ...models.loading.module_checks import questions
from ...models.loading.user_frames import line_of_now, quoted
from ...models.probes.far_sizes import far_sizes
from ...models.probes.random_inputs import sample_tensors
from ...models.probes.sizes import example_sizes, two_sizes
from ...models.signature import Signature
from ...models.sources import Source
from ..patches.torch_export.autograd_functions import compiled_functions, inlined_functions
from ..patches.torch_export.distributions import unchecked_distributions
from ..patches.torch_export.recurrent_cells import open_cells
from ..patches.torch_export.tensor_data import followed_data
from ..patches.torch_export.traced_replacements import recomputing
from ..patches.torch_export.transformer_layers import as_made
from .export_reasons import OneWay, stopped
from .guards import agree, leaves
from .pt2_from_source import other_way
from .trace_reasons import Unlike, kept_size, mend_of, place_in, uncompiled, unlike

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

    from ...models.probes.random_inputs import sample_inputs

    arrays = sample_inputs(signature, _BATCH)
    others = sample_inputs(signature, _BATCH, seed=1)
    floats = {name for name, array in arrays.items() if array.dtype.kind == "f"}
    made = [
        arrays,
        others,
        *({n: a * a.dtype.type(by) if n in floats else others[n] for n, a in arrays.items()} for by in (-1, 0, 10)),
    ]

    calls = [[torch.tensor(given[spec.name]) for spec in signature.inputs] for given in made]
    with unchecked_distributions():
        return questions(model, calls)


def scripted(model: torch.nn.Module, call: Call | None, inputs: Sequence[torch.Tensor]) -> torch.jit.ScriptModule:
    """The module compiled from its source, both ways of every branch in it. `model` is flat; where it is so by `call`,
    the user's module inside of it is what is compiled.

    Raises whatever torch.jit.script does not take.
    """
    import torch

    with quiet(), as_made(model), open_cells(), compiled_functions(model, inputs):
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
        with torch.no_grad(), quiet(), inlined_functions(), recomputing(), followed_data(), unchecked_distributions():
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

    Raises Refused where its way depends on data or on sizes, and its source cannot be compiled.
    """
    compiled, note = _for_all_data(model, signature, call, inputs)
    if compiled is not None:
        return compiled, note
    watched = _watched(model, inputs)
    compiled = _for_all_sizes(watched, model, signature, call, inputs)
    return watched.trace if compiled is None else compiled, note


def script_or_module(
    model: torch.nn.Module, signature: Signature, call: Call | None, inputs: Sequence[torch.Tensor]
) -> tuple[torch.nn.Module, str | None]:
    """What to give to an exporter that traces: the module itself, or, where its way may depend on data or on sizes, the
    module compiled; and what must be said of a trace of it.

    Raises Refused where its way was seen to depend on them, and it cannot be compiled.
    """
    compiled, note = _for_all_data(model, signature, call, inputs)
    if compiled is not None:
        return compiled, note
    try:
        with _as_in_the_exporter():
            watched = _watched(model, inputs)
    except Exception:  # noqa: BLE001  (the exporter will say it in words of its own)
        return model, note
    compiled = _for_all_sizes(watched, model, signature, call, inputs)
    return (model if compiled is None else compiled), note


def _for_all_data(
    model: torch.nn.Module, signature: Signature, call: Call | None, inputs: Sequence[torch.Tensor]
) -> tuple[torch.jit.ScriptModule | None, str | None]:
    """The module compiled, where it makes Python values of its data and its source is taken; else what must be said of
    a trace, if anything.

    Raises Refused where these values were seen to differ, and it cannot be compiled.
    """
    asked = data_questions(model, signature)
    if not asked:
        return None, None
    try:
        return scripted(model, call, inputs), None
    except Exception as error:
        if any(asked.values()):
            raise _one_way(asked, error) from error
        print(f"compiling the source fails: {_why(error)}")
    return None, _one_answer(asked)


def _one_answer(asked: Mapping[str, bool]) -> str:
    place = quoted(next(iter(asked)))
    return f"it keeps the one answer that samples got at {place}, whatever other data would get"


def _for_all_sizes(
    watched: _Watched,
    model: torch.nn.Module,
    signature: Signature,
    call: Call | None,
    inputs: Sequence[torch.Tensor],
) -> torch.jit.ScriptModule | None:
    """The module compiled, where a trace of it does not hold at every size: it keeps one way of a branch, how often a
    loop over an axis went round (`for t in range(x.shape[1])`), or a number made of a size. None where it holds.

    Raises Refused where the source cannot be compiled, or holds no better.
    """
    refused: Refused | None = other_way(model, signature) if watched.branches else None
    asked: Sequence[Mapping[str, int]] = refused.left_out if isinstance(refused, OneWay) else ()
    if asked and _wrong_at(watched.trace, model, asked, signature) is None:
        refused = None  # these sizes are left out of the program alone
    points = [*two_sizes(signature.inputs), *far_sizes(signature.inputs)]
    wrong = None if refused else _wrong_at(watched.trace, model, points, signature)
    if wrong is not None:
        asked, refused = [wrong], _kept_size(watched, model, signature, wrong)
    if refused is None:
        return None
    try:
        compiled = scripted(model, call, inputs)
    except Exception as error:
        print(f"compiling the source fails: {_why(error)}")
        fix = refused.fix if isinstance(refused, OneWay) else mend_of(error, refused.fix)
        raise type(refused)(f"{refused.what}; compiling its source fails{uncompiled(error)}", fix=fix) from error
    if _wrong_at(compiled, model, asked, signature) is not None:
        raise refused
    return compiled


@dataclass(frozen=True)
class _Watched:
    """A trace, and what the tracer warned of: sizes are tensors to it, and tests and numbers made of them are fixed.
    `warned`: each with the line of the user's."""

    trace: torch.jit.ScriptModule
    warned: Sequence[tuple[str, str | None]]

    @property
    def branches(self) -> bool:
        return any(_BRANCH in text for text, _ in self.warned)


_BRANCH = "Python boolean"


def _watched(model: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> _Watched:
    from torch.jit._trace import TracerWarning

    warned: list[tuple[str, str | None]] = []

    def note(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any) -> None:
        print(warnings.formatwarning(message, category, filename, lineno), end="")
        if issubclass(category, TracerWarning):  # others are of what the model calls: one that is deprecated
            warned.append((str(message), line_of_now()))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = note  # at once: the stack has the user's line, where the warning may have torch's
        made = traced(model, inputs)
    return _Watched(made, warned)


def _kept_size(watched: _Watched, model: torch.nn.Module, signature: Signature, wrong: Mapping[str, int]) -> Refused:
    """The refusal of a trace that answers otherwise than the model at some sizes, with the line that is to blame."""
    numbers = next((line for text, line in watched.warned if line and _BRANCH not in text), None)
    branches = next((line for _, line in watched.warned if line), None)
    found = Unlike(numbers) if numbers else _unlike(watched.trace, model, signature, wrong)
    own = example_sizes(signature.inputs, _BATCH)
    alone = ({**own, axis: size} for axis, size in reversed([*wrong.items()]))
    point = next((each for each in alone if _wrong_at(watched.trace, model, [each], signature)), wrong)
    axis = next((axis for axis, size in point.items() if size != own[axis]), next(iter(wrong)))
    return kept_size(found or Unlike(branches), signature, axis, wrong)


def _unlike(
    trace: torch.jit.ScriptModule, model: torch.nn.Module, signature: Signature, sizes: Mapping[str, int]
) -> Unlike | None:
    """Where a trace made at these sizes first differs from the one there is."""
    import torch

    arrays = sample_tensors(signature.inputs, sizes)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other = traced(model, [torch.from_numpy(arrays[spec.name]) for spec in signature.inputs])
    except Exception:  # noqa: BLE001  (what it stops at says nothing of the trace there is)
        return None
    return unlike(trace, other)


def _wrong_at(
    made: torch.jit.ScriptModule, model: torch.nn.Module, points: Iterable[Mapping[str, int]], signature: Signature
) -> Mapping[str, int] | None:
    """The first of these sizes of the dynamic axes at which a script does not answer as the model does; sizes that the
    model itself does not take are passed over."""
    for sizes in points:
        wanted, got = (_answers(each, signature, sizes) for each in (model, made))
        if isinstance(wanted, Exception):
            continue
        if isinstance(got, Exception):
            print(f"the trace does not hold at {sizes}: {_why(got)}")
            return sizes
        if len(got) != len(wanted) or not all(map(agree, got, wanted)):
            print(f"the trace answers otherwise than the model at {sizes}")
            return sizes
    return None


def _answers(module: torch.nn.Module, signature: Signature, sizes: Mapping[str, int]) -> list[torch.Tensor] | Exception:
    """The tensors that a module answers with at these sizes, or what it raises."""
    import torch

    arrays = sample_tensors(signature.inputs, sizes)
    try:
        with torch.no_grad():
            given = module(*(torch.from_numpy(arrays[spec.name].copy()) for spec in signature.inputs))
    except Exception as error:  # noqa: BLE001  (whatever it is, it is the answer)
        return error
    return [leaf for leaf in leaves(given) if torch.is_tensor(leaf)]


def _one_way(asked: Mapping[str, bool], error: Exception) -> Refused:
    place = next(place for place, differs in asked.items() if differs)
    return Refused(
        f"the model takes one way or another by its data, at {quoted(place)}: a trace keeps one of them; compiling "
        f"its source fails{uncompiled(error)}",
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


@contextmanager
def _as_in_the_exporter() -> Iterator[None]:
    """A model that asks torch.onnx.is_in_onnx_export() takes the way meanwhile that it takes in torch's older one."""
    from torch.onnx._internal.torchscript_exporter._globals import GLOBALS

    former = GLOBALS.in_onnx_export
    GLOBALS.in_onnx_export = True
    try:
        yield
    finally:
        GLOBALS.in_onnx_export = former


def unsaved(error: Exception) -> Refused | None:
    """Why a trace cannot be saved: it calls an autograd function by a name that was bound before it was inlined."""
    text = str(error)
    if "Python function call" not in text:
        return None
    place = place_in(text)
    return Refused(
        "TorchScript cannot hold a torch.autograd.Function that is called by another name"
        + (f", at {quoted(place)}" if place else ""),
        fix="call it as NAME.apply(...) there, in place of a name that was bound to it before",
    )

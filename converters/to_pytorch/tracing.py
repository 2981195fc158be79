"""TorchScript of a module: its trace, or its compiled source where control flow depends on data or sizes.

A trace silently keeps the one way that its example took. So the module is first called with samples that differ in sign
and magnitude, to see where it makes a Python value of a tensor. If it does, torch.jit.script, which keeps both ways,
goes first. The same holds where a size was tested (`if x.shape[1] > 512`) and torch.export finds that the way depends
on it; no check at a few sizes would find that.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ...models.errors import Refused
from ...models.library_messages import first_line
from ...models.loading.call_convention import Call, flat
from ...models.loading.module_checks import questions
from ...models.loading.user_frames import line_of_now, quoted
from ...models.probes.random_inputs import sample_inputs
from ...models.probes.sizes import example_sizes, far_sizes, two_sizes
from ...models.signature import Array, Signature
from ...models.sources import Source
from ..patches import private_torch, torch_messages
from ..patches.torch_export.autograd_functions import compiled_functions, inlined_functions
from ..patches.torch_export.recurrent_cells import open_cells
from ..patches.torch_export.temporary_settings import claim_onnx_export, followed_data, unchecked_distributions
from ..patches.torch_export.traced_replacements import recomputing
from ..patches.torch_export.transformer_layers import keep_own_classes
from .export_reasons import OneWay, explained, stopped
from .model_calls import EXAMPLE_BATCH, answers_at, example_inputs, inputs_at, same_answers
from .pt2_from_source import other_way
from .trace_reasons import Unlike, kept_size, mend_of, place_in, uncompiled, unlike

if TYPE_CHECKING:
    import torch


def data_questions(model: torch.nn.Module, signature: Signature) -> dict[str, bool]:
    """Return the lines (`file:line`) where the model makes Python values of its data, and whether these differed.
    The samples have one shape: as drawn, drawn with another seed, negated, set to zero, and ten times as large."""
    import torch

    drawn, redrawn = (sample_inputs(signature, EXAMPLE_BATCH, seed) for seed in (0, 1))

    def scaled(name: str, array: Array, factor: int) -> Array:
        return array * array.dtype.type(factor) if array.dtype.kind == "f" else redrawn[name]

    scaled_sets = ({name: scaled(name, array, factor) for name, array in drawn.items()} for factor in (-1, 0, 10))
    sample_sets = [drawn, redrawn, *scaled_sets]
    calls = [[torch.tensor(sample[spec.name]) for spec in signature.inputs] for sample in sample_sets]
    with unchecked_distributions():
        return questions(model, calls)


def scripted(model: torch.nn.Module, call: Call | None, inputs: Sequence[torch.Tensor]) -> torch.jit.ScriptModule:
    """Compile the module from its source, with both ways of every branch.
    `model` is flat; if it wraps the user's module by `call`, that is compiled. Raises what torch.jit.script raises."""
    import torch

    with without_deprecation(), keep_own_classes(model), open_cells(), compiled_functions(model, inputs):
        if call is None:
            return torch.jit.script(model)
        user_module: Any = model.model
        script = flat(torch.jit.script(user_module), _without_keywords(call, user_module))
        return traced(script, inputs)


def _without_keywords(call: Call, user_module: torch.nn.Module) -> Call:
    """Return the same call by position: a call traced into a script has no keywords."""
    bound = inspect.signature(user_module.forward).bind(*call.arguments, **call.keywords)
    bound.apply_defaults()
    return replace(call, arguments=bound.args, keywords=bound.kwargs)


def traced(model: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> torch.jit.ScriptModule:
    """Trace the module at these inputs. Raises Refused with the line of the model that stops the trace."""
    import torch

    with (
        explained(partial(stopped, "torch.jit.trace")),
        torch.no_grad(),
        without_deprecation(),
        inlined_functions(),
        recomputing(),
        followed_data(),
        unchecked_distributions(),
    ):
        # TracerWarnings go to the log: they name the lines of the model that the trace may have fixed.
        # Torch's own check traces once more and calls both at these inputs. That takes half the time of this step, and
        # says less than comparing the answers at other sizes.
        trace: torch.jit.ScriptModule = torch.jit.trace(  # type: ignore[no-untyped-call]
            model, tuple(inputs), strict=False, check_trace=False
        )
    return trace


def script_or_trace(model: torch.nn.Module, source: Source) -> tuple[torch.jit.ScriptModule, str | None]:
    """Return the module of a source as TorchScript, and a note: None if it was compiled or its trace is complete.
    Raises Refused if its control flow depends on data or sizes, and its source cannot be compiled."""
    compiled, note = _compile_for_data(model, source)
    if compiled is not None:
        return compiled, note
    observed = _observe_trace(model, source)
    compiled = _compile_for_sizes(observed, model, source)
    return observed.trace if compiled is None else compiled, note


def script_or_module(model: torch.nn.Module, source: Source) -> tuple[torch.nn.Module, str | None]:
    """Return the module of a source for an exporter that traces, and a note about its trace.
    The module is compiled if its control flow may depend on data or sizes. Raises Refused if it was seen to depend on
    them, and it cannot be compiled."""
    compiled, note = _compile_for_data(model, source)
    if compiled is not None:
        return compiled, note
    try:
        with claim_onnx_export():
            observed = _observe_trace(model, source)
    except Exception:  # noqa: BLE001  (the exporter will report it)
        return model, note
    compiled = _compile_for_sizes(observed, model, source)
    return (model if compiled is None else compiled), note


def _compile_for_data(model: torch.nn.Module, source: Source) -> tuple[torch.jit.ScriptModule | None, str | None]:
    """Return the compiled module if it makes Python values of its data, else None; and a note about its trace.
    Raises Refused if these values were seen to differ, and it cannot be compiled."""
    differs_at = data_questions(model, source.signature)
    if not differs_at:
        return None, None
    try:
        return _scripted(model, source), None
    except Exception as error:
        if any(differs_at.values()):
            raise _refuse_one_way(differs_at, error) from error
        print(f"compiling the source fails: {_message(error)}")
    line = quoted(next(iter(differs_at)))
    return None, f"it keeps the one answer that samples got at {line}, whatever other data would get"


def _scripted(model: torch.nn.Module, source: Source) -> torch.jit.ScriptModule:
    call = None if source.call is None else Call.from_json(source.call)
    return scripted(model, call, example_inputs(source.signature))


def _compile_for_sizes(
    observed: _ObservedTrace, model: torch.nn.Module, source: Source
) -> torch.jit.ScriptModule | None:
    """Return the compiled module if its trace does not hold at every size, else None.
    A trace keeps one way of a branch, the number of rounds of a loop over an axis (`for t in range(x.shape[1])`), or a
    number computed from a size. Raises Refused if the source cannot be compiled, or does not hold either."""
    signature = source.signature
    refused: Refused | None = other_way(model, signature) if observed.branches else None
    excluded: Sequence[Mapping[str, int]] = refused.left_out if isinstance(refused, OneWay) else ()
    if excluded and _first_difference(observed.trace, model, excluded, signature) is None:
        refused = None  # only the exported program excludes these sizes
    points = [*two_sizes(signature.inputs), *far_sizes(signature.inputs)]
    differing = None if refused else _first_difference(observed.trace, model, points, signature)
    if differing is not None:
        excluded, refused = [differing], _refuse_kept_size(observed, model, signature, differing)
    if refused is None:
        return None
    try:
        compiled = _scripted(model, source)
    except Exception as error:
        print(f"compiling the source fails: {_message(error)}")
        fix = refused.fix if isinstance(refused, OneWay) else mend_of(error, refused.fix)
        raise type(refused)(f"{refused.what}; compiling its source fails{uncompiled(error)}", fix=fix) from error
    if _first_difference(compiled, model, excluded, signature) is not None:
        raise refused
    return compiled


@dataclass(frozen=True)
class _ObservedTrace:
    """A trace, and the tracer's warnings with the user's lines: it fixes tests of sizes and numbers made from them."""

    trace: torch.jit.ScriptModule
    warned: Sequence[tuple[str, str | None]]

    @property
    def branches(self) -> bool:
        return any(torch_messages.TRACED_BRANCH.search(text) for text, _ in self.warned)


def _observe_trace(model: torch.nn.Module, source: Source) -> _ObservedTrace:
    warned: list[tuple[str, str | None]] = []

    def note(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any) -> None:
        print(warnings.formatwarning(message, category, filename, lineno), end="")
        if issubclass(category, private_torch.TracerWarning):  # other warnings come from functions that the model calls
            warned.append((str(message), line_of_now()))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = note  # the stack has the user's line now; the warning may have torch's
        trace = traced(model, example_inputs(source.signature))
    return _ObservedTrace(trace, warned)


def _refuse_kept_size(
    observed: _ObservedTrace, model: torch.nn.Module, signature: Signature, wrong: Mapping[str, int]
) -> Refused:
    """Return the refusal of a trace that answers otherwise than the model at some sizes, with the line at fault."""
    numbers = next(
        (line for text, line in observed.warned if line and not torch_messages.TRACED_BRANCH.search(text)), None
    )
    branches = next((line for _, line in observed.warned if line), None)
    mismatch = Unlike(numbers) if numbers else _first_mismatch(observed.trace, model, signature, wrong)
    example = example_sizes(signature.inputs, EXAMPLE_BATCH)
    alone = ({**example, axis: size} for axis, size in reversed([*wrong.items()]))
    point = next((sizes for sizes in alone if _first_difference(observed.trace, model, [sizes], signature)), wrong)
    axis = next((axis for axis, size in point.items() if size != example[axis]), next(iter(wrong)))
    return kept_size(mismatch or Unlike(branches), signature, axis, wrong)


def _first_mismatch(
    trace: torch.jit.ScriptModule, model: torch.nn.Module, signature: Signature, sizes: Mapping[str, int]
) -> Unlike | None:
    """Return where a new trace at these sizes first differs from this one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            second_trace = traced(model, inputs_at(signature, sizes))
    except Exception:  # noqa: BLE001  (a failure of the second trace says nothing about the first)
        return None
    return unlike(trace, second_trace)


def _first_difference(
    script: torch.jit.ScriptModule, model: torch.nn.Module, points: Iterable[Mapping[str, int]], signature: Signature
) -> Mapping[str, int] | None:
    """Return the first point at which a script does not answer as the model does; skip sizes that the model refuses."""
    for sizes in points:
        expected, results = (answers_at(module, signature, sizes) for module in (model, script))
        if isinstance(expected, Exception):
            continue
        if isinstance(results, Exception):
            print(f"the trace does not hold at {sizes}: {_message(results)}")
            return sizes
        if not same_answers(results, expected):
            print(f"the trace answers otherwise than the model at {sizes}")
            return sizes
    return None


def _refuse_one_way(differs_at: Mapping[str, bool], error: Exception) -> Refused:
    line = next(line for line, differs in differs_at.items() if differs)
    return Refused(
        f"the model takes one way or another by its data, at {quoted(line)}: a trace keeps one of them; compiling "
        f"its source fails{uncompiled(error)}",
        fix="compute both and choose with torch.where, or write forward as torch.jit.script takes it",
    )


def _message(error: Exception) -> str:
    return first_line(error).rstrip(":.")


def returning_tuple(module: torch.jit.ScriptModule, signature: Signature) -> torch.jit.ScriptModule:
    """Return the module, wrapped so that it unpacks a dict or a list: ONNX has neither dicts nor lists of known length.
    The trace keeps the call of the module as a call, with all its branches and loops."""
    import torch

    return_type = str(module.forward.schema.returns[0].type)  # type: ignore[attr-defined]  # forward is a method
    if not (return_type.startswith("Dict") or return_type == "List[Tensor]"):
        return module
    outputs = signature.outputs
    keys: Any = [spec.name for spec in outputs] if return_type.startswith("Dict") else range(len(outputs))

    class Apart(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            result: Any = self.inner(*inputs)
            return tuple(result[key] for key in keys)

    traced: torch.jit.ScriptModule = torch.jit.trace(Apart().eval(), example_inputs(signature))  # type: ignore[no-untyped-call]
    return traced


@contextmanager
def without_deprecation() -> Iterator[None]:
    """Ignore the warning that TorchScript is deprecated, which each of its functions gives; it is still served."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def refusal_to_save(error: Exception) -> Refused | None:
    """Return why a trace cannot be saved: it calls an autograd function by a name bound before it was inlined."""
    text = str(error)
    if not torch_messages.PYTHON_CALL.search(text):
        return None
    place = place_in(text)
    return Refused(
        "TorchScript cannot hold a torch.autograd.Function that is called by another name"
        + (f", at {quoted(place)}" if place else ""),
        fix="call it as NAME.apply(...) there, in place of a name that was bound to it before",
    )

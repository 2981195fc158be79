"""Make a source from the user's code, with weights that were trained elsewhere or as it is. Worker only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadRequest, CallFailed
from ..foreign.foreign_module import (
    ForeignState,
    check_foreign,
    foreign_example,
    half_dtypes,
    is_foreign,
    make_foreign,
    with_weights_there,
)
from ..foreign_errors import first_line
from ..job import Job
from ..job_records import SourceFacts, SourceOptions
from ..probes.random_inputs import sample_inputs
from ..recipe import Recipe
from ..signature import Signature, TensorSpec
from ..sources import WEIGHTS, CodeRef, Source, write_source
from .build import call_model, construct, with_source_weights
from .call_convention import Call, Leaf, call_by_name, flat, parameter_names
from .code_refs import load_named, ref_digest
from .example_inputs import dummy_example, find_example, specs_of, widen_example
from .half_precision import map_half_precision_errors, own_distance, widen
from .infer_signature import infer_signature
from .library_models import known_inputs
from .module_checks import ModuleState, SteadyAnswers, UserModule, check_lazy, check_steady, check_supported
from .refused_inputs import suggest_inputs
from .user_code import user_code
from .weight_files import load_weight_file, notes_of, weights_digest, write_weights

if TYPE_CHECKING:
    import torch

_DISTANCE_BATCH = 8
_OTHERWISE = "if it takes other inputs or sizes, name each, as in --input input_ids=int64[batch,128]"


def take_weights(job: Job) -> Mapping[str, Any]:
    """Write a source: a model with the weights of a file, or as its code makes it. SourceOptions -> SourceFacts.
    Raises BadRequest where code, weights or signature do not fit together, or the model cannot be converted."""
    options = SourceOptions.from_json(job.options)
    ref = options.code_ref
    model, weight_notes = _load(options)
    state = model.state_dict()
    if state:
        write_weights(job.out / WEIGHTS, state)  # before any call, which may change them
    parameters, halves = _prepare(model, state)
    del state
    with user_code(f"calling {ref.text}", ref, _OTHERWISE, CallFailed), map_half_precision_errors(ref.text, halves):
        before = ForeignState() if is_foreign(model) else ModuleState.of(model)
        called = _find_call(options, model, bool(halves))
        flattened = model if called.call is None else flat(model, called.call)
        own = UserModule(model, before, lambda: _rebuilt(options, job.out, called.call))
        steady = check_steady(flattened, called.signature, own)
        notes = [*weight_notes, *called.notes]
        if halves and is_foreign(model):
            notes.append("its half-precision weights are carried in float32")
        elif halves:
            notes.append(own_distance(model, halves, _asking(flattened, called.signature)))
    call = _with_scratch(called, steady)
    write_source(job.out, Source(ref, called.signature, ref_digest(ref), None if call is None else call.to_json()))
    return SourceFacts(
        signature=called.signature, parameters=parameters, weights=options.weights, notes=tuple(notes)
    ).to_json()


@dataclass(frozen=True)
class _CalledModel:
    """A model's signature, how it is called (None: by position), and notes for the user."""

    signature: Signature
    call: Call | None = None
    notes: tuple[str, ...] = ()
    inferred: bool = True


def _load(options: SourceOptions) -> tuple[torch.nn.Module, list[str]]:
    """Make the model with its weights, and return it with notes on them."""
    ref = options.code_ref
    model: torch.nn.Module = make_foreign(ref) if ref.python else construct(ref)
    if ref.python:
        check_foreign(model)
    else:
        check_lazy(model)
    if not options.weights:
        return model, notes_of(model)
    path = Path(options.weights)
    if options.sha256 and path.is_file() and weights_digest(path) != options.sha256:
        raise BadRequest(f"{path} has changed since this run began", fix="run again when the file is finished")
    return model, load_weight_file(model, path, options.key)


def _prepare(model: torch.nn.Module, state: Mapping[str, torch.Tensor]) -> tuple[int, Mapping[str, torch.dtype]]:
    """Make half-precision weights float32; return how many numbers the weights hold, and the former dtypes by name.
    Raises BadRequest where the module cannot be converted."""
    if is_foreign(model):
        foreign: Any = model
        foreign.widen_halves()
        return foreign.description.parameters, half_dtypes(state)
    check_supported(model)
    return sum(weight.numel() for weight in model.parameters()), widen(model)


def _rebuilt(options: SourceOptions, folder: Path, call: Call | None) -> torch.nn.Module:
    """Return the module made anew, with the weights in `folder`, as it is called."""
    model = _load(options)[0]
    return (with_weights_there if is_foreign(model) else with_source_weights)(model, folder, call)


def _find_call(options: SourceOptions, model: torch.nn.Module, halves: bool) -> _CalledModel:
    ref, inputs = options.code_ref, options.inputs
    named = None if ref.python else load_named(ref)
    if isinstance(named, Recipe):
        return _CalledModel(named.signature, inferred=False)
    if options.signature:
        return _CalledModel(options.signature, inferred=False)
    example = None if inputs else foreign_example(model) if ref.python else find_example(ref, model)
    if example is None and (inputs := inputs or known_inputs(ref, model) or options.copy_inputs):
        floats = ("float16", "bfloat16") if halves else ()  # float32 stands for those of a half-precision model
        wide = tuple(replace(spec, dtype="float32") if spec.dtype in floats else spec for spec in inputs)
        if halves:  # an error in it is one of dtypes, and no other inputs mend that
            return _with_notes(*infer_signature(model, wide))
        return _with_notes(*_infer(ref, model, wide))
    example = example or dummy_example(model)
    if example is None:
        raise BadRequest(
            f"nothing says what {ref.text} takes: its forward takes {parameter_names(model.forward)}",
            fix="name each input, as in --input image=float32[batch,3,224,224], or write example_inputs() beside it",
        )
    if halves:
        example = widen_example(example)
    specs, note = specs_of(example, model)
    return _with_notes(*infer_signature(model, specs, example.call), note)


def _infer(
    ref: CodeRef, model: torch.nn.Module, inputs: tuple[TensorSpec, ...]
) -> tuple[Signature, Call | None, Mapping[str, object]]:
    """Infer the signature; where a call raises, the fix names inputs that the model takes, if any are found."""
    call = call_by_name(model.forward, [spec.name for spec in inputs], f"forward of {type(model).__name__}")
    try:
        with user_code(f"calling {ref.text}", ref, _OTHERWISE, CallFailed):
            return infer_signature(model, inputs, call)
    except CallFailed as error:
        if hint := suggest_inputs(model, inputs, call):
            raise BadRequest(error.what, fix=hint) from error
        raise


def _with_notes(
    signature: Signature, call: Call | None, constants: Mapping[str, object], note: str | None = None
) -> _CalledModel:
    dropped = ", ".join(f"{name}={value!r}" for name, value in constants.items())
    drop_note = f"left out, as it is no tensor: {first_line(dropped)}" if dropped else None
    return _CalledModel(signature, call, tuple(filter(None, (note, drop_note))))


def _asking(model: torch.nn.Module, signature: Signature) -> Callable[[torch.dtype], Mapping[str, torch.Tensor]]:
    """Return a function that calls the model on one sample, its floats in a dtype."""
    import torch

    samples = sample_inputs(signature, _DISTANCE_BATCH)

    def ask(dtype: torch.dtype) -> Mapping[str, torch.Tensor]:
        inputs = [torch.from_numpy(samples[spec.name]) for spec in signature.inputs]
        with torch.no_grad():
            cast = [value.to(dtype) if value.is_floating_point() else value for value in inputs]
            return call_model(model, signature, cast)

    return ask


def _with_scratch(called: _CalledModel, steady: SteadyAnswers) -> Call | None:
    """Return the call that copies the buffers which the model writes to."""
    if not steady.scratch or not called.inferred:
        return called.call
    inputs, outputs = ([spec.name for spec in side] for side in (called.signature.inputs, called.signature.outputs))
    plain = Call(tuple(inputs), tuple(map(Leaf, inputs)), outputs=tuple(outputs))
    return replace(called.call or plain, scratch=steady.scratch)

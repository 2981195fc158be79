"""A source out of weights that were trained elsewhere, or out of a factory as it is. Worker only: runs user code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadRequest
from ..foreign_errors import first_line
from ..job import Job
from ..job_records import SourceFacts, SourceOptions
from ..probes.random_inputs import sample_inputs
from ..recipe import Recipe
from ..signature import Signature, TensorSpec
from ..sources import WEIGHTS, CodeRef, Source, write_source
from .build import call_model
from .call_convention import Call, Leaf, flat, parameter_names
from .code_refs import load_named, ref_digest
from .example_inputs import dummy_example, find_example, in_float32_too, specs_of
from .half_precision import in_float32, own_distance, widen
from .infer_signature import infer_signature
from .library_models import known_inputs
from .model_notes import notes_of
from .module_checks import Memory, Origin, Steady, check_lazy, check_steady, check_supported
from .module_from_ref import construct
from .state_dicts import load_weights, read_weights, write_weights
from .transformers_inputs import transformers_inputs
from .user_code import user_code
from .weight_files import load_given, weights_digest

if TYPE_CHECKING:
    import torch

_DISTANCE_BATCH = 8
_OTHERWISE = "if it takes other inputs or sizes, name each, as in --input input_ids=int64[batch,128]"


def take_weights(job: Job) -> Mapping[str, Any]:
    """Write a source: a model with the weights of a file, or as its code makes it. SourceOptions -> SourceFacts.

    Raises BadRequest where code, weights or signature do not fit together, or the model is none that can be carried.
    """
    options = SourceOptions.from_json(job.options)
    ref = options.code_ref
    model, said = _loaded(options)
    check_supported(model)
    state = model.state_dict()
    if state:
        write_weights(job.out / WEIGHTS, state)  # now: calling it may change what it holds
    parameters = sum(weight.numel() for weight in model.parameters())
    del state
    halves = widen(model)
    with user_code(f"calling {ref.text}", ref, _OTHERWISE), in_float32(ref.text, halves):
        before = Memory.of(model)
        found = _called(options, model, bool(halves))
        flattened = model if found.call is None else flat(model, found.call)
        steady = check_steady(
            flattened, found.signature, Origin(model, before, lambda: _again(job.out, options, found))
        )
        notes = [*said, *found.notes]
        if halves:
            notes.append(own_distance(model, halves, _asking(flattened, found.signature)))
    call = _with_scratch(found, steady)
    write_source(job.out, Source(ref, found.signature, ref_digest(ref), None if call is None else call.to_json()))
    return SourceFacts(
        signature=found.signature, parameters=parameters, weights=options.weights, notes=tuple(notes)
    ).to_json()


@dataclass(frozen=True)
class _Found:
    """What a model takes and gives, how it is called (None: by position), and what is worth saying of that."""

    signature: Signature
    call: Call | None = None
    notes: tuple[str, ...] = ()
    inferred: bool = True


def _loaded(options: SourceOptions) -> tuple[torch.nn.Module, list[str]]:
    """The model with its weights, and what there is to say of them."""
    model = construct(options.code_ref)
    check_lazy(model)
    if not options.weights:
        return model, notes_of(model)
    path = Path(options.weights)
    _check_digest(path, options.sha256)
    return model, load_given(model, path, options.key)


def _again(folder: Path, options: SourceOptions, found: _Found) -> torch.nn.Module:
    """The model as it was before it was called."""
    model, _ = _loaded(options)
    if (folder / WEIGHTS).exists():
        load_weights(model, read_weights(folder / WEIGHTS))
    widen(model)
    return model if found.call is None else flat(model, found.call)


def _called(options: SourceOptions, model: torch.nn.Module, halves: bool) -> _Found:
    ref, inputs = options.code_ref, options.inputs
    named = load_named(ref)
    if isinstance(named, Recipe):
        return _Found(named.signature, inferred=False)
    if options.signature:
        return _Found(options.signature, inferred=False)
    example = None if inputs else find_example(ref, model)
    if example is None and (inputs := inputs or _known(ref, model)):
        return _found(*infer_signature(model, tuple(_wide(spec) for spec in inputs) if halves else inputs))
    example = example or dummy_example(model)
    if example is None:
        raise BadRequest(
            f"nothing says what {ref.text} takes: its forward takes {parameter_names(model.forward) or 'nothing'}",
            fix="name each input, as in --input image=float32[batch,3,224,224], or write example_inputs() beside it",
        )
    if halves:
        example = in_float32_too(example)
    specs, note = specs_of(example, model)
    return _found(*infer_signature(model, specs, example.call), note)


def _found(signature: Signature, call: Call | None, constants: Mapping[str, object], note: str | None = None) -> _Found:
    left = ", ".join(f"{name}={value!r}" for name, value in constants.items())
    said = f"left out, as it is no tensor: {first_line(left)}" if left else None
    return _Found(signature, call, tuple(filter(None, (note, said))))


def _known(ref: CodeRef, model: torch.nn.Module) -> tuple[TensorSpec, ...]:
    """What a library says that its model takes, and transformers of any model that is a class of its own."""
    if ref.library is not None:
        return known_inputs(ref, model) or ()
    if any(kind.__module__ == "transformers.modeling_utils" for kind in type(model).__mro__):
        return transformers_inputs(model, Path(ref.root or ".")) or ()
    return ()


def _wide(spec: TensorSpec) -> TensorSpec:
    """The input of a half-precision model as the float32 one that stands for it."""
    return replace(spec, dtype="float32") if spec.dtype in ("float16", "bfloat16") else spec


def _asking(model: torch.nn.Module, signature: Signature) -> Callable[[torch.dtype], Mapping[str, torch.Tensor]]:
    """Calls the model on one sample, its floats in a dtype."""
    import torch

    samples = sample_inputs(signature, _DISTANCE_BATCH)

    def ask(dtype: torch.dtype) -> Mapping[str, torch.Tensor]:
        given = [torch.from_numpy(samples[spec.name]) for spec in signature.inputs]
        with torch.no_grad():
            cast = [each.to(dtype) if each.is_floating_point() else each for each in given]
            return call_model(model, signature, cast)

    return ask


def _with_scratch(found: _Found, steady: Steady) -> Call | None:
    """How the model is called, each time with copies of the buffers that it writes to."""
    if not steady.scratch or not found.inferred:
        return found.call
    inputs, outputs = ([spec.name for spec in side] for side in (found.signature.inputs, found.signature.outputs))
    plain = Call(tuple(inputs), tuple(map(Leaf, inputs)), outputs=tuple(outputs))
    return replace(found.call or plain, scratch=steady.scratch)


def _check_digest(path: Path, wanted: str | None) -> None:
    if wanted is None or not path.is_file():
        return
    if weights_digest(path) != wanted:
        raise BadRequest(f"{path} has changed since this run began", fix="run again when the file is finished")

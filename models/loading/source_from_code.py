"""Make a source from the user's code, with weights that were trained elsewhere or as it is. Worker only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..dataset import Dataset, write_dataset
from ..errors import BadRequest, CallFailed
from ..job import Job
from ..job_records import SourceFacts, SourceOptions
from ..library_messages import first_line
from ..probes.random_inputs import drawing_from, has_user_samples, sample_inputs
from ..probes.samples import EXAMPLES
from ..probes.user_samples import draws_of, draws_user_samples
from ..recipe import Recipe
from ..signature import Signature, TensorSpec
from ..sources import WEIGHTS, CodeRef, Source, write_source
from ..user_python.inside.conversation import TENSORFLOW
from ..user_python.inside.model_state import state_of_module
from ..user_python.module_proxy import (
    ProxyState,
    check_proxy,
    example_of_proxy,
    half_dtypes,
    is_proxy,
    make_proxy,
    with_weights_there,
)
from .build import call_model, construct, with_source_weights
from .call_convention import Call, Leaf, call_by_name, flat, parameter_names
from .code_refs import load_named, ref_digest
from .example_inputs import dummy_example, find_example, samples_of, specs_of, widen_example
from .half_precision import map_half_precision_errors, own_distance, widen
from .infer_signature import infer_signature
from .library_models import known_inputs
from .module_checks import ModuleState, SteadyAnswers, UserModule, check_lazy, check_steady, check_supported
from .published_facts import PublishedFacts, published_facts
from .refused_inputs import fix_of_refusal, infer_accepted, refusal_of_random
from .user_code import user_code
from .weight_files import notes_of, open_weight_file, weights_digest, write_weights

if TYPE_CHECKING:
    import torch

_DISTANCE_BATCH = 8
_OTHERWISE = "if it takes other inputs or sizes, name each, as in --input input_ids=int64[batch,128]"


@draws_user_samples
def take_weights(job: Job) -> Mapping[str, Any]:
    """Write a source: a model with the weights of a file, or as its code makes it. SourceOptions -> SourceFacts.
    Raises BadRequest where code, weights or signature do not fit together, or the model cannot be converted."""
    options = SourceOptions.from_json(job.options)
    model, ref, weight_notes = load_weighted(options)
    state = state_of_module(model)
    if state:
        write_weights(job.out / WEIGHTS, state)  # before any call, which may change them
    parameters, halves = _prepare(model, state)
    del state
    with user_code(f"calling {ref.text}", ref, _OTHERWISE, CallFailed), map_half_precision_errors(ref.text, halves):
        before = ProxyState() if is_proxy(model) else ModuleState.of(model)
        called = _find_call(options, model, bool(halves))
        flattened = model if called.call is None else flat(model, called.call)
        own = UserModule(model, before, lambda: _rebuilt(options, job.out, called.call))
        notes = [*weight_notes, *called.notes]
        with drawing_from(draws_of(called.samples)) if called.samples else nullcontext():
            steady = check_steady(flattened, called.signature, own)
            if halves and is_proxy(model):
                notes.append("its half-precision weights are carried in float32")
            elif halves:
                notes.append(own_distance(model, halves, _asking(flattened, called.signature)))
    call = _with_scratch(called, steady)
    write_source(job.out, Source(ref, called.signature, ref_digest(ref), None if call is None else call.to_json()))
    if called.samples:
        write_dataset(job.out / EXAMPLES, called.samples)
    published = _published(ref, model, called.signature) if options.weights else PublishedFacts()
    return SourceFacts(
        signature=called.signature, parameters=parameters, weights=options.weights, notes=tuple(notes),
        examples=len(called.samples or ()), labels=published.labels, preprocessing=published.preprocessing,
        labels_from=published.source,
    ).to_json()  # fmt: skip


def _published(ref: CodeRef, model: torch.nn.Module, signature: Signature) -> PublishedFacts:
    """Return what a library says of the weights that it publishes, if they have as many classes as the first output."""
    axes = [axis for axis in signature.outputs[0].shape[1:] if isinstance(axis, int)]
    return published_facts(ref, model, axes[0] if axes else 0)


@dataclass(frozen=True)
class _CalledModel:
    """A model's signature, how it is called (None: by position), and notes for the user.
    `samples`: those of its example inputs, where it refuses random ones."""

    signature: Signature
    call: Call | None = None
    notes: tuple[str, ...] = ()
    inferred: bool = True
    samples: Dataset | None = None


def load_weighted(options: SourceOptions) -> tuple[torch.nn.Module, CodeRef, list[str]]:
    """Make the model with its weights; return it with the reference that makes it again, and notes on the weights.
    The file is read before the model is made: it may record what the factory takes."""
    ref = options.code_ref
    if not options.weights:
        model = _make(ref)
        return model, ref, notes_of(model)
    path = Path(options.weights)
    if ref.python and ref.python.framework == TENSORFLOW:
        fix = "load them in the function that makes the model, as in model.load_weights(FILE), and leave --weights out"
        raise BadRequest(f"{path.name} is not put into a model of Keras, which reads weights of its own", fix=fix)
    if options.sha256 and path.is_file() and weights_digest(path) != options.sha256:
        raise BadRequest(f"{path} has changed since this run began", fix="run again when the file is finished")
    weights = open_weight_file(path)
    if not ref.library:  # a library's factories have settings that fetch weights
        ref = replace(ref, recorded=weights.recorded_settings())
    model = _make(ref)
    notes = [] if ref.library else notes_of(model)  # a library's are on the weights that it was made with
    return model, ref, notes + weights.load_into(model, options.key)


def _make(ref: CodeRef) -> torch.nn.Module:
    """Make the module of a reference where it lives. Raises BadRequest where it has weights without a shape yet."""
    if ref.python:
        proxy: torch.nn.Module = make_proxy(ref)
        check_proxy(proxy)
        return proxy
    model = construct(ref)
    check_lazy(model)
    return model


def _prepare(model: torch.nn.Module, state: Mapping[str, torch.Tensor]) -> tuple[int, Mapping[str, torch.dtype]]:
    """Make half-precision weights float32; return how many numbers the weights hold, and the former dtypes by name.
    Raises BadRequest where the module cannot be converted."""
    if is_proxy(model):
        proxy: Any = model
        proxy.widen_halves()
        return proxy.description.parameters, half_dtypes(state)
    check_supported(model)
    return sum(weight.numel() for weight in model.parameters()), widen(model)


def _rebuilt(options: SourceOptions, folder: Path, call: Call | None) -> torch.nn.Module:
    """Return the module made anew, with the weights in `folder`, as it is called."""
    model = load_weighted(options)[0]
    return (with_weights_there if is_proxy(model) else with_source_weights)(model, folder, call)


def says_inputs(ref: CodeRef, model: torch.nn.Module) -> bool:
    """Return whether the code, or the library, of a model that is no recipe says what its inputs are."""
    example = example_of_proxy(model) if ref.python else find_example(ref, model)
    return bool(example or _declared_inputs(ref, model) or dummy_example(model))


def _find_call(options: SourceOptions, model: torch.nn.Module, halves: bool) -> _CalledModel:
    ref, inputs = options.code_ref, options.inputs
    named = None if ref.python else load_named(ref)
    if isinstance(named, Recipe):
        return _CalledModel(named.signature, inferred=False)
    if options.signature:
        return _CalledModel(options.signature, inferred=False)
    example = None if inputs else example_of_proxy(model) if ref.python else find_example(ref, model)
    if example is None and (inputs := inputs or _declared_inputs(ref, model) or options.copy_inputs):
        floats = ("float16", "bfloat16") if halves else ()  # float32 stands for those of a half-precision model
        wide = tuple(replace(spec, dtype="float32") if spec.dtype in floats else spec for spec in inputs)
        if halves:  # an error in it is one of dtypes, and no other inputs mend that
            return _with_notes(*infer_signature(model, wide))
        return _infer(ref, model, wide)
    example = example or dummy_example(model)
    if example is None:
        raise BadRequest(
            f"nothing says what {ref.text} takes: its forward takes {parameter_names(model.forward)}",
            fix="name each input, as in --input image=float32[batch,3,224,224], or write example_inputs() beside it",
        )
    if halves:
        example = widen_example(example)
    specs, note = specs_of(example, model)
    samples = samples_of(example, specs)
    by_data = has_user_samples(specs)
    with drawing_from(draws_of(samples)):
        called = _with_notes(*infer_signature(model, specs, example.call), note)
    refusal = None if by_data else refusal_of_random(model, specs, example.call)
    if refusal is None:
        return called
    count = "the sample" if len(samples) == 1 else f"the {len(samples)} samples"
    asked_of_example = (
        f"asked {count} of {example.origin}, for it refuses random ones ({refusal}); give --data for more"
    )
    return replace(called, samples=samples, notes=(*called.notes, asked_of_example))


def _declared_inputs(ref: CodeRef, model: Any) -> tuple[TensorSpec, ...] | None:
    """Return the inputs that the model of a library, or of another interpreter, declares itself; None without any."""
    return model.description.inputs if is_proxy(model) else known_inputs(ref, model)


def _infer(ref: CodeRef, model: torch.nn.Module, inputs: tuple[TensorSpec, ...]) -> _CalledModel:
    """Infer the signature; where a call raises, with values and sizes that the model takes, if any are found.
    Raises CallFailed where none are, or BadRequest with a fix that names other inputs or the samples at fault."""
    call = call_by_name(model.forward, [spec.name for spec in inputs], f"forward of {type(model).__name__}")
    calling = partial(user_code, f"calling {ref.text}", ref, _OTHERWISE, CallFailed)
    try:
        inferred, notes = infer_accepted(model, inputs, call, CallFailed, calling)
    except CallFailed as error:
        if fix := fix_of_refusal(model, inputs, call):
            samples = ", with your samples" if has_user_samples(inputs) else ""
            raise BadRequest(f"{error.what}{samples}", fix=fix) from error
        raise
    return _with_notes(*inferred, *notes)


def _with_notes(
    signature: Signature, call: Call | None, constants: Mapping[str, object], *notes: str | None
) -> _CalledModel:
    dropped = ", ".join(f"{name}={value!r}" for name, value in constants.items())
    drop_note = f"left out, as it is no tensor: {first_line(dropped)}" if dropped else None
    return _CalledModel(signature, call, tuple(filter(None, (*notes, drop_note))))


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

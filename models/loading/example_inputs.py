"""Find example inputs of a model in the user's code, and the signature's inputs by them. Worker only.

They are those of `example_inputs()`, a function beside the factory or a method of the model, else of Lightning's
`example_input_array`, else of transformers' `dummy_inputs`: a tensor, a tuple of forward's arguments, or a dict of them
by name, nested as forward takes them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dataset import Dataset
from ..errors import BadRequest
from ..library_messages import first_line
from ..signature import BATCH, Axis, TensorSpec, batch_axis
from ..sources import CodeRef
from .call_convention import Call, Leaf, Tree
from .infer_signature import carried_dtype

if TYPE_CHECKING:
    import torch

EXAMPLES = "example_inputs"
_OF_TRANSFORMERS = "dummy_inputs"
_SHAPE_FIX = f"let {EXAMPLES}() return a tensor, a tuple of forward's arguments, or a dict of them by name"


@dataclass(frozen=True)
class Example:
    """Arguments to call a model with, and the tensors among them by name. `origin` names their place in the code."""

    call: Call
    inputs: Mapping[str, torch.Tensor]
    origin: str


def find_example(ref: CodeRef, model: torch.nn.Module) -> Example | None:
    """Find the example inputs of a model; None where its code has none.
    Raises BadRequest where they do not fit forward."""
    for name in (EXAMPLES, "example_input_array"):
        if own := _own(model, name):
            return own
    module = sys.modules.get(_factory_module(ref)) if not ref.library and not ref.recipe else None
    beside = getattr(module, EXAMPLES, None)
    if callable(beside):
        return parse_example(_call(beside, model), model, f"{EXAMPLES}() of {ref.place}")
    return None


def dummy_example(model: torch.nn.Module) -> Example | None:
    """Return the short inputs that a transformers model tries itself with.
    The words that its class inherits from that of all models are no example where forward takes no words."""
    inputs = getattr(model, _OF_TRANSFORMERS, None)
    parameters = inspect.signature(model.forward).parameters
    if isinstance(inputs, Mapping) and not inputs.keys() <= parameters.keys():
        return None
    return _own(model, _OF_TRANSFORMERS)


def widen_example(example: Example) -> Example:
    """Return the example of a half-precision model in float32."""
    import torch

    halves = (torch.float16, torch.bfloat16)
    wide = {name: tensor.float() if tensor.dtype in halves else tensor for name, tensor in example.inputs.items()}
    return replace(example, inputs=wide)


def _own(model: torch.nn.Module, name: str) -> Example | None:
    value = getattr(model, name, None)
    if callable(value):
        value = value()
    return None if value is None else parse_example(value, model, f"{name} of {type(model).__name__}")


def _factory_module(ref: CodeRef) -> str:
    """Return the name of the imported module that the reference's object is from."""
    if ref.file is None:
        return ref.place
    files = {getattr(module, "__file__", None): name for name, module in list(sys.modules.items())}
    return files.get(str(ref.file), "")


def _call(function: Callable[..., object], model: torch.nn.Module) -> object:
    """Call an example function, which may take the model."""
    parameters = inspect.signature(function).parameters.values()
    needed = [parameter for parameter in parameters if parameter.default is parameter.empty]
    return function(model) if len(needed) == 1 else function()


def parse_example(value: object, model: torch.nn.Module, origin: str) -> Example:
    """Take example inputs as arguments of forward.

    A tuple is arguments by position, a dict arguments by name where its keys are forward's, anything else one argument.
    A tuple may end in a dict of keywords.
    Raises BadRequest where they hold no tensor, something that is no data, or do not fit forward."""
    arguments, keywords = _arguments(value, model, origin)
    inputs: dict[str, torch.Tensor] = {}
    names = _argument_names(model, len(arguments))
    alone = len(arguments) == 1 and not keywords and isinstance(arguments[0], Mapping)
    positional = tuple(
        _tree(value, () if alone else (name,), inputs, origin) for name, value in zip(names, arguments, strict=True)
    )
    named = {name: _tree(value, (name,), inputs, origin) for name, value in keywords.items()}
    if not inputs:
        raise BadRequest(f"{origin} holds no tensor", fix=_SHAPE_FIX)
    return Example(Call(tuple(inputs), positional, named), inputs, origin)


def _arguments(value: object, model: torch.nn.Module, origin: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    signature = inspect.signature(model.forward)
    ways: list[tuple[tuple[Any, ...], dict[str, Any]]] = [((value,), {})]
    if isinstance(value, Mapping):
        ways.insert(0, ((), dict(value)))
    elif isinstance(value, list):
        ways.append((tuple(value), {}))
    elif isinstance(value, tuple):
        ways = [(value, {})]
        if value and isinstance(value[-1], Mapping):
            ways.append((value[:-1], dict(value[-1])))
    for arguments, keywords in ways:
        try:
            signature.bind(*arguments, **keywords)
        except TypeError:
            continue
        return arguments, keywords
    raise BadRequest(
        f"{origin} does not fit forward, which takes {', '.join(signature.parameters) or 'nothing'}", fix=_SHAPE_FIX
    )


def _argument_names(model: torch.nn.Module, count: int) -> list[str]:
    """Name arguments by position: as the parameters, and `args_0` and so on for those in `*args`."""
    names: list[str] = []
    for name, parameter in inspect.signature(model.forward).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{name}_{at}" for at in range(count - len(names))]
        elif parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
            names.append(name)
    return names[:count]


def _tree(value: Any, path: tuple[str, ...], inputs: dict[str, torch.Tensor], origin: str) -> Tree:
    """Replace the tensors in `value` by places of inputs, and add the tensors to `inputs` by their path."""
    import torch

    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value)
    if isinstance(value, torch.Tensor):
        name = "_".join(path)
        if name in inputs:
            raise BadRequest(f"two inputs in {origin} are both called {name}", fix="rename a key of them")
        inputs[name] = value
        return Leaf(name)
    if type(value) in (tuple, list):
        parts = [_tree(part, (*path, str(at)), inputs, origin) for at, part in enumerate(value)]
        return tuple(parts) if isinstance(value, tuple) else parts
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _tree(part, (*path, key), inputs, origin) for key, part in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    where = f" as {'_'.join(path)}" if path else ""
    raise BadRequest(
        f"{origin} gives a {type(value).__name__}{where}, which is no data",
        fix="wrap the model in a module that takes tensors, or tuples, lists and dicts (by words) of them",
    )


def specs_of(example: Example, model: torch.nn.Module) -> tuple[tuple[TensorSpec, ...], str | None]:
    """Return the inputs by the shapes of an example, with a sentence where the batch is fixed.
    Axis 0 is the batch where all inputs agree in its size and the model answers at another size too; every other axis
    is fixed."""
    sizes = {tensor.shape[0] for tensor in example.inputs.values() if tensor.ndim}
    reason = "its inputs differ in the size of their first axis" if len(sizes) > 1 else _refusal(example, model)
    specs = []
    for name, tensor in example.inputs.items():
        shape: list[Axis] = list(tensor.shape)
        if shape and reason is None:
            shape[0] = BATCH
        specs.append(TensorSpec(name, carried_dtype(f"the input {name}", tensor.dtype), tuple(shape)))
    return tuple(specs), reason and f"the sizes are those of {example.origin}, and fixed: {reason}"


def samples_of(example: Example, specs: Sequence[TensorSpec]) -> Dataset:
    """Return the example as samples: the rows of its batch, else its arguments as one sample."""
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in example.inputs.items()}
    batch = batch_axis(specs)
    count = next((len(arrays[spec.name]) for spec in specs if batch in spec.shape), 1) if batch else 1
    return Dataset({
        spec.name: arrays[spec.name] if batch in spec.shape else np.stack([arrays[spec.name]] * count) for spec in specs
    })  # fmt: skip


def _refusal(example: Example, model: torch.nn.Module) -> str | None:
    """Return the model's error with one sample more than the example has; None where it answers."""
    import torch

    inputs = list(example.inputs.values())
    example.call.run(model, [tensor.clone() for tensor in inputs])  # an error with the example itself is for the caller
    larger = [torch.cat([tensor, tensor[:1]]) if tensor.ndim else tensor.clone() for tensor in inputs]
    try:
        example.call.run(model, larger)
    except Exception as error:  # noqa: BLE001  (it is the user's code)
        return f"with one sample more, forward raises {first_line(error)}"
    return None

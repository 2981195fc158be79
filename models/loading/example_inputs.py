"""What a model takes, told by examples of its inputs that stand in the user's code. Worker only.

`example_inputs()`, a function beside the factory or a method of the model; else Lightning's `example_input_array`, else
transformers' `dummy_inputs`. They give a tensor, a tuple of forward's arguments, or a dict of them by name, nested as
forward takes them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..errors import BadRequest
from ..foreign_errors import first_line
from ..signature import BATCH, Axis, TensorSpec
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
    """Arguments to call a model with, and what they are called. `inputs`: the tensors among them by name."""

    call: Call
    inputs: Mapping[str, torch.Tensor]
    origin: str


def find_example(ref: CodeRef, model: torch.nn.Module) -> Example | None:
    """The example inputs of a model; None where its code has none.

    Raises BadRequest where they are none that forward takes.
    """
    for name in (EXAMPLES, "example_input_array"):
        if own := _own(model, name):
            return own
    module = sys.modules.get(_factory_module(ref)) if not ref.library and not ref.recipe else None
    beside = getattr(module, EXAMPLES, None)
    if callable(beside):
        return as_example(_called(beside, model), model, f"{EXAMPLES}() of {ref.place}")
    return None


def dummy_example(model: torch.nn.Module) -> Example | None:
    """The inputs that a transformers model tries itself with: short ones, for want of better. What its class has from
    the one of all models, words, is none where forward takes no words."""
    given = getattr(model, _OF_TRANSFORMERS, None)
    taken = inspect.signature(model.forward).parameters
    if isinstance(given, Mapping) and not given.keys() <= taken.keys():
        return None
    return _own(model, _OF_TRANSFORMERS)


def in_float32_too(example: Example) -> Example:
    """The example for a half-precision model as it is carried."""
    import torch

    halves = (torch.float16, torch.bfloat16)
    wide = {name: each.float() if each.dtype in halves else each for name, each in example.inputs.items()}
    return replace(example, inputs=wide)


def _own(model: torch.nn.Module, name: str) -> Example | None:
    given = getattr(model, name, None)
    if callable(given):
        given = given()
    return None if given is None else as_example(given, model, f"{name} of {type(model).__name__}")


def _factory_module(ref: CodeRef) -> str:
    """The name of the module that the reference's object was found in; it has been imported."""
    if ref.file is None:
        return ref.place
    files = {getattr(module, "__file__", None): name for name, module in list(sys.modules.items())}
    return files.get(str(ref.file), "")


def _called(function: Any, model: torch.nn.Module) -> Any:
    """The function may ask for the model."""
    needed = [each for each in inspect.signature(function).parameters.values() if each.default is each.empty]
    return function(model) if len(needed) == 1 else function()


def as_example(given: Any, model: torch.nn.Module, origin: str) -> Example:
    """Example inputs as arguments of forward: a tuple is arguments by position, a dict arguments by name where its keys
    are forward's, anything else one argument. A tuple may end in a dict of keywords.

    Raises BadRequest where they hold no tensor, something that is no data, or do not fit forward.
    """
    arguments, keywords = _arguments(given, model, origin)
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


def _arguments(given: Any, model: torch.nn.Module, origin: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    signature = inspect.signature(model.forward)
    ways: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    if isinstance(given, Mapping):
        ways = [((), dict(given)), ((given,), {})]
    elif isinstance(given, tuple):
        ways = [(given, {})]
        if given and isinstance(given[-1], Mapping):
            ways.append((given[:-1], dict(given[-1])))
    elif isinstance(given, list):
        ways = [((given,), {}), (tuple(given), {})]
    else:
        ways = [((given,), {})]
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
    """Names for arguments by position: the parameters', and `args_0` and so on for what goes into `*args`."""
    names: list[str] = []
    for name, each in inspect.signature(model.forward).parameters.items():
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{name}_{at}" for at in range(count - len(names))]
        elif each.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
            names.append(name)
    return names[:count]


def _tree(value: Any, path: tuple[str, ...], inputs: dict[str, torch.Tensor], origin: str) -> Tree:
    """`value` with its tensors replaced by the places of inputs, which are added to `inputs` by their path."""
    import numpy as np
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
        return type(value)(_tree(part, (*path, str(at)), inputs, origin) for at, part in enumerate(value))
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
    """The inputs by the shapes of an example: axis 0 is the batch where all of them agree in its size and the model
    answers another size too; every other axis is fixed. With a sentence where the batch turned out to be fixed."""
    sizes = {tensor.shape[0] for tensor in example.inputs.values() if tensor.ndim}
    why = "its inputs differ in the size of their first axis" if len(sizes) > 1 else _refusal(example, model)
    specs = []
    for name, tensor in example.inputs.items():
        shape: list[Axis] = list(tensor.shape)
        if shape and why is None:
            shape[0] = BATCH
        specs.append(TensorSpec(name, carried_dtype(f"the input {name}", tensor.dtype), tuple(shape)))
    return tuple(specs), why and f"the sizes are those of {example.origin}, and fixed: {why}"


def _refusal(example: Example, model: torch.nn.Module) -> str | None:
    """What the model says to one sample more than the example has; None where it answers."""
    import torch

    def call(values: list[torch.Tensor]) -> None:
        arguments, keywords = example.call.bind(values)
        with torch.no_grad():
            model(*arguments, **keywords)

    inputs = list(example.inputs.values())
    call([each.clone() for each in inputs])  # what it says to the example itself is an error of its own
    try:
        call([torch.cat([each, each[:1]]) if each.ndim else each.clone() for each in inputs])
    except Exception as error:  # noqa: BLE001  (it is the user's code)
        return f"with one sample more, forward raises {first_line(error)}"
    return None

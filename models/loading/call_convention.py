"""Record how a module is called and how its result becomes tensors by name, and make a flat module of that.

All code here that converts, serves or asks a model calls it with tensors by position and wants tensors back. A user's
forward may take keywords and nested tuples, lists and dicts, and return those, dataclasses or named tuples. `Call` says
how one becomes the other, and `flat` makes a module of it, so that converters need not know of it.
"""

from __future__ import annotations

import dataclasses
import inspect
import keyword
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import BadRequest

if TYPE_CHECKING:
    import torch

ALONE = "output"  # the name of an output that nothing else names; of several, output_0 and so on


@dataclass(frozen=True, slots=True)
class Leaf:
    """Placeholder of an input among the arguments of forward."""

    name: str


Tree: TypeAlias = "Leaf | bool | int | float | str | tuple[Tree, ...] | list[Tree] | dict[str, Tree] | None"
_CONSTANTS = (bool, int, float, str)


@dataclass(frozen=True)
class Call:
    """A call of a module with the inputs of its signature, and the results that are the signature's outputs.
    `inputs` and `outputs` are names in the signature's order. `arguments` and `keywords` are those of forward: a `Leaf`
    stands for an input, everything else is a constant. `scratch`: buffers that forward writes to, though no answer
    depends on it; each call gets copies of them."""

    inputs: tuple[str, ...]
    arguments: tuple[Tree, ...]
    keywords: Mapping[str, Tree] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        named = [leaf.name for leaf in leaves((self.arguments, dict(self.keywords)))]
        if sorted(named) != sorted(self.inputs):
            raise ValueError(f"the arguments hold the inputs {named}, and the signature names {list(self.inputs)}")

    @property
    def by_position(self) -> bool:
        """Whether forward takes the inputs by position, in the signature's order, and nothing else."""
        return not self.keywords and self.arguments == tuple(Leaf(name) for name in self.inputs)

    def bind(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments and keywords of forward, with `values` in the place of the inputs, in their order."""
        known = dict(zip(self.inputs, values, strict=True))
        arguments, keywords = _filled((self.arguments, dict(self.keywords)), lambda leaf: known[leaf.name])
        return arguments, keywords

    def run(self, model: torch.nn.Module, values: Sequence[Any]) -> Any:
        """Call the model, without gradients, and return what it returns."""
        import torch

        arguments, keywords = self.bind(values)
        with torch.no_grad():
            return model(*arguments, **keywords)

    def to_json(self) -> dict[str, Any]:
        """Encode a Leaf as {input: name}, a tuple as {tuple: [..]}, a dict as {dict: {..}}; others are themselves."""
        return {
            "inputs": list(self.inputs),
            "arguments": [_encoded(tree) for tree in self.arguments],
            "keywords": {name: _encoded(tree) for name, tree in self.keywords.items()},
            "outputs": list(self.outputs),
            "scratch": list(self.scratch),
        }

    @staticmethod
    def from_json(doc: Mapping[str, Any]) -> Call:
        """Reverse `to_json`."""
        return Call(
            tuple(doc["inputs"]),
            tuple(_decoded(tree) for tree in doc["arguments"]),
            {name: _decoded(tree) for name, tree in doc["keywords"].items()},
            tuple(doc["outputs"]),
            tuple(doc["scratch"]),
        )


def leaves(tree: Tree) -> list[Leaf]:
    """List every Leaf of a tree, in order."""
    inner: list[Leaf] = []
    _filled(tree, inner.append)
    return inner


def _filled(tree: Tree, fill: Callable[[Leaf], Any]) -> Any:
    """Put what `fill` returns in the place of each Leaf."""
    if isinstance(tree, Leaf):
        return fill(tree)
    if isinstance(tree, tuple | list):
        return type(tree)(_filled(part, fill) for part in tree)
    if isinstance(tree, dict):
        return {key: _filled(part, fill) for key, part in tree.items()}
    return tree


def _encoded(tree: Tree) -> object:
    if isinstance(tree, Leaf):
        return {"input": tree.name}
    if isinstance(tree, tuple):
        return {"tuple": [_encoded(part) for part in tree]}
    if isinstance(tree, list):
        return [_encoded(part) for part in tree]
    if isinstance(tree, dict):
        return {"dict": {key: _encoded(part) for key, part in tree.items()}}
    return tree


def _decoded(doc: Any) -> Tree:
    if isinstance(doc, list):
        return [_decoded(part) for part in doc]
    if isinstance(doc, Mapping):
        ((kind, value),) = doc.items()
        if kind == "input":
            return Leaf(value)
        if kind == "tuple":
            return tuple(_decoded(part) for part in value)
        return {key: _decoded(part) for key, part in value.items()}
    constant: Tree = doc
    return constant


def call_by_name(forward: Callable[..., object], names: Sequence[str], model: str) -> Call:
    """Bind inputs to the parameters of `forward` by their names, or else all of them by position.

    Where all parameters before `*mems` are named, other names are for that, in their order. A parameter with a default
    that is not named keeps it. `model` names the model in errors.
    Raises BadRequest where some names are parameters and others are not, or forward needs more, or takes fewer."""
    parameters = inspect.signature(forward).parameters
    kinds = {name: parameter.kind for name, parameter in parameters.items()}
    known = [name for name in names if _is_named(kinds.get(name))]
    any_name = inspect.Parameter.VAR_KEYWORD in kinds.values()
    any_count = inspect.Parameter.VAR_POSITIONAL in kinds.values()
    rest = _variadic_names(parameters, names, known) if any_count and known else []
    if known and not any_name and len(known) + len(rest) < len(names):
        strange = next(name for name in names if name not in known)
        raise BadRequest(
            f"{model} takes {parameter_names(forward)}, and {strange} is none of them",
            fix=_spelling_fix(strange, [name for name in kinds if name not in names]),
        )
    by_name = bool(known) or (any_name and not any_count)
    if by_name:
        call = _split(parameters, names, rest)
        lacking = [parameter.name for parameter in _required(parameters) if parameter.name not in names]
    else:
        call = Call(tuple(names), tuple(Leaf(name) for name in names))
        needed = _required(parameters)
        only = [parameter.name for parameter in needed if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
        lacking = only or [parameter.name for parameter in needed[len(names) :]]
    if lacking:
        raise BadRequest(
            f"{model} takes {parameter_names(forward)}, and nothing says what {lacking[0]} is",
            fix=f"name it too, as in --input {lacking[0]}=float32[batch,3,224,224]",
        )
    most = sum(kind in _POSITIONAL for kind in kinds.values())
    if not by_name and len(names) > most and not any_count:
        raise BadRequest(
            f"{model} takes {parameter_names(forward)}, and {len(names)} inputs are named",
            fix="name no more than forward takes; or write example_inputs() beside it, where it takes a dict or list",
        )
    return call


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _is_named(kind: object) -> bool:
    return kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _spelling_fix(strange: str, left: Sequence[str]) -> str:
    """Say what helps against a name that forward does not have; `left` are its parameters without an input."""
    near = get_close_matches(strange, left, n=1)
    otherwise = "name every input as forward does, or none: then they are taken by position"
    return f"did you mean {near[0]}?" if near else otherwise


def _required(parameters: Mapping[str, inspect.Parameter]) -> list[inspect.Parameter]:
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = (parameter for parameter in parameters.values() if parameter.default is parameter.empty)
    return [parameter for parameter in needed if parameter.kind not in several]


def _variadic_names(
    parameters: Mapping[str, inspect.Parameter], names: Sequence[str], known: Sequence[str]
) -> Sequence[str]:
    """Return the names that are no parameters, for `*mems`.
    None are, where a parameter before that is not named, or where one of the names is a misspelt parameter."""
    strange = [name for name in names if name not in known]
    left = [name for name, parameter in parameters.items() if name not in names and _is_named(parameter.kind)]
    before = any(parameters[name].kind in _POSITIONAL for name in left)
    return [] if before or any(get_close_matches(name, left, n=1) for name in strange) else strange


def _split(parameters: Mapping[str, inspect.Parameter], names: Sequence[str], rest: Sequence[str]) -> Call:
    """Pass the first parameters by position, as far as they are named without a gap, then `rest`, others by keyword."""
    first: list[str] = []
    for name, parameter in parameters.items():
        if name not in names or parameter.kind not in _POSITIONAL:
            break
        first.append(name)
    first += rest
    keywords = {name: Leaf(name) for name in names if name not in first}
    return Call(tuple(names), tuple(Leaf(name) for name in first), keywords)


def parameter_names(forward: Callable[..., object]) -> str:
    """Return the parameters of forward in words: "x, mask (optional)", or "nothing"."""
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    words: list[str] = []
    for name, parameter in inspect.signature(forward).parameters.items():
        optional = "" if parameter.default is parameter.empty else " (optional)"
        words.append(marks[parameter.kind] + name if parameter.kind in marks else name + optional)
    return ", ".join(words) or "nothing"


def flatten(result: object) -> dict[str, torch.Tensor]:
    """Return every tensor of a result by its path, as `parted` names them.
    Raises BadRequest with the first thing in it that is neither a tensor nor holds tensors."""
    tensors, constants = parted(result)
    for name, value in constants.items():
        raise _strange(value, name)
    return tensors


def parted(result: object) -> tuple[dict[str, torch.Tensor], dict[str, object]]:
    """Return every tensor of a result by its path, and every number, truth value and text.

    Paths are `output` of a lone value, `output_0` of a tuple, `logits` of a dict or a dataclass, `hidden_states_0` and
    `output_1_0` of nested values. None is left out.
    Raises BadRequest with the first part that is none of these and holds none, or where nothing is a tensor."""
    import torch

    values: dict[str, object] = {}
    for path, value in _walk(result, ()):
        name = "_".join(path) if path else ALONE
        if name in values:
            raise BadRequest(
                f"two outputs of the model are both called {name}", fix="rename a key of what forward returns"
            )
        values[name] = value
    tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
    if not tensors:
        raise BadRequest("the model returns no tensor", fix="let forward return what it computes")
    return tensors, {name: value for name, value in values.items() if name not in tensors}


def carried(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Turn bfloat16 results into float32 of the same values: numpy, and so a signature, has no bfloat16."""
    import torch

    return {name: value.float() if value.dtype == torch.bfloat16 else value for name, value in tensors.items()}


def _walk(result: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
    import torch

    if result is None:
        return
    if isinstance(result, (torch.Tensor, *_CONSTANTS, torch.SymInt, torch.SymFloat, torch.SymBool)):
        yield path, result
        return
    parts = _parts(result)
    if parts is None:
        raise _strange(result, "_".join(path))
    named = isinstance(result, Mapping) or not isinstance(result, tuple | list) or hasattr(result, "_fields")
    for key, value in parts:
        yield from _walk(value, (*(path or (() if named else (ALONE,))), key))


def _strange(value: object, name: str) -> BadRequest:
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    cache = kind.startswith("transformers.cache_utils.")
    return BadRequest(
        f"the model returns {kind}{f' as {name}' if name else ''}, which holds no tensors",
        fix="set use_cache=False in its config, or let forward return what it needs of that as tensors"
        if cache
        else "let forward return tensors, or tuples, lists, dicts or dataclasses of them",
    )


def _parts(container: object) -> list[tuple[str, object]] | None:
    """Return the parts of a container by name; None where it is none. transformers' ModelOutput is a Mapping."""
    if isinstance(container, Mapping):
        return [(str(key), value) for key, value in container.items()]
    if isinstance(container, tuple | list):
        names = getattr(container, "_fields", range(len(container)))
        return [(str(name), value) for name, value in zip(names, container, strict=True)]
    if dataclasses.is_dataclass(container):
        return [(part.name, getattr(container, part.name)) for part in dataclasses.fields(container)]
    return None


def is_flat(result: object) -> bool:
    """Return whether every converter takes a result as it is.
    That is a tensor, or a plain tuple or list of tensors, none of them bfloat16."""
    import torch

    values = result if isinstance(result, tuple | list) and type(result) in (tuple, list) else (result,)
    return all(isinstance(value, torch.Tensor) and value.dtype != torch.bfloat16 for value in values)


def takes_no_more(forward: Callable[..., object], count: int) -> bool:
    """Return whether forward takes `count` arguments by position, and no others.
    torch's older exporter fills in arguments with defaults, and knows no keywords."""
    parameters = inspect.signature(forward).parameters.values()
    return len(parameters) == count and all(parameter.kind in _POSITIONAL for parameter in parameters)


def flat(model: torch.nn.Module, call: Call) -> torch.nn.Module:
    """Make a module that takes the inputs of `call` by position, and returns its outputs: a tensor, or a tuple of them.
    `model` is its child, so that traces keep the paths and lines of the user's own modules. Raises BadRequest, when
    called, where the model returns other outputs than `call` names."""
    import torch

    class Flat(torch.nn.Module):
        """The user's module, called as `call` says."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *inputs: torch.Tensor) -> Any:
            arguments, keywords = call.bind(inputs)
            outputs = carried(parted(_call_with_copies(self.model, call.scratch, arguments, keywords))[0])
            if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]  # sizes are tensors then
                outputs = {name: value for name, value in outputs.items() if name in call.outputs}
            if list(outputs) != list(call.outputs):
                raise BadRequest(
                    f"the model returned {', '.join(outputs)} where its signature names {', '.join(call.outputs)}",
                    fix="let forward return the same parts whatever its inputs are",
                )
            values = tuple(outputs.values())
            return values if len(values) > 1 else values[0]

    Flat.forward.__signature__ = _flat_signature(call)  # type: ignore[attr-defined]
    flattened = Flat()
    flattened.training = getattr(model, "training", False)  # an exported program has no train(), nor this where frozen
    return flattened


def _call_with_copies(
    model: torch.nn.Module, scratch: Sequence[str], arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> object:
    """Call the model, with copies in the place of the buffers in `scratch` meanwhile.
    torch.func.functional_call does the same, but cannot be traced."""
    owners = [(model.get_submodule(path), name) for path, _, name in (place.rpartition(".") for place in scratch)]
    own = [(part, name, part._buffers[name]) for part, name in owners]
    try:
        for part, name, buffer in own:
            part._buffers[name] = None if buffer is None else buffer.clone()
        return model(*arguments, **keywords)
    finally:
        for part, name, buffer in own:
            part._buffers[name] = buffer


def _flat_signature(call: Call) -> inspect.Signature:
    """Make the signature that torch.export reads the names of a program's inputs from."""
    fit = (name.isidentifier() and not keyword.iskeyword(name) and name != "self" for name in call.inputs)
    names = [name if fits else f"input_{at}" for at, (name, fits) in enumerate(zip(call.inputs, fit, strict=True))]
    kind = inspect.Parameter.POSITIONAL_ONLY
    return inspect.Signature([inspect.Parameter(name, kind) for name in ("self", *names)])

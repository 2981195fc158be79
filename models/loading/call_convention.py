"""How a module is called, and how its result becomes tensors by name: the record, and the flat module made of it.

Everything here that carries, serves or asks a model calls it with tensors by position and wants tensors back. A user's
forward may take keywords and nested tuples, lists and dicts, and return those, dataclasses or named tuples. `Call` says
how one becomes the other, `flat` makes a module of it, and every converter stays as simple as it is.
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

ALONE = "output"  # what an output is called that nothing else names; of several, output_0 and so on


@dataclass(frozen=True, slots=True)
class Leaf:
    """The place of an input among the arguments of forward."""

    name: str


Tree: TypeAlias = Any  # Leaf | None | bool | int | float | str | tuple, list or dict (by str) of trees
_CONSTANTS = (bool, int, float, str)


@dataclass(frozen=True)
class Call:
    """How a module is called with the inputs of its signature, and which of its results are the signature's outputs.

    `inputs` and `outputs` are names in the signature's order. `arguments` and `keywords` are what forward is given: a
    `Leaf` stands for an input, everything else is a constant. `scratch`: buffers that forward writes to, though no
    answer depends on it; each call gets copies of them.
    """

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
        """Whether forward takes the inputs as they come: by position, in the signature's order, and nothing else."""
        return not self.keywords and self.arguments == tuple(Leaf(name) for name in self.inputs)

    def bind(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments and keywords of forward, with `values` in the place of the inputs, in their order."""
        known = dict(zip(self.inputs, values, strict=True))
        return _filled(self.arguments, known), {name: _filled(tree, known) for name, tree in self.keywords.items()}

    def to_json(self) -> dict[str, Any]:
        """A Leaf is {input: name}, a tuple {tuple: [..]}, a dict {dict: {..}}; lists and constants are themselves."""
        return {
            "inputs": list(self.inputs),
            "arguments": [_encoded(tree) for tree in self.arguments],
            "keywords": {name: _encoded(tree) for name, tree in self.keywords.items()},
            "outputs": list(self.outputs),
            "scratch": list(self.scratch),
        }

    @staticmethod
    def from_json(doc: Mapping[str, Any]) -> Call:
        """The reverse of `to_json`."""
        return Call(
            tuple(doc["inputs"]),
            tuple(_decoded(tree) for tree in doc["arguments"]),
            {name: _decoded(tree) for name, tree in doc["keywords"].items()},
            tuple(doc["outputs"]),
            tuple(doc["scratch"]),
        )


def leaves(tree: Tree) -> Iterator[Leaf]:
    """Every Leaf of a tree, in order."""
    if isinstance(tree, Leaf):
        yield tree
    elif isinstance(tree, tuple | list):
        for part in tree:
            yield from leaves(part)
    elif isinstance(tree, dict):
        for part in tree.values():
            yield from leaves(part)


def _filled(tree: Tree, known: Mapping[str, Any]) -> Any:
    if isinstance(tree, Leaf):
        return known[tree.name]
    if isinstance(tree, tuple | list):
        return type(tree)(_filled(part, known) for part in tree)
    if isinstance(tree, dict):
        return {key: _filled(part, known) for key, part in tree.items()}
    return tree


def _encoded(tree: Tree) -> Any:
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
    return doc


def call_by_name(forward: Callable[..., Any], names: Sequence[str], what: str) -> Call:
    """How `forward` takes inputs of these names: those that are its parameters by name, else all of them by position.
    What is named beside all that stands before `*mems` is of that, in its order.

    What has a default and is not named is left at it. `what` is the model, for the sentences.

    Raises BadRequest where some names are parameters and others are not, or forward needs more, or takes fewer.
    """
    parameters = inspect.signature(forward).parameters
    kinds = {name: each.kind for name, each in parameters.items()}
    known = [name for name in names if _is_named(kinds.get(name))]
    any_name = inspect.Parameter.VAR_KEYWORD in kinds.values()
    any_count = inspect.Parameter.VAR_POSITIONAL in kinds.values()
    rest = _of_the_rest(parameters, names, known) if any_count and known else []
    if known and not any_name and len(known) + len(rest) < len(names):
        strange = next(name for name in names if name not in known)
        raise BadRequest(
            f"{what} takes {_named(forward)}, and {strange} is none of them",
            fix=_spelt(strange, [name for name in kinds if name not in names]),
        )
    by_name = bool(known) or (any_name and not any_count)
    if by_name:
        call = _split(parameters, names, rest)
        lacking = [each.name for each in _required(parameters) if each.name not in names]
    else:
        call = Call(tuple(names), tuple(Leaf(name) for name in names))
        needed = _required(parameters)
        only = [each.name for each in needed if each.kind is inspect.Parameter.KEYWORD_ONLY]
        lacking = only or [each.name for each in needed[len(names) :]]
    if lacking:
        raise BadRequest(
            f"{what} takes {_named(forward)}, and nothing says what {lacking[0]} is",
            fix=f"name it too, as in --input {lacking[0]}=float32[batch,3,224,224]",
        )
    most = sum(kind in _POSITIONAL for kind in kinds.values())
    if not by_name and len(names) > most and not any_count:
        raise BadRequest(
            f"{what} takes {_named(forward)}, and {len(names)} inputs are named",
            fix="name no more than forward takes; or write example_inputs() beside it, where it takes a dict or list",
        )
    return call


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _is_named(kind: Any) -> bool:
    return kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _spelt(strange: str, left: Sequence[str]) -> str:
    """What helps against a name that forward does not have, by the names of it that are not given yet."""
    near = get_close_matches(strange, left, n=1)
    return (
        f"did you mean {near[0]}?"
        if near
        else "name every input as forward does, or none: then they are taken by position"
    )


def _required(parameters: Mapping[str, inspect.Parameter]) -> list[inspect.Parameter]:
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each for each in parameters.values() if each.default is each.empty and each.kind not in several]


def _of_the_rest(
    parameters: Mapping[str, inspect.Parameter], names: Sequence[str], known: Sequence[str]
) -> Sequence[str]:
    """The names that are no parameters, for `*mems`: none where something before that is not named, or where one of
    them is another's misspelt."""
    strange = [name for name in names if name not in known]
    left = [name for name, each in parameters.items() if name not in names and _is_named(each.kind)]
    before = any(parameters[name].kind in _POSITIONAL for name in left)
    return [] if before or any(get_close_matches(name, left, n=1) for name in strange) else strange


def _split(parameters: Mapping[str, inspect.Parameter], names: Sequence[str], rest: Sequence[str]) -> Call:
    """The first parameters by position, as far as they are named without a gap, and `rest` behind them; the others by
    keyword."""
    first: list[str] = []
    for name, each in parameters.items():
        if name not in names or each.kind not in _POSITIONAL:
            break
        first.append(name)
    first += rest
    keywords = {name: Leaf(name) for name in names if name not in first}
    return Call(tuple(names), tuple(Leaf(name) for name in first), keywords)


def _named(forward: Callable[..., Any]) -> str:
    return parameter_names(forward) or "nothing"


def parameter_names(forward: Callable[..., Any]) -> str:
    """What forward takes, as a person would say it: "x, mask (optional)"."""
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    said = [
        marks[each.kind] + name if each.kind in marks else name + ("" if each.default is each.empty else " (optional)")
        for name, each in inspect.signature(forward).parameters.items()
    ]
    return ", ".join(said)


def flatten(given: Any) -> dict[str, torch.Tensor]:
    """Every tensor of a result by its path, as `parted` has them.

    Raises BadRequest with the first thing in it that is neither a tensor nor holds tensors.
    """
    found, constants = parted(given)
    for name, value in constants.items():
        raise _strange(value, name)
    return found


def parted(given: Any) -> tuple[dict[str, torch.Tensor], dict[str, object]]:
    """Every tensor of a result by its path, and every number, truth value and text: `output` alone, `output_0` of a
    tuple, `logits` of a dict or a dataclass, `hidden_states_0`, `output_1_0` of what is nested. What is None is left
    out.

    Raises BadRequest with the first thing in it that is none of these and holds none, or where nothing is a tensor.
    """
    import torch

    found: dict[str, Any] = {}
    for path, value in _walk(given, ()):
        name = "_".join(path) if path else ALONE
        if name in found:
            raise BadRequest(
                f"two outputs of the model are both called {name}", fix="rename a key of what forward returns"
            )
        found[name] = value
    tensors = {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}
    if not tensors:
        raise BadRequest("the model returns no tensor", fix="let forward return what it computes")
    return tensors, {name: value for name, value in found.items() if name not in tensors}


def carried(found: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Results with every bfloat16 one as the float32 of the same values: numpy, and so a signature, has no bfloat16."""
    import torch

    return {name: value.float() if value.dtype == torch.bfloat16 else value for name, value in found.items()}


def _walk(given: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    import torch

    if given is None:
        return
    if isinstance(given, (torch.Tensor, *_CONSTANTS, torch.SymInt, torch.SymFloat, torch.SymBool)):
        yield path, given
        return
    parts = _parts(given)
    if parts is None:
        raise _strange(given, "_".join(path))
    named = isinstance(given, Mapping) or not isinstance(given, tuple | list) or hasattr(given, "_fields")
    for key, value in parts:
        yield from _walk(value, (*(path or (() if named else (ALONE,))), key))


def _strange(given: Any, name: str) -> BadRequest:
    kind = f"{type(given).__module__}.{type(given).__qualname__}".removeprefix("builtins.")
    cache = kind.startswith("transformers.cache_utils.")
    return BadRequest(
        f"the model returns {kind}{f' as {name}' if name else ''}, which holds no tensors",
        fix="set use_cache=False in its config, or let forward return what it needs of that as tensors"
        if cache
        else "let forward return tensors, or tuples, lists, dicts or dataclasses of them",
    )


def _parts(given: Any) -> list[tuple[str, Any]] | None:
    """The parts of a container by name; None where it is none. transformers' ModelOutput is a Mapping."""
    if isinstance(given, Mapping):
        return [(str(key), value) for key, value in given.items()]
    if isinstance(given, tuple | list):
        names = getattr(given, "_fields", range(len(given)))
        return [(str(name), value) for name, value in zip(names, given, strict=True)]
    if dataclasses.is_dataclass(given):
        return [(each.name, getattr(given, each.name)) for each in dataclasses.fields(given)]
    return None


def is_flat(given: Any) -> bool:
    """Whether a result is what every converter takes as it is: a tensor, or a plain tuple or list of tensors; none of
    them bfloat16."""
    import torch

    values = given if type(given) in (tuple, list) else (given,)
    return all(isinstance(value, torch.Tensor) and value.dtype != torch.bfloat16 for value in values)


def takes_no_more(forward: Callable[..., Any], count: int) -> bool:
    """Whether forward takes so many arguments by position, and no others: torch's older exporter fills in what has a
    default, and knows no keywords."""
    parameters = inspect.signature(forward).parameters.values()
    return len(parameters) == count and all(each.kind in _POSITIONAL for each in parameters)


def flat(model: torch.nn.Module, call: Call) -> torch.nn.Module:
    """A module that takes the inputs of `call` by position, and returns its outputs: a tensor, or a tuple of them.

    `model` is its child, so that whatever is traced through it keeps the paths and lines of the user's own modules.
    Raises BadRequest, when called, where the model returns other outputs than `call` names.
    """
    import torch

    class Flat(torch.nn.Module):
        """The user's module, called as `call` says."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *inputs: torch.Tensor) -> Any:
            arguments, keywords = call.bind(inputs)
            found = carried(parted(_called(self.model, call.scratch, arguments, keywords))[0])
            if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]  # sizes are tensors then
                found = {name: value for name, value in found.items() if name in call.outputs}
            if list(found) != list(call.outputs):
                raise BadRequest(
                    f"the model returned {', '.join(found)} where its signature names {', '.join(call.outputs)}",
                    fix="let forward return the same parts whatever its inputs are",
                )
            values = tuple(found.values())
            return values if len(values) > 1 else values[0]

    Flat.forward.__signature__ = _flat_signature(call)  # type: ignore[attr-defined]
    made = Flat()
    made.training = getattr(model, "training", False)  # and not train(): an exported program has none; frozen, nor this
    return made


def _called(model: torch.nn.Module, scratch: Sequence[str], arguments: tuple[Any, ...], keywords: Any) -> Any:
    """The model's result, with copies in the place of the buffers in `scratch` meanwhile. (torch.func.functional_call
    does the same, but cannot be traced.)"""
    owners = [(model.get_submodule(path), name) for path, _, name in (each.rpartition(".") for each in scratch)]
    own = [(part, name, part._buffers[name]) for part, name in owners]
    try:
        for part, name, buffer in own:
            part._buffers[name] = None if buffer is None else buffer.clone()
        return model(*arguments, **keywords)
    finally:
        for part, name, buffer in own:
            part._buffers[name] = buffer


def _flat_signature(call: Call) -> inspect.Signature:
    """What torch.export reads the names of a program's inputs off."""
    fit = (name.isidentifier() and not keyword.iskeyword(name) and name != "self" for name in call.inputs)
    names = [name if fits else f"input_{at}" for at, (name, fits) in enumerate(zip(call.inputs, fit, strict=True))]
    kind = inspect.Parameter.POSITIONAL_ONLY
    return inspect.Signature([inspect.Parameter(name, kind) for name in ("self", *names)])

"""What an exported program takes and gives, and how it is called; a flat program where it is nested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...models.errors import BadRequest
from ...models.exported_program import save_program
from ...models.formats import PAYLOAD, Format
from ...models.loading.call_convention import Call, Leaf, flat, flatten, leaves
from ...models.signature import ANY_SIZE, BATCH, Axis, Bounds, Signature, TensorSpec, served_dtype
from .pt2_from_source import export

if TYPE_CHECKING:
    import torch


def describe_program(program: torch.export.ExportedProgram, path: Path) -> tuple[Signature, Call | None]:
    """The signature of a program, and how it is called: None where it takes tensors by position, with axes that are
    free of each other, and returns a tensor, or a tuple, a list or a dict of tensors.

    Inputs have the names that torch gives to forward's arguments (`state_0` inside of `state`), outputs their path in
    what it returns (calling.flatten). A dynamic axis is the batch where it is an input's first, else named after it.

    Raises BadRequest where it takes or returns something that holds no tensors, or dtypes that the formats lack.
    """
    known: dict[str, str] = {}
    call, values = _call(program, path)
    inputs = [_spec(path, name, values[name], known, first=BATCH) for name in call.inputs]
    ranges = {known[str(symbol)]: each for symbol, each in program.range_constraints.items() if str(symbol) in known}
    given = _given(program)
    try:
        outputs = flatten(given)
    except BadRequest as error:
        raise BadRequest(f"{path}: {error.what}", fix="export a module that returns tensors alone") from error
    signature = Signature(
        tuple(_bounded(spec, ranges) for spec in inputs),
        tuple(_spec(path, name, value, known) for name, value in outputs.items()),
    )
    kind = program.call_spec.out_spec
    plain = kind.is_leaf() or (
        kind.type in (dict, tuple, list) and len(outputs) == len(kind.children()) and _shallow(kind)
    )
    plain = plain and all(_is_free(size) for name in call.inputs for size in values[name].shape)
    return signature, None if plain and call.by_position else replace(call, outputs=tuple(outputs))


def _shallow(spec: Any) -> bool:
    return all(each.is_leaf() for each in spec.children())


def _call(program: torch.export.ExportedProgram, path: Path) -> tuple[Call, dict[str, Any]]:
    """How a program is called, and the traced value of each input by name."""
    from torch.export.graph_signature import InputKind, TensorArgument
    from torch.utils._pytree import tree_unflatten

    traced = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    given: list[Any] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            tensor = isinstance(spec.arg, TensorArgument)
            given.append(Leaf(spec.arg.name) if tensor else getattr(spec.arg, "value", None))
    arguments, keywords = tree_unflatten(given, program.call_spec.in_spec)
    names = tuple(each.name for each in given if isinstance(each, Leaf))
    found = tuple(leaf.name for leaf in leaves((arguments, keywords)))
    if not names or sorted(found) != sorted(names):
        raise BadRequest(
            f"{path} takes {'arguments of kinds of its own' if names else 'no tensor'}",
            fix="export a module whose forward takes tensors, or tuples, lists and dicts of them",
        )
    return Call(names, tuple(arguments), dict(keywords)), {name: traced[name] for name in names}


def _given(program: torch.export.ExportedProgram) -> Any:
    """The traced result, as forward returns it."""
    from torch.utils._pytree import tree_unflatten

    kind = program.call_spec.out_spec
    results = next(node for node in program.graph.nodes if node.op == "output").args[0]
    own = list(results)[len(results) - kind.num_leaves :]  # what stands before them is written to buffers
    return tree_unflatten([each.meta.get("val") if hasattr(each, "meta") else each for each in own], kind)


def check_axes(program: torch.export.ExportedProgram, signature: Signature, path: Path) -> None:
    """Raises BadRequest where an axis that is dynamic in the signature depends on another number, as `4 * Dim("q")`
    does: torch's exporters carry none. Where it has a size in the signature the program is exported again with that."""
    _, values = _call(program, path)
    for spec, traced in zip(signature.inputs, values.values(), strict=True):  # its name may be another in a record
        for at in spec.dynamic_axes:
            if not _is_free(size := traced.shape[at]):
                raise _dependent(spec, at, size.node.expr, program, path)


def _is_free(size: Any) -> bool:
    return isinstance(size, int) or bool(size.node.expr.is_Symbol)


def _dependent(spec: TensorSpec, at: int, size: Any, program: torch.export.ExportedProgram, path: Path) -> BadRequest:
    """The refusal of an axis whose size is worked out of another number."""
    limits = [program.range_constraints[each] for each in size.free_symbols]
    times, rest = size.as_independent(*size.free_symbols, as_Add=False)
    least = size.subs([(each, limit.lower) for each, limit in zip(size.free_symbols, limits, strict=True)])
    kind = f"is a multiple of {times}, {least} or more" if rest.is_Symbol else f"has the size {size}"
    fixed = replace(spec, shape=(*spec.shape[:at], int(least), *spec.shape[at + 1 :]), bounds=())
    return BadRequest(
        f"{path}: the axis {spec.shape[at]} of {spec.name} {kind}, and torch's exporters carry no axis that depends on "
        "another number",
        fix=f"fix it to a size, as in --input {fixed}, or name the model's Python code",
    )


def write_flat(program: torch.export.ExportedProgram, signature: Signature, call: Call, out: Path) -> None:
    """Write the program as one that takes the signature's inputs by position and returns its outputs."""
    save_program(export(flat(program.module(), call), signature), signature, out / PAYLOAD[Format.PT2])


def _bounded(spec: TensorSpec, ranges: Mapping[str, Any]) -> TensorSpec:
    """The spec with the ranges that torch has for its axes. A lower end of 2 is that of any dynamic axis; programs
    answer at 1 all the same."""
    bounds: dict[str, Bounds] = {}
    for axis in spec.dynamic_axes.values():
        if axis in ranges:
            low, high = ranges[axis].lower, ranges[axis].upper
            bounds[axis] = Bounds(int(low) if low > 2 else 1, int(high) if high.is_Integer else None)
    return replace(spec, bounds=tuple((axis, each) for axis, each in bounds.items() if each != ANY_SIZE))


def _spec(path: Path, name: str, value: Any, known: dict[str, str], first: str | None = None) -> TensorSpec:
    """The spec of a traced value. `known`: axes by the symbol that torch has for them."""
    if not hasattr(value, "shape"):
        raise BadRequest(f"{path}: {name} is no tensor", fix="export a module that takes and returns tensors alone")
    axes: list[Axis] = []
    for at, size in enumerate(value.shape):
        if isinstance(size, int):
            axes.append(size)
        else:
            own = first if first and at == 0 and first not in known.values() else f"{name}_{at}"
            axes.append(known.setdefault(str(size), own))
    try:
        return TensorSpec(name, served_dtype(str(value.dtype)), tuple(axes))
    except ValueError as error:
        raise BadRequest(
            f"{path}: {name} is {value.dtype}, which the formats do not carry", fix="export it in float32"
        ) from error

"""Signature and calling convention of an exported program, and flattening of programs with nested inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...models.errors import BadRequest
from ...models.exported_program import save_program
from ...models.formats import Format
from ...models.loading.call_convention import Call, Leaf, flat, flatten, leaves
from ...models.signature import ANY_SIZE, BATCH, Axis, Bounds, Signature, TensorSpec, served_dtype
from ..patches import private_torch
from .pt2_from_source import export

if TYPE_CHECKING:
    import sympy  # type: ignore[import-untyped]  # it has no stubs
    import torch
    from torch.utils._sympy.value_ranges import ValueRanges


def describe_program(program: torch.export.ExportedProgram, path: Path) -> tuple[Signature, Call | None]:
    """Return the signature of a program, and its call convention unless that is plain.
    A plain program takes tensors by position, with axes independent of each other, and returns a tensor, or a tuple, a
    list or a dict of tensors. Inputs have the names that torch gives to forward's arguments (`state_0` inside `state`),
    outputs their path in the result (call_convention.flatten). A dynamic first axis of an input is the batch; other
    axes are named after the input. Raises BadRequest for inputs or outputs without tensors, and for dtypes that the
    formats lack."""
    axis_of: dict[str, str] = {}
    call, values = _call(program, path)
    inputs = [_spec(path, name, values[name], axis_of, batch_axis=BATCH) for name in call.inputs]
    shapes = [values[name].shape for name in call.inputs]
    steps = {axis_of[str(size)]: _step(size) for shape in shapes for size in shape if str(size) in axis_of}
    constraints = program.range_constraints.items()
    ranges = {axis_of[name]: limits for symbol, limits in constraints if (name := str(symbol)) in axis_of}
    results = _traced_result(program)
    try:
        outputs = flatten(results)
    except BadRequest as error:
        raise BadRequest(f"{path}: {error.what}", fix="export a module that returns tensors alone") from error
    signature = Signature(
        tuple(_with_ranges(spec, ranges, steps) for spec in inputs),
        tuple(_spec(path, name, value, axis_of) for name, value in outputs.items()),
    )
    out_spec = program.call_spec.out_spec
    plain = out_spec.is_leaf() or (
        out_spec.type in (dict, tuple, list)
        and len(outputs) == len(out_spec.children())
        and all(part.is_leaf() for part in out_spec.children())
    )
    plain = plain and all(_is_free(size) for name in call.inputs for size in values[name].shape)
    return signature, None if plain and call.by_position else replace(call, outputs=tuple(outputs))


def _call(program: torch.export.ExportedProgram, path: Path) -> tuple[Call, dict[str, Any]]:
    """Return how a program is called, and the traced value of each input by name."""
    from torch.export.graph_signature import InputKind, TensorArgument

    traced = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    user_inputs: list[Any] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            tensor = isinstance(spec.arg, TensorArgument)
            user_inputs.append(Leaf(spec.arg.name) if tensor else getattr(spec.arg, "value", None))
    arguments, keywords = private_torch.tree_unflatten(user_inputs, program.call_spec.in_spec)
    names = tuple(leaf.name for leaf in user_inputs if isinstance(leaf, Leaf))
    used = tuple(leaf.name for leaf in leaves((arguments, keywords)))
    if not names or sorted(used) != sorted(names):
        raise BadRequest(
            f"{path} takes {'arguments of kinds of its own' if names else 'no tensor'}",
            fix="export a module whose forward takes tensors, or tuples, lists and dicts of them",
        )
    return Call(names, tuple(arguments), dict(keywords)), {name: traced[name] for name in names}


def _traced_result(program: torch.export.ExportedProgram) -> Any:
    out_spec = program.call_spec.out_spec
    results = next(node for node in program.graph.nodes if node.op == "output").args[0]
    returned = list(results)[len(results) - out_spec.num_leaves :]  # the results before them update buffers
    return private_torch.tree_unflatten(
        [value.meta.get("val") if hasattr(value, "meta") else value for value in returned], out_spec
    )


def check_axes(program: torch.export.ExportedProgram, signature: Signature, path: Path) -> None:
    """Raise BadRequest if an axis that is dynamic in the signature depends on another number, as `4 * Dim("q")` does.
    Torch's exporters refuse such an axis. If it has a size in the signature, or bounds with that step, the program is
    exported again with these."""
    _, values = _call(program, path)
    for spec, traced in zip(signature.inputs, values.values(), strict=True):  # a record may have other names
        for at, axis in spec.dynamic_axes.items():
            step, bounds = _step(size := traced.shape[at]), signature.bounds.get(axis, ANY_SIZE)
            if step == 0 or bounds.step % step or bounds.low % step:
                raise _refuse_dependent_axis(spec, at, size.node.expr, program, path)


def _is_free(size: Any) -> bool:
    return _step(size) == 1


def _step(size: Any) -> int:
    """Return by how much a size grows at once: 4 of `4 * Dim("q")`; 0 where it is no multiple of one number."""
    return 1 if isinstance(size, int) else _factor(size.node.expr)


def _factor(size: sympy.Expr) -> int:
    factor, rest = size.as_independent(*size.free_symbols, as_Add=False)
    return int(factor) if rest.is_Symbol and factor.is_Integer and factor > 0 else 0


def _refuse_dependent_axis(
    spec: TensorSpec, at: int, size: sympy.Expr, program: torch.export.ExportedProgram, path: Path
) -> BadRequest:
    """Return the refusal of an axis whose size is computed from another number."""
    limits = [program.range_constraints[symbol] for symbol in size.free_symbols]
    smallest = size.subs([(symbol, limit.lower) for symbol, limit in zip(size.free_symbols, limits, strict=True)])
    axis = spec.shape[at]
    with_size = replace(spec, shape=(*spec.shape[:at], int(smallest), *spec.shape[at + 1 :]), bounds=())
    if factor := _factor(size):
        return BadRequest(
            f"{path}: the axis {axis} of {spec.name} is a multiple of {factor}",
            fix=f"give it bounds with that step, as in {axis}={Bounds(int(smallest), None, factor)}, "
            f"or fix it to a size, as in --input {with_size}",
        )
    return BadRequest(
        f"{path}: the axis {axis} of {spec.name} has the size {size}, and torch's exporters carry no axis that depends "
        "on another number",
        fix=f"fix it to a size, as in --input {with_size}, or name the model's Python code",
    )


def write_flat(program: torch.export.ExportedProgram, signature: Signature, call: Call, out: Path) -> None:
    """Write a flat program: it takes the signature's inputs by position and returns its outputs."""
    save_program(export(flat(program.module(), call), signature), signature, out / Format.PT2.spec.payload)


def _with_ranges(
    spec: TensorSpec, ranges: Mapping[str, ValueRanges[sympy.Expr]], steps: Mapping[str, int]
) -> TensorSpec:
    """Return the spec with torch's ranges of its axes, in steps where these are multiples of a number.
    Every dynamic axis has a lower end of at least 2; programs answer at 1 all the same."""
    bounds: dict[str, Bounds] = {}
    for axis in spec.dynamic_axes.values():
        if axis in ranges:
            low, high = ranges[axis].lower, ranges[axis].upper
            least, most = int(low) if low > 2 else 1, int(high) if high.is_Integer else None
            step = max(1, steps[axis])
            bounds[axis] = Bounds(step, None, step).within(least, most)
    return replace(spec, bounds=tuple((axis, limits) for axis, limits in bounds.items() if limits != ANY_SIZE))


def _spec(path: Path, name: str, value: Any, axis_of: dict[str, str], batch_axis: str | None = None) -> TensorSpec:
    """Return the spec of a traced value. `axis_of`: names of axes by torch's symbol, extended here."""
    if not hasattr(value, "shape"):
        raise BadRequest(f"{path}: {name} is no tensor", fix="export a module that takes and returns tensors alone")
    axes: list[Axis] = []
    for at, size in enumerate(value.shape):
        if isinstance(size, int):
            axes.append(size)
        else:
            axis = batch_axis if batch_axis and at == 0 and batch_axis not in axis_of.values() else f"{name}_{at}"
            axes.append(axis_of.setdefault(str(size), axis))
    try:
        return TensorSpec(name, served_dtype(str(value.dtype)), tuple(axes))
    except ValueError as error:
        raise BadRequest(
            f"{path}: {name} is {value.dtype}, which the formats do not carry", fix="export it in float32"
        ) from error

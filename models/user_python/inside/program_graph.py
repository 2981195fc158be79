"""An exported program of a user's own torch as JSON and tensors, from which another torch makes it again.

torch's own file of a program is for one version of its schema. Nodes, their operators by name, and their arguments are
alike in all of them: a newer torch runs the calls of an older one's operators.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .failures import Refusal

if TYPE_CHECKING:
    import torch

_CHECKS = (  # that stop a run at sizes which the program was not made for; nothing depends on their results
    "_assert_scalar", "_assert_async", "_assert_tensor_metadata", "sym_constrain_range", "sym_constrain_range_for_size",
    "_check", "_functional_assert_async",
)  # fmt: skip
_MOST_REFINEMENTS = 4


def export_program(
    model: torch.nn.Module, tensors: Sequence[torch.Tensor], axes: Sequence[Mapping[str, str]],
    bounds: Mapping[str, Sequence[Any]],
) -> Any:  # fmt: skip
    """Export a module with the axes open that `axes` name, by input and position, within `bounds` by name.
    Each torch has another way to say that an axis is open; they are tried from the newest on.
    Raises what the last of them raised."""
    errors: list[Exception] = []
    for shapes in _open_shapes(axes, bounds):
        for strict in (False, True):
            try:
                return _export_once(model, tuple(tensors), shapes, strict=strict)
            except Exception as error:  # noqa: BLE001  (each way may fail by anything)
                print(f"torch.export, strict={strict}, {shapes}: {type(error).__name__}: {error}")
                errors.append(error)
    raise errors[-1]


def _export_once(model: torch.nn.Module, tensors: tuple[torch.Tensor, ...], shapes: Any, *, strict: bool) -> Any:
    """Export once; where torch suggests relations between axes, export again with these."""
    import torch.export

    options: dict[str, Any] = {} if strict else {"strict": False}
    for _ in range(_MOST_REFINEMENTS):
        try:
            return torch.export.export(model, tensors, dynamic_shapes=shapes, **options)
        except Exception as error:
            refined = _refined(str(error), shapes)
            if refined is None or str(refined) == str(shapes):
                raise
            shapes = refined
    return torch.export.export(model, tensors, dynamic_shapes=shapes, **options)


def _refined(message: str, shapes: Any) -> Any:
    """Return the shapes with what torch suggests in an error; None where it suggests nothing that it can apply."""
    if "Suggested fixes" not in message:
        return None
    try:
        from torch.export.dynamic_shapes import refine_dynamic_shapes_from_suggested_fixes as refine  # from 2.4 on

        return refine(message, shapes)
    except Exception as error:  # noqa: BLE001  (it parses sentences)
        print(f"the suggestion cannot be applied: {error}")
        return None


def _open_shapes(axes: Sequence[Mapping[str, str]], bounds: Mapping[str, Sequence[Any]]) -> Iterator[Any]:
    """Yield the dynamic shapes of all inputs, in the ways that this torch has."""
    from torch.export import Dim

    for hint in ("DYNAMIC", "AUTO"):  # from 2.5 on: relations between axes are no error
        if hasattr(Dim, hint):
            yield tuple({int(at): getattr(Dim, hint) for at in row} for row in axes)
    dims: dict[str, Any] = {}
    for name in dict.fromkeys(axis for row in axes for axis in row.values()):
        low, high = bounds.get(name, (None, None))
        limits = {"min": low if low and low > 1 else None, "max": high}
        dims[name] = Dim(name, **{key: value for key, value in limits.items() if value is not None})
    yield tuple({int(at): dims[axis] for at, axis in row.items()} for row in axes)


def describe_program(program: Any) -> tuple[dict[str, Any], list[torch.Tensor]]:
    """Return the calls of a program, {"nodes": [...], "outputs": [...]}, and the tensors that it holds.
    Raises Refusal for control flow, which is no call of an operator."""
    module = program.module()
    tensors: list[torch.Tensor] = []
    nodes = [row for node in module.graph.nodes if (row := _node_row(node, module, tensors)) is not None]
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    return {"nodes": nodes, "outputs": [_encoded(value) for value in _leaves(output.args[0])]}, tensors


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in _leaves(part)]
    if isinstance(value, Mapping):
        return [leaf for part in value.values() for leaf in _leaves(part)]
    return [value]


def _node_row(node: Any, module: Any, tensors: list[torch.Tensor]) -> dict[str, Any] | None:
    """Return a node as JSON; None for one that computes nothing."""
    import torch

    if node.op == "output" or (node.op == "call_module" and not node.users):
        return None
    if node.op == "placeholder":
        return {"name": node.name, "op": "input"}
    if node.op == "get_attr":
        value = _attribute(module, node.target)
        if not isinstance(value, torch.Tensor):
            raise Refusal("the program holds control flow", "leave it to the routes over TorchScript")
        tensors.append(value.detach())
        return {"name": node.name, "op": "tensor", "at": len(tensors) - 1, "buffer": _is_buffer(value)}
    name = _function_name(node.target) if node.op == "call_function" else None
    if name is None:
        raise Refusal(f"the program calls {str(node.target)[:80]}, which is no operator", "leave it to other routes")
    if name.rpartition("::")[2].partition(".")[0] in _CHECKS and not node.users:
        return None
    keywords = {key: _encoded(value) for key, value in node.kwargs.items()}
    return {
        "name": node.name, "op": "call", "function": name, "args": [_encoded(part) for part in node.args],
        "kwargs": keywords,
    }  # fmt: skip


def _is_buffer(value: torch.Tensor) -> bool:
    import torch

    return not isinstance(value, torch.nn.Parameter)


def _attribute(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _function_name(function: Any) -> str | None:
    """Return an operator as "aten::add.Tensor", a function of Python as "operator.add" or "torch.sym_max"."""
    if type(function).__name__ == "OpOverload":
        return f"{function._schema.name}.{function._overloadname}"
    name = getattr(function, "__name__", "")
    if getattr(operator, name, None) is function:
        return f"operator.{name}"
    module = getattr(function, "__module__", "") or ""
    return f"{module}.{name}" if module in ("torch", "math") or module.startswith("torch.") else None


def _encoded(value: Any) -> Any:
    """Return an argument as JSON. Raises Refusal for what no operator of torch takes."""
    import torch

    if isinstance(value, torch.fx.Node):
        return {"node": value.name}
    if isinstance(value, (tuple, list)):
        return {"list": [_encoded(part) for part in value]}
    if isinstance(value, slice):
        return {"slice": [_encoded(part) for part in (value.start, value.stop, value.step)]}
    return _encoded_constant(value)


def _encoded_constant(value: Any) -> Any:
    import torch

    if value is None or isinstance(value, (bool, int, float, str)):
        return {"constant": value}
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return {"torch": str(value).rpartition(".")[2]}
    if isinstance(value, torch.device):
        return {"device": "cpu"}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    raise Refusal(f"the program holds a {type(value).__name__}", "leave it to the other routes")

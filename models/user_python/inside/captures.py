"""Captures of a user's module by their own torch, in files that another torch can read."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .failures import Refusal
from .flat_module import flat_module
from .program_graph import describe_program, export_program

if TYPE_CHECKING:
    import torch

_OPSET = 17  # as torch's older exporter is used here


@dataclass(frozen=True)
class CaptureRequest:
    """How a module is called and captured; the order of inputs and outputs is the signature's."""

    kind: str  # "torchscript", "onnx", "program" or "saved-model"
    path: str  # of the file or folder; a program comes as a message, and needs none
    arguments: Any  # trees of forward's arguments, with inputs by number (trees.py)
    keywords: Any
    inputs: Sequence[str]
    outputs: Sequence[str]
    axes: Sequence[Mapping[str, str]]  # of each input, the names of its open axes by position
    bounds: Mapping[str, Sequence[Any]]  # of open axes, the least and the largest size by name
    plain: bool  # forward takes the inputs by position, and returns the outputs and nothing else


def capture(
    model: torch.nn.Module, request: CaptureRequest, tensors: Sequence[torch.Tensor]
) -> tuple[dict[str, Any], list[torch.Tensor]]:
    """Capture the module at the sizes of `tensors` with every named axis open, and write it to the request's path.
    Returns a note on what the capture may miss; of a program, its graph and its tensors (program_graph.py).
    Raises Refusal, and what their torch raises."""
    import torch

    flat = model
    if not request.plain or request.kind == "onnx":
        flat = flat_module(model, request.arguments, request.keywords, request.outputs, len(request.inputs))
    if request.kind == "torchscript":
        with torch.no_grad():
            return {"note": _write_torchscript(flat, tuple(tensors), request)}, []
    with _without_fast_path(model):
        if request.kind == "onnx":
            _write_onnx(flat, tuple(tensors), request)
            return {"note": ""}, []
        if request.kind == "program":
            graph, weights = describe_program(export_program(flat, tensors, request.axes, request.bounds))
            return {"note": "", "graph": graph}, weights
    raise ValueError(f"there is no capture {request.kind}")


def _without_fast_path(model: torch.nn.Module) -> AbstractContextManager[object]:
    """Keep torch's encoder layers from their fast path, one operator that nothing else has. Returns the context to
    capture in: before torch 2.3 only gradients keep them from it."""
    import torch

    mha: Any = getattr(torch.backends, "mha", None)
    if mha is not None:
        mha.set_fastpath_enabled(False)
        return torch.no_grad()
    kinds = (torch.nn.TransformerEncoderLayer, torch.nn.TransformerEncoder, torch.nn.MultiheadAttention)
    if not any(isinstance(part, kinds) for part in model.modules()):
        return torch.no_grad()
    for weight in model.parameters():
        weight.requires_grad_(weight.is_floating_point())
    return torch.enable_grad()


def _write_torchscript(model: torch.nn.Module, tensors: tuple[torch.Tensor, ...], request: CaptureRequest) -> str:
    """Trace the module, or compile it where its way through forward may depend on data; freeze and save it."""
    import torch

    jit: Any = torch.jit  # parts of it have no annotations
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        script = jit.trace(model, tensors, check_trace=False, strict=False)
    doubts = [row for row in raised if issubclass(row.category, jit.TracerWarning)]
    note = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if doubts:
            compiled = _compiled(model) if request.plain else None
            warning = str(doubts[0].message).strip().splitlines()[0].partition(". ")[0]
            note = "" if compiled else f"its trace may hold for the way of one call alone: {warning}"
            script = compiled or script
        jit.save(jit.freeze(script), request.path)
    return note[:300]


def _compiled(model: torch.nn.Module) -> Any:
    """Return the module compiled, both ways of each branch; None where TorchScript refuses it."""
    import torch

    try:
        return torch.jit.script(model)
    except Exception as error:  # noqa: BLE001  (whatever it is, there is the trace)
        print(f"torch.jit.script: {error}")
        return None


def _write_onnx(model: torch.nn.Module, tensors: tuple[torch.Tensor, ...], request: CaptureRequest) -> None:
    """Write ONNX by the exporter that traces; the newer one needs packages that few environments have."""
    import torch

    export: Callable[..., object] = torch.onnx.export
    options = {"dynamo": False} if "dynamo" in inspect.signature(export).parameters else {}
    axes = zip(request.inputs, request.axes)
    open_axes = {name: {int(at): axis for at, axis in row.items()} for name, row in axes if row}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            export(
                model, tensors, request.path, input_names=list(request.inputs), output_names=list(request.outputs),
                dynamic_axes=open_axes, opset_version=_OPSET, **options,
            )  # fmt: skip
    except ImportError as error:
        fix = "install it there, or leave it to the other routes"
        raise Refusal(f"their exporter needs {error.name or error}", fix) from error

"""Show that an unpatched library is still wrong: each function returns what is wrong, or None where it is right."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

Tensors = Sequence[torch.Tensor]
Function = Callable[..., Any]
Canary = Callable[[], str | None]
TOLERANCE = 1e-4


class Wrapped(torch.nn.Module):
    """A function as a module: what an exporter takes."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def module_of(function: Function) -> torch.nn.Module:
    return function.eval() if isinstance(function, torch.jit.ScriptModule) else Wrapped(function).eval()


def dynamic(inputs: Tensors) -> tuple[tuple[dict[int, Any], ...]]:
    """Return the argument dynamic_shapes of a module that takes its inputs as one tuple: every axis is dynamic."""
    return (tuple(dict.fromkeys(range(x.dim()), torch.export.Dim.DYNAMIC) for x in inputs),)


def raised(call: Callable[[], object]) -> str | None:
    """Return the first line of what a call raises, if it does."""
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            call()
    except Exception as error:  # noqa: BLE001  (whatever it raises is the answer)
        return f"{type(error).__name__}: {str(error).strip().splitlines()[:1]}"
    return None


def torchscript_export(function: Function, inputs: Tensors, *others: Tensors, opset: int = 18) -> str | None:
    """Export by torch's TorchScript exporter, unpatched, and ask ONNX Runtime for each set of inputs."""

    def write(path: Path) -> None:
        axes = {f"x{at}": {axis: f"a{at}_{axis}" for axis in range(x.dim())} for at, x in enumerate(inputs)}
        torch.onnx.export(
            model, tuple(inputs), str(path), dynamo=False, opset_version=opset, input_names=[*axes],
            dynamic_axes=axes if others else None,
        )  # fmt: skip

    model = module_of(function)
    return compared(model, write, (inputs, *others))


def dynamo_export(function: Function, inputs: Tensors, *others: Tensors, opset: int = 20) -> str | None:
    """Export by torch's dynamo exporter, unpatched, and ask ONNX Runtime for each set of inputs.

    With `others` every axis is dynamic.
    """

    def write(path: Path) -> None:
        program = torch.export.export(
            model, tuple(inputs), dynamic_shapes=dynamic(inputs) if others else None, strict=False
        )
        exported = torch.onnx.export(program, dynamo=True, opset_version=opset, optimize=True, verbose=False)
        assert exported is not None
        exported.save(path)

    model = module_of(function)
    return compared(model, write, (inputs, *others))


def compared(model: Function, write: Callable[[Path], None], samples: Sequence[Tensors]) -> str | None:
    """Return what is wrong with the ONNX file that `write` makes, by ONNX Runtime's answers to samples."""
    import onnxruntime

    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        if refusal := raised(lambda: write(path)):
            return refusal
        try:
            session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        except Exception as error:  # noqa: BLE001  (a file that does not load is the answer)
            return f"ONNX Runtime does not load it: {error}"
        return next(filter(None, (differing(model, session, inputs) for inputs in samples)), None)


def differing(model: Function, session: Any, inputs: Tensors) -> str | None:
    """Return how ONNX Runtime's answers differ from PyTorch's."""
    known = {f"x{at}": x for at, x in enumerate(inputs)} | dict(
        zip([each.name for each in session.get_inputs()], inputs, strict=False)
    )
    feeds = {each.name: known[each.name].numpy() for each in session.get_inputs()}
    expected = model(*inputs)
    try:
        answers = session.run(None, feeds)
    except Exception as error:  # noqa: BLE001  (a session that fails is the answer)
        return f"ONNX Runtime fails: {error}"
    for answer, wanted in zip(answers, expected if isinstance(expected, tuple) else (expected,), strict=False):
        reference = wanted.detach().resolve_conj().numpy()
        if answer.shape != reference.shape or answer.dtype != reference.dtype:
            return f"{answer.dtype} {answer.shape}, not {reference.dtype} {reference.shape}"
        if not np.allclose(answer, reference, TOLERANCE, TOLERANCE, equal_nan=True):
            return f"{answer.ravel()[:4]}, not {reference.ravel()[:4]}"
    return None


def capture(function: Function, inputs: Tensors, *others: Tensors) -> str | None:
    """Capture by torch.export with every axis dynamic, unpatched, and call the program at other sizes."""
    model = module_of(function)
    programs: list[Any] = []

    def write() -> None:
        programs.append(torch.export.export(model, tuple(inputs), dynamic_shapes=dynamic(inputs), strict=False))
        torch.export.save(programs[0], Path(folder) / "model.pt2")

    with TemporaryDirectory() as folder:
        if refusal := raised(write):
            return refusal

    def call(sample: Tensors) -> Any:
        return programs[0].module()(*sample)

    for sample in (inputs, *others):
        if refusal := raised(partial(call, sample)):
            return refusal
        answers, expected = call(sample), model(*sample)
        for answer, wanted in zip(*((x if isinstance(x, tuple) else (x,)) for x in (answers, expected)), strict=True):
            if answer.shape != wanted.shape or not torch.allclose(answer, wanted, TOLERANCE, TOLERANCE, equal_nan=True):
                return f"{answer.shape}, not {wanted.shape}, or other numbers"
    return None

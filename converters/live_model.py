"""A model that is an object in the caller's process: written to a file, which is taken as any other file is.

Nothing is pickled. A module of PyTorch is captured here, where its code and its packages are, from a copy on the CPU in
evaluation mode; the caller's own is not touched. The capture has to answer as the module does. What torch.export cannot
capture at every size, such as an LSTM over an open time, becomes TorchScript, as the steps do that begin at a file.
"""

from __future__ import annotations

import copy
import inspect
import io
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..models.errors import BadRequest, Refused, TransloadError
from ..models.library_messages import first_line
from ..models.signature import Signature, TensorSpec
from ..models.sources import CodeRef, Source

_TAKEN = "a path, a name, an nn.Module, an onnx.ModelProto or a Keras model"


@dataclass(frozen=True)
class LiveModelFile:
    """The file that an object was written to, and its inputs: with values and sizes that a module takes, where it
    refuses others, and a sentence for the user on each."""

    path: Path
    inputs: tuple[TensorSpec, ...]
    notes: tuple[str, ...] = ()


def write_live_model(model: object, inputs: Sequence[TensorSpec], folder: Path) -> LiveModelFile:
    """Write a model to a file in `folder`. `inputs`: those of an nn.Module, by the names of its forward.
    Raises BadRequest where it is no model, raises at whatever it was called with, or cannot be written, and Refused
    where neither torch.export nor TorchScript can capture it."""
    if _is_a(model, "torch.nn", "Module"):
        return _write_module(model, inputs, folder)
    if _is_a(model, "onnx", "ModelProto"):
        return LiveModelFile(_write_onnx(model, _new_folder(folder) / "model.onnx"), tuple(inputs))
    if _is_a(model, "keras", "Model"):
        return LiveModelFile(_write_keras(model, _new_folder(folder) / "model.keras"), tuple(inputs))
    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    raise BadRequest(f"a {kind} is no model", fix=f"give {_TAKEN}")


def _new_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _is_a(model: object, module: str, name: str) -> bool:
    """Return whether an object is of a library's class; a library that was never imported made no object."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(model, getattr(loaded, name, ()))


def _write_module(model: Any, inputs: Sequence[TensorSpec], folder: Path) -> LiveModelFile:
    import torch

    from .to_pytorch.pt2_from_source import program_for_all_sizes

    name = type(model).__name__
    ordered = _in_order(model, inputs, name)
    try:
        module = copy.deepcopy(model).cpu().eval()
    except Exception as error:  # a tensor that is computed from others cannot be copied, and a hook may raise anything
        raise BadRequest(f"{name} cannot be copied: {error}", fix="name its file instead, as FILE.py:NAME") from error
    signature, notes = _accepted_signature(module, ordered, name)
    try:
        with _without_warnings():
            # The inputs stand for any outputs: these are read off the program when the file is taken.
            program, _ = program_for_all_sizes(module, Signature(signature.inputs, signature.inputs))
    except Refused as refused:
        path = _write_script(module, signature, folder, refused)
    else:
        path = _new_folder(folder) / "model.pt2"
        torch.export.save(program, path)
    return LiveModelFile(path, signature.inputs, notes)


def _write_script(module: Any, signature: Signature, folder: Path, refused: Refused) -> Path:
    """Write the module as TorchScript, traced or compiled. Raises what torch.export `refused` where that fails, too."""
    import torch

    from .to_pytorch.tracing import script_or_trace

    source = Source(CodeRef(type(module).__name__), signature, code="")
    try:
        with _without_warnings():
            script = torch.jit.freeze(script_or_trace(module, source)[0])
            path = _new_folder(folder) / "model.pt"
            torch.jit.save(script, str(path))
    except Exception as error:
        raise refused from error
    return path


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Drop what torch's captures and ours print: a worker's log has it, and the caller's process none."""
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _accepted_signature(module: Any, inputs: tuple[TensorSpec, ...], name: str) -> tuple[Signature, tuple[str, ...]]:
    """Return the signature with values and sizes that a module takes, and a sentence on each change of its inputs.
    Raises BadRequest where it raises at whatever it was called with."""
    from ..models.loading.call_convention import call_by_name
    from ..models.loading.refused_inputs import fix_of_refusal, infer_accepted

    call = call_by_name(module.forward, [spec.name for spec in inputs], f"{name}.forward")
    try:
        (signature, _, _), notes = infer_accepted(module, inputs, call, Exception)
    except TransloadError:
        raise
    except Exception as error:
        fix = fix_of_refusal(module, inputs, call) or f"hold inputs={[*map(str, inputs)]} against what forward takes"
        raise BadRequest(f"calling {name} raised {type(error).__name__}: {first_line(error)}", fix=fix) from error
    return signature, notes


def _in_order(model: Any, inputs: Sequence[TensorSpec], name: str) -> tuple[TensorSpec, ...]:
    """Return the inputs in the order of forward's parameters."""
    parameters = [*inspect.signature(model.forward).parameters]
    known = {spec.name: spec for spec in inputs}
    if not inputs:
        example = f'"{parameters[0] if parameters else "x"}=float32[batch,3]"'
        raise BadRequest(f"the inputs of {name} are not named", fix=f"give them, as in inputs=[{example}]")
    if unknown := [spec for spec in known if spec not in parameters]:
        signature = ", ".join(parameters) or "nothing"
        raise BadRequest(
            f"{name}.forward takes {signature}, and inputs name {unknown[0]}", fix="use the names of forward"
        )
    first = parameters[: len(known)]
    if missing := [parameter for parameter in first if parameter not in known]:
        fix = "name its parameters from the first on"
        raise BadRequest(f"inputs leave out {missing[0]} of {name}.forward", fix=fix)
    return tuple(known[parameter] for parameter in first)


def _write_onnx(model: Any, path: Path) -> Path:
    import onnx

    onnx.save(model, path, save_as_external_data=model.ByteSize() > _MOST_PROTOBUF_BYTES)
    return path


_MOST_PROTOBUF_BYTES = 2**31 - 1  # of one message


def _write_keras(model: Any, path: Path) -> Path:
    model.save(path)
    return path

"""Check of a TorchScript archive from an untrusted source, and its signature.

TorchScript has its own language and interpreter. PyTorch's C++ reads the archive: its unpickler makes tensors,
containers and TorchScript's own classes and calls no Python, and the archive's code reaches only PyTorch's operators.
Two of those touch files (`aten::save`, `aten::from_file`), some talk to other processes, and `__setstate__` of a class
runs while the archive is loaded. So all code is checked before (torchscript_code.py), and what torch compiled of it
before it is called (torchscript_graphs.py). A pickle that names anything of Python's is refused. PyTorch's operators
were not written for hostile arguments: the worker's walls are the second barrier.
"""

from __future__ import annotations

import pickletools
import re
import warnings
import zipfile
from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Any

from ....models.errors import BadRequest
from ....models.library_messages import first_line
from ....models.loading.call_convention import Call, Leaf, flat, flatten, is_flat
from ....models.loading.refused_inputs import fix_of_refusal, infer_accepted
from ....models.safe_zip import is_zip
from ....models.signature import Signature, TensorSpec
from ...lazy_import import torch
from ...patches import private_torch
from ...to_pytorch.model_calls import example_inputs
from ...to_pytorch.tracing import traced
from ..allowed_operators import TRUST
from ..file_content import opened_archive
from .torchscript_code import RefusedCodeError, check_code
from .torchscript_graphs import refused_operators

_WRITE_AGAIN = "copy it again, or write it again with torch.jit.save"
# What torch.jit.save writes below the archive's folder. An older format would be read by its own name (model.json).
_KNOWN = re.compile(
    r"(data|constants|traced_inputs|bytecode|mobile_debug_handles)\.pkl|(data|constants|traced_inputs)/\d+|code/.+\.py(\.debug_pkl)?"
    r"|version|byteorder|\.format_version|\.storage_alignment|\.data/(version|serialization_id)|extra/.+"
)
_PICKLED = ("__torch__", "torch", "collections")  # packages that an archive may name; PyTorch makes these itself


def check_torchscript(path: Path, *, trust: bool = False) -> None:
    """Check what loading or running an archive could reach; `trust` leaves its code unchecked.

    Raises BadRequest if it is no complete TorchScript archive, or names something beyond PyTorch's operators.
    """
    if not is_zip(path):
        raise _refuse_other_file(path)
    with opened_archive(path, "TorchScript archive", _WRITE_AGAIN, ignores_case=True) as archive:
        _check_archive(archive, path, trust=trust)


def _refuse_other_file(path: Path) -> BadRequest:
    with path.open("rb") as file:
        head = file.read(4)
    if head[:1] == b"\x80" or head[2:] == b"\x8a\x0a":  # a pickle, as older versions of torch.save wrote
        return _refuse_checkpoint(path)
    return BadRequest(f"{path} is not a whole TorchScript archive: it is no zip file", fix=_WRITE_AGAIN)


def _refuse_checkpoint(path: Path) -> BadRequest:
    return BadRequest(
        f"{path} is a checkpoint and no TorchScript archive: the code of its model is not in it",
        fix=f"name that code, as in transload convert net.py:Net --weights {path.name}",
    )


def _check_archive(archive: zipfile.ZipFile, path: Path, *, trust: bool) -> None:
    names = [PurePosixPath(name) for name in archive.namelist()]
    if len(set(names)) != len(names):
        raise BadRequest(f"{path} holds a file twice", fix=_WRITE_AGAIN)
    inner = {"/".join(name.parts[1:]): name for name in names}
    if "data.pkl" in inner and "constants.pkl" not in inner:
        raise _refuse_checkpoint(path)
    if "constants.pkl" not in inner or not any(name.startswith("code/") for name in inner):
        raise BadRequest(f"{path} holds no TorchScript", fix="write it with torch.jit.save")
    codes = {}
    for short, name in inner.items():
        if name.parts[0] != names[0].parts[0] or not _KNOWN.fullmatch(short):
            raise BadRequest(f"{path} holds {name}, which torch.jit.save does not write", fix=_WRITE_AGAIN)
        if name.suffix == ".pkl":
            _check_pickle(archive.read(str(name)), path, name)
        if name.suffix == ".py" and not short.startswith("extra/"):
            codes[str(name)] = archive.read(str(name)).decode("utf-8")
    if not trust:
        try:
            check_code(codes)
        except RefusedCodeError as error:
            raise BadRequest(f"{path} {error}", fix=TRUST) from error


def _check_pickle(content: bytes, path: Path, name: PurePosixPath) -> None:
    for reference in _pickled_names(content):
        if reference.partition(" ")[0].partition(".")[0] not in _PICKLED:
            raise BadRequest(
                f"{path} holds a pickle that names {reference.replace(' ', '.')} ({name}), which is not executed",
                fix=_WRITE_AGAIN,
            )


def _pickled_names(content: bytes) -> Iterator[str]:
    """Yield the names in a pickle, as "module name".

    TorchScript's own writer uses one opcode for them; any other opcode counts as an unknown name.
    """
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name == "GLOBAL":
            yield str(argument)
        elif opcode.name in ("STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"):
            yield f"{opcode.name} {argument}"


def load_torchscript(path: Path, *, trust: bool = False) -> torch.jit.ScriptModule:
    """Load the module in a file that `check_torchscript` has passed, in evaluation mode.

    Raises BadRequest if torch cannot read it, or compiled operators from it that may do more than compute, unless
    `trust`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # TorchScript is deprecated, but still served
        try:
            # As torch.jit.load does it, which does not return all that was compiled.
            unit = private_torch.CompilationUnit()
            loaded = private_torch.import_ir_module(unit, str(path), torch.device("cpu"), {}, False)
            operator = None if trust else next(refused_operators(unit), None)
        except Exception as error:
            raise BadRequest(
                f"{path} is no TorchScript that torch {torch.__version__} reads: {first_line(error)}", fix=_WRITE_AGAIN
            ) from error
        if operator:
            raise BadRequest(f"{path} calls {operator}, which may do more than compute", fix=TRUST)
        module: torch.jit.ScriptModule = private_torch.wrap_cpp_module(loaded)
    return module.eval()


def describe_torchscript(
    module: torch.jit.ScriptModule, requested: Sequence[TensorSpec], path: Path
) -> tuple[Signature, Call | None, tuple[str, ...]]:
    """Return the signature of a module, its call convention unless that is plain, and sentences for the user.

    A plain module takes tensors by position and nothing else, and returns a tensor, or a tuple, a list or a dict of
    tensors. Inputs have the names and order of forward's arguments; an argument with a default may be left out. Their
    dtypes and shapes are `requested`, since an archive does not declare them. Outputs are found by calls.

    Raises BadRequest if forward takes something else than tensors, other inputs are requested, or a call fails.
    """
    arguments = _arguments(module, path)
    tensors = [argument.name for argument in arguments if str(argument.type) in _TENSORS]
    needed = [argument.name for argument in arguments if not argument.has_default_value()]
    if not requested:
        example = " ".join(f"--input {name}=float32[batch,3,224,224]" for name in needed or tensors)
        raise BadRequest(f"{path} does not say what shapes it takes", fix=f"name each input, as in {example}")
    requested_by_name = {spec.name: spec for spec in requested}
    if not set(needed) <= set(requested_by_name) <= set(tensors):
        takes = [name if name in needed else f"{name} (optional)" for name in tensors]
        raise BadRequest(
            f"forward of {path} takes {', '.join(takes)}, and --input names {', '.join(requested_by_name)}",
            fix="give each input of the model once, by its name",
        )
    call = _call([argument.name for argument in arguments], requested_by_name)
    specs = tuple(requested_by_name[name] for name in call.inputs)
    model = _watched_module(module, path)
    try:
        (signature, call_or_none, _), notes = infer_accepted(model, specs, call, RuntimeError)
    except RuntimeError as error:
        fix = fix_of_refusal(model, specs, call) or f"hold {' '.join(map(str, specs))} against what it takes"
        if any(str(weight.dtype) == "torch.bfloat16" for weight in module.parameters()):
            fix = "save it from the module in float32, by module.float(): no format takes bfloat16"
        raise BadRequest(f"calling {path} failed: {_last_line(error)}", fix=fix) from error
    plain = len(arguments) == len(specs) and model.plain
    return signature, None if plain else call_or_none, notes


_TENSORS = ("Tensor", "Optional[Tensor]")


def _call(arguments: Sequence[str], requested: Collection[str]) -> Call:
    """Return a call by position up to the first argument that is not requested, and by keyword after it."""
    first = tuple(takewhile(lambda name: name in requested, arguments))
    later = [name for name in arguments if name in requested and name not in first]
    return Call((*first, *later), tuple(map(Leaf, first)), {name: Leaf(name) for name in later})


def _watched_module(module: torch.jit.ScriptModule, path: Path) -> torch.nn.Module:
    """Wrap the module in a Python module. `plain`: whether a session can take every result unchanged.

    The wrapper raises BadRequest when it returns more than tensors.
    """

    class WatchedModule(torch.nn.Module):
        plain = True

        def __init__(self) -> None:
            super().__init__()
            self.module = module  # so that its weights are seen

        def forward(self, *inputs: torch.Tensor, **named: torch.Tensor) -> Any:
            result = self.module(*inputs, **named)
            try:
                flatten(result)
            except BadRequest as error:
                raise BadRequest(
                    f"{path} returns more than tensors", fix="let forward return tensors, or tuples and dicts of them"
                ) from error
            self.plain = self.plain and is_flat(tuple(result.values()) if isinstance(result, dict) else result)
            return result

    return WatchedModule()


def write_flat_torchscript(module: torch.jit.ScriptModule, signature: Signature, call: Call, file: Path) -> None:
    """Write the module wrapped in one that takes the signature's inputs by position and returns its outputs.

    The trace keeps the call of the module as a call, with all its branches and loops.
    """
    flat_module = traced(flat(module, call), example_inputs(signature))
    torch.jit.save(flat_module, str(file))


def _arguments(module: torch.jit.ScriptModule, path: Path) -> list[Any]:
    """Return forward's arguments from its schema. Raises BadRequest if it needs something else than tensors."""
    forward: Any = getattr(module, "forward", None)
    if forward is None:
        raise BadRequest(f"{path} has no forward", fix="save a module that has one")
    arguments = list(forward.schema.arguments[1:])
    if not any(str(argument.type) in _TENSORS or not argument.has_default_value() for argument in arguments):
        raise BadRequest(f"{path} takes no inputs: there is nothing to serve", fix=_WRITE_AGAIN)
    for argument in arguments:
        if str(argument.type) not in _TENSORS and not argument.has_default_value():
            raise BadRequest(
                f"forward of {path} takes {argument.name} as {argument.type}",
                fix="save a module whose forward takes tensors",
            )
    return arguments


def _last_line(error: BaseException) -> str:
    """Return the last line of a TorchScript error, which has the reason; a trace of its own code comes first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[-1].removeprefix("RuntimeError: ")[:200]

"""A TorchScript archive that nobody vouches for: what loading or running it could do, and its signature.

TorchScript has a language and an interpreter of its own. Its archive is read by PyTorch's C++, whose unpickler makes
tensors, containers and TorchScript's own classes and calls no Python; its code reaches nothing but PyTorch's operators.
Two of those touch files (`aten::save`, `aten::from_file`), some talk to other processes: an archive that names one is
refused, and so is a pickle that names anything of Python's. What remains are PyTorch's operators themselves, which were
not written for arguments of ill will: the worker, without a network, is the second wall.
"""

from __future__ import annotations

import pickletools
import re
import warnings
import zipfile
from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ...models.errors import BadRequest
from ...models.foreign_errors import first_line
from ...models.loading.call_convention import Call, Leaf, flat, flatten, is_flat
from ...models.loading.infer_signature import infer_signature
from ...models.signature import Signature, TensorSpec
from ..to_pytorch.pt2_from_source import example_inputs
from ..to_pytorch.tracing import traced

if TYPE_CHECKING:
    import torch

_AGAIN = "copy it again, or write it again with torch.jit.save"
_TRUST = "where you trust whoever made it, give --trust"
# Operators by which code reaches beyond tensors, whatever they are called on.
_REACHES_OUT = re.compile(r"\b(save|from_file|load_tensor|rpc_async|rpc_sync|rpc_remote)\s*\(")
_NAMESPACES = frozenset(("aten", "prim", "prims", "quantized", "mkldnn", "mkldnn_prepacked", "sparse", "torchvision"))
_OPERATOR = re.compile(r"\bops\s*\.\s*(\w+)\s*\.\s*(\w+)")
_CLASSES = frozenset(("quantized", "sparse", "xnnpack", "mkldnn"))
_CLASS = re.compile(r"\btorch\s*\.\s*classes\s*\.\s*(\w+)\s*\.\s*(\w+)")
_PICKLED = ("__torch__", "torch", "collections")  # packages of what an archive may name; PyTorch makes these itself
# What zipfile, pickletools and torch raise over bytes that are not what they should be.
_BROKEN = (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError, ValueError, LookupError)
_MOST_TIMES = 100  # what an archive may unpack to, times its own size: torch itself does not compress


def check_torchscript(path: Path, *, trust: bool = False) -> None:
    """Hold an archive against what loading or running it could reach; `trust` leaves its code unread.

    Raises BadRequest where it is no whole TorchScript archive, or names something beyond PyTorch's operators.
    """
    if not zipfile.is_zipfile(path):
        raise _no_archive(path)
    try:
        with zipfile.ZipFile(path) as archive:
            _check_archive(archive, path, trust=trust)
    except _BROKEN as error:
        raise BadRequest(f"{path} is not a whole TorchScript archive: {first_line(error)}", fix=_AGAIN) from error


def _no_archive(path: Path) -> BadRequest:
    with path.open("rb") as file:
        head = file.read(4)
    if head[:1] == b"\x80" or head[2:] == b"\x8a\x0a":  # a pickle, as torch.save wrote them before it wrote archives
        return _checkpoint(path)
    return BadRequest(f"{path} is not a whole TorchScript archive: it is no zip file", fix=_AGAIN)


def _checkpoint(path: Path) -> BadRequest:
    return BadRequest(
        f"{path} is a checkpoint and no TorchScript archive: the code of its model is not in it",
        fix=f"name that code, as in transload convert net.py:Net --weights {path.name}",
    )


def _check_archive(archive: zipfile.ZipFile, path: Path, *, trust: bool) -> None:
    entries = archive.infolist()
    if sum(entry.file_size for entry in entries) > _MOST_TIMES * max(1, path.stat().st_size):
        raise BadRequest(f"{path} unpacks to far more than its own size", fix=_AGAIN)
    names = [PurePosixPath(entry.filename) for entry in entries]
    if len(set(names)) != len(names):
        raise BadRequest(f"{path} holds a file twice", fix=_AGAIN)
    inner = {"/".join(name.parts[1:]): name for name in names}
    if "data.pkl" in inner and "constants.pkl" not in inner:
        raise _checkpoint(path)
    if "constants.pkl" not in inner or not any(name.startswith("code/") for name in inner):
        raise BadRequest(f"{path} holds no TorchScript", fix="write it with torch.jit.save")
    for short, name in inner.items():
        if name.suffix == ".pkl" and "/" not in short:
            _check_pickle(archive.read(str(name)), path, name)
        if name.suffix == ".py" and not trust:
            _check_code(archive.read(str(name)).decode(errors="replace"), path, name)


def _check_pickle(content: bytes, path: Path, name: PurePosixPath) -> None:
    for named in _globals(content):
        if named.partition(" ")[0].partition(".")[0] not in _PICKLED:
            raise BadRequest(
                f"{path} holds a pickle that names {named.replace(' ', '.')} ({name}), which is not executed",
                fix=_AGAIN,
            )


def _globals(content: bytes) -> Iterator[str]:
    """What a pickle names, as "module name". TorchScript's own writer names things in one way only; the other ways
    count as a name that is not known."""
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name == "GLOBAL":
            yield str(argument)
        elif opcode.name in ("STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"):
            yield f"{opcode.name} {argument}"


def _check_code(code: str, path: Path, name: PurePosixPath) -> None:
    found = next(_reached_out(code), None)
    if found:
        raise BadRequest(f"{path} calls {found} ({name}), which may do more than compute", fix=_TRUST)


def _reached_out(code: str) -> Iterator[str]:
    yield from _REACHES_OUT.findall(code)
    yield from (f"{space}::{name}" for space, name in _OPERATOR.findall(code) if space not in _NAMESPACES)
    yield from (f"{space}::{name}" for space, name in _CLASS.findall(code) if space not in _CLASSES)


def load_torchscript(path: Path) -> torch.jit.ScriptModule:
    """The module in a file that `check_torchscript` has passed, for answering.

    Raises BadRequest where torch cannot read it.
    """
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # TorchScript is deprecated as a whole, and still served
        try:
            module: torch.jit.ScriptModule = torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
        except Exception as error:
            raise BadRequest(
                f"{path} is no TorchScript that torch {torch.__version__} reads: {first_line(error)}", fix=_AGAIN
            ) from error
    return module.eval()


def describe_torchscript(
    module: torch.jit.ScriptModule, asked: Sequence[TensorSpec], path: Path
) -> tuple[Signature, Call | None]:
    """The signature of a module, and how it is called: None where it takes tensors by position and nothing else, and
    returns a tensor, or a tuple, a list or a dict of tensors.

    Inputs by the names of forward's arguments, in its order; their dtypes and shapes are `asked`, since an archive
    does not say them. What has a default may be left out. Outputs from calls (models.zoo.infer).

    Raises BadRequest where forward takes something else than tensors, other inputs are asked, or it fails on them.
    """
    arguments = _arguments(module, path)
    tensors = [each.name for each in arguments if str(each.type) in _TENSORS]
    needed = [each.name for each in arguments if not each.has_default_value()]
    if not asked:
        example = " ".join(f"--input {name}=float32[batch,3,224,224]" for name in needed or tensors)
        raise BadRequest(f"{path} does not say what shapes it takes", fix=f"name each input, as in {example}")
    given = {spec.name: spec for spec in asked}
    if not set(needed) <= set(given) <= set(tensors):
        takes = [name if name in needed else f"{name} (optional)" for name in tensors]
        raise BadRequest(
            f"forward of {path} takes {', '.join(takes)}, and --input names {', '.join(given)}",
            fix="give each input of the model once, by its name",
        )
    call = _call([each.name for each in arguments], given)
    specs = tuple(given[name] for name in call.inputs)
    model = _asked(module, path)
    try:
        signature, call_or_none, _ = infer_signature(model, specs, call)
    except RuntimeError as error:
        fix = f"hold {' '.join(map(str, specs))} against what it takes"
        if any(str(weight.dtype) == "torch.bfloat16" for weight in module.parameters()):
            fix = "save it from the module in float32, by module.float(): no format takes bfloat16"
        raise BadRequest(f"calling {path} failed: {_last_line(error)}", fix=fix) from error
    plain = len(arguments) == len(specs) and model.plain
    return signature, None if plain else call_or_none


_TENSORS = ("Tensor", "Optional[Tensor]")


def _call(arguments: Sequence[str], given: Collection[str]) -> Call:
    """By position as far as the arguments are given without a gap, then by keyword."""
    first = tuple(takewhile(lambda name: name in given, arguments))
    later = [name for name in arguments if name in given and name not in first]
    return Call((*first, *later), tuple(map(Leaf, first)), {name: Leaf(name) for name in later})


def _asked(module: torch.jit.ScriptModule, path: Path) -> Any:
    """The module as one of Python's, which can be looked into. `plain`: whether all that it returned is what a session
    takes as it is.

    Raises BadRequest, when called, where it returns something that holds no tensors.
    """
    import torch

    class Asked(torch.nn.Module):
        plain = True

        def forward(self, *inputs: torch.Tensor, **named: torch.Tensor) -> Any:
            given = module(*inputs, **named)
            try:
                flatten(given)
            except BadRequest as error:
                raise BadRequest(
                    f"{path} returns more than tensors", fix="let forward return tensors, or tuples and dicts of them"
                ) from error
            self.plain = self.plain and is_flat(tuple(given.values()) if isinstance(given, dict) else given)
            return given

    return Asked()


def write_flat_torchscript(module: torch.jit.ScriptModule, signature: Signature, call: Call, file: Path) -> None:
    """Write the module inside of one that takes the signature's inputs by position and returns its outputs. The call of
    the module stays a call in the trace, with whatever branches and loops it has."""
    import torch

    made = traced(flat(module, call), example_inputs(signature))
    torch.jit.save(made, str(file))


def _arguments(module: torch.jit.ScriptModule, path: Path) -> list[Any]:
    """What forward takes, as its schema has it. Raises BadRequest where it needs something else than tensors."""
    forward: Any = getattr(module, "forward", None)
    if forward is None:
        raise BadRequest(f"{path} has no forward", fix="save a module that has one")
    arguments = list(forward.schema.arguments[1:])
    if not any(str(each.type) in _TENSORS or not each.has_default_value() for each in arguments):
        raise BadRequest(f"{path} takes no inputs: there is nothing to serve", fix=_AGAIN)
    for each in arguments:
        if str(each.type) not in _TENSORS and not each.has_default_value():
            raise BadRequest(
                f"forward of {path} takes {each.name} as {each.type}", fix="save a module whose forward takes tensors"
            )
    return arguments


def _last_line(error: BaseException) -> str:
    """TorchScript's errors begin with a trace of its own code, and say in the last line what went wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[-1].removeprefix("RuntimeError: ")[:200]

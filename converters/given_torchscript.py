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
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ..models.errors import BadRequest
from ..models.foreign import first_line
from ..models.signature import Signature, TensorSpec
from ..models.zoo.calling import Call, Leaf
from ..models.zoo.infer import infer_signature

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


def signature_of_torchscript(module: torch.jit.ScriptModule, asked: Sequence[TensorSpec], path: Path) -> Signature:
    """Inputs by the names of forward's arguments, in its order; their dtypes and shapes are `asked`, since an archive
    does not say them. Outputs from calls (models.zoo.infer).

    Raises BadRequest where forward takes something else than tensors, other inputs are asked, or it fails on them.
    """
    names = _arguments(module, path)
    example = " ".join(f"--input {name}=float32[batch,3,224,224]" for name in names)
    if not asked:
        raise BadRequest(f"{path} does not say what shapes it takes", fix=f"name each input, as in {example}")
    given = {spec.name: spec for spec in asked}
    if sorted(given) != sorted(names):
        raise BadRequest(
            f"forward of {path} takes {', '.join(names)}, and --input names {', '.join(given)}",
            fix="give each input of the model once, by its name",
        )
    specs = tuple(given[name] for name in names)
    call = Call(tuple(names), tuple(map(Leaf, names)))
    try:
        return infer_signature(_asked(module, path), specs, call)[0]
    except RuntimeError as error:
        raise BadRequest(
            f"calling {path} failed: {_last_line(error)}", fix=f"hold {' '.join(map(str, specs))} against what it takes"
        ) from error


def _asked(module: torch.jit.ScriptModule, path: Path) -> torch.nn.Module:
    """The module as one of Python's, which can be looked into; it raises BadRequest where it returns nested outputs."""
    import torch

    class Asked(torch.nn.Module):
        def forward(self, *inputs: torch.Tensor) -> Any:
            given = module(*inputs)
            values = (
                given.values() if isinstance(given, dict) else given if isinstance(given, tuple | list) else (given,)
            )
            if not all(isinstance(value, torch.Tensor) for value in values):
                raise BadRequest(
                    f"{path} returns more than tensors",
                    fix="let forward return a tensor, a tuple of tensors or a dict of them",
                )
            return given

    return Asked()


def _arguments(module: torch.jit.ScriptModule, path: Path) -> list[str]:
    """The names of what forward takes, beside what has a default. Raises BadRequest."""
    forward: Any = getattr(module, "forward", None)
    if forward is None:
        raise BadRequest(f"{path} has no forward", fix="save a module that has one")
    arguments = [each for each in forward.schema.arguments[1:] if not each.has_default_value()]
    if not arguments:
        raise BadRequest(f"{path} takes no inputs: there is nothing to serve", fix=_AGAIN)
    for each in arguments:
        if str(each.type) != "Tensor":
            raise BadRequest(
                f"forward of {path} takes {each.name} as {each.type}", fix="save a module whose forward takes tensors"
            )
    return [each.name for each in arguments]


def _last_line(error: BaseException) -> str:
    """TorchScript's errors begin with a trace of its own code, and say in the last line what went wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[-1].removeprefix("RuntimeError: ")[:200]

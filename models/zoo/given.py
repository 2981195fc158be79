"""A source out of weights that were trained elsewhere, or out of a factory as it is. Worker only: runs user code."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadRequest
from ..job import Job
from ..recipe import Recipe
from ..signature import Signature, TensorSpec
from ..sources import WEIGHTS, CodeRef, Source, write_source
from .build import check_steady, construct
from .catalogue import load_named, ref_digest, ref_of
from .infer import infer_signature
from .loading import user_code
from .weights import load_weights, read_weights, write_weights

if TYPE_CHECKING:
    import torch


def take_weights(job: Job) -> Mapping[str, Any]:
    """Write a source: the model that ref names, with the weights of a file, or as its code makes it.

    Options: ref, root; weights (an absolute path, or nothing); sha256 (of that file, where it is known); key (the part
    of a checkpoint that holds the weights); signature, or inputs alone (JSON specs), where ref names no recipe.
    Facts: signature, parameters, weights (the file that they came from, or null).

    Raises BadRequest where code, weights or signature do not fit together.
    """
    ref = ref_of(job)
    model = construct(ref)
    weights = job.options.get("weights")
    if weights:
        path = Path(weights)
        _check_digest(path, job.options.get("sha256"))
        load_weights(model, without_prefix(read_given(path, job.options.get("key")), set(model.state_dict())))
    with user_code(f"calling {ref.text}", ref):
        signature = _signature(job, ref, model)
        check_steady(model, signature)
    state = model.state_dict()
    if state:
        write_weights(job.out / WEIGHTS, state)
    write_source(job.out, Source(ref, signature, ref_digest(ref)))
    return {
        "signature": signature.to_json(),
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "weights": weights or None,
    }


def _signature(job: Job, ref: CodeRef, model: torch.nn.Module) -> Signature:
    found = load_named(ref)
    if isinstance(found, Recipe):
        return found.signature
    if job.options.get("signature"):
        return Signature.from_json(job.options["signature"])
    inputs = [TensorSpec(row["name"], row["dtype"], tuple(row["shape"])) for row in job.options.get("inputs") or ()]
    if not inputs:
        raise BadRequest(
            f"nothing says what {ref.text} takes", fix="name each input, as in --input image=float32[batch,3,224,224]"
        )
    return infer_signature(model, tuple(inputs))


def _check_digest(path: Path, wanted: str | None) -> None:
    if wanted is None or not path.is_file():
        return
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != wanted:
            raise BadRequest(f"{path} has changed since this run began", fix="run again when the file is finished")


def read_given(path: Path, key: str | None = None) -> dict[str, torch.Tensor]:
    """The state dict in a .safetensors file, or in a checkpoint that holds nothing but weights (.pt, .pth, .ckpt).

    A checkpoint's pickle is read by torch's weights-only reader, which runs nothing that the file names.
    Of a checkpoint with more in it than weights, `key` names the part, "state_dict" where it is not given.

    Raises BadRequest.
    """
    if not path.is_file():
        raise BadRequest(f"no such file: {path}", fix="check the path of the weights")
    if path.stat().st_size == 0:
        raise BadRequest(f"{path} is empty", fix="copy it again, or save it again")
    if path.suffix == ".safetensors":
        return read_weights(path)
    return _state_in(_read_checkpoint(path), path, key)


def _read_checkpoint(path: Path) -> object:
    import pickle
    import re
    import warnings

    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of a TorchScript archive, and then raises
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL (\S+)", str(error))
        what = f"it names {named[1]}" if named else "it is no checkpoint of torch.save"
        raise BadRequest(
            f"{path} holds more than weights ({what}), and is not executed",
            fix="where you trust it, load it and save torch.save(model.state_dict(), FILE)",
        ) from error
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].partition(". ")[0]
        raise BadRequest(
            f"{path} is not a whole checkpoint: {reason}", fix="copy it again, or save model.state_dict() again"
        ) from error


def _state_in(found: object, path: Path, key: str | None) -> dict[str, torch.Tensor]:
    import torch

    for part in [key] if key else []:
        if not isinstance(found, Mapping) or part not in found:
            raise BadRequest(f"{path} has no part {part!r}", fix=f"name one of {_keys(found)}")
        found = found[part]
    if not key and isinstance(found, Mapping) and isinstance(found.get("state_dict"), Mapping):
        found = found["state_dict"]
    if (
        not isinstance(found, Mapping)
        or not found
        or not all(isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in found.items())
    ):
        raise BadRequest(f"{path} holds no state dict, but {_keys(found)}", fix="save model.state_dict()")
    return dict(found)


def _keys(found: object) -> str:
    if not isinstance(found, Mapping):
        return f"a {type(found).__name__}"
    return ", ".join(str(key) for key in list(found)[:8]) or "nothing"


def without_prefix(given: Mapping[str, torch.Tensor], wanted: set[str]) -> dict[str, torch.Tensor]:
    """The weights with the one prefix removed that a wrapper put before every name (`model.` of a LightningModule,
    `module.` of DDP), if the names then fit the model; else as they are."""
    first = next(iter(given), "")
    for at, letter in enumerate(first):
        prefix = first[: at + 1]
        if letter == "." and all(name.startswith(prefix) for name in given):
            bare = {name.removeprefix(prefix): value for name, value in given.items()}
            if set(bare) == wanted:
                return bare
    return dict(given)

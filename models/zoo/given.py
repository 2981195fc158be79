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
from .build import check_steady
from .catalogue import load_named, ref_digest, ref_of
from .construct import construct
from .infer import infer_signature
from .loading import user_code
from .weight_files import read_given, without_prefix
from .weights import load_weights, write_weights

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
    inputs = [TensorSpec.from_json(row) for row in job.options.get("inputs") or ()]
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
